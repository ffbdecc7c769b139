package dibs

import "time"

// Origin says where a trigger came from.
type Origin string

// The origins of a trigger.
const (
	OriginSchedule Origin = "schedule" // a slot of the job's schedule
	OriginCatchUp  Origin = "catchup"  // a slot that passed unfired
	OriginExternal Origin = "external" // an outside scheduler; no slot
	OriginManual   Origin = "manual"   // a person
	OriginAPI      Origin = "api"      // a program
	OriginRetry    Origin = "retry"    // failed or expired items of an earlier run
	OriginRecovery Origin = "recovery" // a bounded replay on purpose
)

// Decision is what became of a trigger.
type Decision string

// The decisions; every trigger ends in one, with a reason.
const (
	DecisionStarted   Decision = "started"
	DecisionSkipped   Decision = "skipped"
	DecisionWaiting   Decision = "waiting"
	DecisionCoalesced Decision = "coalesced"
	DecisionReplaced  Decision = "replaced"
	DecisionDuplicate Decision = "duplicate"
	DecisionMissed    Decision = "missed"
)

// Reason says why a decision or an end is what it is.
type Reason string

// Reasons of decisions, refusals and ends.
const (
	ReasonFree        Reason = "lock_free"     // started: nobody had the lock
	ReasonAllowed     Reason = "overlap_allow" // started: items exclude one another
	ReasonTookOver    Reason = "took_over"     // started: the former run's lease had ended
	ReasonKey         Reason = "one_key"       // started: narrowed to one row, no lock needed
	ReasonRunning     Reason = "running"       // skipped: a live run has the lock
	ReasonPaused      Reason = "paused"
	ReasonRecovery    Reason = "recovery"
	ReasonSlotSpent   Reason = "slot_spent"
	ReasonWaiterGone  Reason = "waiter_gone"
	ReasonHolderGone  Reason = "holder_gone"
	ReasonQueueFull   Reason = "queue_full"
	ReasonReplaced    Reason = "replaced"
	ReasonNobody      Reason = "nobody_here_can_run_it"
	ReasonLeaseEnded  Reason = "lease_ended"
	ReasonLeaseLost   Reason = "lease_lost"
	ReasonStopped     Reason = "stopped"
	ReasonMaxItems    Reason = "max_items"
	ReasonMaxDuration Reason = "max_duration"
	ReasonStopBy      Reason = "stop_by"
	ReasonDestination Reason = "destination_down"
	ReasonDatabase    Reason = "database_unavailable"
	ReasonError       Reason = "error"
	ReasonWaitersLeft Reason = "waiters_first"  // others have waited for the lock since before
	ReasonGranted     Reason = "granted"        // started: the lock came free for the oldest waiting trigger
	ReasonFolded      Reason = "folded"         // coalesced: a waiting trigger covers it
	ReasonNewer       Reason = "newer_trigger"  // replaced: a newer trigger waits in its place
	ReasonCatchUp     Reason = "catch_up"       // missed by the catch-up mode, or waiting because of it
	ReasonWindow      Reason = "window_passed"  // missed: too old by the catch-up window
	ReasonLimit       Reason = "catch_up_limit" // missed: more slots passed than the limit lets run
	ReasonSlotLost    Reason = "slot_lost"      // started: the run that had the slot was lost
	ReasonRetryDue    Reason = "retry_due"      // started: failed or expired items are due again
	ReasonNotWithin   Reason = "not_within"     // skipped: the last success is too recent
	ReasonNoHost      Reason = "run_on"         // waiting: no host that may run it was there
	ReasonEnqueued    Reason = "enqueued"       // waiting: it was asked to
	ReasonCancelled   Reason = "cancelled"      // a person cancelled the run
	ReasonDead        Reason = "declared_dead"  // lost: a person said that its process is gone
	ReasonWithdrawn   Reason = "withdrawn"      // missed: the waiter left by itself
	ReasonRetired     Reason = "retired"        // missed: the job is no longer defined

	// Reasons for which one row is refused.
	ReasonInProgress  Reason = "in_progress"
	ReasonFiltered    Reason = "filtered"
	ReasonAbsent      Reason = "absent"
	ReasonDone        Reason = "done"
	ReasonQuarantined Reason = "quarantined"
	ReasonHeld        Reason = "held"
	// ReasonClaimRefused is of an item: the database refused the claim itself.
	ReasonClaimRefused Reason = "claim_refused"
	ReasonLocked       Reason = "locked"
)

// Trigger is a request that a job run, and what was decided about it.
type Trigger struct {
	ID  string `json:"id"`
	Job string `json:"job"`
	// Lock is the lock that it is decided under. Default: the desk's, else the
	// job's name.
	Lock   string `json:"lock,omitempty"`
	Origin Origin `json:"origin"`
	// Slot is the instant of the schedule, in UTC; zero when there is none.
	Slot time.Time `json:"slot,omitzero"`
	// ExternalID is the caller's own identity of the request (--trigger-id).
	ExternalID string `json:"trigger_id,omitempty"`
	// Key narrows the trigger to one item.
	Key string `json:"key,omitempty"`

	Decision Decision `json:"decision"`
	Reason   Reason   `json:"reason"`
	// Detail is for people: what the reason refers to.
	Detail string `json:"detail,omitempty"`
	// RunID is the run that the trigger started.
	RunID string `json:"run,omitempty"`
	// Blocking names the run that a skip stood back for, its holder and the end
	// of its lease as read then.
	BlockingRun    string    `json:"blocking_run,omitempty"`
	BlockingHolder string    `json:"blocking_holder,omitempty"`
	BlockingUntil  time.Time `json:"blocking_until,omitzero"`
	// Covered lists the slots that a waiting or started trigger stands for beside
	// its own. A missed range has the first and the last.
	Covered []time.Time `json:"covered_slots,omitempty"`
	// Missed is, on a row that stands for a range of missed slots, their number.
	Missed int64 `json:"missed,omitempty"`
	// OwnsSlot is true only on the row that decided the slot or, without a slot,
	// the ExternalID.
	OwnsSlot bool `json:"owns_slot,omitempty"`
	// Executor of a waiting trigger: [ExecutorAny], or a waiter's holder.
	Executor string `json:"executor,omitempty"`
	// WaiterUntil is the end of a waiter's own lease; for anybody's trigger, until
	// when it may wait (zero: for ever).
	WaiterUntil time.Time `json:"waiter_until,omitzero"`
	// WaitingSince is the place in the line, when it is not CreatedAt: who takes
	// over another's place is served when the other would have been.
	WaitingSince time.Time `json:"waiting_since,omitzero"`
	// Folds is true on a waiting trigger that later ones of its job fold into.
	Folds bool `json:"folds,omitempty"`

	By        string    `json:"by,omitempty"`
	Why       string    `json:"why,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
}

// ExecutorAny marks a waiting trigger that whoever is free and may run the job
// runs.
const ExecutorAny = "any"

// Anybody tells whether a waiting trigger may be run by whoever comes.
func (t Trigger) Anybody() bool { return t.Executor == "" || t.Executor == ExecutorAny }
