package dibs

import "context"

// Presence is what a destination says about one business action.
type Presence string

// The answers of a lookup. The zero value is none of them, so that a forgotten
// answer is never taken for an absent action.
const (
	// PresenceFound: the destination has applied the action once.
	PresenceFound Presence = "found"
	// PresenceAbsent: the destination has not applied it, so far.
	PresenceAbsent Presence = "absent"
	// PresenceDuplicate: the destination has applied it more than once.
	PresenceDuplicate Presence = "duplicate"
)

// LookupResult is the answer of a lookup.
type LookupResult struct {
	Presence Presence
	// Receipt is the proof of what was found; of a duplicate, the first one.
	Receipt Receipt
	// IDs are the destination's names of all duplicates, as far as it gave them.
	IDs []string
}

// LookupFunc asks the destination whether it has applied an item, and changes
// nothing there. An error means that it cannot be told: it never settles
// anything. It is called from several goroutines at once.
type LookupFunc func(ctx context.Context, it Item) (LookupResult, error)
