// Package dispatch decides triggers, hands locks over, ends runs, and sweeps up
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

// Slots says which slot of the job's schedule a request is for.
type Slots int

// The kinds of requests.
const (
	// NoSlot: the request has no slot; it never spends one.
	NoSlot Slots = iota
	// GivenSlot: Request.Slot, whatever the schedule says.
	GivenSlot
	// LatestSlot: "my scheduler says now": the latest slot, also one from before
	// registration.
	LatestSlot
	// DueSlot: what is due since registration, if anything.
	DueSlot
)

// Request is a trigger on its way to a decision.
type Request struct {
	// Job is the definition as this process knows it.
	Job *dibs.Job
	// Hash names the definition in history.
	Hash   string
	Origin dibs.Origin
	// Slots says which slot is asked for; Slot is the one that is given.
	Slots Slots
	Slot  time.Time
	// ExternalID is the caller's own identity of the request: a second one with
	// the same is a duplicate.
	ExternalID string
	// Redo tells whether a slot or an identity whose newest run ended so may run
	// again. Nil: only after a run that was lost.
	Redo func(spent dibs.Run) bool
	// Key narrows the trigger to one item.
	Key  string
	Kind dibs.RunKind
	// Lease is how long the run's first lease lasts.
	Lease   time.Duration
	By, Why string

	// Waiter makes this process the executor if the trigger has to wait: it must
	// then beat, see [Dispatcher.Wait]. Otherwise anybody may run the trigger.
	Waiter bool
	// Enqueue leaves the trigger waiting for anybody even if it could start.
	Enqueue bool
	// NotHere is true when this host may not run the job: a slot then waits for
	// one that may.
	NotHere bool
	// RetryDue is true when failed or expired items of the job are due, so that a
	// decided slot may run again for them alone.
	RetryDue bool
	// Able says how this process would run a waiting trigger, if it may. Nil: it
	// runs nothing but this request.
	Able Able
	// Clip cuts the leases of what a run of this job has in hand, when the run is
	// asked to stop. Nil: the job's runs have nothing in hand.
	Clip Clip
}

// Clip cuts, inside a decision, the leases of a run's items to until at the
// latest.
type Clip func(ctx context.Context, desk dibs.Desk, r dibs.RunRef, until time.Time) error

// Worker is how a process runs a trigger of a job that it has.
type Worker struct {
	Hash  string
	Kind  dibs.RunKind
	Lease time.Duration
	// Lock is the lock of the trigger's job. A trigger that stands in another line,
	// left by somebody who did not know, is moved there. Empty: it stands right.
	Lock string
	// Beside is true for a job that takes no lock.
	Beside bool
	// Recovers is what the run repairs, if it does.
	Recovers string
}

// Able says how this process would run a waiting trigger; false: it may not.
type Able func(t dibs.Trigger) (Worker, bool)

// Fired is a decision and, if this process has something to run, the run.
type Fired struct {
	// Trigger is the one that was brought. Its decision is empty when nothing was
	// due: nothing is recorded then, and Next is the next slot, if any.
	Trigger dibs.Trigger
	// Run is what this process runs now, and For the trigger that the run is of:
	// an older one when that went first.
	Run *dibs.Run
	For dibs.Trigger
	// Sent is the instant before the lease of Run was asked for, and Now the
	// database's time when it was granted.
	Sent, Now time.Time
	// First is, for a retry, when the first run for the same slot began: what was
	// started since is left alone unless it failed.
	First time.Time
	// Spent is, for a duplicate, the newest run of the slot or identity.
	Spent *dibs.Run
	// WaitUntil is set when nothing was decided because the next slot is so near
	// that the request must be meant for it.
	WaitUntil time.Time
	Next      time.Time
	// Registered is the hash of the job's definition as it is registered, if it is.
	Registered string
	// Clamped says which stored times lay in the future and were put back.
	Clamped string
}

// LockOf is the name of the lock that a job's triggers are decided under.
func LockOf(j *dibs.Job) string {
	if j.Lock != "" {
		return j.Lock
	}
	return j.Name
}

// lockOfRun is the lock that a run is ended under: the one that it has, or the
// one that its trigger was decided under.
func (d *Dispatcher) lockOfRun(ctx context.Context, r dibs.Run) (string, error) {
	if r.Lock != "" {
		return r.Lock, nil
	}
	t, err := d.runs.Trigger(ctx, r.Trigger)
	switch {
	case err == nil && t.Lock != "":
		return t.Lock, nil
	case err != nil && !errors.Is(err, dibs.ErrNotFound):
		return "", fmt.Errorf("lock of run %s: %w", r.ID, err)
	}
	return r.Job, nil
}

// Fire decides a trigger. Every trigger that reaches the database leaves a row
// with its decision and reason; a skip names the run that blocks it. If the
// lock is free afterwards, it goes to whoever has waited longest.
func (d *Dispatcher) Fire(ctx context.Context, r Request) (Fired, error) {
	var out Fired
	lock := LockOf(r.Job)
	sent := time.Now()
	err := d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
		s, err := d.sit(ctx, desk, lock, "")
		if err != nil {
			return err
		}
		out, err = s.fire(ctx, r)
		return err
	})
	if err != nil {
		return Fired{}, fmt.Errorf("fire %s: %w", r.Job.Name, err)
	}
	out.Sent = sent
	if out.Clamped != "" {
		d.log.WarnContext(ctx, "a stored time lay in the future and was put back", "job", r.Job.Name, "what", out.Clamped)
	}
	if t := out.Trigger; t.Decision != "" {
		d.log.InfoContext(ctx, "decided", "job", t.Job, "trigger", t.ID, "origin", t.Origin,
			"decision", t.Decision, "reason", t.Reason, "run", t.RunID)
	}
	return out, nil
}

// errChanged repeats a decision whose ground moved while it was made.
var errChanged = changedError{}

type changedError struct{}

func (changedError) Error() string   { return "the lock's run was renewed while deciding" }
func (changedError) Retryable() bool { return true }
