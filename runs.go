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
	Trigger(ctx context.Context, id string) (Trigger, error)
	// ListRuns lists runs without their Output, which can be long; Run has it.
	ListRuns(ctx context.Context, f RunFilter) ([]Run, error)
	ListTriggers(ctx context.Context, f TriggerFilter) ([]Trigger, error)
	ListOutcomes(ctx context.Context, f OutcomeFilter) ([]OutcomeRecord, error)
	// AddTrigger inserts a waiting trigger that anybody may execute.
	AddTrigger(ctx context.Context, t Trigger) error
	// Audit records a human act.
	Audit(ctx context.Context, a AuditRecord) error
	ListAudit(ctx context.Context, limit int) ([]AuditRecord, error)
	// WaitingLocks lists locks with waiting triggers, those that have waited
	// longest first.
	WaitingLocks(ctx context.Context, limit int) ([]string, error)
	// SetPaused pauses a job until an instant, or unpauses it when until is zero;
	// unpausing re-anchors its schedule. The act is recorded with it.
	// [ErrNotFound]: the job was never registered.
	SetPaused(ctx context.Context, job string, until time.Time, act AuditRecord) error
	// RetireJob records that a job is not defined any more, until it is
	// registered again. A job that is not there is none.
	RetireJob(ctx context.Context, name string) error
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
	// Requests lists the triggers that carry the caller's own identity, owner or
	// not, newest first, up to a bound.
	Requests(ctx context.Context, job, externalID string) ([]Trigger, error)
	// Live lists the running runs of a job whose lease has not ended, also those
	// without the lock.
	Live(ctx context.Context, job string) ([]Run, error)
	// Run reads one run, locked; [ErrNotFound] when there is none.
	Run(ctx context.Context, id string) (Run, error)
	// Trigger reads one trigger; [ErrNotFound] when there is none.
	Trigger(ctx context.Context, id string) (Trigger, error)
	// SlotRuns lists the runs for a slot of a job, oldest first. A zero slot means
	// the latest slot for which a run was started.
	SlotRuns(ctx context.Context, job string, slot time.Time) ([]Run, error)
	// LastRun is the job's newest run in a state; nil: there is none. An empty
	// state means any run but a retry.
	LastRun(ctx context.Context, job string, state RunState) (*Run, error)
	// MoveSlot moves the job's gate forward to a slot. False: it is there or
	// further already, and somebody else decides, or has decided, the slot.
	MoveSlot(ctx context.Context, job string, slot time.Time) (bool, error)
	// ClampSlot puts back a gate and a reference that lie in the future, as after
	// a correction of the clock.
	ClampSlot(ctx context.Context, job string, lastSlot, reference time.Time) error
	// StopRun asks a running run to stop: it may not be renewed past stopBy, and
	// its lease ends at until at the latest. False: it is not running any more.
	StopRun(ctx context.Context, r RunRef, stopBy, until time.Time, why Reason) (bool, error)
	// MarkDead ends a running run as lost although its lease has not ended: a
	// person says that its process is gone.
	MarkDead(ctx context.Context, r RunRef) (bool, error)
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
	// RetiredAt is when a server found the job gone from its definitions; zero
	// while somebody defines it.
	RetiredAt time.Time `json:"retired_at,omitzero"`
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
	// From and To bound the slot or, without one, when the trigger came,
	// half-open; zero: no bound.
	From, To time.Time
	Limit    int
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
