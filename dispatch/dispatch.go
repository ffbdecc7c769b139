// Package dispatch decides: it turns a trigger into a decision and, where the
// policy says so, a run; it ends runs, hands their locks over, and sweeps up
// what dead processes left. All of it happens under the written lock row, in
// one transaction per decision, for every door alike.
//
// It must not know how items are claimed or handled, nor how anything is
// stored: it speaks to [dibs.Runs] and asks package policy. Of this module it
// may import the root package, schedule and policy.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// Config makes a Dispatcher.
type Config struct {
	// Runs is where decisions are kept. Required.
	Runs dibs.Runs
	// Holder is this process. Required.
	Holder dibs.Holder
	// Gone tells whether the process that holds a run has provably ended, so that
	// nobody has to wait for the lease. It is asked inside the decision and must
	// be quick. Nil: nothing can be proved.
	Gone func(dibs.Run) bool
	// Log receives what people may want to know; nil: nothing.
	Log *slog.Logger
}

// Dispatcher makes decisions. It is safe for concurrent use and keeps no state
// of its own.
type Dispatcher struct {
	runs   dibs.Runs
	holder dibs.Holder
	gone   func(dibs.Run) bool
	log    *slog.Logger
}

// New returns a Dispatcher.
func New(c Config) *Dispatcher {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	gone := c.Gone
	if gone == nil {
		gone = func(dibs.Run) bool { return false }
	}
	return &Dispatcher{runs: c.Runs, holder: c.Holder, gone: gone, log: log}
}

// Request is a trigger on its way to a decision.
type Request struct {
	// Job is the definition as this process knows it.
	Job *dibs.Job
	// Hash names the definition in history.
	Hash   string
	Origin dibs.Origin
	// Key narrows the trigger to one item.
	Key string
	// ExternalID is the caller's own identity of the request.
	ExternalID string
	Kind       dibs.RunKind
	// Lease is how long the run's first lease lasts.
	Lease   time.Duration
	By, Why string
}

// Fired is a decision and, if it started one, the run.
type Fired struct {
	Trigger dibs.Trigger
	Run     *dibs.Run
}

// LockOf is the name of the lock that a job's triggers are decided under.
func LockOf(j *dibs.Job) string {
	if j.Lock != "" {
		return j.Lock
	}
	return j.Name
}

// Fire decides a trigger. Every trigger that reaches the database leaves a row
// with its decision and reason; a skip names the run that blocks it.
func (d *Dispatcher) Fire(ctx context.Context, r Request) (Fired, error) {
	id, err := dibs.NewTriggerID()
	if err != nil {
		return Fired{}, err
	}
	runID, err := dibs.NewRunID()
	if err != nil {
		return Fired{}, err
	}
	var out Fired
	err = d.runs.Decide(ctx, LockOf(r.Job), func(ctx context.Context, desk dibs.Desk) error {
		out = Fired{Trigger: dibs.Trigger{
			ID: id, Job: r.Job.Name, Origin: r.Origin, ExternalID: r.ExternalID, Key: r.Key,
			By: r.By, Why: r.Why, CreatedAt: desk.Now(), DecidedAt: desk.Now(),
		}}
		return d.decide(ctx, desk, r, runID, &out)
	})
	if err != nil {
		return Fired{}, fmt.Errorf("fire %s: %w", r.Job.Name, err)
	}
	d.log.InfoContext(ctx, "decided", "job", r.Job.Name, "trigger", id, "origin", r.Origin,
		"decision", out.Trigger.Decision, "reason", out.Trigger.Reason, "run", out.Trigger.RunID)
	return out, nil
}

func (d *Dispatcher) decide(ctx context.Context, desk dibs.Desk, r Request, runID string, out *Fired) error {
	state, err := desk.Job(ctx, r.Job.Name)
	if err != nil && !errors.Is(err, dibs.ErrNotFound) {
		return err
	}
	holder := desk.Holder()
	lock := lockState(holder, desk.Now())
	gone := lock == policy.Live && d.gone(*holder)
	if gone {
		lock = policy.Expired
	}
	v := policy.Decide(policy.Situation{
		Overlap: r.Job.Overlap,
		Lock:    lock,
		Paused:  state.Paused,
		OneKey:  r.Key != "",
	})
	previous := ""
	if v.MarkLost {
		end := d.markLost
		if gone {
			end = d.markGone
		}
		lost, err := end(ctx, desk, *holder)
		if err != nil {
			return err
		}
		if gone && v.Reason == dibs.ReasonTookOver {
			v.Reason = dibs.ReasonHolderGone
		}
		if !lost { // its renewal came first: it is alive after all
			return errChanged
		}
		previous = "lost:" + holder.ID
	}
	t := &out.Trigger
	t.Decision, t.Reason = v.Decision, v.Reason
	if v.Decision != dibs.DecisionStarted {
		blockedBy(t, holder, state)
		return desk.PutTrigger(ctx, *t)
	}
	t.RunID = runID
	if err := desk.PutTrigger(ctx, *t); err != nil {
		return err
	}
	run := &dibs.Run{
		ID: runID, Job: r.Job.Name, Trigger: t.ID, Origin: r.Origin, Kind: r.Kind, State: dibs.RunRunning,
		Key: r.Key, Definition: r.Hash, Holder: d.holder, Token: dibs.ClaimToken(runID, 0), LeaseFor: r.Lease,
		Previous: previous,
	}
	if v.TakeLock {
		run.Lock = LockOf(r.Job)
	}
	if err := desk.StartRun(ctx, run, v.TakeLock); err != nil {
		return err
	}
	out.Run = run
	return nil
}

// errChanged repeats a decision whose ground moved while it was made.
var errChanged = changedError{}

type changedError struct{}

func (changedError) Error() string   { return "the lock's run was renewed while deciding" }
func (changedError) Retryable() bool { return true }

// lockState says what a decision finds.
func lockState(holder *dibs.Run, now time.Time) policy.Lock {
	switch {
	case holder == nil || holder.State != dibs.RunRunning:
		return policy.Free
	case !holder.Lease.After(now):
		return policy.Expired
	case holder.Kind == dibs.KindRecovery:
		return policy.Recovering
	default:
		return policy.Live
	}
}

// blockedBy names, on a skipped trigger, what it stood back for.
func blockedBy(t *dibs.Trigger, holder *dibs.Run, state dibs.JobState) {
	if t.Reason == dibs.ReasonPaused {
		t.Detail = state.PausedWhy
		t.BlockingUntil = state.PausedUntil
		return
	}
	if holder == nil {
		return
	}
	t.BlockingRun = holder.ID
	t.BlockingHolder = holder.Holder.String()
	t.BlockingUntil = holder.Lease
}

// Finish ends a run that this process owns and frees its lock, in one
// transaction. [dibs.ErrStaleFence] says that somebody took over: the run's
// record stays as they left it.
func (d *Dispatcher) Finish(ctx context.Context, run dibs.Run, end dibs.RunEnd) error {
	return d.finish(ctx, run, end, nil)
}

// FinishRefused ends a run that was narrowed to one row and could not win it,
// and turns its trigger into a skip that says why.
func (d *Dispatcher) FinishRefused(ctx context.Context, run dibs.Run, end dibs.RunEnd, t dibs.Trigger) error {
	return d.finish(ctx, run, end, &t)
}

func (d *Dispatcher) finish(ctx context.Context, run dibs.Run, end dibs.RunEnd, t *dibs.Trigger) error {
	lock := run.Lock
	if lock == "" {
		lock = run.Job
	}
	err := d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
		if t != nil {
			if err := desk.PutTrigger(ctx, *t); err != nil {
				return err
			}
		}
		return desk.EndRun(ctx, end)
	})
	if err != nil {
		return fmt.Errorf("end run %s: %w", run.ID, err)
	}
	d.log.InfoContext(ctx, "run ended", "job", run.Job, "run", run.ID, "state", end.State, "reason", end.Reason)
	return nil
}

// sweepLimit bounds one sweep, so that a long outage is cleared in bites.
const sweepLimit = 100

// Sweep records as lost every run whose lease has ended, and frees their locks.
// Anybody may sweep at any time.
func (d *Dispatcher) Sweep(ctx context.Context) ([]dibs.Run, error) {
	expired, err := d.runs.ExpiredRuns(ctx, sweepLimit)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var lost []dibs.Run
	for _, run := range expired {
		lock := run.Lock
		if lock == "" {
			lock = run.Job
		}
		var done bool
		err := d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
			var err error
			done, err = d.markLost(ctx, desk, run)
			return err
		})
		if err != nil {
			return lost, fmt.Errorf("sweep run %s: %w", run.ID, err)
		}
		if done {
			lost = append(lost, run)
			d.log.WarnContext(ctx, "run lost", "job", run.Job, "run", run.ID, "holder", run.Holder.String(), "lease_end", run.Lease)
		}
	}
	return lost, nil
}

func (d *Dispatcher) markLost(ctx context.Context, desk dibs.Desk, run dibs.Run) (bool, error) {
	done, err := desk.MarkLost(ctx, run.Ref(), dibs.ReasonLeaseEnded)
	if err != nil {
		return false, fmt.Errorf("mark run %s lost: %w", run.ID, err)
	}
	return done, nil
}
