package dibs

import (
	"context"
	"time"
)

// Runs keeps triggers, locks, runs and what they left behind.
type Runs interface {
	// Register upserts jobs by name and keeps their definitions by hash.
	Register(ctx context.Context, jobs []JobRecord) error
	// Decide runs fn in one transaction of our own whose first statement writes
	// the lock's row; the live run is then read FOR UPDATE, and only then the
	// time. fn may run again when the transaction had to be repeated.
	Decide(ctx context.Context, lock string, fn func(context.Context, Desk) error) error
	// RenewRun extends a run without items, on the reserved connection.
	RenewRun(ctx context.Context, r RunRef, lease time.Duration) (Renewed, error)
	// SetProgress is the fenced checkpoint by itself; [ErrStaleFence] when the
	// run is no longer this token's.
	SetProgress(ctx context.Context, r RunRef, p Progress) error
	// ExpiredRuns lists running runs whose lease has ended, oldest first.
	ExpiredRuns(ctx context.Context, limit int) ([]Run, error)
	// FoldOutcomes counts the outcomes on record for a run, to finish the sum of
	// one that was lost.
	FoldOutcomes(ctx context.Context, run string) (Counts, error)

	Job(ctx context.Context, name string) (JobState, error)
	Jobs(ctx context.Context) ([]JobState, error)
	Run(ctx context.Context, id string) (Run, error)
	ListRuns(ctx context.Context, f RunFilter) ([]Run, error)
	ListTriggers(ctx context.Context, f TriggerFilter) ([]Trigger, error)
	ListOutcomes(ctx context.Context, f OutcomeFilter) ([]OutcomeRecord, error)
	// AddTrigger inserts a waiting trigger that anybody may execute.
	AddTrigger(ctx context.Context, t Trigger) error
	// Audit records a human act.
	Audit(ctx context.Context, a AuditRecord) error
	ListAudit(ctx context.Context, limit int) ([]AuditRecord, error)
	// Now is the database's time.
	Now(ctx context.Context) (time.Time, error)
}

// Desk is the decision being made: everything under the written lock row. It
// is valid only inside the function it was given to.
type Desk interface {
	// Now is the database's time, taken after the lock and its run were read.
	Now() time.Time
	// Holder is the run that has the lock, in any state, or nil. Its lease may
	// have ended.
	Holder() *Run
	// Job reads the job's state; [ErrNotFound] when it was never registered.
	Job(ctx context.Context, name string) (JobState, error)
	// Waiting lists the lock's waiting triggers, oldest first.
	Waiting(ctx context.Context) ([]Trigger, error)
	// Owner is the trigger that decided a slot of a job or, when slot is zero, the
	// external ID; nil when nobody has decided it.
	Owner(ctx context.Context, job string, slot time.Time, externalID string) (*Trigger, error)
	// Live lists the running runs of a job whose lease has not ended, also those
	// without the lock.
	Live(ctx context.Context, job string) ([]Run, error)
	// PutTrigger inserts the trigger, or updates the one with its ID. It returns
	// [ErrSlotTaken] when another trigger owns the slot (or, without a slot, the
	// external ID); the decision may then go on.
	PutTrigger(ctx context.Context, t Trigger) error
	// StartRun inserts a running run with the lease LeaseFor and, if takeLock,
	// makes it the lock's, which fails with [ErrLockTaken] until a running holder
	// was ended or marked lost. It fills the run's times.
	StartRun(ctx context.Context, r *Run, takeLock bool) error
	// EndRun ends a running run that carries this token and frees its lock. It
	// returns [ErrStaleFence] when the run is not running or not this token's.
	EndRun(ctx context.Context, e RunEnd) error
	// MarkLost ends a running run whose lease has ended, repeating the whole
	// condition (running, that token, lease end passed) as it writes, and frees
	// its lock. False: a renewal or an end came first.
	MarkLost(ctx context.Context, r RunRef, reason Reason) (bool, error)
	// Audit records a human act in the same transaction.
	Audit(ctx context.Context, a AuditRecord) error
}

// RunEnd is how a run ended.
type RunEnd struct {
	Run      RunRef
	State    RunState
	Reason   Reason
	Counts   Counts
	ExitCode *int
	Error    string
	Output   string
}

// JobRecord registers a job.
type JobRecord struct {
	Name string
	// Hash names the definition, Text is the definition.
	Hash string
	Text string
}

// JobState is what the database knows of a job.
type JobState struct {
	Name        string    `json:"name"`
	Definition  string    `json:"definition"`
	PausedUntil time.Time `json:"paused_until,omitzero"`
	// Paused is true now, by the database's clock.
	Paused    bool      `json:"paused,omitempty"`
	PausedWhy string    `json:"paused_why,omitempty"`
	PausedBy  string    `json:"paused_by,omitempty"`
	LastSlot  time.Time `json:"last_slot,omitzero"`
	Reference time.Time `json:"reference,omitzero"`
}

// RunFilter selects runs, newest first.
type RunFilter struct {
	Job    string
	State  RunState
	Suffix string // of the run's id
	Limit  int
}

// TriggerFilter selects triggers, newest first.
type TriggerFilter struct {
	Job      string
	Decision Decision
	Run      string
	Blocking string
	// Slot and ExternalID find the triggers of one request, owner or not.
	Slot       time.Time
	ExternalID string
	Suffix     string
	Limit      int
}

// OutcomeFilter selects outcomes, newest first.
type OutcomeFilter struct {
	Run     string
	Job     string
	Key     string
	WorkID  string
	Outcome Outcome
	Limit   int
}

// AuditRecord is one human act: who, what, before, after, why.
type AuditRecord struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	What   string    `json:"what"`
	Job    string    `json:"job,omitempty"`
	Object string    `json:"object,omitempty"`
	Before string    `json:"before,omitempty"`
	After  string    `json:"after,omitempty"`
	Why    string    `json:"why,omitempty"`
}
