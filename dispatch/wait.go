package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-run/dibs"
)

// pollEvery is how often a waiter looks whether it was handed the lock; it must
// fit several times into ClaimBy.
const pollEvery = time.Second

// Wait waits, beating, until the trigger of a waiter is decided. The answer has
// a run when the waiter was handed the lock: that run is accepted and runs for
// lease. Otherwise its trigger says why not: replaced, coalesced into a newer
// one, or missed. When ctx ends, the trigger leaves the line and the answer says
// so, with the context's error.
func (d *Dispatcher) Wait(ctx context.Context, t dibs.Trigger, lease time.Duration) (Fired, error) {
	next := time.Now().Add(WaiterLease / 3)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return d.withdraw(ctx, t)
		case <-timer.C:
		}
		var seen dibs.Trigger
		var err error
		if time.Now().After(next) {
			seen, err = d.Beat(ctx, t)
			next = time.Now().Add(WaiterLease / 3)
		} else {
			seen, err = d.runs.Trigger(ctx, t.ID)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			d.log.WarnContext(ctx, "could not look whether the lock is free; asking again", "job", t.Job, "trigger", t.ID, "err", err)
		case err == nil && seen.Decision == dibs.DecisionStarted:
			fired, err := d.accept(ctx, seen, lease)
			if !errors.Is(err, dibs.ErrUnavailable) && !errors.Is(err, dibs.ErrUnanswered) {
				return fired, err
			}
		case err == nil && seen.Decision != dibs.DecisionWaiting:
			return Fired{Trigger: seen}, nil
		}
		timer.Reset(pollEvery/2 + time.Duration(rand.Int64N(int64(pollEvery/2))))
	}
}

// Beat proves that a waiter is alive, and looks after its lock on the way. The
// answer is its trigger as it stands then; if that is started, the waiter has
// [ClaimBy] to accept it.
func (d *Dispatcher) Beat(ctx context.Context, t dibs.Trigger) (dibs.Trigger, error) {
	var seen dibs.Trigger
	err := d.runs.Decide(ctx, t.Lock, func(ctx context.Context, desk dibs.Desk) error {
		s, err := d.sit(ctx, desk, t.Lock, t.ID)
		if err != nil {
			return err
		}
		if seen, err = desk.Trigger(ctx, t.ID); err != nil {
			return err
		}
		if seen.Decision != dibs.DecisionWaiting {
			return nil
		}
		seen.WaiterUntil = s.now.Add(WaiterLease)
		if err := desk.PutTrigger(ctx, seen); err != nil {
			return err
		}
		for i := range s.waiting {
			if s.waiting[i].ID == t.ID {
				s.waiting[i].WaiterUntil = seen.WaiterUntil
			}
		}
		given, err := s.grant(ctx, nil)
		if err == nil && given.run != nil && given.trigger.ID == t.ID {
			seen = given.trigger
		}
		return err
	})
	if err != nil {
		return dibs.Trigger{}, fmt.Errorf("beat of waiter %s: %w", t.ID, err)
	}
	return seen, nil
}

// accept makes the first renewal of the run that a waiter was handed.
func (d *Dispatcher) accept(ctx context.Context, t dibs.Trigger, lease time.Duration) (Fired, error) {
	sent := time.Now()
	run, err := d.runs.Run(ctx, t.RunID)
	if err != nil {
		return Fired{Trigger: t}, err
	}
	renewed, err := d.runs.RenewRun(ctx, run.Ref(), lease)
	if err != nil {
		return Fired{Trigger: t}, err
	}
	if renewed.Run.IsZero() { // too late: somebody has given up on this waiter
		if t, err = d.runs.Trigger(ctx, t.ID); err != nil {
			return Fired{Trigger: t}, err
		}
		return Fired{Trigger: t}, nil
	}
	run.Lease, run.LeaseFor, run.Heartbeat = renewed.Run, lease, renewed.Now
	return Fired{Trigger: t, Run: &run, For: t, Sent: sent, Now: renewed.Now}, nil
}

// withdrawFor bounds the last words of a waiter that has to go.
const withdrawFor = 5 * time.Second

// withdraw takes a waiter's trigger out of the line because its process has to
// go. If it was handed the lock meanwhile, the lock is handed on.
func (d *Dispatcher) withdraw(ctx context.Context, t dibs.Trigger) (Fired, error) {
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawFor)
	defer cancel()
	var seen dibs.Trigger
	err := d.runs.Decide(ctx, t.Lock, func(ctx context.Context, desk dibs.Desk) error {
		var err error
		if seen, err = desk.Trigger(ctx, t.ID); err != nil {
			return err
		}
		switch seen.Decision {
		case dibs.DecisionWaiting:
		case dibs.DecisionStarted:
			run, err := desk.Run(ctx, seen.RunID)
			if err != nil {
				return err
			}
			end := dibs.RunEnd{Run: run.Ref(), State: dibs.RunCancelled, Reason: dibs.ReasonWithdrawn}
			if err := desk.EndRun(ctx, end); err != nil {
				return err
			}
		default:
			return nil
		}
		seen.Decision, seen.Reason = dibs.DecisionMissed, dibs.ReasonWithdrawn
		if err := desk.PutTrigger(ctx, seen); err != nil {
			return err
		}
		s, err := d.sit(ctx, desk, t.Lock, "")
		if err != nil {
			return err
		}
		_, err = s.grant(ctx, nil)
		return err
	})
	if err != nil { // its lease ends by itself
		d.log.WarnContext(ctx, "a waiter could not leave the line", "job", t.Job, "trigger", t.ID, "err", err)
		seen = t
	}
	return Fired{Trigger: seen}, cause
}
