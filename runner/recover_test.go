package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/schedule"
)

// window is a range over everything up to now.
func window() runner.Range {
	return runner.Range{From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(time.Second).Truncate(time.Second)}
}

func (w *world) plan(r *runner.Runner, g runner.Range) runner.Planned {
	w.t.Helper()
	p, err := r.PlanRecovery(w.t.Context(), "crm-sync", g, "eva", "an outage")
	if err != nil {
		w.t.Fatalf("plan: %v", err)
	}
	if !p.Sum.Balanced() {
		w.t.Errorf("the plan does not balance: %s", p.Sum)
	}
	return p
}

func (w *world) recover(r *runner.Runner, q runner.Recover) (runner.Recovered, error) {
	w.t.Helper()
	q.Job = "crm-sync"
	got, err := r.Recover(w.t.Context(), q)
	if !got.Sum.Balanced() {
		w.t.Errorf("the sum does not balance: %s", got.Sum)
	}
	return got, err
}

func (w *world) wantSum(got runner.Recovered, err error, want string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("recover: %v", err)
	}
	if s := got.Sum.String(); s != want {
		w.t.Errorf("sum: %s, want %s", s, want)
	}
}

func TestRecoverReplaysTheSafeRemainder(t *testing.T) {
	inWorld(t, 6, func(w *world) {
		d := &destination{has: map[string]int{}}
		broken := true
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			if !broken {
				return d.send(ctx, it)
			}
			switch it.Key.String() {
			case id(1):
				return d.send(ctx, it)
			case id(2): // stored, the answer lost
				_, _ = d.send(ctx, it)
				return dibs.Receipt{}, errNoAnswer
			case id(3): // not stored, the answer lost
				return dibs.Receipt{}, errNoAnswer
			case id(4):
				return dibs.Receipt{}, dibs.Reject(errors.New("bad request"))
			}
			return dibs.Receipt{}, dibs.NotApplied(errors.New("connection refused"))
		}
		r := w.runner(w.effectJob(handle, d, nil))
		w.tick(r)
		g := window()
		p := w.plan(r, g)
		if got := p.Sum.String(); got != "6 selected = 1 done before + 0 done now + 2 uncertain + 3 remaining" || p.Plan.Count != 5 {
			t.Fatalf("plan: %s, count %d", got, p.Plan.Count)
		}
		broken = false
		pass(2 * time.Minute)
		w.exec("DELETE FROM account_config WHERE account_id = ?", id(6))
		got, err := w.recover(r, runner.Recover{Range: g, Confirm: 5, By: "eva", Why: "an outage"})
		w.wantSum(got, err, "6 selected = 1 gone + 1 done before + 1 found late + 3 done now + 0 remaining")
		if got.Run.State != dibs.RunSucceeded || got.Run.Kind != dibs.KindRecovery || got.Run.Origin != dibs.OriginRecovery || got.Plan.State != dibs.PlanDone {
			t.Errorf("run %+v, plan %s", got.Run, got.Plan.State)
		}
		for work, n := range d.has {
			if n != 1 {
				t.Errorf("%s was stored %d times", work, n)
			}
		}
		if len(d.has) != 5 {
			t.Errorf("the destination has %v", d.has)
		}
		w.want("crm-sync", "SELECT lock_name FROM dibs_runs WHERE kind = 'recovery'")
		w.want("1", "SELECT count(*) FROM dibs_audit WHERE what = 'recover' AND why = 'an outage'")
		if _, err := w.recover(r, runner.Recover{Range: g, Confirm: 5}); err == nil || !strings.Contains(err.Error(), "was carried out by run") {
			t.Errorf("a plan was carried out twice: %v", err)
		}
		if p := w.plan(r, g); p.Plan.Count != 0 {
			t.Errorf("a new plan would send %d", p.Plan.Count)
		}
	})
}

// The wrong number, and every other reason to refuse, changes nothing.
func TestRecoverRefuses(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		var calls atomic.Int64
		handle := func(context.Context, dibs.Item) (dibs.Receipt, error) {
			calls.Add(1)
			return dibs.Receipt{}, dibs.NotApplied(errors.New("no"))
		}
		r := w.runner(w.job(handle, func(j *dibs.Job) { j.RecoverLimit = 2 }))
		w.tick(r)
		g := window()
		before := w.one("SELECT count(*) || '|' || (SELECT count(*) FROM dibs_triggers) || '|' || (SELECT count(*) FROM dibs_audit) FROM dibs_runs")
		refused := func(what string, q runner.Recover) {
			t.Helper()
			q.Job = "crm-sync"
			var fault *dibs.ConfigError
			if _, err := r.Recover(w.t.Context(), q); !errors.As(err, &fault) || !strings.Contains(err.Error(), what) {
				t.Errorf("want %q, got %v", what, err)
			}
		}
		refused("there is no plan", runner.Recover{Range: g, Confirm: 3})
		w.plan(r, g)
		refused("is not the plan's number", runner.Recover{Range: g, Confirm: 2})
		refused("is not the plan's number", runner.Recover{Range: g})
		refused("recover_limit of 2", runner.Recover{Range: g, Confirm: 3})
		moved := g
		moved.To = moved.To.Add(time.Second)
		refused("there is no plan", runner.Recover{Range: moved, Confirm: 3})
		for what, bad := range map[string]runner.Range{
			"is missing":                  {},
			"is open at one end":          {From: g.From},
			"not after its start":         {From: g.To, To: g.From},
			"open at one end":             {After: "a"},
			"does not come before":        {After: "10", Until: "9"},
			"bounded in two ways":         {From: g.From, To: g.To, Run: "run_1"},
			`"10" does not come before`:   {After: "10", Until: "10"},
			"is bounded in two ways: use": {After: "9", Until: "10", Run: "run_1"},
		} {
			if _, err := r.PlanRecovery(w.t.Context(), "crm-sync", bad, "", ""); err == nil || !strings.Contains(err.Error(), strings.Split(what, ":")[0]) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if _, err := r.PlanRecovery(w.t.Context(), "crm-sync", runner.Range{From: g.From, To: g.From.Add(time.Hour)}, "", ""); err == nil || !strings.Contains(err.Error(), "selects nothing") {
			t.Errorf("an empty range: %v", err)
		}
		if _, err := r.PlanRecovery(w.t.Context(), "crm-sync", runner.Range{Run: "run_none"}, "", ""); !errors.Is(err, dibs.ErrNotFound) {
			t.Errorf("an unknown run: %v", err)
		}
		w.want(before, "SELECT count(*) || '|' || (SELECT count(*) FROM dibs_triggers) || '|' || (SELECT count(*) FROM dibs_audit) FROM dibs_runs")
		if calls.Load() != 3 {
			t.Errorf("%d calls", calls.Load())
		}
		got, err := w.recover(r, runner.Recover{Range: g, Confirm: 3, Large: true})
		w.wantSum(got, err, "3 selected = 0 done now + 3 failed + 0 remaining")
	})
}

// While any run of the job is live there is no recovery, whatever the policy and
// whether or not the run has the lock; while a recovery runs nothing else starts.
func TestRecoverStandsBackForLiveRuns(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		hold := make(chan struct{})
		var slow atomic.Bool
		handle := func(context.Context, dibs.Item) (dibs.Receipt, error) {
			if slow.Load() {
				<-hold
			}
			return dibs.Receipt{}, dibs.NotApplied(errors.New("no"))
		}
		r := w.runner(w.job(handle, func(j *dibs.Job) { j.Concurrency, j.Retry.Min, j.Retry.Max = 1, time.Second, time.Second }))
		w.tick(r)
		g := window()
		w.plan(r, g)
		pass(time.Minute)
		slow.Store(true)
		ended := make(chan error, 2)
		tick := func() {
			_, err := r.Tick(w.t.Context(), "crm-sync")
			ended <- err
		}
		go tick()
		pass(time.Second)
		var held *dibs.HeldError
		_, err := w.recover(r, runner.Recover{Range: g, Confirm: 2})
		if !errors.As(err, &held) || held.Run != w.one("SELECT id FROM dibs_runs WHERE state = 'running'") || held.Holder.Host == "" || !held.ExpiresAt.After(held.Now) {
			t.Fatalf("beside a live run: %v", err)
		}
		w.want("skipped|running", "SELECT decision || '|' || reason FROM dibs_triggers WHERE origin = 'recovery'")
		waited := make(chan error, 1)
		go func() {
			got, err := r.Recover(w.t.Context(), runner.Recover{Job: "crm-sync", Range: g, Confirm: 2, Wait: time.Hour, Pause: true})
			if err == nil && !got.Sum.Balanced() {
				err = errors.New(got.Sum.String())
			}
			waited <- err
		}()
		pass(10 * time.Second)
		w.want("1", "SELECT count(*) FROM dibs_jobs WHERE paused_until IS NOT NULL")
		hold <- struct{}{}
		hold <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		pass(10 * time.Second)
		w.want("recovery", "SELECT kind FROM dibs_runs WHERE state = 'running'")
		_, err = w.recover(r, runner.Recover{Range: g, Confirm: 2})
		if !errors.As(err, &held) {
			t.Errorf("a second recovery: %v", err)
		}
		w.exec("UPDATE dibs_jobs SET paused_until = NULL") // the policy is allow: it must stand back all the same
		if report := w.tick(r); report.Trigger.Decision != dibs.DecisionSkipped || report.Trigger.Reason != dibs.ReasonRecovery {
			t.Errorf("beside a recovery: %s", report)
		}
		close(hold)
		if err := <-waited; err != nil {
			t.Error(err)
		}
		w.want("0", "SELECT count(*) FROM dibs_jobs WHERE paused_until IS NOT NULL")
	})
}

// A recovery that was stopped half-way resumes with the same number, and only
// what remains is sent.
func TestRecoverResumes(t *testing.T) {
	inWorld(t, 9, func(w *world) {
		var calls atomic.Int64
		ctx, stop := context.WithCancelCause(w.t.Context())
		phase := 0
		handle := func(context.Context, dibs.Item) (dibs.Receipt, error) {
			if phase == 0 {
				return dibs.Receipt{}, dibs.NotApplied(errors.New("no"))
			}
			if calls.Add(1) == 4 && phase == 1 {
				stop(dibs.ErrStopping)
			}
			return dibs.Receipt{ID: "x"}, nil
		}
		r := w.runner(w.job(handle, func(j *dibs.Job) { j.Concurrency = 1 }))
		w.tick(r)
		g := runner.Range{Run: w.one("SELECT id FROM dibs_runs")}
		w.plan(r, g)
		pass(time.Second)
		phase = 1
		first, err := r.Recover(ctx, runner.Recover{Job: "crm-sync", Range: g, Confirm: 9})
		w.wantSum(first, err, "9 selected = 4 done now + 5 remaining")
		if first.Plan.State != dibs.PlanOpen || first.Run.State != dibs.RunCancelled || first.Run.Recovers != g.Run {
			t.Errorf("plan %s, run %+v", first.Plan.State, first.Run)
		}
		pass(time.Second)
		phase = 2
		again, err := w.recover(r, runner.Recover{Range: g, Confirm: 9})
		w.wantSum(again, err, "9 selected = 9 done now + 0 remaining")
		if calls.Load() != 9 {
			t.Errorf("%d calls for 9 actions", calls.Load())
		}
		w.want("9", "SELECT count(*) FROM account_config WHERE status = 'IDLE'")
	})
}

// A two-column table has no cycle: an action is the slot's, and keeps its name
// and its slot in a recovery. Two actions of one row follow one another.
func TestRecoverKeepsTheSlotsIdentity(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		var got []string
		broken := true
		handle := func(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
			if broken {
				return dibs.Receipt{}, dibs.NotApplied(errors.New("no"))
			}
			got = append(got, it.WorkID+"@"+it.Slot.UTC().Format("15:04"))
			return dibs.Receipt{}, nil
		}
		every, err := schedule.Parse(schedule.Spec{Cron: "0 * * * *", Zone: "UTC", Name: "crm-sync"})
		if err != nil {
			t.Fatal(err)
		}
		r := w.runner(w.job(handle, func(j *dibs.Job) {
			j.Concurrency, j.Overlap, j.Schedule, j.Lease, j.Timeout, j.NoHeartbeat = 1, dibs.Skip, every, time.Minute, 10*time.Second, false
			table := j.Source.(dibs.Table)
			table.TwoColumn, table.Every, table.Scheduled, table.Columns.LastError = true, 0, true, ""
			j.Source = table
		}))
		for range 2 {
			pass(time.Hour)
			w.tick(r)
		}
		g := window()
		p := w.plan(r, g)
		if p.Plan.Count != 4 {
			t.Fatalf("plan: %s", p.Sum)
		}
		broken = false
		pass(time.Second)
		done, err := w.recover(r, runner.Recover{Range: g, Confirm: 4})
		w.wantSum(done, err, "4 selected = 4 done now + 0 remaining")
		seen := map[string]bool{}
		for _, s := range got {
			work, slot, _ := strings.Cut(s, "@")
			if !strings.Contains(work, "T"+slot+":00Z") || seen[s] {
				t.Errorf("sent %s", s)
			}
			seen[s] = true
		}
		if len(got) != 4 {
			t.Errorf("sent %v", got)
		}
	})
}

// A range by key takes what is unfinished, and leaves what is done.
func TestRecoverByKey(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		broken := true
		handle := func(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
			if broken && it.Key.String() != id(2) {
				return dibs.Receipt{}, dibs.NotApplied(errors.New("no"))
			}
			return dibs.Receipt{ID: "x"}, nil
		}
		r := w.runner(w.job(handle, nil))
		w.tick(r)
		broken = false
		pass(time.Second)
		for _, c := range []struct {
			g    runner.Range
			n    int
			want string
		}{
			{runner.Range{Key: id(1)}, 1, "1 selected = 1 done now + 0 remaining"},
			{runner.Range{After: id(1), Until: id(3)}, 1, "1 selected = 1 done now + 0 remaining"},
		} {
			if p := w.plan(r, c.g); p.Plan.Count != c.n {
				t.Fatalf("%+v: %s", c.g, p.Sum)
			}
			got, err := w.recover(r, runner.Recover{Range: c.g, Confirm: c.n})
			w.wantSum(got, err, c.want)
		}
		w.want(fmt.Sprint(id(4)), "SELECT account_id FROM account_config WHERE status = 'FAILED'")
	})
}

// A row that moves on to its next action while the recovery runs is given back
// untouched: that action is not in the plan.
func TestRecoverSendsOnlyThePlannedAction(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		broken := true
		var sent []string
		handle := func(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
			if broken {
				return dibs.Receipt{}, dibs.NotApplied(errors.New("no"))
			}
			if sent = append(sent, it.WorkID); len(sent) == 1 {
				w.exec("UPDATE account_config SET cycle = cycle + 1, last_error = 'mine' WHERE account_id <> ?", it.Key.String())
			}
			return dibs.Receipt{ID: "x"}, nil
		}
		r := w.runner(w.job(handle, func(j *dibs.Job) { j.Concurrency = 1 }))
		w.tick(r)
		g := window()
		w.plan(r, g)
		broken = false
		pass(time.Second)
		got, err := w.recover(r, runner.Recover{Range: g, Confirm: 3})
		w.wantSum(got, err, "3 selected = 2 done before + 1 done now + 0 remaining")
		if len(sent) != 1 {
			t.Errorf("sent %v", sent)
		}
		w.want("2", "SELECT count(*) FROM account_config WHERE status = 'FAILED' AND last_error = 'mine' AND attempts = 0")
		w.want("2", "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'released' AND reason = 'moved_on'")
	})
}
