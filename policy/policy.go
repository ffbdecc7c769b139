// Package policy answers two questions as pure functions: what becomes of a
// trigger that meets a lock in a given state, and what an item's outcome writes
// on its row.
//
// It must not know contexts, stores, goroutines or clocks: what it needs is
// handed in, so that every answer can be tabled in a test. Of this module it
// may import the root package and schedule.
package policy

import "github.com/dibs-run/dibs"

// Lock is the state of a lock as a decision finds it.
type Lock int

// The states of a lock.
const (
	// Free: no run has it.
	Free Lock = iota
	// Live: a run has it and its lease is ahead.
	Live
	// Expired: a run has it and its lease has ended.
	Expired
	// Recovering: a live recovery run has it.
	Recovering
)

// String names the state as the decision table prints it.
func (l Lock) String() string {
	return [...]string{"free", "live", "expired", "recovering"}[l]
}

// Situation is what a trigger meets.
type Situation struct {
	Overlap dibs.Overlap
	Lock    Lock
	// Paused is true while a person has paused the job.
	Paused bool
	// OneKey is true for a trigger narrowed to one row: it takes no lock, since
	// it must win the row.
	OneKey bool
}

// Verdict is the decision and what goes with it.
type Verdict struct {
	Decision dibs.Decision
	Reason   dibs.Reason
	// TakeLock makes the new run the lock's.
	TakeLock bool
	// MarkLost ends the former run as lost first.
	MarkLost bool
}

// rule is one line of the decision table.
type rule struct {
	overlap dibs.Overlap
	lock    Lock
	verdict Verdict
}

// table is every combination of policy and lock. docs/policies.md shows the
// same table; a test compares them.
func table() []rule {
	started, skipped := dibs.DecisionStarted, dibs.DecisionSkipped
	return []rule{
		{dibs.Skip, Free, Verdict{started, dibs.ReasonFree, true, false}},
		{dibs.Skip, Live, Verdict{skipped, dibs.ReasonRunning, false, false}},
		{dibs.Skip, Expired, Verdict{started, dibs.ReasonTookOver, true, true}},
		{dibs.Skip, Recovering, Verdict{skipped, dibs.ReasonRecovery, false, false}},

		{dibs.Allow, Free, Verdict{started, dibs.ReasonAllowed, false, false}},
		{dibs.Allow, Live, Verdict{started, dibs.ReasonAllowed, false, false}},
		{dibs.Allow, Expired, Verdict{started, dibs.ReasonAllowed, false, true}},
		{dibs.Allow, Recovering, Verdict{skipped, dibs.ReasonRecovery, false, false}},
	}
}

// Supports tells whether the policy is one that this version decides.
func Supports(o dibs.Overlap) bool {
	for _, r := range table() {
		if r.overlap == o {
			return true
		}
	}
	return false
}

// Decide looks the situation up. A pause comes before the lock; a trigger
// narrowed to one row comes before the policy, but not before a recovery.
func Decide(s Situation) Verdict {
	if s.Paused {
		return Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonPaused}
	}
	if s.OneKey {
		if s.Lock == Recovering {
			return Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonRecovery}
		}
		return Verdict{Decision: dibs.DecisionStarted, Reason: dibs.ReasonKey, MarkLost: s.Lock == Expired}
	}
	for _, r := range table() {
		if r.overlap == s.Overlap && r.lock == s.Lock {
			return r.verdict
		}
	}
	return Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonNobody}
}
