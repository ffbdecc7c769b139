package runner

import (
	"time"

	"github.com/dibs-run/dibs"
)

// EventKind says what happened in a run.
type EventKind string

// The kinds of events.
const (
	EventDecided  EventKind = "decided"   // a trigger has its decision
	EventClaimed  EventKind = "claimed"   // a batch was won
	EventTookOver EventKind = "took_over" // of which rows of a dead run
	EventItem     EventKind = "item"      // an item's outcome stands
	EventBatch    EventKind = "batch"     // every item of a batch has an outcome
	EventRenewed  EventKind = "renewed"   // leases were extended
	EventBeatFail EventKind = "beat_failed"
	EventLost     EventKind = "lost" // an item, or the whole run when Key is nil
	EventStopping EventKind = "stopping"
	EventEnded    EventKind = "ended"
)

// Event is something that happened in a run, for progress displays and logs.
type Event struct {
	Kind    EventKind
	Job     string
	Trigger dibs.Trigger // decided
	Run     dibs.Run     // decided (when started) and ended
	Batch   int          // claimed, batch, item: counts from 1
	N       int          // claimed, took_over, renewed: how many rows
	Key     dibs.Key
	WorkID  string
	Outcome dibs.Outcome
	// Counts are the batch's (batch) or the run's (otherwise).
	Counts dibs.Counts
	// DueIn is when a failed item may be claimed again; nil: never by itself.
	DueIn *time.Duration
	// LeaseLeft is the time left by this process's reckoning.
	LeaseLeft time.Duration
	// From is the run that rows were taken from, and Until when its lease ended
	// and Now when they were claimed, by the database's clock.
	From       string
	Until, Now time.Time
	Took       time.Duration
	Reason     dibs.Reason
	Err        string
}
