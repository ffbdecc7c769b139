package runner

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// task is one request in this process: its own trigger, and the runs that this
// process works on the way.
type task struct {
	r      *Runner
	ask    Ask
	job    *job
	report dibs.Report
}

// follow works what was fired, then what waits for anybody under the same lock,
// and then waits itself if it was asked to.
func (t *task) follow(ctx context.Context, fired dispatch.Fired) error {
	if t.ask.Waiter && fired.Trigger.Decision == dibs.DecisionWaiting && fired.Run == nil {
		var err error
		if fired, err = t.r.dispatch.Wait(ctx, fired.Trigger, t.job.timing.lease); err != nil {
			t.report.Trigger = fired.Trigger
			return err
		}
		t.report.Trigger = fired.Trigger
	}
	if t.ask.Due && fired.Run == nil {
		var err error
		if fired, err = t.r.dispatch.Pump(ctx, dispatch.LockOf(&t.job.Job), t.r.able(ctx)); err != nil {
			return err
		}
		if fired.Run != nil && t.report.Trigger.Decision == "" { // nothing of its own was due
			t.report.Trigger = fired.Trigger
		}
	}
	if err := t.work(ctx, fired); err != nil || t.ask.Wait == 0 {
		return err
	}
	return t.standBy(ctx)
}

// work works a run and whatever this process continues with. Only the request's
// own run decides the answer; what went wrong with others is in their records.
func (t *task) work(ctx context.Context, fired dispatch.Fired) error {
	var own error
	for next := &fired; next != nil && next.Run != nil; {
		report, then, err := t.r.workFired(ctx, *next, t.ask)
		if next.For.ID == t.report.Trigger.ID {
			spent, slot := t.report.Spent, t.report.Next
			t.report, own = report, err
			t.report.Spent, t.report.Next = spent, slot
		} else if err != nil {
			t.r.log.WarnContext(ctx, "a run that was continued with ended badly", "job", next.For.Job, "run", next.Run.ID, "err", err)
		}
		next = then
	}
	return own
}

// workFired works a run of whichever job it is of.
func (r *Runner) workFired(ctx context.Context, fired dispatch.Fired, a Ask) (dibs.Report, *dispatch.Fired, error) {
	j, err := r.lookup(fired.For.Job)
	if err != nil {
		return dibs.Report{}, nil, err
	}
	claims, err := r.open(ctx, j)
	if err != nil {
		end := dibs.RunEnd{Run: fired.Run.Ref(), State: dibs.RunFailed, Reason: dibs.ReasonError, Error: err.Error()}
		return dibs.Report{Trigger: fired.For}, nil, errors.Join(err, r.dispatch.Finish(ctx, *fired.Run, end))
	}
	if fired.For.Key != a.Key {
		a.Key = fired.For.Key
	}
	if fired.For.Job != a.Job {
		a.Limit = 0
	}
	return r.work(ctx, j, claims, fired, a)
}

// lookEvery is how often a process that stands by looks.
const lookEvery = time.Second

// standBy waits for the request's run while another process has it, and takes
// the work over when that process dies.
func (t *task) standBy(ctx context.Context) error {
	var end <-chan time.Time
	if t.ask.Wait > 0 {
		timer := time.NewTimer(t.ask.Wait)
		defer timer.Stop()
		end = timer.C
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		over, err := t.look(ctx)
		if over || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-end:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look sees whether the request's run has ended. A waiting trigger is run here
// once its turn has come; a lost run's slot is asked for again.
func (t *task) look(ctx context.Context) (over bool, err error) {
	r := t.r
	trigger := t.report.Trigger
	if t.report.Run != nil || trigger.Decision == "" {
		return true, nil
	}
	if trigger.Decision == dibs.DecisionWaiting {
		fired, err := r.dispatch.Pump(ctx, dispatch.LockOf(&t.job.Job), r.able(ctx))
		if err != nil {
			return false, err
		}
		if err := t.work(ctx, fired); err != nil || t.report.Run != nil {
			return true, err
		}
		if trigger, err = r.store.Trigger(ctx, trigger.ID); err != nil {
			return false, err
		}
		t.report.Trigger = trigger
	}
	id := trigger.RunID
	if trigger.Decision == dibs.DecisionDuplicate {
		id = trigger.BlockingRun
	}
	if id == "" {
		return trigger.Decision != dibs.DecisionWaiting, nil
	}
	if _, err := r.dispatch.Sweep(ctx); err != nil {
		return false, err
	}
	run, err := r.store.Run(ctx, id)
	if err != nil || run.State == dibs.RunRunning {
		return false, err
	}
	t.report.Spent = &run
	if run.State != dibs.RunLost || trigger.Slot.IsZero() {
		return true, nil
	}
	return t.takeOver(ctx, trigger.Slot)
}

// takeOver asks again for the slot of a run that was lost.
func (t *task) takeOver(ctx context.Context, slot time.Time) (bool, error) {
	claims, err := t.r.open(ctx, t.job)
	if err != nil {
		return false, err
	}
	again := t.ask
	again.Slot = slot
	fired, err := t.r.fire(ctx, t.job, claims, again)
	if err != nil {
		return false, err
	}
	t.report = dibs.Report{Trigger: fired.Trigger, Spent: fired.Spent}
	if fired.Run == nil {
		return fired.Spent == nil || fired.Spent.State != dibs.RunRunning, nil
	}
	return true, t.work(ctx, fired)
}
