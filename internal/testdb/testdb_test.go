package testdb_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
)

func TestAllGivesAFreshDatabaseOfEachKind(t *testing.T) {
	var kinds []string
	testdb.All(t, func(t *testing.T, name, url string) {
		kinds = append(kinds, name)
		scheme, _, _ := strings.Cut(url, ":")
		if scheme != name {
			t.Errorf("the URL of %s begins with %s", name, scheme)
		}
		db := testdb.Open(t, url)
		mustExec(t, db, "CREATE TABLE account (id int PRIMARY KEY, name varchar(40))")
		mustExec(t, db, "INSERT INTO account VALUES (1, 'Jürgen 🐟')")
		var got string
		if err := db.QueryRowContext(t.Context(), "SELECT name FROM account").Scan(&got); err != nil || got != "Jürgen 🐟" {
			t.Errorf("read %q, %v", got, err)
		}
	})
	if got := strings.Join(kinds, " "); got != "sqlite postgres mysql" {
		t.Errorf("ran on %q", got)
	}
}

func TestDatabaseIsDroppedAtTheEnd(t *testing.T) {
	names := map[string]string{}
	t.Run("inner", func(t *testing.T) {
		for kind, db := range map[string]*sql.DB{"postgres": testdb.OpenPostgres(t), "mysql": testdb.OpenMySQL(t)} {
			names[kind] = single[string](t, db, map[string]string{
				"postgres": "SELECT current_database()", "mysql": "SELECT database()",
			}[kind])
		}
	})
	postgres := testdb.Open(t, testdb.PostgresServer(t))
	if n := single[int](t, postgres, "SELECT count(*) FROM pg_database WHERE datname = $1", names["postgres"]); n != 0 {
		t.Errorf("%s is still there", names["postgres"])
	}
	mysql := testdb.Open(t, testdb.MySQLServer(t))
	if n := single[int](t, mysql, "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?", names["mysql"]); n != 0 {
		t.Errorf("%s is still there", names["mysql"])
	}
}

// dibs refuses databases that may forget a commit, so the servers must not look
// like one.
func TestServersReportDurableCommits(t *testing.T) {
	if got := single[string](t, testdb.OpenPostgres(t), "SELECT current_setting('synchronous_commit')"); got != "on" {
		t.Errorf("synchronous_commit = %s", got)
	}
	mysql := testdb.OpenMySQL(t)
	if got := single[int](t, mysql, "SELECT @@innodb_flush_log_at_trx_commit"); got != 1 {
		t.Errorf("innodb_flush_log_at_trx_commit = %d", got)
	}
	if got := single[string](t, mysql, "SELECT @@session.time_zone"); got != "+00:00" {
		t.Errorf("time_zone = %s", got)
	}
	sqlite := testdb.OpenSQLite(t)
	if got := single[string](t, sqlite, "PRAGMA journal_mode"); got != "wal" {
		t.Errorf("journal_mode = %s", got)
	}
	if got := single[int](t, sqlite, "PRAGMA synchronous"); got != 2 {
		t.Errorf("synchronous = %d, not FULL", got)
	}
}

func TestSessionsCanLiveInOtherZones(t *testing.T) {
	postgres, mysql := testdb.OpenPostgres(t), testdb.OpenMySQL(t)
	for _, db := range []*sql.DB{postgres, mysql} {
		db.SetMaxOpenConns(1)
	}
	for zone, offset := range map[string]int{"UTC": 0, "America/New_York": -4, "Europe/Amsterdam": 2, "Pacific/Kiritimati": 14} {
		mustExec(t, postgres, "SET timezone = '"+zone+"'")
		if got := single[int](t, postgres, "SELECT extract(hour FROM '2026-07-05 00:00+00'::timestamptz::timestamp - '2026-07-05 00:00')::int + "+
			"24 * extract(day FROM '2026-07-05 00:00+00'::timestamptz::timestamp - '2026-07-05 00:00')::int"); got != offset {
			t.Errorf("postgres is %d h from UTC in %s", got, zone)
		}
		mustExec(t, mysql, "SET time_zone = '"+zone+"'")
		if got := single[int](t, mysql, "SELECT timestampdiff(HOUR, '2026-07-05 00:00', from_unixtime(1783209600))"); got != offset {
			t.Errorf("mysql is %d h from UTC in %s", got, zone)
		}
	}
}

func TestMySQLCountsRowsFound(t *testing.T) {
	db := testdb.OpenMySQL(t)
	mustExec(t, db, "CREATE TABLE account (id int PRIMARY KEY)")
	mustExec(t, db, "INSERT INTO account VALUES (1)")
	result, err := db.ExecContext(t.Context(), "UPDATE account SET id = 1 WHERE id = 1")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		t.Errorf("%d rows affected, %v; want the row that was found", n, err)
	}
}

func TestDSN(t *testing.T) {
	for _, test := range []struct{ address, driver, contains string }{
		{"sqlite:/tmp/a b?c.db", "sqlite3", "file:/tmp/a%20b%3Fc.db?_pragma=busy_timeout(10000)&"},
		{"postgres://u:p@h:1/d?sslmode=disable", "pgx", "postgres://u:p@h:1/d?sslmode=disable"},
		{"mysql://u:p%40@h:1/d", "mysql", "u:p@@tcp(h:1)/d?"},
	} {
		driver, dsn, err := testdb.DSN(test.address)
		if err != nil || driver != test.driver || !strings.HasPrefix(dsn, test.contains) {
			t.Errorf("DSN(%q) = %q, %q, %v", test.address, driver, dsn, err)
		}
	}
	if _, _, err := testdb.DSN("oracle://h/d"); err == nil {
		t.Error("an unknown kind of database was accepted")
	}
}

// single reads one value.
func single[T any](t *testing.T, db *sql.DB, query string, args ...any) (value T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func mustExec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// soon is a context for something that is expected not to happen.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
