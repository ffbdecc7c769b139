package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// Bounds of trying a claim.
const (
	triedRows  = 10
	triedTimes = 3
	triedPause = 150 * time.Millisecond
	// triedFor bounds all of it: a lock of somebody else's that a settle waits
	// for would be waited for without end.
	triedFor = 20 * time.Second
)

// effect claims and settles some due rows in a transaction that is rolled back,
// and compares what was meant with what is there.
func (k *checker) effect(ctx context.Context) error {
	if k.denied {
		return nil // said already
	}
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, triedFor)
	defer cancel()
	for n := 1; ; n++ {
		t := trial{checker: k}
		err := k.store.InTx(ctx, "try a claim on table "+k.m.Table.String(), func(ctx context.Context, tx *Tx) error {
			t = trial{checker: k}
			if err := t.run(ctx, tx); err != nil {
				return err
			}
			return errUndo
		})
		if ctx.Err() != nil && asked.Err() == nil {
			k.add(Doubtful, "locked", fmt.Sprintf("a claim that was tried did not end within %s", triedFor), "it waited for a lock that somebody else keeps", "find the transaction that stays open")
			return nil
		}
		if !errors.Is(err, errUndo) {
			if refused := k.refusedClaim(ctx, err); refused != "" {
				k.add(Wrong, "claim_refused", "the database refuses a claim: "+refused, "nothing can be claimed", k.suspicion("correct what it names"))
				return nil
			}
			return err
		}
		if t.problem == "" && t.claimed < t.due && n < triedTimes && wait(ctx, triedPause) {
			continue // rows that others have locked right now are passed over
		}
		k.verdict(t)
		return asked.Err()
	}
}

// refusedClaim is what the database said against a claim, unless the database
// itself was at fault.
func (k *checker) refusedClaim(ctx context.Context, err error) string {
	switch k.store.classOf(ctx, err) {
	case ClassRetry, ClassConnection, ClassUnavailable, ClassReadOnly:
		return ""
	}
	var te *txError
	if ctx.Err() != nil || !errors.As(err, &te) {
		return ""
	}
	return te.err.Error()
}

// suspicion names what may have changed the rows.
func (k *checker) suspicion(otherwise string) string {
	if len(k.suspects) == 0 {
		return otherwise
	}
	return "look at: " + strings.Join(k.suspects, "; ")
}

func (k *checker) verdict(t trial) {
	switch {
	case t.problem != "":
		k.add(Wrong, "swallowed", t.problem, "what dibs writes is not what is stored: rows would be claimed twice, or never again", k.suspicion("find what changes the rows"))
	case t.due == 0:
		k.add(Noted, "claim_untried", "no row is due, so a claim could not be tried", "", "check again when one is")
	case t.claimed == t.due:
		k.add(Fine, "claim", fmt.Sprintf("%s claimed, one settled, and all given back", plural(t.claimed, "due row")), "", "")
	case len(k.suspects) > 0:
		k.add(Wrong, "swallowed", fmt.Sprintf("of %d due rows a claim gets %d", t.due, t.claimed), "the others are seen but can never be claimed", k.suspicion(""))
	default:
		k.add(Noted, "locked", fmt.Sprintf("of %d due rows %d locked by others right now", t.due, t.due-t.claimed), "a claim passes over them", "")
	}
}

// trial is one claim that is never committed.
type trial struct {
	*checker
	due, claimed int64
	problem      string
}

func (t *trial) run(ctx context.Context, tx *Tx) error {
	token := dibs.Token("check/" + strings.ToLower(rand.Text()[:12]))
	b := t.scopeBinds(t.scope)
	b["limit"] = int64(triedRows)
	if err := tx.Query(ctx, t.st.remaining, b, func(rows *sql.Rows) error { return rows.Scan(&t.due) }); err != nil {
		return err
	}
	t.due = min(t.due, triedRows)
	lease := max(t.scope.Lease, time.Minute)
	got := taking{claims: t.claims, tx: tx, trial: true, r: dibs.ClaimRequest{Token: token, Scope: t.scope, Limit: triedRows, Lease: lease}}
	if err := got.take(ctx); err != nil {
		return err
	}
	if t.claimed = int64(len(got.items)); t.claimed > t.due {
		t.due = t.claimed // one became due in between
	}
	for _, h := range got.items {
		if t.meant(h, got.now, lease); t.problem != "" {
			return nil
		}
		if err := t.compare(ctx, tx, h); err != nil || t.problem != "" {
			return err
		}
	}
	return t.settleOne(ctx, tx, got.items)
}

// rowOf reads a row inside the transaction.
func (t *trial) rowOf(ctx context.Context, tx *Tx, key dibs.Key) (row dibs.Row, err error) {
	found := false
	err = tx.records(ctx, t.st.look, t.scopeBinds(dibs.Scope{Key: key}), func(rec record) error {
		row, found = t.m.row(rec), true
		return nil
	})
	if err == nil && !found {
		t.problem = fmt.Sprintf("row %s cannot be seen any more once it is claimed", key)
	}
	return row, err
}

// meant looks whether the claim returned what it was to write: a trigger may
// have had its way with the row before the database answered.
func (t *trial) meant(h dibs.Held, now time.Time, lease time.Duration) {
	if t.m.two {
		return
	}
	end := now.Add(lease + t.store.skew)
	if late := h.EndsAt.Sub(end).Abs(); late > time.Second+2*max(t.m.claimableAt.Unit, t.m.startedAt.Unit) && !h.Stamp.After(end) {
		t.problem = fmt.Sprintf("row %s was claimed for %s, but its column %s ends the lease %s away from that", h.Key, lease, t.m.claimableAt.Name, late.Round(time.Millisecond))
	}
	if h.Fence != h.Prior.Fence+1 {
		t.problem = fmt.Sprintf("row %s was claimed, but its column %s went from %d to %d", h.Key, t.m.fence.Name, h.Prior.Fence, h.Fence)
	}
}

// compare looks whether the claim is on the row as it was written.
func (t *trial) compare(ctx context.Context, tx *Tx, h dibs.Held) error {
	row, err := t.rowOf(ctx, tx, h.Key)
	if err != nil || t.problem != "" {
		return err
	}
	in := fmt.Sprintf("row %s was claimed, but its column ", h.Key)
	switch {
	case row.Status != dibs.StatusInProgress:
		t.problem = in + t.m.status.Name + " says " + fmt.Sprintf("%q", row.Label)
	case !row.StartedAt.Equal(h.Stamp):
		t.problem = in + t.m.startedAt.Name + " is not what was written"
	case t.m.two:
	case row.Token != h.Token:
		t.problem = in + t.m.claimToken.Name + " is not what was written"
	case row.Fence != h.Fence:
		t.problem = in + t.m.fence.Name + " is not what was written"
	case !row.ClaimableAt.Equal(h.EndsAt):
		t.problem = in + t.m.claimableAt.Name + " is not what was written"
	}
	return nil
}

// settleOne settles the first row as completed and looks again.
func (t *trial) settleOne(ctx context.Context, tx *Tx, items []dibs.Held) error {
	if len(items) == 0 {
		return nil
	}
	h := items[0]
	now := time.Duration(0)
	want := dibs.StatusIdle
	change := dibs.RowChange{Status: want, DueIn: &now, Succeeded: true}
	if t.m.OneShot && t.m.label(dibs.StatusDone) != "" {
		want = dibs.StatusDone
		change = dibs.RowChange{Status: want, Succeeded: true}
	}
	settled, err := t.settle(ctx, tx, []dibs.Settlement{{
		Held: h, Outcome: dibs.OutcomeCompleted, Change: change,
		Record: dibs.OutcomeRecord{RunID: h.Token.Run(), Job: "check", WorkID: "check", Outcome: dibs.OutcomeCompleted},
	}}, false)
	if err != nil {
		return err
	}
	row, err := t.rowOf(ctx, tx, h.Key)
	switch {
	case err != nil || t.problem != "":
		return err
	case !settled[0].OK || settled[0].Late:
		t.problem = fmt.Sprintf("row %s was claimed, but could not be settled", h.Key)
	case row.Status != want:
		t.problem = fmt.Sprintf("row %s was settled, but its column %s says %q", h.Key, t.m.status.Name, row.Label)
	case !t.m.two && row.Token != "":
		t.problem = fmt.Sprintf("row %s was settled, but its column %s still has the token", h.Key, t.m.claimToken.Name)
	}
	return nil
}
