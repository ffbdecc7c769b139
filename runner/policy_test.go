package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/schedule"
)

func cron(t *testing.T, expr string) dibs.Scheduler {
	t.Helper()
	s, err := schedule.ParseExpr(expr, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answer is what a background request came to.
type answer struct {
	report dibs.Report
	err    error
}

func (w *world) do(r *runner.Runner, a runner.Ask) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		report, err := r.Do(w.t.Context(), a)
		c <- answer{report, err}
	}()
	return c
}

// unit is a job without rows.
func unit(name string, overlap dibs.Overlap, handle dibs.Handle) dibs.Job {
	return dibs.Job{Name: name, Overlap: overlap, OnUncertain: dibs.Replay, Handle: handle}
}

// B15: the replacement starts only after the old handler has returned, or its
// lease has ended; the old run ends cancelled, reason replaced.
func TestCaseB15ReplacementWaitsForTheOldHandler(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprintf("stubborn=%v", stubborn), func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				type span struct{ from, to time.Time }
				var spans [2]span
				n := 0
				handle := func(ctx context.Context, _ dibs.Item) (dibs.Receipt, error) {
					i := n
					n++
					spans[i].from = time.Now()
					defer func() { spans[i].to = time.Now() }()
					if i == 1 {
						return dibs.Receipt{}, nil
					}
					<-ctx.Done()
					if stubborn {
						pass(9 * time.Second) // within its grace
					}
					return dibs.Receipt{}, ctx.Err()
				}
				r := w.runner(unit("crm-sync", dibs.Replace, handle))
				old := w.do(r, runner.Ask{Job: "crm-sync", Origin: dibs.OriginManual})
				pass(5 * time.Second)
				synctest.Wait()
				newer := w.do(r, runner.Ask{Job: "crm-sync", Origin: dibs.OriginManual, Wait: -1})
				a, b := <-old, <-newer
				if a.report.Run == nil || a.report.Run.State != dibs.RunCancelled || a.report.Run.Reason != dibs.ReasonReplaced {
					t.Errorf("the replaced run: %+v, %v", a.report.Run, a.err)
				}
				if b.err != nil || b.report.Trigger.Decision == dibs.DecisionSkipped {
					t.Errorf("the replacement: %+v, %v", b.report, b.err)
				}
				if n != 2 || spans[1].from.Before(spans[0].to) {
					t.Errorf("%d handlers; the new one began at %s, the old one ended at %s", n, spans[1].from, spans[0].to)
				}
				w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")
				w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'cancelled' AND reason = 'replaced'")
			})
		})
	}
}

// A retry run after one failed row touches that row alone, although every row
// of the table is due again.
func TestRetryTouchesTheFailedRowAlone(t *testing.T) {
	inWorld(t, 20, func(w *world) {
		calls := map[string]int{}
		handle := func(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
			calls[it.Key.String()]++
			if it.Key.String() == "a007" && calls["a007"] == 1 {
				return dibs.Receipt{}, errors.New("not today")
			}
			return dibs.Receipt{}, nil
		}
		j := w.job(handle, func(j *dibs.Job) {
			table := j.Source.(dibs.Table)
			table.Every, table.Scheduled = 0, true
			j.Source, j.Overlap, j.Concurrency = table, dibs.Skip, 1
			j.Schedule = cron(t, "0 0 * * *")
			j.Retry = dibs.Retry{Min: time.Minute, Max: time.Minute}
		})
		r := w.runner(j)
		if report := w.tick(r); report.Run == nil || report.Run.Counts.Failed != 1 || report.Run.Counts.Completed != 19 {
			t.Fatalf("first: %s", report)
		}
		if report := w.tick(r); report.Trigger.Decision != dibs.DecisionDuplicate {
			t.Errorf("before the backoff: %s", report)
		}
		pass(2 * time.Minute)
		report, err := r.Do(w.t.Context(), runner.Ask{Job: "crm-sync", Due: true})
		if err != nil || report.Run == nil || report.Run.Origin != dibs.OriginRetry || report.Run.Counts.Selected != 1 {
			t.Fatalf("the retry: %s, %v", report, err)
		}
		for key, n := range calls {
			if want := map[bool]int{true: 2, false: 1}[key == "a007"]; n != want {
				t.Errorf("%s was handled %d times, want %d", key, n, want)
			}
		}
		report, err = r.Do(w.t.Context(), runner.Ask{Job: "crm-sync", Due: true})
		if err != nil || report.Run != nil || report.Trigger.Decision != "" || report.Next.IsZero() {
			t.Errorf("then nothing is due: %s, %v", report, err)
		}
	})
}

func TestJobsOnOneLockExcludeOneAnotherAndQueueUp(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		busy, most := 0, 0
		handle := func(context.Context, dibs.Item) (dibs.Receipt, error) {
			busy++
			most = max(most, busy)
			pass(30 * time.Second)
			busy--
			return dibs.Receipt{}, nil
		}
		a, b := unit("a", dibs.Queue, handle), unit("b", dibs.Queue, handle)
		a.Lock, b.Lock = "shared", "shared"
		make := func() *runner.Runner {
			r, err := runner.New(runner.Config{Store: w.store, Jobs: []dibs.Job{a, b}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		var all []<-chan answer
		for i := range 6 {
			all = append(all, w.do(make(), runner.Ask{Job: []string{"a", "b"}[i%2], Origin: dibs.OriginManual}))
			pass(time.Second)
		}
		for _, c := range all {
			if got := <-c; got.err != nil {
				t.Error(got.err)
			}
		}
		w.want("6", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")
		if most != 1 {
			t.Errorf("%d ran at once under one lock", most)
		}
	})
}

// One hour of a destination that is down quarantines nobody, and soon stops
// calling: after ten answers the run stops claiming, and the next ones probe
// with one item.
func TestBreakerStopsProbesAndQuarantinesNobody(t *testing.T) {
	inWorld(t, 40, func(w *world) {
		down, calls := true, 0
		handle := func(context.Context, dibs.Item) (dibs.Receipt, error) {
			calls++
			if down {
				return dibs.Receipt{}, dibs.NotApplied(errors.New("connection refused"))
			}
			return dibs.Receipt{}, nil
		}
		j := w.job(handle, func(j *dibs.Job) {
			j.Batch, j.Concurrency = 20, 1
			j.Retry = dibs.Retry{Min: time.Second, Max: time.Second, MaxAttempts: 3}
		})
		r := w.runner(j)
		first := w.tick(r)
		if first.Run.State != dibs.RunPartial || first.Run.Reason != dibs.ReasonDestination || first.Run.Counts.Failed != 10 || first.Run.Counts.Released != 10 {
			t.Fatalf("the run: %s (%s) %s", first.Run.State, first.Run.Reason, first.Run.Counts)
		}
		for range 60 {
			pass(time.Minute)
			before := calls
			if report := w.tick(r); calls != before+1 || report.Run.Reason != dibs.ReasonDestination {
				t.Fatalf("a probe made %d calls: %s (%s)", calls-before, report.Run.State, report.Run.Reason)
			}
		}
		w.want("0", "SELECT count(*) FROM account_config WHERE status = 'QUARANTINED' OR attempts > 0 OR claimable_at IS NULL")
		down = false
		pass(time.Minute)
		if report := w.tick(r); report.Run.State != dibs.RunSucceeded || report.Run.Counts.Completed != 40 {
			t.Errorf("after the outage: %s (%s) %s", report.Run.State, report.Run.Reason, report.Run.Counts)
		}
	})
}

// tick --wait stands by for the slot's run and takes over when its lease ends.
func TestStandByTakesOverALostSlot(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		j := unit("crm-sync", dibs.Skip, done)
		j.Schedule = cron(t, "0 0 * * *")
		r := w.runner(j)
		if err := r.Register(w.t.Context(), "crm-sync"); err != nil {
			t.Fatal(err)
		}
		dead := dispatch.New(dispatch.Config{Runs: w.store, Holder: dibs.Holder{Host: "dead", PID: 1, Process: "x"}})
		f, err := dead.Fire(w.t.Context(), dispatch.Request{Job: &j, Slots: dispatch.LatestSlot, Origin: dibs.OriginSchedule, Kind: dibs.KindCommand, Lease: time.Minute})
		if err != nil || f.Run == nil {
			t.Fatalf("%+v, %v", f, err)
		}
		if got := <-w.do(r, runner.Ask{Job: "crm-sync", Wait: 10 * time.Second}); got.err != nil || got.report.Run != nil || got.report.Trigger.Decision != dibs.DecisionDuplicate {
			t.Errorf("within ten seconds: %s, %v", got.report, got.err)
		}
		got := <-w.do(r, runner.Ask{Job: "crm-sync", Wait: -1})
		if got.err != nil || got.report.Run == nil || got.report.Run.Origin != dibs.OriginRetry || !got.report.Run.Slot.Equal(f.Run.Slot) {
			t.Errorf("took over: %+v, %v", got.report, got.err)
		}
		if dup := w.tick(r); dup.Spent == nil || dup.Spent.State != dibs.RunSucceeded {
			t.Errorf("then: %+v", dup)
		}
	})
}

func TestRunOnLeavesTheSlotForAHostThatMay(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		j := unit("crm-sync", dibs.Skip, done)
		j.Schedule = cron(t, "* * * * *")
		j.RunOn = []string{"another-host"}
		report := w.tick(w.runner(j))
		if report.Run != nil || report.Trigger.Decision != dibs.DecisionWaiting || report.Trigger.Reason != dibs.ReasonNoHost {
			t.Errorf("elsewhere: %s", report)
		}
		j.RunOn = []string{"another-host", w.runner(j).Holder().Host}
		if _, err := w.runner(j).TickAll(w.t.Context()); err != nil {
			t.Error(err)
		}
		w.want("started", "SELECT decision FROM dibs_triggers WHERE id = '"+report.Trigger.ID+"'")
	})
}

func TestPerHostIsAJobOfItsOwn(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		j := unit("crm-sync", dibs.Skip, done)
		j.PerHost = true
		r := w.runner(j)
		report := w.tick(r)
		if want := "crm-sync@" + r.Holder().Host; report.Run == nil || report.Run.Job != want || report.Run.Lock != want {
			t.Errorf("ran as %+v, want %s", report.Run, want)
		}
	})
}

// A request that is a little early waits for its slot.
func TestTickALittleEarlyWaitsForItsSlot(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		j := unit("crm-sync", dibs.Skip, done)
		j.Schedule = cron(t, "0 3 * * *")
		r := w.runner(j)
		w.tick(r)
		pass(3*time.Hour - 2*time.Second)
		report := w.tick(r)
		if want := time.Date(2000, 1, 1, 3, 0, 0, 0, time.UTC); report.Run == nil || !report.Run.Slot.Equal(want) || report.Run.StartedAt.Before(want) {
			t.Errorf("ran %+v", report.Run)
		}
	})
}

// The run of a coalesced trigger tells its handler every slot that it covers,
// and the window that they stand for.
func TestCoalescedRunCoversAllSlots(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var items []dibs.Item
		j := unit("crm-sync", dibs.Coalesce, func(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
			items = append(items, it)
			if len(items) == 1 {
				pass(150 * time.Second)
			}
			return dibs.Receipt{}, nil
		})
		j.Schedule = cron(t, "* * * * *")
		r := w.runner(j)
		first := w.do(r, runner.Ask{Job: "crm-sync"})
		for range 2 {
			pass(61 * time.Second)
			if a := <-w.do(r, runner.Ask{Job: "crm-sync"}); a.err != nil || a.report.Run != nil {
				t.Errorf("ran beside it: %s, %v", a.report, a.err)
			}
		}
		if a := <-first; a.err != nil {
			t.Fatal(a.err)
		}
		if len(items) != 2 {
			t.Fatalf("%d runs, want 2", len(items))
		}
		minute := func(n int) time.Time { return time.Date(2000, 1, 1, 0, n, 0, 0, time.UTC) }
		got := items[1]
		if !got.Slot.Equal(minute(2)) || len(got.Covered) != 2 || !got.Covered[0].Equal(minute(1)) || !got.WindowStart.Equal(minute(0)) || !got.WindowEnd.Equal(minute(2)) {
			t.Errorf("the second run has slot %s, covers %v, window %s to %s", got.Slot, got.Covered, got.WindowStart, got.WindowEnd)
		}
	})
}
