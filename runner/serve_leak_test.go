package runner_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/store/sqlite"
)

// TestServeLeavesNothingBehind: outside virtual time, with a run at work when
// the end comes, and after an end before the beginning.
func TestServeLeavesNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "leak.db")+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	store := sqlite.New(db)
	if _, err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, late := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if late {
			cancel(dibs.ErrStopping)
		}
		at := time.AfterFunc(20*time.Second, func() { cancel(dibs.ErrStopping) }) // the handler should be first
		err := runner.Serve(ctx, runner.ServeConfig{
			Config: runner.Config{Store: store, Jobs: []dibs.Job{{
				Name: "beat", Overlap: dibs.Skip, Schedule: every(t, "@every 1s"), Grace: 2 * time.Second,
				Handle: func(h context.Context, _ dibs.Item) (dibs.Receipt, error) {
					cancel(dibs.ErrStopping)
					<-h.Done()
					return dibs.Receipt{}, context.Cause(h)
				},
			}}},
			Pulse: 100 * time.Millisecond, Alive: func() {},
		})
		if err != nil {
			t.Errorf("serve: %v", err)
		}
		at.Stop()
		cancel(nil)
	}
	var running int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM dibs_runs WHERE state = 'running'").Scan(&running); err != nil || running != 0 {
		t.Errorf("%d runs are still running, %v", running, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
