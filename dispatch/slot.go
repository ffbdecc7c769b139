package dispatch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// slots finds the slot that a request is for, moves the gate to it, and decides
// every slot in between.
func (f *firing) slots(ctx context.Context, t dibs.Trigger) error {
	sched := f.r.Job.Schedule
	early := policy.Early(f.r.Job.Early, sched)
	if err := f.clamp(ctx, early); err != nil {
		return err
	}
	slot, asked, err := f.choose(early)
	if err != nil || slot.IsZero() {
		return err
	}
	reference := f.state.Reference
	if reference.Before(oldest()) {
		reference = time.Time{}
	}
	if f.r.Slots == DueSlot && !slot.After(reference) && slot.After(f.state.LastSlot) {
		return nil
	}
	if !slot.After(f.state.LastSlot) {
		return f.decided(ctx, t, slot, early)
	}
	moved, err := f.desk.MoveSlot(ctx, t.Job, slot)
	if err != nil {
		return err
	}
	if !moved {
		return f.decided(ctx, t, slot, early)
	}
	if owner, err := f.desk.Owner(ctx, t.Job, slot, ""); err != nil || owner != nil {
		if err != nil {
			return err
		}
		return f.decided(ctx, t, slot, early) // the gate was put back behind it once
	}
	after := f.state.LastSlot
	if reference.After(after) {
		after = reference
	}
	if sched == nil {
		return f.fireSlots(ctx, t, policy.Misfire{Fire: []time.Time{slot}}, asked)
	}
	if after.IsZero() || !after.Before(slot) {
		after = slot.Add(-time.Microsecond)
	}
	return f.fireSlots(ctx, t, policy.Misfires(sched, f.r.Job.CatchUp, after, slot, f.now, asked), asked)
}

// oldest is before any time that this program can have stored: what is older is
// rubbish and counts as absent.
func oldest() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// choose finds the slot; zero: nothing is to be decided now.
func (f *firing) choose(early time.Duration) (slot time.Time, asked bool, err error) {
	sched := f.r.Job.Schedule
	if f.r.Slots == GivenSlot {
		if f.r.Slot.After(f.now.Add(early)) {
			return slot, true, &dibs.ConfigError{
				Subject: "job " + f.r.Job.Name, Field: "slot",
				Problem: fmt.Sprintf("%s is %s ahead of the database's time %s", f.r.Slot.UTC().Format(time.RFC3339),
					f.r.Slot.Sub(f.now).Round(time.Second), f.now.UTC().Format(time.RFC3339)),
				Fix: "ask when the slot has come, or lengthen early",
			}
		}
		return f.r.Slot.UTC(), true, nil
	}
	if sched == nil {
		return slot, false, &dibs.ConfigError{Subject: "job " + f.r.Job.Name, Field: "schedule", Problem: "the job has none, so no slot is due", Fix: "set schedule, or give the slot"}
	}
	if next, ok := sched.Next(f.now); ok {
		f.out.Next = next
	}
	slot, ok := policy.Latest(sched, f.now)
	if ok {
		return slot, f.r.Slots == LatestSlot, nil
	}
	if f.r.Slots == LatestSlot && f.near(early) {
		f.out.WaitUntil = f.startOf(f.out.Next)
	}
	return time.Time{}, false, nil
}

// near tells whether the next slot is so close that a request is meant for it.
func (f *firing) near(early time.Duration) bool {
	return f.r.Slots == LatestSlot && !f.out.Next.IsZero() && !f.out.Next.After(f.now.Add(early))
}

func (f *firing) startOf(slot time.Time) time.Time {
	return slot.Add(f.r.Job.Schedule.Delay(slot))
}

// clamp puts back a gate or a reference in the future, which would otherwise
// stop the schedule until then.
func (f *firing) clamp(ctx context.Context, early time.Duration) error {
	var said []string
	last, reference := f.state.LastSlot, f.state.Reference
	if last.Before(oldest()) {
		last = time.Time{}
	}
	limit := f.now.Add(early)
	if last.After(limit) {
		said = append(said, fmt.Sprintf("last_slot %s", last.UTC().Format(time.RFC3339)))
		last = f.now
		if s := f.r.Job.Schedule; s != nil {
			if slot, ok := s.Prev(f.now); ok {
				last = slot
			}
		}
	}
	if reference.After(f.now.Add(time.Minute)) {
		said = append(said, fmt.Sprintf("reference %s", reference.UTC().Format(time.RFC3339)))
		reference = f.now
	}
	if len(said) > 0 {
		if err := f.desk.ClampSlot(ctx, f.r.Job.Name, last, reference); err != nil {
			return err
		}
		f.out.Clamped = strings.Join(said, ", ")
	}
	f.state.LastSlot, f.state.Reference = last, reference
	return nil
}

// fireSlots writes the missed ranges and decides the slots that run: the oldest
// by the policy, the others behind it.
func (f *firing) fireSlots(ctx context.Context, t dibs.Trigger, m policy.Misfire, asked bool) error {
	for _, missed := range m.Missed {
		if err := f.missed(ctx, missed); err != nil {
			return err
		}
	}
	if len(m.Fire) == 0 {
		return nil
	}
	fire := m.Fire
	newest := fire[len(fire)-1]
	if o := f.r.Job.Overlap; o == dibs.Coalesce || o == dibs.Replace {
		if err := f.foldOlder(ctx, &t, fire[:len(fire)-1]); err != nil {
			return err
		}
		fire = fire[len(fire)-1:]
	}
	for i, slot := range fire {
		one := t
		if !slot.Equal(newest) || m.Late && !asked {
			one.Origin = dibs.OriginCatchUp
		}
		if i > 0 {
			var err error
			if one, err = f.trigger(one.Origin); err != nil {
				return err
			}
		}
		one.Slot, one.OwnsSlot = slot, true
		if err := f.bringNth(ctx, one, i); err != nil {
			return err
		}
	}
	return nil
}

// bringNth decides the i-th of the slots that passed: the first by the policy;
// those behind a first that runs or waits wait for their turn.
func (f *firing) bringNth(ctx context.Context, t dibs.Trigger, i int) error {
	first := *f.out
	if i == 0 {
		return f.bring(ctx, t)
	}
	defer func() { // the answer is about the first, which runs now
		f.out.Trigger, f.out.Run, f.out.For = first.Trigger, first.Run, first.For
	}()
	switch first.Trigger.Decision {
	case dibs.DecisionStarted, dibs.DecisionWaiting:
		t.Reason = dibs.ReasonCatchUp
		return f.wait(ctx, t)
	}
	t.Decision, t.Reason = first.Trigger.Decision, first.Trigger.Reason
	f.blocked(&t)
	return f.desk.PutTrigger(ctx, t)
}

// foldOlder decides older slots in favour of the newest: one run covers them, or
// replaces them.
func (f *firing) foldOlder(ctx context.Context, t *dibs.Trigger, older []time.Time) error {
	d, why := dibs.DecisionCoalesced, dibs.ReasonFolded
	if f.r.Job.Overlap == dibs.Replace {
		d, why = dibs.DecisionReplaced, dibs.ReasonNewer
	}
	for _, slot := range older {
		row, err := f.trigger(dibs.OriginCatchUp)
		if err != nil {
			return err
		}
		row.Slot, row.OwnsSlot, row.Decision, row.Reason, row.Detail = slot, true, d, why, "covered by "+t.ID
		if err := f.desk.PutTrigger(ctx, row); err != nil {
			return err
		}
	}
	if d == dibs.DecisionCoalesced {
		t.Covered = union(t.Covered, older)
	}
	return nil
}

// missed records a range of slots that do not run, in one row.
func (f *firing) missed(ctx context.Context, m policy.Range) error {
	row, err := f.trigger(dibs.OriginSchedule)
	if err != nil {
		return err
	}
	row.ExternalID = ""
	row.Slot, row.OwnsSlot, row.Missed = m.Last, true, m.Count
	row.Decision, row.Reason = dibs.DecisionMissed, m.Reason
	if m.Count > 1 {
		row.Covered = []time.Time{m.First, m.Last}
	}
	if f.out.Trigger.Decision == "" {
		f.out.Trigger = row
	}
	return f.desk.PutTrigger(ctx, row)
}

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
	if err != nil { // pruned: the decision stands
		return nil, nil
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
	again := spent != nil && spent.State == dibs.RunLost && !f.held() && len(f.waiting) == 0
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
