package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs"
)

// ending is what became of a selected item: the first that applies, in this
// order.
type ending string

const (
	endGone        ending = "gone"        // its row is not there, or is another action's by now
	endBusy        ending = "busy"        // somebody has it in hand
	endDoneBefore  ending = "done before" // done by an earlier or another run
	endFoundLate   ending = "found late"  // this recovery's lookup found it done
	endDoneNow     ending = "done now"
	endUncertain   ending = "uncertain"
	endHeld        ending = "held"
	endQuarantined ending = "quarantined"
	endRejected    ending = "rejected" // by this recovery's attempt
	endFailed      ending = "failed"   // by this recovery's attempt
	endRemaining   ending = "remaining"
)

// RecoverySum is what became of every selected item: Selected is the sum of the
// others.
type RecoverySum struct {
	Selected    int `json:"selected"`
	Gone        int `json:"gone"`
	Busy        int `json:"busy"`
	DoneBefore  int `json:"done_before"`
	FoundLate   int `json:"found_late"`
	DoneNow     int `json:"done_now"`
	Uncertain   int `json:"uncertain"`
	Held        int `json:"held"`
	Quarantined int `json:"quarantined"`
	Rejected    int `json:"rejected"`
	Failed      int `json:"failed"`
	Remaining   int `json:"remaining"`
}

// field is where an ending is counted.
func (s *RecoverySum) field(e ending) *int {
	switch e {
	case endGone:
		return &s.Gone
	case endBusy:
		return &s.Busy
	case endDoneBefore:
		return &s.DoneBefore
	case endFoundLate:
		return &s.FoundLate
	case endDoneNow:
		return &s.DoneNow
	case endUncertain:
		return &s.Uncertain
	case endHeld:
		return &s.Held
	case endQuarantined:
		return &s.Quarantined
	case endRejected:
		return &s.Rejected
	case endFailed:
		return &s.Failed
	}
	return &s.Remaining
}

// parts lists the sum's terms in order.
func (s RecoverySum) parts() []struct {
	End ending
	N   int
} {
	var out []struct {
		End ending
		N   int
	}
	for _, e := range []ending{endGone, endBusy, endDoneBefore, endFoundLate, endDoneNow, endUncertain, endHeld, endQuarantined, endRejected, endFailed, endRemaining} {
		out = append(out, struct {
			End ending
			N   int
		}{e, *s.field(e)})
	}
	return out
}

// Balanced tells whether every selected item was counted once.
func (s RecoverySum) Balanced() bool {
	n := 0
	for _, p := range s.parts() {
		n += p.N
	}
	return n == s.Selected
}

// String writes the sum, leaving out what is zero except what is done and what
// remains.
func (s RecoverySum) String() string {
	var parts []string
	for _, p := range s.parts() {
		if p.N != 0 || p.End == endDoneNow || p.End == endRemaining {
			parts = append(parts, fmt.Sprintf("%d %s", p.N, p.End))
		}
	}
	return fmt.Sprintf("%d selected = %s", s.Selected, strings.Join(parts, " + "))
}

// census looks at the rows, effects and outcomes of selected items.
type census struct {
	r      *Runner
	job    *job
	claims dibs.Claims
	runs   []string // the recovery's own
}

// take finds what became of each item, in order.
func (c *census) take(ctx context.Context, items []planned) ([]ending, error) {
	ends := make([]ending, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i, p := range items {
		group.Go(func() (err error) {
			ends[i], err = c.end(ctx, p)
			return err
		})
	}
	return ends, group.Wait()
}

// sum counts what became of all items, and those of them that the plan could
// still send.
func (c *census) sum(ctx context.Context, items []planned) (s RecoverySum, open int, err error) {
	ends, err := c.take(ctx, items)
	s.Selected = len(items)
	for i, e := range ends {
		*s.field(e)++
		if items[i].send() && (e == endBusy || e == endUncertain || e == endRemaining) {
			open++
		}
	}
	return s, open, err
}

func (c *census) end(ctx context.Context, p planned) (ending, error) {
	key, err := dibs.ParseKey(p.Key, len(c.job.table.KeyColumns()))
	if err != nil || p.Work == "" {
		return endGone, nil //nolint:nilerr // of a table with another key, once; or of a row that is not there to name it
	}
	row, err := c.claims.Look(ctx, key)
	switch {
	case errors.Is(err, dibs.ErrNotFound):
		return endGone, nil
	case err != nil:
		return "", fmt.Errorf("look at %s: %w", p.Key, err)
	}
	var e dibs.Effect
	if c.job.ledger {
		if e, err = c.r.store.Effect(ctx, p.Work); err != nil && !errors.Is(err, dibs.ErrNotFound) {
			return "", err
		}
	}
	if c.inHand(row) || e.Live() {
		return endBusy, nil
	}
	outcomes, err := c.r.store.ListOutcomes(ctx, dibs.OutcomeFilter{WorkID: p.Work, Limit: lookedOutcomes})
	if err != nil {
		return "", err
	}
	if done := c.done(row, e, outcomes, p); done != "" {
		return done, nil
	}
	return c.open(row, e, outcomes), nil
}

// lookedOutcomes is how far back an action's history is read.
const lookedOutcomes = 200

// inHand tells whether a live claim has the row.
func (c *census) inHand(row dibs.Row) bool {
	if row.Status != dibs.StatusInProgress {
		return false
	}
	if c.claims.TwoColumn() {
		return row.StartedAt.Add(c.job.timing.lease).After(row.Now)
	}
	return row.ClaimableAt.IsZero() || row.ClaimableAt.After(row.Now)
}

// done says by whom an action was done, or that its row can do it no more;
// empty: neither.
func (c *census) done(row dibs.Row, e dibs.Effect, outcomes []dibs.OutcomeRecord, p planned) ending {
	for _, o := range outcomes {
		if o.Late || o.Outcome != dibs.OutcomeCompleted && o.Outcome != dibs.OutcomeAlreadyDone {
			continue
		}
		switch {
		case !slices.Contains(c.runs, o.RunID):
			return endDoneBefore
		case o.Reason == dibs.ReasonFoundLate:
			return endFoundLate
		case o.Outcome == dibs.OutcomeCompleted:
			return endDoneNow
		}
		return endDoneBefore
	}
	switch {
	case e.State == dibs.EffectConfirmed, row.Status == dibs.StatusDone:
		return endDoneBefore
	case !c.job.fixed():
		return ""
	}
	work, err := c.job.workOf(row, time.Time{}, "")
	switch {
	case err == nil && work == p.Work:
		return ""
	case err == nil && c.job.identity.Has("cycle") && !c.job.identity.Versioned() && row.Cycle != 0:
		return endDoneBefore // a cycle moves only by success
	}
	return endGone
}

// open says where an action stands that is not done.
func (c *census) open(row dibs.Row, e dibs.Effect, outcomes []dibs.OutcomeRecord) ending {
	switch {
	case e.State == dibs.EffectUncertain, e.State == dibs.EffectIntended:
		return endUncertain
	case e.State == dibs.EffectHeld:
		return endHeld
	case row.Status == dibs.StatusQuarantined:
		return endQuarantined
	case row.Status == dibs.StatusFailed && row.ClaimableAt.IsZero() && !c.claims.TwoColumn():
		return endQuarantined // where the table has no label of its own for it
	}
	newest := slices.IndexFunc(outcomes, func(o dibs.OutcomeRecord) bool { return !o.Late && slices.Contains(c.runs, o.RunID) })
	switch {
	case newest < 0:
	case outcomes[newest].Outcome == dibs.OutcomeRejected:
		return endRejected
	case outcomes[newest].Outcome == dibs.OutcomeFailed:
		return endFailed
	}
	return endRemaining
}

// workOf names the action that a row is at.
func (j *job) workOf(row dibs.Row, slot time.Time, trigger string) (string, error) {
	return j.identity.WorkID(dibs.Subject{
		Job: j.Name, Operation: j.Operation, Key: row.Key, Cycle: row.Cycle, Slot: slot, Trigger: trigger, Payload: row.Payload,
	})
}
