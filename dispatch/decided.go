package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// decided answers a request for a slot that was decided before, in this order:
// its waiting trigger gets a free lock; a lost run, or items due for a retry,
// get one retry; the next slot, if it is near, is waited for; else it is a
// duplicate.
func (f *firing) decided(ctx context.Context, t dibs.Trigger, slot time.Time, early time.Duration) error {
	owner, err := f.desk.Owner(ctx, t.Job, slot, "")
	if err != nil {
		return err
	}
	if owner != nil && owner.Decision == dibs.DecisionWaiting && !f.held() {
		f.out.Trigger = *owner
		if err := f.pass(ctx); err != nil || f.out.Run != nil {
			return err
		}
		f.out.Trigger = dibs.Trigger{}
	}
	runs, err := f.desk.SlotRuns(ctx, t.Job, slot)
	if err != nil {
		return err
	}
	spent, err := f.spent(ctx, runs, owner)
	if err != nil {
		return err
	}
	again, why, err := f.again(ctx, runs, spent, slot)
	if err != nil {
		return err
	}
	if again {
		t.Origin, t.Slot = dibs.OriginRetry, slot
		if owner != nil {
			t.Covered = owner.Covered
		}
		f.out.First = spent.StartedAt
		if len(runs) > 0 {
			f.out.First = runs[0].StartedAt
		}
		return f.retry(ctx, t, why)
	}
	switch {
	case f.r.Slots == DueSlot:
		return nil
	case f.near(early):
		f.out.WaitUntil = f.startOf(f.out.Next)
		return nil
	}
	return f.duplicate(ctx, t, slot, owner, spent)
}

// spent is the newest run of the slot, or the run that covers it.
func (f *firing) spent(ctx context.Context, runs []dibs.Run, owner *dibs.Trigger) (*dibs.Run, error) {
	if len(runs) > 0 {
		return &runs[len(runs)-1], nil
	}
	if owner == nil || owner.RunID == "" {
		return nil, nil
	}
	run, err := f.desk.Run(ctx, owner.RunID)
	if errors.Is(err, dibs.ErrNotFound) { // pruned: the decision stands
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &run, nil
}

// again tells whether a decided slot may run once more: its run was lost, or
// some of its items are due for a retry.
func (f *firing) again(ctx context.Context, runs []dibs.Run, spent *dibs.Run, slot time.Time) (bool, dibs.Reason, error) {
	if f.held() || len(f.waiting) > 0 || f.state.Paused || f.r.NotHere {
		return false, "", nil
	}
	live, err := f.desk.Live(ctx, f.r.Job.Name)
	if err != nil || len(live) > 0 || spent == nil {
		return false, "", err
	}
	if f.r.Redo != nil {
		return f.r.Redo(*spent), redoReason(*spent), nil
	}
	latest, err := f.desk.SlotRuns(ctx, f.r.Job.Name, time.Time{})
	if err != nil {
		return false, "", err
	}
	newer := len(latest) > 0 && latest[0].Slot.After(slot)
	if spent.State == dibs.RunLost {
		lost := 0
		for _, run := range runs {
			if run.State == dibs.RunLost && run.Reason != dibs.ReasonWaiterGone {
				lost++
			}
		}
		if lost <= f.maxExpirations() && lost > 0 && (!newer || f.r.Job.Overlap == dibs.Queue) {
			return true, dibs.ReasonSlotLost, nil
		}
	}
	return f.r.RetryDue && !newer && spent.State != dibs.RunRunning, dibs.ReasonRetryDue, nil
}

// redoReason is why a run that ended so is followed by another.
func redoReason(spent dibs.Run) dibs.Reason {
	if spent.State == dibs.RunLost {
		return dibs.ReasonSlotLost
	}
	return dibs.ReasonRetryDue
}

func (f *firing) maxExpirations() int {
	if n := f.r.Job.Retry.MaxExpirations; n > 0 {
		return n
	}
	return policy.DefaultMaxExpirations
}

// retry starts a run for what an earlier run of the slot left.
func (f *firing) retry(ctx context.Context, t dibs.Trigger, why dibs.Reason) error {
	t.OwnsSlot = false
	if err := f.bring(ctx, t); err != nil {
		return err
	}
	if f.out.Trigger.Decision != dibs.DecisionStarted {
		return nil
	}
	f.out.Trigger.Reason, f.out.For.Reason = why, why
	return f.desk.PutTrigger(ctx, f.out.Trigger)
}

// retryJob fires one retry of a job, which carries the latest started slot. It
// needs a free lock and an idle job; otherwise nothing is recorded, since the
// run that is in the way takes what is due.
func (f *firing) retryJob(ctx context.Context, t dibs.Trigger) error {
	if f.held() || len(f.waiting) > 0 || f.state.Paused || f.r.NotHere {
		return nil
	}
	live, err := f.desk.Live(ctx, t.Job)
	if err != nil || len(live) > 0 {
		return err
	}
	runs, err := f.desk.SlotRuns(ctx, t.Job, time.Time{})
	if err != nil {
		return err
	}
	if len(runs) > 0 {
		t.Slot, f.out.First = runs[0].Slot, runs[0].StartedAt
		return f.retry(ctx, t, dibs.ReasonRetryDue)
	}
	first, err := f.desk.LastRun(ctx, t.Job, "")
	if err != nil {
		return err
	}
	if first != nil {
		f.out.First = first.StartedAt
	}
	return f.retry(ctx, t, dibs.ReasonRetryDue)
}

// duplicate records that the request came after the decision.
func (f *firing) duplicate(ctx context.Context, t dibs.Trigger, slot time.Time, owner *dibs.Trigger, spent *dibs.Run) error {
	t.Decision, t.Reason, t.Slot, t.OwnsSlot = dibs.DecisionDuplicate, dibs.ReasonSlotSpent, slot, false
	if owner != nil {
		t.Detail = fmt.Sprintf("decided by %s: %s (%s)", owner.ID, owner.Decision, owner.Reason)
	}
	if spent != nil {
		t.BlockingRun, t.BlockingHolder = spent.ID, spent.Holder.String()
		if spent.State == dibs.RunRunning {
			t.BlockingUntil = spent.Lease
		}
	}
	f.out.Trigger, f.out.Spent = t, spent
	return f.desk.PutTrigger(ctx, t)
}

// lostAgain tells whether an identity whose newest run was lost may run once
// more: as often as a slot, so that a request that kills its process ends.
func (f *firing) lostAgain(ctx context.Context, t dibs.Trigger, spent *dibs.Run) (bool, error) {
	if spent == nil || spent.State != dibs.RunLost || f.held() || len(f.waiting) > 0 {
		return false, nil
	}
	list, err := f.desk.Requests(ctx, t.Job, t.ExternalID)
	if err != nil {
		return false, err
	}
	runs := 0 // all were lost: a run that ended is not followed by another
	for _, one := range list {
		if one.Decision == dibs.DecisionStarted {
			runs++
		}
	}
	return runs <= f.maxExpirations(), nil
}

// external decides a request by the caller's own identity of it.
func (f *firing) external(ctx context.Context, t dibs.Trigger) error {
	owner, err := f.desk.Owner(ctx, t.Job, time.Time{}, t.ExternalID)
	if err != nil {
		return err
	}
	if owner == nil {
		t.OwnsSlot = true
		return f.bring(ctx, t)
	}
	spent, err := f.spent(ctx, nil, owner)
	if err != nil {
		return err
	}
	again, err := f.lostAgain(ctx, t, spent)
	if err != nil {
		return err
	}
	if f.r.Redo != nil {
		switch {
		case spent != nil:
			again = spent.State != dibs.RunRunning && f.r.Redo(*spent)
		default: // nothing was run: the first request stood back, or waits
			again = owner.Decision != dibs.DecisionStarted && owner.Decision != dibs.DecisionWaiting
		}
	}
	if !again {
		return f.duplicate(ctx, t, time.Time{}, owner, spent)
	}
	why := dibs.ReasonRetryDue
	if spent != nil {
		f.out.First, why = spent.StartedAt, redoReason(*spent)
	}
	t.Origin = dibs.OriginRetry
	if err := f.retry(ctx, t, why); err != nil || f.out.Run == nil {
		return err
	}
	owner.RunID = f.out.Run.ID // the identity's verdict is this run's from now on
	return f.desk.PutTrigger(ctx, *owner)
}
