package runner_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/store/sqlite"
)

// B23: a restored copy of production does none of production's work until
// somebody adopts it: nothing is registered, claimed or recorded there.
func TestCaseB23CopyOfProductionDoesNothing(t *testing.T) {
	openFile := func(path string) *sql.DB {
		db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
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
	n := 0
	j := unit("report", dibs.Skip, nil)
	j.Handle = func(context.Context, dibs.Item) (dibs.Receipt, error) { n++; return dibs.Receipt{}, nil }
	j.Schedule = cron(t, "* * * * *")
	tick := func(store *sqlite.Store) (dibs.Report, error) {
		r, err := runner.New(runner.Config{Store: store, Jobs: []dibs.Job{j}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Tick(t.Context(), "report")
	}
	production := filepath.Join(t.TempDir(), "production.db")
	db := openFile(production)
	store := sqlite.New(db)
	if _, err := tick(store); !errors.Is(err, dibs.ErrSchema) {
		t.Errorf("without our tables: %v", err)
	}
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := tick(store); err != nil || n != 1 {
		t.Fatalf("in production: %v, %d runs", err, n)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(production)
	if err != nil {
		t.Fatal(err)
	}
	staging := filepath.Join(t.TempDir(), "staging.db")
	if err := os.WriteFile(staging, content, 0o600); err != nil {
		t.Fatal(err)
	}
	copied := sqlite.New(openFile(staging))
	if _, err := tick(copied); !errors.Is(err, dibs.ErrForeign) || n != 1 {
		t.Errorf("on the copy: %v, %d runs", err, n)
	}
	if list, err := copied.ListTriggers(t.Context(), dibs.TriggerFilter{}); err != nil || len(list) != 1 {
		t.Errorf("%d triggers on the copy, %v, want production's one", len(list), err)
	}
	if _, err := copied.Adopt(t.Context(), "ops", "staging"); err != nil {
		t.Fatal(err)
	}
	if _, err := tick(copied); err != nil {
		t.Errorf("once adopted: %v", err)
	}
}
