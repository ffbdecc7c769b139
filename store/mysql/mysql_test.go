package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/store/mysql"
)

// openWith opens the database of an address with other settings of the driver.
func openWith(t testing.TB, address string, change func(*driver.Config)) *sql.DB {
	t.Helper()
	_, dsn, err := testdb.DSN(address)
	if err != nil {
		t.Fatal(err)
	}
	config, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	db, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// use goes once through a run's life.
func use(t testing.TB, s *mysql.Store) {
	t.Helper()
	ctx := t.Context()
	id, err := dibs.NewRunID()
	if err != nil {
		t.Fatal(err)
	}
	r := dibs.Run{ID: id, Job: "a", Trigger: "t" + id, Token: "x/1", LeaseFor: time.Minute, Slot: time.Unix(1, 0)}
	if err := s.Decide(ctx, "a", func(ctx context.Context, d dibs.Desk) error { return d.StartRun(ctx, &r, true) }); err != nil {
		t.Fatal(err)
	}
	renewed, err := s.RenewRun(ctx, r.Ref(), time.Hour)
	if left := renewed.Run.Sub(renewed.Now); err != nil || left > time.Hour || left < 59*time.Minute {
		t.Errorf("renewed %+v, %v", renewed, err)
	}
	if err := s.Decide(ctx, "a", func(ctx context.Context, d dibs.Desk) error {
		return d.EndRun(ctx, dibs.RunEnd{Run: r.Ref(), State: dibs.RunSucceeded, Output: "o"})
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Run(ctx, id); err != nil || !got.Slot.Equal(r.Slot) || got.State != dibs.RunSucceeded || got.EndedAt.IsZero() {
		t.Errorf("read %+v, %v", got, err)
	}
}

// Law 2: neither the session's zone nor the driver's settings matter.
func TestEverySessionIsTheSame(t *testing.T) {
	for what, change := range map[string]func(*driver.Config){
		"New York":     func(c *driver.Config) { c.Params["time_zone"] = "'-05:00'" },
		"UTC+13":       func(c *driver.Config) { c.Params["time_zone"] = "'+13:00'" },
		"prepared":     func(c *driver.Config) { c.InterpolateParams = false },
		"no parseTime": func(c *driver.Config) { c.ParseTime = false },
		"lax":          func(c *driver.Config) { c.Params["sql_mode"] = "''" },
		"ansi":         func(c *driver.Config) { c.Params["sql_mode"] = "'ANSI,STRICT_ALL_TABLES'" },
		"latin1":       func(c *driver.Config) { c.Params["character_set_connection"] = "latin1" },
	} {
		t.Run(what, func(t *testing.T) {
			s := mysql.New(openWith(t, testdb.MySQL(t), change))
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			now, err := s.Now(t.Context())
			if off := time.Since(now); err != nil || off > time.Minute || off < -time.Minute {
				t.Errorf("now is %s, %v", now, err)
			}
			use(t, s)
		})
	}
}

func TestCheckFindsChangedRowsCounting(t *testing.T) {
	address := testdb.MySQL(t)
	db := testdb.Open(t, address)
	s := mysql.New(db)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("a good connection: %v", err)
	}
	var config *dibs.ConfigError
	bad := mysql.New(openWith(t, address, func(c *driver.Config) { c.ClientFoundRows = false }))
	if err := bad.Check(t.Context()); !errors.As(err, &config) || config.Field != "clientFoundRows" {
		t.Errorf("a connection that counts changed rows: %v", err)
	}
}

func TestDatabaseOfItsOwn(t *testing.T) {
	db := testdb.OpenMySQL(t)
	name := fmt.Sprintf("dibs `own` %d", time.Now().UnixNano())
	s := mysql.Open(mysql.Config{DB: db, Database: name})
	t.Cleanup(func() {
		drop := "DROP DATABASE IF EXISTS `" + strings.ReplaceAll(name, "`", "``") + "`"
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), drop); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	use(t, s)
	if err := mysql.New(db).CheckSchema(t.Context()); !errors.Is(err, dibs.ErrSchema) {
		t.Errorf("the connection's own database has our tables: %v", err)
	}
}

func TestMigrateNeedsTwoConnections(t *testing.T) {
	db := testdb.OpenMySQL(t)
	db.SetMaxOpenConns(1)
	if _, err := mysql.New(db).Migrate(t.Context()); !errors.Is(err, dibs.ErrPoolTooSmall) {
		t.Errorf("a pool of one: %v", err)
	}
}

func TestErrorsAreClassified(t *testing.T) {
	classify := mysql.Dialect().Classify
	db := testdb.OpenMySQL(t)
	for _, setup := range []string{
		"CREATE TABLE a (id int PRIMARY KEY, n int NOT NULL CHECK (n < 10), v varchar(3))", "INSERT INTO a VALUES (1, 1, '')",
	} {
		if _, err := db.ExecContext(t.Context(), setup); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]sqlstore.Class{
		"INSERT INTO a VALUES (1, 1, '')":                                 sqlstore.ClassUnique,
		"INSERT INTO a VALUES (2, NULL, '')":                              sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 10, '')":                                sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 1, 'long')":                             sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 'x', '')":                               sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 99999999999, '')":                       sqlstore.ClassData,
		"INSERT INTO a (id) VALUES (2)":                                   sqlstore.ClassData,
		"SELECT * FROM b":                                                 sqlstore.ClassMissing,
		"SELECT b FROM a":                                                 sqlstore.ClassMissing,
		"SELEC":                                                           sqlstore.ClassOther,
		"SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213":                  sqlstore.ClassRetry,
		"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205":                  sqlstore.ClassRetry,
		"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290":                  sqlstore.ClassReadOnly,
		"SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1142":                  sqlstore.ClassDenied,
		"SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047":                  sqlstore.ClassConnection,
		"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'Error 1213 (40001)'": sqlstore.ClassData,
	} {
		_, err := db.ExecContext(t.Context(), text)
		if err == nil {
			t.Fatalf("%s: no error", text)
		}
		if got := classify(fmt.Errorf("wrapped: %w", errors.Join(err, nil))); got != want {
			t.Errorf("%s: class %d, want %d (%v)", text, got, want, err)
		}
	}
	address, err := url.Parse(testdb.MySQLServer(t))
	if err != nil {
		t.Fatal(err)
	}
	nowhere, missing := *address, *address
	nowhere.Host, missing.Path = "127.0.0.1:1", "/none"
	for where, want := range map[string]sqlstore.Class{nowhere.String(): sqlstore.ClassConnection, missing.String(): sqlstore.ClassUnavailable} {
		err := openWith(t, where, func(*driver.Config) {}).PingContext(t.Context())
		if got := classify(err); got != want {
			t.Errorf("class %d, want %d (%v)", got, want, err)
		}
	}
}

// Law 9: a commit whose answer was lost is neither success nor failure.
func TestLostAnswerToACommitIsUnanswered(t *testing.T) {
	address := testdb.MySQL(t)
	straight := mysql.New(testdb.Open(t, address))
	if _, err := straight.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy, through := testdb.NewProxy(t, address)
	s := mysql.New(testdb.Open(t, through))
	proxy.DropAnswerTo("\x03commit") // not "read committed"
	err := s.Audit(t.Context(), dibs.AuditRecord{By: "me", What: "test"})
	if !errors.Is(err, dibs.ErrUnanswered) || dibs.Retryable(err) {
		t.Errorf("a lost answer: %v, retryable %t", err, dibs.Retryable(err))
	}
	if acts, err := straight.ListAudit(t.Context(), 10); err != nil || len(acts) != 1 {
		t.Errorf("%d acts, %v: it was committed", len(acts), err)
	}
	proxy.DropAnswerTo("INSERT INTO")
	if err := s.Audit(t.Context(), dibs.AuditRecord{By: "me", What: "test"}); err != nil {
		t.Errorf("lost before the commit, to be repeated: %v", err)
	}
}
