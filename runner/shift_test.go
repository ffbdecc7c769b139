package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

func TestTickDoesEveryDueRowOnce(t *testing.T) {
	inWorld(t, 35, func(w *world) {
		report := w.tick(w.runner(w.job(done, nil)))
		if got := report.String(); got != "started: 35 claimed = 35 completed, 0 uncertain, 0 remaining" {
			t.Errorf("report: %s", got)
		}
		w.want("35", "SELECT count(*) FROM account_config WHERE status = 'IDLE' AND claim_token IS NULL AND fence = 1")
		w.want("35", "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'completed' AND receipt_id = 'r'")
		w.want("succeeded", "SELECT state FROM dibs_runs")
		again := w.tick(w.runner(w.job(done, nil)))
		if again.Run.Counts.Selected != 0 {
			t.Errorf("second tick claimed %d rows that are not due for an hour", again.Run.Counts.Selected)
		}
	})
}

// Law 8: one bad item fails only itself.
func TestOneBadItemFailsOnlyItself(t *testing.T) {
	for name, bad := range map[string]dibs.Handle{
		"error": func(context.Context, dibs.Item) (dibs.Receipt, error) {
			return dibs.Receipt{}, errors.New("boom")
		},
		"panic": func(context.Context, dibs.Item) (dibs.Receipt, error) { panic("boom") },
		"nil dereference": func(context.Context, dibs.Item) (dibs.Receipt, error) {
			var p *int
			return dibs.Receipt{}, errors.New(string(rune(*p)))
		},
		"garbage": func(context.Context, dibs.Item) (dibs.Receipt, error) {
			return dibs.Receipt{}, errors.New("\x00\xff boom \x00")
		},
		"time-out": func(ctx context.Context, _ dibs.Item) (dibs.Receipt, error) {
			<-ctx.Done()
			return dibs.Receipt{}, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 12, func(w *world) {
				handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
					if it.Key.String() == id(5) {
						return bad(ctx, it)
					}
					return done(ctx, it)
				}
				report := w.tick(w.runner(w.job(handle, func(j *dibs.Job) { j.Timeout = 30 * time.Second })))
				if c := report.Run.Counts; c.Completed != 11 || c.Failed != 1 {
					t.Errorf("counts: %s", c)
				}
				w.want("FAILED", "SELECT status FROM account_config WHERE account_id = ?", id(5))
				w.want("1", "SELECT attempts FROM account_config WHERE account_id = ?", id(5))
				w.want("partial", "SELECT state FROM dibs_runs")
				if msg := w.one("SELECT last_error FROM account_config WHERE account_id = ?", id(5)); msg == "" || strings.ContainsRune(msg, 0) || !utf8.ValidString(msg) {
					t.Errorf("last_error: %q", msg)
				}
			})
		})
	}
}

// Typed errors say what happened; each writes its own outcome.
func TestTypedErrorsDecideTheRow(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		handle := func(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
			switch it.Key.String() {
			case id(1):
				return dibs.Receipt{}, dibs.Reject(errors.New("never"))
			case id(2):
				return dibs.Receipt{}, dibs.NotApplied(errors.New("refused"))
			case id(3):
				return dibs.Receipt{}, dibs.Later(7 * time.Minute)
			}
			return dibs.Receipt{}, nil
		}
		report := w.tick(w.runner(w.job(handle, nil)))
		if c := report.Run.Counts; c.Completed != 1 || c.Failed != 2 || c.Rejected != 1 {
			t.Errorf("counts: %s", c)
		}
		w.want("0", "SELECT attempts FROM account_config WHERE account_id = ?", id(2))
		w.want("420", "SELECT (claimable_at - (SELECT max(recorded_at) FROM dibs_outcomes)) / 1000000 FROM account_config WHERE account_id = ?", id(3))
		w.want("3600", "SELECT (claimable_at - (SELECT max(recorded_at) FROM dibs_outcomes)) / 1000000 FROM account_config WHERE account_id = ?", id(1))
	})
}

// Within one run an item is attempted at most once, even when its backoff ends
// while the run goes on.
func TestAFailedRowIsNotTriedAgainInTheSameRun(t *testing.T) {
	inWorld(t, 30, func(w *world) {
		var tries atomic.Int64
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			pass(20 * time.Second) // virtual: longer than the backoff
			if it.Key.String() == id(1) {
				tries.Add(1)
				return dibs.Receipt{}, errors.New("boom")
			}
			return done(ctx, it)
		}
		report := w.tick(w.runner(w.job(handle, func(j *dibs.Job) { j.Retry.Min, j.Retry.Max = time.Second, time.Second })))
		if tries.Load() != 1 || report.Run.Counts.Failed != 1 {
			t.Errorf("%d tries, %s", tries.Load(), report.Run.Counts)
		}
	})
}

// Leases are renewed while handlers run longer than a lease.
// TestCaseB22LongRunIsNotRescued: liveness comes from heartbeats and not from age.
// A handler works for 47 minutes under a lease of one; whoever else comes by
// every 6 minutes takes nothing.
func TestCaseB22LongRunIsNotRescued(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		starts := map[string]int{}
		var mu sync.Mutex
		slow := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			mu.Lock()
			starts[it.Key.String()]++
			mu.Unlock()
			select {
			case <-time.After(47 * time.Minute):
				return dibs.Receipt{}, nil
			case <-ctx.Done():
				return dibs.Receipt{}, context.Cause(ctx)
			}
		}
		ended := make(chan dibs.Report)
		own := w.runner(w.job(slow, func(j *dibs.Job) { j.Concurrency = 3 }))
		go func() { ended <- w.tick(own) }()
		for range 7 {
			pass(6 * time.Minute)
			synctest.Wait()
			if other := w.tick(w.runner(w.job(slow, nil))); other.Run == nil || other.Run.Counts.Selected != 0 {
				t.Errorf("rescued from a live run: %s", other)
			}
		}
		if report := <-ended; report.Run.State != dibs.RunSucceeded || report.Run.Counts.Completed != 3 {
			t.Errorf("%s: %s", report.Run.State, report.Run.Counts)
		}
		for key, n := range starts {
			if n != 1 {
				t.Errorf("%s was started %d times", key, n)
			}
		}
		w.want("3", "SELECT count(*) FROM account_config WHERE fence = 1 AND status = 'IDLE'")
		w.want("3", "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'completed'")
		if n := len(w.seen(runner.EventRenewed)); n < 60 {
			t.Errorf("%d renewals in 47 minutes", n)
		}
	})
}

// B14: a time-out is a request. A handler that ignores it keeps its slot and
// its lease until it has ended, and nobody else starts the row meanwhile.
func TestCaseB14TimedOutHandlerKeepsItsLease(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		deaf := func(context.Context, dibs.Item) (dibs.Receipt, error) {
			pass(5 * time.Minute) // ignores its context; time-out 10 s, lease 60 s
			return dibs.Receipt{}, errors.New("gave up at last")
		}
		j := w.job(deaf, func(j *dibs.Job) { j.Timeout = 10 * time.Second })
		ended := make(chan dibs.Report)
		r := w.runner(j)
		go func() { ended <- w.tick(r) }()
		for i := range 9 {
			pass(30 * time.Second)
			synctest.Wait()
			if other := w.tick(w.runner(w.job(done, nil))); other.Run.Counts.Selected != 0 {
				t.Fatalf("after %d s another run took the row", 30*(i+1))
			}
		}
		report := <-ended
		if report.Run.Counts.Failed != 1 || report.Run.State != dibs.RunFailed {
			t.Errorf("got %s, %s", report.Run.State, report.Run.Counts)
		}
		if msg := w.one("SELECT last_error FROM account_config"); !strings.Contains(msg, "time limit reached") {
			t.Errorf("last_error %q does not say that the time limit was reached", msg)
		}
	})
}

// Stopping gives back untouched what was not started and lets what runs finish.
func TestStopReleasesWhatWasNotStarted(t *testing.T) {
	inWorld(t, 20, func(w *world) {
		w.exec("UPDATE account_config SET attempts = 3, claimable_at = 17, status = 'FAILED' WHERE account_id > 'a005'")
		ctx, stop := context.WithCancel(w.t.Context())
		slow := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			pass(2 * time.Second)
			return dibs.Receipt{}, ctx.Err()
		}
		r := w.runner(w.job(slow, func(j *dibs.Job) { j.Batch = 20 }))
		time.AfterFunc(3*time.Second, stop)
		report, err := r.Tick(ctx, "crm-sync")
		if err != nil {
			t.Fatal(err)
		}
		c := report.Run.Counts
		if report.Run.State != dibs.RunCancelled || report.Run.Reason != dibs.ReasonStopped || c.Completed != 4 || c.Released != 16 || !c.Balanced() {
			t.Errorf("%s (%s): %s", report.Run.State, report.Run.Reason, c)
		}
		w.want("15", "SELECT count(*) FROM account_config WHERE status = 'FAILED' AND attempts = 3 AND claimable_at = 17 AND claim_token IS NULL AND started_at IS NULL")
	})
}

// Handlers that ignore the stop are given up on after twice the grace; their
// rows keep their lease and the run says lost for them.
func TestStopGivesUpOnDeafHandlers(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		ctx, stop := context.WithCancel(w.t.Context())
		free := make(chan struct{})
		deaf := func(context.Context, dibs.Item) (dibs.Receipt, error) {
			<-free
			return dibs.Receipt{}, nil
		}
		r := w.runner(w.job(deaf, nil))
		time.AfterFunc(time.Second, stop)
		report, err := r.Tick(ctx, "crm-sync")
		if err != nil || report.Run.Counts.Lost != 2 || !report.Run.Counts.Balanced() {
			t.Errorf("%v %s", err, report.Run.Counts)
		}
		w.want("2", "SELECT count(*) FROM account_config WHERE status = 'IN_PROGRESS'")
		pass(61 * time.Second)
		var concurrent atomic.Int64
		next := w.runner(w.job(func(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
			if it.Concurrent {
				concurrent.Add(1)
			}
			return dibs.Receipt{}, nil
		}, nil))
		w.tick(next)
		if concurrent.Load() != 2 {
			t.Errorf("%d attempts were marked as possibly concurrent, want 2", concurrent.Load())
		}
		w.want("2", "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'lost'")
		close(free)
	})
}

// Law 4 and 3: a run whose lease was taken stops, writes nothing on the rows,
// and records what came late beside the outcome.
func TestLostLeaseStopsTheRunAndRecordsLateResults(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		stopped := make(chan error, 2)
		slow := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return dibs.Receipt{ID: "late"}, nil
		}
		r := w.runner(w.job(slow, nil))
		time.AfterFunc(5*time.Second, func() { // a successor, after a lease that this one did not see end
			w.exec("UPDATE dibs_runs SET state = 'lost'")
			w.exec("UPDATE account_config SET claim_token = 'run_other/1', fence = fence + 1")
		})
		report, err := r.Tick(w.t.Context(), "crm-sync")
		if !errors.Is(err, dibs.ErrLeaseLost) || report.Run.State != dibs.RunLost {
			t.Errorf("got %s, %v", report.Run.State, err)
		}
		for range 2 {
			if cause := <-stopped; !errors.Is(cause, dibs.ErrLeaseLost) {
				t.Errorf("a handler was cancelled because of %v", cause)
			}
		}
		w.want("2", "SELECT count(*) FROM account_config WHERE claim_token = 'run_other/1' AND fence = 2 AND status = 'IN_PROGRESS'")
		w.want("2", "SELECT count(*) FROM dibs_outcomes WHERE late = 1 AND receipt_id = 'late'")
	})
}

// Limits end a run early without an error.
func TestLimitsEndARunEarly(t *testing.T) {
	inWorld(t, 50, func(w *world) {
		report := w.tick(w.runner(w.job(done, func(j *dibs.Job) { j.MaxItems = 25 })))
		if c := report.Run.Counts; c.Selected != 25 || report.Run.Reason != dibs.ReasonMaxItems || c.Remaining != 25 {
			t.Errorf("max_items: %s (%s)", c, report.Run.Reason)
		}
		slow := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			pass(10 * time.Second)
			return done(ctx, it)
		}
		report = w.tick(w.runner(w.job(slow, func(j *dibs.Job) { j.MaxDuration = 45 * time.Second })))
		if c := report.Run.Counts; report.Run.Reason != dibs.ReasonMaxDuration || c.Completed != 10 || c.Released != 0 {
			t.Errorf("max_duration: %s (%s)", c, report.Run.Reason)
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		report, err := w.runner(w.job(slow, nil)).Tick(ctx, "crm-sync")
		if c := report.Run.Counts; err != nil || report.Run.State == dibs.RunLost || c.Completed == 0 || c.Remaining == 0 {
			t.Errorf("the context's deadline: %v, %s, %s", err, report.Run.State, c)
		}
	})
}

// A key narrows the run to one row, which need not be due; a row in progress is
// refused with its holder.
func TestRunByKey(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		r := w.runner(w.job(done, nil))
		w.tick(r)
		report, err := r.Run(w.t.Context(), "crm-sync", id(2))
		if err != nil || report.Run.Counts.Completed != 1 {
			t.Fatalf("not yet due: %v %s", err, report)
		}
		hold := make(chan struct{})
		holding := make(chan struct{})
		busy := w.runner(w.job(func(context.Context, dibs.Item) (dibs.Receipt, error) {
			close(holding)
			<-hold
			return dibs.Receipt{}, nil
		}, nil))
		pass(time.Second)
		w.exec("UPDATE account_config SET claimable_at = 0 WHERE account_id = ?", id(1))
		ended := make(chan struct{})
		go func() { defer close(ended); w.tick(busy) }()
		<-holding
		report, err = r.Run(w.t.Context(), "crm-sync", id(1))
		var held *dibs.HeldError
		if !errors.As(err, &held) || held.Holder != busy.Holder() || held.ExpiresAt.Before(held.Now) {
			t.Errorf("in progress: %v", err)
		}
		if report.Trigger.Decision != dibs.DecisionSkipped || report.Trigger.Reason != dibs.ReasonInProgress || report.Trigger.BlockingRun != held.Run {
			t.Errorf("trigger: %+v", report.Trigger)
		}
		if other, err := r.Run(w.t.Context(), "crm-sync", id(3)); err != nil || other.Run.Counts.Completed != 1 {
			t.Errorf("another row: %v", err)
		}
		close(hold)
		<-ended
		_, err = r.Run(w.t.Context(), "crm-sync", "nobody")
		var refused *dibs.RefusedError
		if !errors.As(err, &refused) || refused.Reason != dibs.ReasonAbsent {
			t.Errorf("absent: %v", err)
		}
	})
}

// A row whose lease has expired too often in a row is set aside.
func TestPoisonIsSetAside(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.exec("UPDATE account_config SET status = 'IN_PROGRESS', started_at = 1, claimable_at = 2, claim_token = 'run_dead/1', expirations = 3 WHERE account_id = ?", id(1))
		report := w.tick(w.runner(w.job(done, nil)))
		if c := report.Run.Counts; c.Completed != 1 || c.Failed != 1 {
			t.Errorf("counts: %s", c)
		}
		w.want("FAILED", "SELECT status FROM account_config WHERE account_id = ? AND claimable_at IS NULL", id(1))
	})
}

func TestBatchHandlerAnswersForItsBatch(t *testing.T) {
	inWorld(t, 25, func(w *world) {
		var sizes []int
		j := w.job(nil, func(j *dibs.Job) {
			j.Concurrency = 1
			j.HandleBatch = func(_ context.Context, items []dibs.Item) ([]dibs.Result, error) {
				sizes = append(sizes, len(items))
				results := make([]dibs.Result, len(items)-1) // one answer too few
				return results, nil
			}
		})
		report := w.tick(w.runner(j))
		if c := report.Run.Counts; c.Completed != 22 || c.Failed != 3 {
			t.Errorf("%s, batches %v", c, sizes)
		}
	})
}
