package policy

import (
	"math"
	"time"

	"github.com/dibs-run/dibs"
)

// Row is what the outcome table needs to know of an item and its source.
type Row struct {
	OneShot bool
	// Every is how long after a success the row is due again; 0: at once.
	Every time.Duration
	// NextSlot is the time to the schedule's next slot; 0: no schedule.
	NextSlot time.Duration
	// HasQuarantine is true where the table has a label for it.
	HasQuarantine bool
	// Attempts and Expirations are the row's counts before this outcome.
	Attempts    int
	Expirations int
	Retry       dibs.Retry
}

// Change is the outcome table of docs/architecture.md: what an outcome writes
// on the row of a full table. roll is a random number in [0, 1) for the
// backoff's jitter. text is kept as the row's last error.
func Change(o dibs.Outcome, v dibs.Verdict, r Row, roll float64, text string) dibs.RowChange {
	switch o {
	case dibs.OutcomeCompleted, dibs.OutcomeAlreadyDone:
		return success(r)
	case dibs.OutcomeRejected:
		return rejected(r, roll, text)
	case dibs.OutcomeReleased:
		return dibs.RowChange{Restore: true}
	case dibs.OutcomeHeld:
		return dibs.RowChange{Status: dibs.StatusFailed, Attempts: r.Attempts, Error: text}
	default:
		return failed(v, r, roll, text)
	}
}

func success(r Row) dibs.RowChange {
	if r.OneShot {
		return dibs.RowChange{Status: dibs.StatusDone, Succeeded: true}
	}
	every := max(r.Every, 0)
	return dibs.RowChange{Status: dibs.StatusIdle, DueIn: &every, Succeeded: true}
}

// rejected never comes back for a one-shot row; a recurring row's next action
// is another action, due with its next slot.
func rejected(r Row, roll float64, text string) dibs.RowChange {
	if r.OneShot {
		return quarantined(r, text)
	}
	due := r.NextSlot
	if due <= 0 {
		due = r.Every
	}
	if due <= 0 {
		due = Backoff(r.Retry, r.Attempts+1, roll)
	}
	return dibs.RowChange{Status: dibs.StatusFailed, DueIn: &due, Attempts: r.Attempts + 1, Error: text}
}

func failed(v dibs.Verdict, r Row, roll float64, text string) dibs.RowChange {
	attempts := r.Attempts + 1
	if v.Free {
		attempts = r.Attempts
	}
	budget := r.Retry.MaxAttempts
	if budget == 0 && r.OneShot {
		budget = DefaultMaxAttempts
	}
	if budget > 0 && attempts >= budget {
		c := quarantined(r, text)
		c.Attempts = attempts
		return c
	}
	due := v.After
	if due <= 0 {
		due = Backoff(r.Retry, max(attempts, 1), roll)
	}
	return dibs.RowChange{Status: dibs.StatusFailed, DueIn: &due, Attempts: attempts, Error: text}
}

// quarantined sets the row aside until a person looks; without a label of its
// own it is FAILED and never due.
func quarantined(r Row, text string) dibs.RowChange {
	c := dibs.RowChange{Status: dibs.StatusQuarantined, Attempts: r.Attempts + 1, Expirations: r.Expirations, Error: text}
	if !r.HasQuarantine {
		c.Status = dibs.StatusFailed
	}
	return c
}

// Poison is the change for a row whose lease expired too often in a row.
func Poison(r Row, text string) dibs.RowChange {
	c := quarantined(r, text)
	c.Attempts = r.Attempts
	return c
}

// Poisoned tells whether a row has expired more often in a row than it may.
func Poisoned(expirations int, r dibs.Retry) bool {
	limit := r.MaxExpirations
	if limit == 0 {
		limit = DefaultMaxExpirations
	}
	return expirations > limit
}

// Defaults of [dibs.Retry].
const (
	DefaultMaxAttempts    = 8
	DefaultMaxExpirations = 3
	DefaultMinBackoff     = 30 * time.Second
	DefaultMaxBackoff     = time.Hour
)

// Backoff is the pause after the n-th failed attempt (n from 1): uniformly
// between the smallest pause and min·2ⁿ, at most the largest. The jitter keeps
// rows that failed together from coming back together ("full jitter", M.
// Brooker, Exponential Backoff and Jitter, 2015, with a floor).
func Backoff(r dibs.Retry, n int, roll float64) time.Duration {
	lo, hi := r.Min, r.Max
	if lo <= 0 {
		lo = DefaultMinBackoff
	}
	if hi <= 0 {
		hi = max(DefaultMaxBackoff, lo)
	}
	top := time.Duration(math.Min(float64(hi), float64(lo)*math.Pow(2, float64(n))))
	top = max(top, lo)
	return lo + time.Duration(roll*float64(top-lo))
}
