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
	if over := f.state.PausedUntil; !f.state.Paused && over.After(reference) {
		reference = over // the pause ended by itself, which is unpausing too
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
