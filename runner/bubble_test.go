package runner_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/store/sqlite"
)

// world is a SQLite file with accounts, inside a bubble of virtual time: the
// driver's clock is Go's, so leases of a minute pass at once.
type world struct {
	t     *testing.T
	db    *sql.DB
	store *sqlite.Store

	mu     sync.Mutex
	events []runner.Event
}

// inWorld runs f with n accounts, in virtual time.
func inWorld(t *testing.T, n int, f func(w *world)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite3", "file:"+file+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		w := &world{t: t, db: db, store: sqlite.New(db)}
		if _, err := w.store.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.exec(accountsTable)
		for i := 1; i <= n; i++ {
			w.exec("INSERT INTO account_config (account_id, name, external_ref) VALUES (?, ?, ?)", id(i), fmt.Sprint("Name ", i), fmt.Sprint("R-", i))
		}
		f(w)
	})
}

func id(i int) string { return fmt.Sprintf("a%03d", i) }

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), query, args...); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
}

// one reads one value.
func (w *world) one(query string, args ...any) string {
	w.t.Helper()
	var v sql.NullString
	if err := w.db.QueryRowContext(context.WithoutCancel(w.t.Context()), query, args...).Scan(&v); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return v.String
}

func (w *world) want(want, query string, args ...any) {
	w.t.Helper()
	if got := w.one(query, args...); got != want {
		w.t.Errorf("%s: got %s, want %s", query, got, want)
	}
}

// job is crm-sync with a handler; change adjusts it.
func (w *world) job(handle dibs.Handle, change func(*dibs.Job)) dibs.Job {
	j := dibs.Job{
		Name: "crm-sync", Overlap: dibs.Allow, OnUncertain: dibs.Replay, Batch: 10, Concurrency: 2,
		Source: dibs.Table{
			Name: "account_config", Key: "account_id", Where: "enabled", Select: []string{"name", "external_ref"},
			Every: time.Hour, Columns: dibs.Columns{LastError: "last_error"},
		},
		Handle: handle,
	}
	if change != nil {
		change(&j)
	}
	return j
}

func (w *world) runner(j dibs.Job) *runner.Runner {
	w.t.Helper()
	r, err := runner.New(runner.Config{Store: w.store, Jobs: []dibs.Job{j}, Observe: w.observe})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) observe(e runner.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *world) seen(k runner.EventKind) (list []runner.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == k {
			list = append(list, e)
		}
	}
	return list
}

// tick ticks the job and wants no error.
func (w *world) tick(r *runner.Runner) dibs.Report {
	w.t.Helper()
	report, err := r.Tick(w.t.Context(), "crm-sync")
	if err != nil {
		w.t.Fatalf("tick: %v", err)
	}
	if report.Run != nil && !report.Run.Counts.Balanced() {
		w.t.Errorf("the sum does not balance: %s", report.Run.Counts)
	}
	return report
}

func done(context.Context, dibs.Item) (dibs.Receipt, error) { return dibs.Receipt{ID: "r"}, nil }

// pass lets virtual time go by.
func pass(d time.Duration) { <-time.After(d) }
