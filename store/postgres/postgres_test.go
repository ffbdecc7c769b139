package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/store/postgres"
)

func exec(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// with adds parameters to an address.
func with(t testing.TB, address string, params map[string]string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for k, v := range params {
		q.Set(k, v)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// use goes once through a run's life.
func use(t testing.TB, s *postgres.Store) {
	t.Helper()
	ctx := t.Context()
	if err := s.Register(ctx, []dibs.JobRecord{{Name: "a", Hash: "h", Text: "t"}}); err != nil {
		t.Fatal(err)
	}
	id, err := dibs.NewRunID()
	if err != nil {
		t.Fatal(err)
	}
	r := dibs.Run{ID: id, Job: "a", Trigger: "t" + id, Token: "x/1", LeaseFor: time.Minute, Slot: time.Unix(1, 0)}
	if err := s.Decide(ctx, "a", func(ctx context.Context, d dibs.Desk) error {
		tr := dibs.Trigger{ID: r.Trigger, Job: "a", Origin: dibs.OriginManual, Decision: dibs.DecisionStarted, Reason: dibs.ReasonFree, RunID: id}
		return errors.Join(d.PutTrigger(ctx, tr), d.StartRun(ctx, &r, true))
	}); err != nil {
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
	if got, err := s.Run(ctx, id); err != nil || !got.Slot.Equal(r.Slot) || got.State != dibs.RunSucceeded {
		t.Errorf("read %+v, %v", got, err)
	}
}

func TestSchemaOfItsOwnWithAnAwkwardName(t *testing.T) {
	db := testdb.OpenPostgres(t)
	s := postgres.Open(postgres.Config{DB: db, Schema: `My "Schema".x`})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if applied, err := s.Migrate(t.Context()); err != nil || len(applied) != 0 {
		t.Errorf("again: %v, %v", applied, err)
	}
	use(t, s)
	if err := postgres.New(db).CheckSchema(t.Context()); !errors.Is(err, dibs.ErrSchema) {
		t.Errorf("the default schema has our tables: %v", err)
	}
}

// The role that works may lack every privilege that migrating needs.
func TestWorkingRoleNeedsNoMoreThanTheTables(t *testing.T) {
	address := testdb.Postgres(t)
	db := testdb.Open(t, address)
	if _, err := postgres.New(db).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, db,
		"DROP ROLE IF EXISTS dibs_worker", "CREATE ROLE dibs_worker LOGIN PASSWORD 'w'",
		"REVOKE CREATE ON SCHEMA public FROM PUBLIC",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO dibs_worker")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, s := range []string{"DROP OWNED BY dibs_worker", "DROP ROLE dibs_worker"} {
			if _, err := db.ExecContext(ctx, s); err != nil {
				t.Error(err)
			}
		}
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("dibs_worker", "w")
	worker := testdb.Open(t, u.String())
	t.Cleanup(func() { worker.SetMaxIdleConns(0) })
	s := postgres.New(worker)
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	if applied, err := s.Migrate(t.Context()); err != nil || len(applied) != 0 {
		t.Errorf("init: %v, %v", applied, err)
	}
	use(t, s)
	if err := postgres.Open(postgres.Config{DB: worker, Schema: "other"}).CheckSchema(t.Context()); !errors.Is(err, dibs.ErrSchema) {
		t.Errorf("no tables: %v", err)
	}
	if _, err := postgres.Open(postgres.Config{DB: worker, Schema: "other"}).Migrate(t.Context()); err == nil {
		t.Error("migrated without privileges")
	}
}

// Laws 2 and 11: neither the session's zone nor the driver's way to send
// statements matters.
func TestEverySessionIsTheSame(t *testing.T) {
	for what, params := range map[string]map[string]string{
		"New York":        {"timezone": "America/New_York"},
		"UTC+14":          {"timezone": "Pacific/Kiritimati"},
		"simple protocol": {"default_query_exec_mode": "simple_protocol"},
		"exec":            {"default_query_exec_mode": "exec"},
		"dates":           {"datestyle": "SQL,DMY", "intervalstyle": "iso_8601"},
	} {
		t.Run(what, func(t *testing.T) {
			s := postgres.New(testdb.Open(t, with(t, testdb.Postgres(t), params)))
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

func TestErrorsAreClassified(t *testing.T) {
	classify := postgres.Dialect().Classify
	db := testdb.OpenPostgres(t)
	exec(t, db, "CREATE TABLE a (id int PRIMARY KEY, n int NOT NULL CHECK (n < 10), v varchar(3))", "INSERT INTO a VALUES (1, 1)",
		"CREATE TABLE secret (id int)", "DROP ROLE IF EXISTS dibs_nobody", "CREATE ROLE dibs_nobody")
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP ROLE dibs_nobody"); err != nil {
			t.Error(err)
		}
	})
	for text, want := range map[string]sqlstore.Class{
		"INSERT INTO a VALUES (1, 1)":         sqlstore.ClassUnique,
		"INSERT INTO a VALUES (2, NULL)":      sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 10)":        sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 1, 'long')": sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 'x')":       sqlstore.ClassData,
		"SELECT 1 / 0":                        sqlstore.ClassData,
		"SELECT * FROM b":                     sqlstore.ClassMissing,
		"SELECT b FROM a":                     sqlstore.ClassMissing,
		"SELECT * FROM none.a":                sqlstore.ClassMissing,
		"SELEC":                               sqlstore.ClassOther,
		"DO $$ BEGIN PERFORM set_config('transaction_read_only', 'on', true); INSERT INTO a VALUES (3, 1); END $$": sqlstore.ClassReadOnly,
		"DO $$ BEGIN RAISE SQLSTATE '40001'; END $$":                                                               sqlstore.ClassRetry,
		"DO $$ BEGIN SET LOCAL ROLE dibs_nobody; PERFORM * FROM secret; END $$":                                    sqlstore.ClassDenied,
	} {
		_, err := db.ExecContext(t.Context(), text)
		if err == nil {
			t.Fatalf("%s: no error", text)
		}
		if got := classify(err); got != want {
			t.Errorf("%s: class %d, want %d (%v)", text, got, want, err)
		}
	}
	address, err := url.Parse(testdb.PostgresServer(t))
	if err != nil {
		t.Fatal(err)
	}
	nowhere, missing := *address, *address
	nowhere.Host, missing.Path = "127.0.0.1:1", "/none"
	for where, want := range map[string]sqlstore.Class{nowhere.String(): sqlstore.ClassConnection, missing.String(): sqlstore.ClassUnavailable} {
		closed, err := sql.Open("pgx", where)
		if err != nil {
			t.Fatal(err)
		}
		err = closed.PingContext(t.Context())
		if got := classify(err); got != want {
			t.Errorf("class %d, want %d (%v)", got, want, err)
		}
		if err := closed.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Law 9: a commit whose answer was lost is neither success nor failure.
func TestLostAnswerToACommitIsUnanswered(t *testing.T) {
	address := testdb.Postgres(t)
	straight := postgres.New(testdb.Open(t, address))
	if _, err := straight.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy, through := testdb.NewProxy(t, address)
	s := postgres.New(testdb.Open(t, through))
	proxy.DropAnswerTo("commit\x00") // not "read committed"
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
	if acts, err := straight.ListAudit(t.Context(), 10); err != nil || len(acts) != 2 {
		t.Errorf("%d acts, %v", len(acts), err)
	}
}
