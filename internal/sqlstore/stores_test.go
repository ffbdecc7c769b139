package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/store/mysql"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/store/sqlite"
)

// open returns a store on an open database, not yet migrated.
func open(t testing.TB, kind string, db *sql.DB, installation string) *sqlstore.Store {
	t.Helper()
	switch kind {
	case "sqlite":
		return sqlite.Open(sqlite.Config{DB: db, Installation: installation}).Store
	case "postgres":
		return postgres.Open(postgres.Config{DB: db, Installation: installation}).Store
	case "mysql":
		return mysql.Open(mysql.Config{DB: db, Installation: installation}).Store
	}
	t.Fatalf("no store for %s", kind)
	return nil
}

// onAll runs a test on a migrated, fresh database of each kind.
func onAll(t *testing.T, test func(t *testing.T, s *sqlstore.Store)) {
	t.Helper()
	testdb.All(t, func(t *testing.T, kind, url string) {
		s := open(t, kind, testdb.Open(t, url), "")
		migrate(t, s)
		test(t, s)
	})
}

func migrate(t testing.TB, s *sqlstore.Store) []string {
	t.Helper()
	applied, err := s.Migrate(t.Context())
	if err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return applied
}

// decide makes a decision that must succeed.
func decide(t testing.TB, s *sqlstore.Store, lock string, fn func(ctx context.Context, d dibs.Desk) error) {
	t.Helper()
	if err := s.Decide(t.Context(), lock, fn); err != nil {
		t.Fatalf("decide about %s: %v", lock, err)
	}
}

// start starts a run of a job under its lock.
func start(t testing.TB, s *sqlstore.Store, job string, lease time.Duration, takeLock bool) dibs.Run {
	t.Helper()
	r := newRun(t, job, lease)
	decide(t, s, job, func(ctx context.Context, d dibs.Desk) error { return d.StartRun(ctx, &r, takeLock) })
	return r
}

func newRun(t testing.TB, job string, lease time.Duration) dibs.Run {
	t.Helper()
	id, err := dibs.NewRunID()
	if err != nil {
		t.Fatal(err)
	}
	trigger, err := dibs.NewTriggerID()
	if err != nil {
		t.Fatal(err)
	}
	return dibs.Run{
		ID: id, Job: job, Trigger: trigger, Origin: dibs.OriginManual, Kind: dibs.KindItems,
		Holder: dibs.Holder{Host: "web/1", PID: 7, Process: "7c2e", Instance: "pod é"},
		Token:  dibs.ClaimToken(id, 1), LeaseFor: lease,
	}
}

// execute runs a statement that must succeed.
func execute(t testing.TB, s *sqlstore.Store, text string, args ...any) {
	t.Helper()
	if _, err := s.DB().ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// single reads one value.
func single[T any](t testing.TB, s *sqlstore.Store, text string) (value T) {
	t.Helper()
	if err := s.DB().QueryRowContext(t.Context(), text).Scan(&value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// eventually polls until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(20 * time.Second)
	defer end.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("never: %s", what)
		}
	}
}

// quoted writes a plain word as an SQL literal.
func quoted(s string) string { return fmt.Sprintf("'%s'", s) }
