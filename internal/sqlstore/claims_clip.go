package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// Clip cuts the leases of a run's rows. See [dibs.Claims]. The run's row was
// written before in the same decision, so that no claim, renewal or settle of
// the run is under way; rows that somebody else has locked are left alone.
func (c *claims) Clip(ctx context.Context, on dibs.Desk, r dibs.RunRef, until time.Time) (int64, error) {
	d, ok := on.(*desk)
	switch {
	case !ok || d.store != c.store:
		return 0, fmt.Errorf("cut leases of table %s: %w", c.m.asked, errOtherStore)
	case c.m.two:
		return 0, nil
	}
	take, write, err := c.compileClip()
	if err != nil {
		return 0, err
	}
	n, err := c.clip(ctx, d.tx, take, write, r, until)
	if err != nil {
		return 0, fmt.Errorf("cut leases of table %s: %w", c.m.asked, err)
	}
	return n, nil
}

var errOtherStore = errors.New("the decision belongs to another store")

// mostInHand is more than any run has in hand.
const mostInHand = 1 << 20

func (c *claims) clip(ctx context.Context, tx *Tx, take, write Statement, r dibs.RunRef, until time.Time) (int64, error) {
	b := Binds{"limit": int64(mostInHand), "pattern": escapeLike(r.ID+"/") + "%", "until": until.UnixMicro()}
	var items []item
	err := tx.records(ctx, take, b, func(rec record) error {
		items = append(items, keyed(c.m.key(rec)))
		return nil
	})
	n := int64(len(items))
	if err != nil || n == 0 || !write.there() {
		return n, err
	}
	batch, err := encodeItems(inKeyOrder(items))
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, write, Binds{"items": batch, "until": b["until"]})
	return n, err
}

// compileClip compiles for one call: a replacement is a rare act.
func (c *claims) compileClip() (take, write Statement, err error) {
	m, w := c.m, newWriter(c.store, c.m)
	base, err := w.fragments()
	if err != nil {
		return take, write, err
	}
	ends := w.q.Greatest(w.q.BindInt("until"), "coalesce("+w.q.Micros(m.startedAt, w.col(m.startedAt))+" + "+
		itoa(max(m.claimableAt.Unit, m.startedAt.Unit).Microseconds())+", 0)")
	// One unit of slack: an end that was rounded up when it was cut is not cut again.
	slack := w.q.BindInt("until") + " + " + itoa(m.claimableAt.Unit.Microseconds())
	own := Fragments{
		"which": all(w.is(dibs.StatusInProgress), w.q.Text(m.claimToken, w.col(m.claimToken))+" LIKE "+w.q.BindText("pattern")+" ESCAPE '!'",
			"NOT "+w.q.Before(m.claimableAt, w.col(m.claimableAt), slack, false), w.keysThere()),
		"sweep_set": w.target(m.claimableAt) + " = " + w.q.Time(m.claimableAt, alignUp(w.q, &m.claimableAt, ends)),
		"fields":    w.q.Fields(m.fields()),
	}
	k := compiler{c, base}
	if err = k.one(&take, "sweep", own); err != nil {
		return take, write, err
	}
	return take, write, k.optional(&write, "sweep_write", own)
}

// escapeLike writes a text so that LIKE takes every sign of it as it is.
func escapeLike(text string) string {
	return strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text)
}
