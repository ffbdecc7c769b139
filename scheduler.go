package dibs

import "time"

// Scheduler yields slots: the instants at which a job is due. Package schedule
// makes one of an expression and a zone. It is pure and safe for concurrent
// use; the distance between two instants makes none of its answers slow.
type Scheduler interface {
	// Next is the first slot after an instant; false when there is none.
	Next(after time.Time) (time.Time, bool)
	// Prev is the last slot at or before an instant; false when there is none.
	Prev(at time.Time) (time.Time, bool)
	// Count is the number of slots after one instant, up to and including
	// another.
	Count(after, upTo time.Time) int64
	// Interval is the smallest regular distance between slots; zero when there is
	// only one slot.
	Interval() time.Duration
	// Delay is the jitter of one slot, the same in every process.
	Delay(slot time.Time) time.Duration
	// String is the schedule's text, for people and for the definition's hash.
	String() string
}

// CatchUpMode says which of the slots that passed unfired still run.
type CatchUpMode string

// The modes of [CatchUp].
const (
	CatchUpNone   CatchUpMode = "none"   // a slot that passed is missed
	CatchUpLatest CatchUpMode = "latest" // the default: one run, for the latest
	CatchUpAll    CatchUpMode = "all"    // one run each, oldest first, one after another
)

// CatchUp says what happens to slots that passed unfired. Whatever is dropped
// is recorded as missed, a range of slots in one row.
type CatchUp struct {
	// Mode: default [CatchUpLatest].
	Mode CatchUpMode
	// Limit is the most slots that [CatchUpAll] runs; the newest are kept.
	// Default 100.
	Limit int
	// Window is the greatest age of a slot that still runs. Zero: no limit, but
	// ten minutes under [CatchUpNone], where it says what still counts as on
	// time.
	Window time.Duration
}
