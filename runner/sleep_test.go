package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// asleep is what ten minutes of a host's sleep are to its leases: the database's
// clock has gone on, this process's has not.
func (w *world) asleep() {
	w.t.Helper()
	w.exec("UPDATE account_config SET started_at = started_at - 600000000, claimable_at = claimable_at - 600000000 WHERE status = 'IN_PROGRESS'")
	w.exec("UPDATE dibs_runs SET lease_end = lease_end - 600000000 WHERE state = 'running'")
}

// TestCaseB07LapsedLeaseIsTakenBack: the host slept past its lease and nobody
// took the row: the run is healthy and goes on.
func TestCaseB07LapsedLeaseIsTakenBack(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		handle := func(ctx context.Context, _ dibs.Item) (dibs.Receipt, error) {
			select {
			case <-time.After(3 * time.Minute):
				return dibs.Receipt{ID: "r"}, nil
			case <-ctx.Done():
				return dibs.Receipt{}, context.Cause(ctx)
			}
		}
		time.AfterFunc(15*time.Second, w.asleep)
		time.AfterFunc(50*time.Second, func() {
			w.want("0", "SELECT count(*) FROM account_config WHERE status = 'IN_PROGRESS' AND claimable_at < unixepoch('subsec') * 1000000")
			w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'running' AND lease_end > unixepoch('subsec') * 1000000")
		})
		report := w.tick(w.runner(w.job(handle, nil)))
		if report.Run.State != dibs.RunSucceeded || report.Run.Counts.Completed != 3 || len(w.seen(runner.EventLost)) != 0 {
			t.Errorf("%s: %s, lost %+v", report.Run.State, report.Run.Counts, w.seen(runner.EventLost))
		}
		w.want("3", "SELECT count(*) FROM account_config WHERE status = 'IDLE' AND fence = 1")
		w.want("3", "SELECT count(*) FROM dibs_outcomes")
	})
}

// TestCaseB07TakenOverWhileAsleep: another run took the rows over while the host
// slept: its handlers are cancelled at the next proof, and it writes nothing.
func TestCaseB07TakenOverWhileAsleep(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		causes := make(chan error, 2)
		handle := func(ctx context.Context, _ dibs.Item) (dibs.Receipt, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return dibs.Receipt{}, context.Cause(ctx)
		}
		j := w.job(handle, func(j *dibs.Job) { j.Overlap = dibs.Skip })
		ended := make(chan error, 1)
		sleeper := w.runner(j)
		go func() {
			_, err := sleeper.Tick(w.t.Context(), "crm-sync")
			ended <- err
		}()
		pass(15 * time.Second)
		w.asleep()
		heir := w.tick(w.runner(w.job(done, func(j *dibs.Job) { j.Overlap = dibs.Skip })))
		if heir.Run == nil || heir.Run.Counts.Completed != 2 {
			t.Fatalf("the heir: %s", heir)
		}
		const rows = "SELECT group_concat(status || fence || claimable_at || attempts || coalesce(claim_token, '') || coalesce(last_error, '')) FROM account_config"
		before := w.one(rows)
		pass(20 * time.Second) // one beat, long before its own clock would say so
		synctest.Wait()
		for range 2 {
			select {
			case cause := <-causes:
				if !errors.Is(cause, dibs.ErrLeaseLost) {
					t.Errorf("cancelled because of %v", cause)
				}
			default:
				t.Fatal("a handler works on for a row that is another's")
			}
		}
		if err := <-ended; !errors.Is(err, dibs.ErrLeaseLost) {
			t.Errorf("the run ended with %v", err)
		}
		w.want(before, rows)
		w.want("2", "SELECT count(*) FROM account_config WHERE fence = 2")
	})
}

// TestCaseB06HandlersHoldTheWholePool: as many handlers as the pool has
// connections, but for the reserved one, each holding one far longer than the
// lease.
func TestCaseB06HandlersHoldTheWholePool(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.db.SetMaxOpenConns(3)
		handle := func(ctx context.Context, _ dibs.Item) (dibs.Receipt, error) {
			conn, err := w.db.Conn(ctx)
			if err != nil {
				return dibs.Receipt{}, err
			}
			defer func() { _ = conn.Close() }() // back to the pool
			select {
			case <-time.After(5 * time.Minute): // lease 60 s
				return dibs.Receipt{ID: "r"}, nil
			case <-ctx.Done():
				return dibs.Receipt{}, context.Cause(ctx)
			}
		}
		report := w.tick(w.runner(w.job(handle, nil)))
		if c := report.Run.Counts; c.Completed != 2 || report.Run.State != dibs.RunSucceeded {
			t.Errorf("%s: %s", report.Run.State, c)
		}
		if n := len(w.seen(runner.EventBeatFail)) + len(w.seen(runner.EventLost)); n != 0 {
			t.Errorf("%d beats failed or leases were lost", n)
		}
		w.want("2", "SELECT count(*) FROM account_config WHERE status = 'IDLE' AND fence = 1")
	})
}

// TestCaseB06FailedBeats: beats that fail stop nothing while lease is left; when
// none is, the handlers are cancelled before the database would give the row
// away.
func TestCaseB06FailedBeats(t *testing.T) {
	for name, tt := range map[string]struct {
		away      time.Duration
		completed int64
	}{"for a part of the lease": {43 * time.Second, 1}, "for longer than the lease": {3 * time.Minute, 0}} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				var cancelled time.Duration
				handle := func(ctx context.Context, _ dibs.Item) (dibs.Receipt, error) {
					began := time.Now()
					conn, err := w.db.Conn(ctx)
					if err != nil {
						return dibs.Receipt{}, err
					}
					defer func() { _ = conn.Close() }() // back to the pool
					if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
						return dibs.Receipt{}, err
					}
					free := time.AfterFunc(tt.away, func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") })
					defer free.Stop()
					select {
					case <-time.After(2 * time.Minute):
						return dibs.Receipt{ID: "r"}, nil
					case <-ctx.Done():
						cancelled = time.Since(began)
						_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
						return dibs.Receipt{}, errors.Join(context.Cause(ctx), err)
					}
				}
				report, err := w.runner(w.job(handle, nil)).Tick(w.t.Context(), "crm-sync")
				if len(w.seen(runner.EventBeatFail)) == 0 {
					t.Error("no beat failed: the test shows nothing")
				}
				if c := report.Run.Counts; c.Completed != tt.completed || (err == nil) != (tt.completed == 1) {
					t.Errorf("%s: %s, %v", report.Run.State, c, err)
				}
				if tt.completed == 0 && (cancelled < 40*time.Second || cancelled >= 60*time.Second) {
					t.Errorf("cancelled after %s of a lease of 60 s", cancelled)
				}
			})
		})
	}
}
