package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// ClaimBy is how long the run of a waiter that was handed the lock may take to
// be accepted by its first renewal.
const ClaimBy = 10 * time.Second

// passOn is how long the slots of a dead waiter wait for the next arrival.
const passOn = 24 * time.Hour

// sitting is one decision: everything that is read and written under one
// written lock row. It is used by one goroutine and dropped with its
// transaction.
type sitting struct {
	*Dispatcher
	desk dibs.Desk
	lock string
	now  time.Time
	// found is the lock's state as this sitting found it; once a run was started or
	// ended the desk's holder says more.
	found policy.Lock
	// previous says how the former holder ended, when it was lost.
	previous string
	// holderGone is true when that was known before its lease ended.
	holderGone bool
	// waiting are the live waiting triggers in their order, and heirless the dead
	// ones whose slots wait for the next arrival.
	waiting  []dibs.Trigger
	heirless []dibs.Trigger
}

// sit opens a decision: whoever lost the lock is marked so, and dead waiters are
// taken out of the line. The waiter named by beating is alive: it is here.
func (d *Dispatcher) sit(ctx context.Context, desk dibs.Desk, lock, beating string) (*sitting, error) {
	s := &sitting{Dispatcher: d, desk: desk, lock: lock, now: desk.Now()}
	holder := desk.Holder()
	s.found = lockState(holder, s.now)
	if err := s.takeFrom(ctx, holder); err != nil {
		return nil, err
	}
	list, err := desk.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range list {
		if t.WaiterUntil.IsZero() || t.WaiterUntil.After(s.now) || t.ID == beating {
			s.waiting = append(s.waiting, t)
			continue
		}
		if err := s.bury(ctx, t); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// takeFrom frees the lock from a holder whose lease has ended, or whose process
// is provably gone.
func (s *sitting) takeFrom(ctx context.Context, holder *dibs.Run) error {
	var lost bool
	var err error
	switch {
	case s.found == policy.Expired:
		lost, err = s.lose(ctx, *holder)
	case (s.found == policy.Live || s.found == policy.Stopping) && s.gone(*holder):
		s.found, s.holderGone = policy.Expired, true
		lost, err = s.markGone(ctx, s.desk, *holder)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if !lost { // its renewal came first: it is alive after all
		return errChanged
	}
	s.previous = "lost:" + holder.ID
	return nil
}

// lockState says what a decision finds.
func lockState(holder *dibs.Run, now time.Time) policy.Lock {
	switch {
	case holder == nil || holder.State != dibs.RunRunning:
		return policy.Free
	case !holder.Lease.After(now):
		return policy.Expired
	case holder.Kind == dibs.KindRecovery:
		return policy.Recovering
	case !holder.StopBy.IsZero():
		return policy.Stopping
	default:
		return policy.Live
	}
}

// held tells whether a running run has the lock now.
func (s *sitting) held() bool {
	h := s.desk.Holder()
	return h != nil && h.State == dibs.RunRunning
}

// bury takes a trigger out of the line whose waiter is dead or whose time is
// over. The slots of a dead waiter that others fold into pass to the next
// arrival for a while.
func (s *sitting) bury(ctx context.Context, t dibs.Trigger) error {
	slots := len(t.Covered) > 0 || !t.Slot.IsZero()
	if !t.Anybody() && t.Folds && slots && s.now.Sub(t.WaiterUntil) < passOn {
		s.heirless = append(s.heirless, t)
		return nil
	}
	t.Decision, t.Reason = dibs.DecisionMissed, dibs.ReasonWaiterGone
	if t.Anybody() {
		t.Reason = dibs.ReasonWindow
	}
	return s.desk.PutTrigger(ctx, t)
}

// lose records a run whose lease has ended. The run of a waiter that never
// accepted it leaves its trigger missed.
func (s *sitting) lose(ctx context.Context, run dibs.Run) (bool, error) {
	reason := dibs.ReasonLeaseEnded
	unaccepted := run.LeaseFor == ClaimBy && run.Heartbeat.Equal(run.StartedAt)
	if unaccepted {
		reason = dibs.ReasonWaiterGone
	}
	done, err := s.desk.MarkLost(ctx, run.Ref(), reason)
	if err != nil || !done {
		return false, err
	}
	s.log.WarnContext(ctx, "run lost", "job", run.Job, "run", run.ID, "holder", run.Holder.String(), "lease_end", run.Lease)
	if !unaccepted {
		return true, nil
	}
	return true, s.missGrant(ctx, run)
}

// missGrant turns the trigger of an unaccepted run into a missed one.
func (s *sitting) missGrant(ctx context.Context, run dibs.Run) error {
	t, err := s.desk.Trigger(ctx, run.Trigger)
	if errors.Is(err, dibs.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.Anybody() {
		return nil
	}
	t.Decision, t.Reason = dibs.DecisionMissed, dibs.ReasonWaiterGone
	return s.desk.PutTrigger(ctx, t)
}

// granted is a run that was given to somebody.
type granted struct {
	run     *dibs.Run
	trigger dibs.Trigger
	// here is true when this process runs it.
	here bool
}

// grant gives a free lock to the head of the line: to its waiter, or to this
// process if anybody may run it and this process may. A head that nobody
// present can run is passed over and keeps its place.
func (s *sitting) grant(ctx context.Context, able Able) (granted, error) {
	if s.held() {
		return granted{}, nil
	}
	line := s.waiting
	s.waiting = nil
	for i, t := range line {
		state, err := s.job(ctx, t.Job)
		if err != nil {
			return granted{}, err
		}
		if state.Paused {
			t.Decision, t.Reason, t.Detail = dibs.DecisionSkipped, dibs.ReasonPaused, state.PausedWhy
			if err := s.desk.PutTrigger(ctx, t); err != nil {
				return granted{}, err
			}
			continue
		}
		w, here, ok := s.executor(t, able, state)
		if !ok {
			s.waiting = append(s.waiting, t)
			continue
		}
		if here && w.Lock != "" && w.Lock != s.lock {
			t.Lock, t.Folds = w.Lock, false
			if err := s.desk.PutTrigger(ctx, t); err != nil {
				return granted{}, err
			}
			continue
		}
		s.waiting = append(s.waiting, line[i+1:]...)
		t.Reason = dibs.ReasonGranted
		run, err := s.start(ctx, &t, w)
		return granted{run: run, trigger: t, here: here}, err
	}
	return granted{}, nil
}

// executor is whoever runs a waiting trigger, if anybody present can.
func (s *sitting) executor(t dibs.Trigger, able Able, state dibs.JobState) (w worker, here, ok bool) {
	if !t.Anybody() {
		holder, err := dibs.ParseHolder(t.Executor)
		if err != nil { // written by hand: nobody will accept it, and it ends by itself
			holder = dibs.Holder{Host: t.Executor}
		}
		return worker{Worker{Hash: state.Definition, Kind: dibs.KindCommand, Lease: ClaimBy}, holder}, false, true
	}
	if able == nil {
		return worker{}, false, false
	}
	mine, ok := able(t)
	return worker{mine, s.holder}, true, ok
}

// worker is a Worker and its process.
type worker struct {
	Worker
	holder dibs.Holder
}

// start starts the run of a trigger and writes both. Every trigger that was
// folded into it learns the run.
func (s *sitting) start(ctx context.Context, t *dibs.Trigger, w worker) (*dibs.Run, error) {
	id, err := dibs.NewRunID()
	if err != nil {
		return nil, err
	}
	t.Decision, t.RunID, t.Folds = dibs.DecisionStarted, id, false
	t.DecidedAt = s.now
	if err := s.desk.PutTrigger(ctx, *t); err != nil {
		return nil, err
	}
	run := &dibs.Run{
		ID: id, Job: t.Job, Trigger: t.ID, Origin: t.Origin, Kind: w.Kind, State: dibs.RunRunning,
		Slot: latestOf(*t), Key: t.Key, Definition: w.Hash, Holder: w.holder, Token: dibs.ClaimToken(id, 0),
		LeaseFor: w.Lease, Previous: s.previous, Recovers: w.Recovers,
	}
	takeLock := !w.Beside && t.Key == ""
	if takeLock {
		run.Lock = s.lock
	}
	if err := s.desk.StartRun(ctx, run, takeLock); err != nil {
		return nil, err
	}
	for _, slot := range t.Covered {
		owner, err := s.desk.Owner(ctx, t.Job, slot, "")
		if err != nil {
			return nil, err
		}
		if owner == nil || owner.ID == t.ID || owner.RunID != "" {
			continue
		}
		owner.RunID = id
		if err := s.desk.PutTrigger(ctx, *owner); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// latestOf is the slot that a trigger runs with: the newest of those it covers.
func latestOf(t dibs.Trigger) time.Time {
	latest := t.Slot
	for _, c := range t.Covered {
		if c.After(latest) {
			latest = c
		}
	}
	return latest
}

// job reads a job's state; one that was never registered has the zero state.
func (s *sitting) job(ctx context.Context, name string) (dibs.JobState, error) {
	state, err := s.desk.Job(ctx, name)
	if errors.Is(err, dibs.ErrNotFound) {
		return dibs.JobState{Name: name}, nil
	}
	return state, err
}

// stop asks the live run to stop and gives it the grace to do so. Its lease is
// cut to the later of that and what one beat and its margin need, so that it
// hears of it before its lease ends; so are those of its items, if clip is there.
func (s *sitting) stop(ctx context.Context, run dibs.Run, grace time.Duration, why dibs.Reason, clip Clip) error {
	stopBy, until := stopTimes(s.now, run.LeaseFor, grace)
	stopped, err := s.desk.StopRun(ctx, run.Ref(), stopBy, until, why)
	if err == nil && stopped && clip != nil {
		err = clip(ctx, s.desk, run.Ref(), until)
	}
	if err != nil {
		return fmt.Errorf("ask run %s to stop: %w", run.ID, err)
	}
	s.log.InfoContext(ctx, "run asked to stop", "job", run.Job, "run", run.ID, "reason", why, "stop_by", stopBy)
	return nil
}

// stopTimes are the end of a run's renewals and the end of its lease.
func stopTimes(now time.Time, lease, grace time.Duration) (stopBy, until time.Time) {
	if grace <= 0 {
		grace = min(10*time.Second, lease/4)
	}
	beat := min(lease/3, 30*time.Second)
	margin := grace + min(2*time.Second, lease/10)
	stopBy, until = now.Add(grace), now.Add(beat+margin)
	if until.Before(stopBy) {
		until = stopBy
	}
	return stopBy, until
}
