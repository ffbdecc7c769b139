// Package policy answers three questions as pure functions: what becomes of a
// trigger that meets a lock in a given state, which of the slots that passed
// unfired still run, and what an item's outcome writes on its row.
//
// It must not know contexts, stores, goroutines or clocks: what it needs is
// handed in, so that every answer can be tabled in a test. Of this module it
// may import the root package and schedule.
package policy

import (
	"slices"

	"github.com/dibs-run/dibs"
)

// Lock is the state of a lock as a decision finds it.
type Lock int

// The states of a lock.
const (
	// Free: no run has it.
	Free Lock = iota
	// Live: a run has it and its lease is ahead.
	Live
	// Stopping: a live run has it that was asked to stop.
	Stopping
	// Expired: a run has it and its lease has ended.
	Expired
	// Recovering: a live recovery run has it.
	Recovering
)

// String names the state as the decision table prints it.
func (l Lock) String() string {
	return [...]string{"free", "live", "stopping", "expired", "recovering"}[l]
}

// Waiters says who waits for the lock already.
type Waiters int

// Who may be waiting.
const (
	// None: nobody.
	None Waiters = iota
	// Others: triggers that this one has nothing to do with.
	Others
	// Own: among them one of the same job and kind of executor, which this
	// trigger may fold into or replace.
	Own
)

// String names it as the decision table prints it.
func (w Waiters) String() string { return [...]string{"none", "others", "own"}[w] }

// Situation is what a trigger meets.
type Situation struct {
	Overlap dibs.Overlap
	Lock    Lock
	Waiters Waiters
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
	// Stop asks the live run, if it is of the same job, to stop.
	Stop bool
	// Fold makes one trigger of this and the one that waits: the newer executor
	// runs, for all slots.
	Fold bool
	// Supersede turns the trigger that waits into a replaced one.
	Supersede bool
}

// rule is one line of the decision table: it holds for each of the locks and
// each of the waiters it names.
type rule struct {
	overlap dibs.Overlap
	locks   []Lock
	waiters []Waiters
	verdict Verdict
}

// table is every combination of policy, lock and waiters. docs/policies.md
// shows the same table; a test compares them.
func table() []rule {
	var (
		none, others, own = []Waiters{None}, []Waiters{Others}, []Waiters{Own}
		noneOthers        = []Waiters{None, Others}
		some              = []Waiters{Others, Own}
		whoever           = []Waiters{None, Others, Own}
		free, live        = []Lock{Free}, []Lock{Live}
		stopping, expired = []Lock{Stopping}, []Lock{Expired}
		recovering        = []Lock{Recovering}
		held              = []Lock{Live, Stopping}
		unexpired         = []Lock{Free, Live, Stopping, Recovering}

		start     = Verdict{Decision: dibs.DecisionStarted, Reason: dibs.ReasonFree, TakeLock: true}
		takeOver  = Verdict{Decision: dibs.DecisionStarted, Reason: dibs.ReasonTookOver, TakeLock: true, MarkLost: true}
		beside    = Verdict{Decision: dibs.DecisionStarted, Reason: dibs.ReasonAllowed}
		besideOld = Verdict{Decision: dibs.DecisionStarted, Reason: dibs.ReasonAllowed, MarkLost: true}

		skip         = Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonRunning}
		skipRecovery = Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonRecovery}
		skipWaiters  = Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonWaitersLeft}
		skipExpired  = Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonWaitersLeft, MarkLost: true}

		wait         = Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonRunning}
		waitRecovery = Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonRecovery}
		waitTurn     = Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonWaitersLeft}
		waitExpired  = Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonWaitersLeft, MarkLost: true}
		waitStop     = Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonRunning, Stop: true}

		fold        = Verdict{Decision: dibs.DecisionCoalesced, Reason: dibs.ReasonFolded, Fold: true}
		foldExpired = Verdict{Decision: dibs.DecisionCoalesced, Reason: dibs.ReasonFolded, Fold: true, MarkLost: true}

		newest        = Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonNewer, Supersede: true}
		newestStop    = Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonNewer, Supersede: true, Stop: true}
		newestExpired = Verdict{Decision: dibs.DecisionWaiting, Reason: dibs.ReasonNewer, Supersede: true, MarkLost: true}
	)
	return []rule{
		{dibs.Skip, free, none, start},
		{dibs.Skip, free, some, skipWaiters},
		{dibs.Skip, held, whoever, skip},
		{dibs.Skip, expired, none, takeOver},
		{dibs.Skip, expired, some, skipExpired},
		{dibs.Skip, recovering, whoever, skipRecovery},

		{dibs.Queue, free, none, start},
		{dibs.Queue, free, some, waitTurn},
		{dibs.Queue, held, whoever, wait},
		{dibs.Queue, expired, none, takeOver},
		{dibs.Queue, expired, some, waitExpired},
		{dibs.Queue, recovering, whoever, waitRecovery},

		{dibs.Coalesce, free, none, start},
		{dibs.Coalesce, free, others, waitTurn},
		{dibs.Coalesce, held, noneOthers, wait},
		{dibs.Coalesce, expired, none, takeOver},
		{dibs.Coalesce, expired, others, waitExpired},
		{dibs.Coalesce, recovering, noneOthers, waitRecovery},
		{dibs.Coalesce, unexpired, own, fold},
		{dibs.Coalesce, expired, own, foldExpired},

		{dibs.Replace, free, none, start},
		{dibs.Replace, free, others, waitTurn},
		{dibs.Replace, live, noneOthers, waitStop},
		{dibs.Replace, stopping, noneOthers, wait},
		{dibs.Replace, expired, none, takeOver},
		{dibs.Replace, expired, others, waitExpired},
		{dibs.Replace, recovering, noneOthers, waitRecovery},
		{dibs.Replace, []Lock{Free, Stopping, Recovering}, own, newest},
		{dibs.Replace, live, own, newestStop},
		{dibs.Replace, expired, own, newestExpired},

		{dibs.Allow, []Lock{Free, Live, Stopping}, whoever, beside},
		{dibs.Allow, expired, whoever, besideOld},
		{dibs.Allow, recovering, whoever, skipRecovery},
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
		if r.overlap == s.Overlap && slices.Contains(r.locks, s.Lock) && slices.Contains(r.waiters, s.Waiters) {
			return r.verdict
		}
	}
	return Verdict{Decision: dibs.DecisionSkipped, Reason: dibs.ReasonNobody}
}
