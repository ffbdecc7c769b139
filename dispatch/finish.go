package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// Finish is the end of a run that this process owns.
type Finish struct {
	Run dibs.Run
	End dibs.RunEnd
	// Lock is the lock of the run's job. Default: the run's, else its trigger's.
	Lock string
	// Trigger, if set, is written instead of the run's own trigger: a run that was
	// narrowed to one row and could not win it was a skip.
	Trigger *dibs.Trigger
	// Able says how this process continues with a waiting trigger, if it has
	// budget left. Nil: it does not.
	Able Able
}

// Finished is how a run ended, and what this process does next.
type Finished struct {
	End dibs.RunEnd
	// Next is a run that was started for this process, or nil.
	Next *Fired
}

// Finish ends a run and hands its lock on, without continuing here. See
// [Dispatcher.End].
func (d *Dispatcher) Finish(ctx context.Context, run dibs.Run, end dibs.RunEnd) error {
	_, err := d.End(ctx, Finish{Run: run, End: end})
	return err
}

// End ends a run, frees its lock and grants it to the head of the line, in
// one transaction. [dibs.ErrStaleFence] says that somebody took over: the run's
// record stays as they left it.
func (d *Dispatcher) End(ctx context.Context, f Finish) (Finished, error) {
	lock := f.Lock
	if lock == "" {
		var err error
		if lock, err = d.lockOfRun(ctx, f.Run); err != nil {
			return Finished{End: f.End}, err
		}
	}
	var out Finished
	sent := time.Now()
	err := d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
		out = Finished{End: f.End}
		if f.Trigger != nil {
			if err := desk.PutTrigger(ctx, *f.Trigger); err != nil {
				return err
			}
		}
		run, err := desk.Run(ctx, f.Run.ID)
		if err != nil {
			return err
		}
		if out.End.Reason == dibs.ReasonStopBy && run.Reason != "" { // why it was asked to
			out.End.Reason = run.Reason
		}
		if err := desk.EndRun(ctx, out.End); err != nil {
			return err
		}
		s, err := d.sit(ctx, desk, lock, "")
		if err != nil {
			return err
		}
		given, err := s.grant(ctx, f.Able)
		if given.here {
			out.Next = &Fired{Trigger: given.trigger, Run: given.run, For: given.trigger, Sent: sent, Now: s.now}
		}
		return err
	})
	if err != nil {
		return Finished{End: f.End}, fmt.Errorf("end run %s: %w", f.Run.ID, err)
	}
	d.log.InfoContext(ctx, "run ended", "job", f.Run.Job, "run", f.Run.ID, "state", out.End.State, "reason", out.End.Reason)
	return out, nil
}

// Bounds of one sweep, so that a long outage is cleared in bites.
const (
	sweepLimit = 100
	locksLimit = 1000
)

// Sweep records as lost every run whose lease has ended, and hands their locks
// on to whoever waits. Anybody may sweep at any time.
func (d *Dispatcher) Sweep(ctx context.Context) ([]dibs.Run, error) {
	expired, err := d.runs.ExpiredRuns(ctx, sweepLimit)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var lost []dibs.Run
	for _, run := range expired {
		var done bool
		lock, err := d.lockOfRun(ctx, run)
		if err != nil {
			return lost, fmt.Errorf("sweep: %w", err)
		}
		err = d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
			before := desk.Holder()
			s, err := d.sit(ctx, desk, lock, "")
			if err != nil {
				return err
			}
			if done = before != nil && before.ID == run.ID && s.previous != ""; !done {
				if done, err = s.lose(ctx, run); err != nil {
					return err
				}
			}
			_, err = s.grant(ctx, nil)
			return err
		})
		if err != nil {
			return lost, fmt.Errorf("sweep run %s: %w", run.ID, err)
		}
		if done {
			lost = append(lost, run)
		}
	}
	return lost, nil
}

// WaitingLocks lists the locks with waiting triggers, for [Dispatcher.Pump].
func (d *Dispatcher) WaitingLocks(ctx context.Context) ([]string, error) {
	return d.runs.WaitingLocks(ctx, locksLimit)
}

// Pump looks after one lock: dead waiters leave the line, and a free lock goes to
// its head, which this process runs if it may. The answer's Run is nil when
// there is nothing for this process to do.
func (d *Dispatcher) Pump(ctx context.Context, lock string, able Able) (Fired, error) {
	var out Fired
	sent := time.Now()
	err := d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
		out = Fired{}
		s, err := d.sit(ctx, desk, lock, "")
		if err != nil {
			return err
		}
		given, err := s.grant(ctx, able)
		if given.here {
			out = Fired{Trigger: given.trigger, Run: given.run, For: given.trigger, Sent: sent, Now: s.now}
		}
		return err
	})
	if err != nil {
		return Fired{}, fmt.Errorf("look after lock %s: %w", lock, err)
	}
	return out, nil
}

// Cancel is a person's order about a running run.
type Cancel struct {
	Run string
	// Dead says that the run's process is known to be gone: it is lost at once.
	// Otherwise it is asked to stop, and has Grace to do so (zero: the default).
	Dead  bool
	Grace time.Duration
	// Act is recorded with it.
	Act dibs.AuditRecord
}

// ErrEnded is returned when a run that was to be cancelled has ended already.
var ErrEnded = errors.New("the run has ended already")

// Cancel stops a run, or declares it dead and hands its lock on. The answer is
// the run as it was found; [ErrEnded] when there is nothing left to cancel.
func (d *Dispatcher) Cancel(ctx context.Context, c Cancel) (dibs.Run, error) {
	run, err := d.runs.Run(ctx, c.Run)
	if err != nil {
		return run, err
	}
	lock, err := d.lockOfRun(ctx, run)
	if err != nil {
		return run, err
	}
	err = d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
		if run, err = desk.Run(ctx, c.Run); err != nil {
			return err
		}
		if run.State != dibs.RunRunning {
			return fmt.Errorf("%w: %s", ErrEnded, run.State)
		}
		if err := desk.Audit(ctx, c.Act); err != nil {
			return err
		}
		if !c.Dead {
			s := &sitting{Dispatcher: d, desk: desk, lock: lock, now: desk.Now()}
			return s.stop(ctx, run, c.Grace, dibs.ReasonCancelled, nil)
		}
		if _, err := desk.MarkDead(ctx, run.Ref()); err != nil {
			return err
		}
		s, err := d.sit(ctx, desk, lock, "")
		if err != nil {
			return err
		}
		_, err = s.grant(ctx, nil)
		return err
	})
	if err != nil {
		return run, fmt.Errorf("cancel run %s: %w", c.Run, err)
	}
	return run, nil
}
