package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// WaiterLease is how long a waiter is believed to be alive without a beat.
const WaiterLease = 30 * time.Second

// DefaultQueueLimit is [dibs.Job.QueueLimit]'s default.
const DefaultQueueLimit = 10

// fire decides a request.
func (s *sitting) fire(ctx context.Context, r Request) (Fired, error) {
	out := Fired{Now: s.now}
	state, err := s.job(ctx, r.Job.Name)
	if err != nil {
		return out, err
	}
	f := &firing{sitting: s, r: r, out: &out}
	f.state, out.Registered = state, state.Definition
	t, err := f.trigger(r.Origin)
	if err != nil {
		return out, err
	}
	switch {
	case r.Slots != NoSlot:
		err = f.slots(ctx, t)
	case r.ExternalID != "":
		err = f.external(ctx, t)
	case r.Origin == dibs.OriginRetry:
		err = f.retryJob(ctx, t)
	default:
		err = f.bring(ctx, t)
	}
	if err != nil || out.Run != nil {
		return out, err
	}
	return out, f.pass(ctx)
}

// firing is one request being decided.
type firing struct {
	*sitting
	r     Request
	state dibs.JobState
	out   *Fired
}

// trigger makes the row of a request.
func (f *firing) trigger(origin dibs.Origin) (dibs.Trigger, error) {
	id, err := dibs.NewTriggerID()
	return dibs.Trigger{
		ID: id, Job: f.r.Job.Name, Lock: f.lock, Origin: origin, ExternalID: f.r.ExternalID, Key: f.r.Key,
		By: f.r.By, Why: f.r.Why, CreatedAt: f.now,
	}, err
}

// pass gives the lock, if it is still free, to the head of the line. The skip of
// a newcomer then names the run that went first.
func (f *firing) pass(ctx context.Context) error {
	given, err := f.grant(ctx, f.r.Able)
	if err != nil || given.run == nil {
		return err
	}
	if given.here {
		f.out.Run, f.out.For = given.run, given.trigger
	}
	switch {
	case given.trigger.ID == f.out.Trigger.ID:
		f.out.Trigger = given.trigger
	case f.out.Trigger.Reason == dibs.ReasonWaitersLeft && f.out.Trigger.Decision == dibs.DecisionSkipped:
		f.blocked(&f.out.Trigger)
		return f.desk.PutTrigger(ctx, f.out.Trigger)
	}
	return nil
}

// bring decides one trigger by the policy and writes what follows.
func (f *firing) bring(ctx context.Context, t dibs.Trigger) error {
	v, own, err := f.verdict(ctx, t)
	if err != nil {
		return err
	}
	t.Decision, t.Reason = v.Decision, v.Reason
	if f.holderGone && t.Reason == dibs.ReasonTookOver {
		t.Reason = dibs.ReasonHolderGone
	}
	switch {
	case v.Fold:
		return f.fold(ctx, t, own[len(own)-1])
	case v.Decision == dibs.DecisionStarted:
		if err := f.inherit(ctx, &t); err != nil {
			return err
		}
		w := worker{Worker{Hash: f.r.Hash, Kind: f.r.Kind, Lease: f.r.Lease, Beside: !v.TakeLock}, f.holder}
		run, err := f.start(ctx, &t, w)
		f.out.Trigger, f.out.Run, f.out.For = t, run, t
		return err
	case v.Decision == dibs.DecisionWaiting:
		if v.Supersede {
			if err := f.supersede(ctx, &t, own); err != nil {
				return err
			}
		}
		if h := f.desk.Holder(); v.Stop && h != nil && h.Job == t.Job && h.Kind != dibs.KindReconcile {
			if err := f.stop(ctx, *h, f.r.Job.Grace, dibs.ReasonReplaced, f.r.Clip); err != nil {
				return err
			}
		}
		return f.wait(ctx, t)
	}
	f.blocked(&t)
	f.out.Trigger = t
	return f.desk.PutTrigger(ctx, t)
}

// verdict asks the policy, and then what this request says of itself.
func (f *firing) verdict(ctx context.Context, t dibs.Trigger) (policy.Verdict, []dibs.Trigger, error) {
	overlap := f.r.Job.Overlap
	if f.r.Kind == dibs.KindRecovery {
		overlap = dibs.Skip
	}
	own := f.own(overlap)
	waiters := policy.None
	switch {
	case len(own) > 0:
		waiters = policy.Own
	case len(f.waiting) > 0:
		waiters = policy.Others
	}
	v := policy.Decide(policy.Situation{
		Overlap: overlap, Lock: f.lockNow(), Waiters: waiters, Paused: f.state.Paused, OneKey: t.Key != "" && !f.r.Enqueue,
	})
	if v.Reason == dibs.ReasonPaused {
		return v, own, nil
	}
	recent, err := f.tooSoon(ctx, t)
	if err != nil {
		return v, own, err
	}
	if recent {
		return policy.Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonNotWithin}, nil, nil
	}
	switch {
	case f.r.Enqueue && !v.Fold && !v.Supersede:
		v = policy.Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonEnqueued}
	case f.r.NotHere && v.Decision == dibs.DecisionStarted:
		v = policy.Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonNoHost}
	}
	if v.Decision == dibs.DecisionWaiting && overlap == dibs.Queue && f.queueFull() {
		v = policy.Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonQueueFull}
	}
	return v, own, nil
}

// lockNow is the lock's state, which changes while several triggers are decided
// in one sitting. A lock taken from a dead run is still told from a free one.
func (f *firing) lockNow() policy.Lock {
	if !f.held() && f.found == policy.Expired && f.out.Run == nil {
		return policy.Expired
	}
	return lockState(f.desk.Holder(), f.now)
}

// tooSoon tells whether the job succeeded less than not_within ago. A person, a
// retry and a recovery mean what they say.
func (f *firing) tooSoon(ctx context.Context, t dibs.Trigger) (bool, error) {
	switch t.Origin {
	case dibs.OriginManual, dibs.OriginRetry, dibs.OriginRecovery:
		return false, nil
	}
	if f.r.Job.NotWithin <= 0 {
		return false, nil
	}
	last, err := f.desk.LastRun(ctx, t.Job, dibs.RunSucceeded)
	if err != nil || last == nil {
		return false, err
	}
	return f.now.Sub(last.EndedAt) < f.r.Job.NotWithin, nil
}

// own lists the waiting triggers of this job and kind of executor that the
// policy may fold this one into or replace.
func (f *firing) own(overlap dibs.Overlap) (list []dibs.Trigger) {
	for _, t := range f.waiting {
		if t.Job != f.r.Job.Name || t.Anybody() == f.r.Waiter || t.Key != "" {
			continue
		}
		if overlap == dibs.Coalesce && !t.Folds {
			continue
		}
		list = append(list, t)
	}
	return list
}

func (f *firing) queueFull() bool {
	limit := f.r.Job.QueueLimit
	if limit <= 0 {
		limit = DefaultQueueLimit
	}
	n := 0
	for _, t := range f.waiting {
		if t.Job == f.r.Job.Name {
			n++
		}
	}
	return n >= limit
}

// wait puts the trigger into the line.
func (f *firing) wait(ctx context.Context, t dibs.Trigger) error {
	t.Decision = dibs.DecisionWaiting
	t.Executor = dibs.ExecutorAny
	if f.r.Waiter {
		t.Executor, t.WaiterUntil = f.holder.String(), f.now.Add(WaiterLease)
	} else if w := f.r.Job.CatchUp.Window; w > 0 && !t.Slot.IsZero() {
		t.WaiterUntil = later(t.Slot.Add(w), f.now.Add(ClaimBy))
	}
	t.Folds = f.r.Job.Overlap == dibs.Coalesce && t.Key == "" && len(f.own(dibs.Coalesce)) == 0
	if err := f.inherit(ctx, &t); err != nil {
		return err
	}
	f.blocked(&t)
	f.waiting = append(f.waiting, t)
	f.out.Trigger = t
	return f.desk.PutTrigger(ctx, t)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fold makes one trigger of this and the one that waits. Of waiters the newest
// is the executor, in the former's place; of anybody's triggers the one that
// waits stays.
func (f *firing) fold(ctx context.Context, t, old dibs.Trigger) error {
	if !f.r.Waiter {
		old.Covered = union(old.Covered, slotsOf(t))
		t.Detail = "covered by " + old.ID
		f.replaceWaiting(old.ID, &old)
		f.out.Trigger = t
		return errors.Join(f.desk.PutTrigger(ctx, old), f.desk.PutTrigger(ctx, t))
	}
	if err := f.leave(ctx, old, t.ID, dibs.DecisionCoalesced, dibs.ReasonFolded, "covered by "); err != nil {
		return err
	}
	t.Covered, t.WaitingSince = union(t.Covered, slotsOf(old)), place(old)
	t.Reason = dibs.ReasonRunning
	return f.wait(ctx, t)
}

// supersede takes the place of the triggers that wait.
func (f *firing) supersede(ctx context.Context, t *dibs.Trigger, own []dibs.Trigger) error {
	t.WaitingSince = place(own[0])
	for _, old := range own {
		if err := f.leave(ctx, old, t.ID, dibs.DecisionReplaced, dibs.ReasonNewer, "replaced by "); err != nil {
			return err
		}
	}
	return nil
}

// leave takes a trigger out of the line in favour of another.
func (f *firing) leave(ctx context.Context, old dibs.Trigger, by string, d dibs.Decision, why dibs.Reason, detail string) error {
	old.Decision, old.Reason, old.Detail, old.DecidedAt = d, why, detail+by, f.now
	f.replaceWaiting(old.ID, nil)
	return f.desk.PutTrigger(ctx, old)
}

// inherit takes over the slots of dead waiters of the same job.
func (f *firing) inherit(ctx context.Context, t *dibs.Trigger) error {
	rest := f.heirless[:0]
	for _, dead := range f.heirless {
		if dead.Job != t.Job || !f.r.Waiter {
			rest = append(rest, dead)
			continue
		}
		t.Covered = union(t.Covered, slotsOf(dead))
		dead.Decision, dead.Reason, dead.Detail = dibs.DecisionCoalesced, dibs.ReasonWaiterGone, "covered by "+t.ID
		if err := f.desk.PutTrigger(ctx, dead); err != nil {
			return err
		}
	}
	f.heirless = rest
	return nil
}

func (f *firing) replaceWaiting(id string, with *dibs.Trigger) {
	var kept []dibs.Trigger
	for _, t := range f.waiting {
		switch {
		case t.ID != id:
			kept = append(kept, t)
		case with != nil:
			kept = append(kept, *with)
		}
	}
	f.waiting = kept
}

// place is where a trigger stands in the line.
func place(t dibs.Trigger) time.Time {
	if !t.WaitingSince.IsZero() {
		return t.WaitingSince
	}
	return t.CreatedAt
}

// slotsOf lists the slots that a trigger stands for.
func slotsOf(t dibs.Trigger) []time.Time {
	if t.Slot.IsZero() {
		return t.Covered
	}
	return union(t.Covered, []time.Time{t.Slot})
}

// union adds what is not there yet.
func union(a, b []time.Time) []time.Time {
	out := append([]time.Time(nil), a...)
	for _, one := range b {
		known := false
		for _, have := range out {
			known = known || have.Equal(one)
		}
		if !known {
			out = append(out, one)
		}
	}
	return out
}

// blocked names, on a trigger that was not started, what it stood back for.
func (f *firing) blocked(t *dibs.Trigger) {
	if t.Reason == dibs.ReasonPaused {
		t.Detail = f.state.PausedWhy
		t.BlockingUntil = f.state.PausedUntil
		return
	}
	holder := f.desk.Holder()
	if holder == nil || t.Reason == dibs.ReasonNotWithin {
		return
	}
	t.BlockingRun = holder.ID
	t.BlockingHolder = holder.Holder.String()
	t.BlockingUntil = holder.Lease
}
