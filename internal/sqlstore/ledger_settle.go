package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// SettleEffect settles a claimed effect. See [dibs.Ledger].
func (s *Store) SettleEffect(ctx context.Context, c dibs.EffectChange, found ...dibs.Finding) error {
	return s.InTx(ctx, "settle effect "+c.WorkID, func(ctx context.Context, tx *Tx) error {
		written, lost, err := s.settleEffects(ctx, tx, []*dibs.EffectChange{&c}, false)
		switch {
		case err != nil:
			return err
		case lost[c.WorkID]:
			return dibs.ErrStaleFence
		case written == 0:
			return nil // settled before, findings and all
		}
		return s.addFindings(ctx, tx, found)
	})
}

// settleEffects settles effects by their own proof and counts them. lost are
// those that are no longer the claim's; the rest, if fewer were written, it has
// settled so before.
func (s *Store) settleEffects(ctx context.Context, tx *Tx, changes []*dibs.EffectChange, plain bool) (written int64, lost map[string]bool, err error) {
	if len(changes) == 0 {
		return 0, nil, nil
	}
	items := make([]note, 0, len(changes))
	lost = make(map[string]bool)
	for _, c := range changes {
		items = append(items, changeItem(c, plain))
	}
	written, err = s.write(ctx, tx, "effect_settle", inWorkOrder(items), nil)
	if err != nil || written == int64(len(items)) {
		return written, nil, err
	}
	list, err := s.lockEffects(ctx, tx, items)
	if err != nil {
		return written, nil, err
	}
	there := map[string]dibs.Effect{}
	for _, e := range list {
		there[e.WorkID] = e
	}
	for _, c := range changes {
		if e := there[c.WorkID]; e.Token != c.Token || e.Fence != c.Fence || e.State != c.State {
			lost[c.WorkID] = true
		}
	}
	return written, lost, nil
}

// changeItem encodes a change. plain reduces free texts to what no database
// refuses.
func changeItem(c *dibs.EffectChange, plain bool) note {
	it := refItem(c.EffectRef)
	it["st"] = string(c.State)
	if c.Reason != "" {
		it["re"] = string(c.Reason)
	}
	if plain {
		it.receipt(ascii(c.ReceiptID), nil, ascii(c.Error))
	} else {
		it.receipt(c.ReceiptID, c.Evidence, c.Error)
	}
	if c.LookIn != nil {
		it.number("li", span(*c.LookIn))
	}
	it.number("n", int64(c.Lookups))
	return it
}

func refItem(r dibs.EffectRef) note {
	it := note{"w": r.WorkID, "t": string(r.Token)}
	it.number("f", int64(r.Fence))
	return it
}

// renewEffects extends the effects of renewed items; an item whose effect is no
// longer this claim's is answered as lost.
func (x *renewal) renewEffects(ctx context.Context, effects []dibs.EffectRef, until int64) error {
	var items []note
	at := map[string]int{}
	for i, ref := range effects {
		if ref.WorkID == "" || i >= len(x.out) || x.out[i].EndsAt.IsZero() {
			continue
		}
		items = append(items, refItem(ref))
		at[ref.WorkID] = i
	}
	if len(items) == 0 {
		return nil
	}
	n, err := x.store.write(ctx, x.tx, "effect_renew", inWorkOrder(items), Binds{"lease": x.leaseSpan(x.lease), "until": until})
	if err != nil || n == int64(len(items)) {
		return err
	}
	list, err := x.store.lockEffects(ctx, x.tx, items)
	if err != nil {
		return err
	}
	for _, e := range list {
		if ref := effects[at[e.WorkID]]; e.Token == ref.Token && e.Fence == ref.Fence {
			delete(at, e.WorkID) // renewed, or settled a moment ago
		}
	}
	for _, i := range at {
		x.out[i] = dibs.RenewedItem{}
	}
	return nil
}

// settleLedger settles the effects of items and records their findings, in the
// transaction of their rows. A caller that no longer believes in its lease
// changes no effect either.
func (c *claims) settleLedger(ctx context.Context, tx *Tx, items []dibs.Settlement, out []dibs.Settled, plain bool) error {
	var changes []*dibs.EffectChange
	var found []dibs.Finding
	for i := range items {
		if e := items[i].Effect; e != nil && !items[i].LateOnly {
			changes = append(changes, e)
		}
	}
	written, lost, err := c.store.settleEffects(ctx, tx, changes, plain)
	if err != nil {
		return err
	}
	for i := range items {
		if e := items[i].Effect; e != nil {
			out[i].EffectLost = lost[e.WorkID]
			if written == 0 && !lost[e.WorkID] {
				continue // the whole settle is repeated
			}
		}
		found = append(found, items[i].Findings...)
	}
	return c.store.addFindings(ctx, tx, found)
}

var errNotOurs = errors.New("no longer ours")

// settleWork settles one item together with its user's writes: they come first,
// the proof comes last, and without the proof they are undone.
func (c *claims) settleWork(ctx context.Context, tx *Tx, s dibs.Settlement, limit time.Duration) (dibs.Settled, error) {
	var out dibs.Settled
	err := tx.Savepoint(ctx, func() error {
		done, err := c.work(ctx, tx, s, limit)
		if err != nil {
			return err
		}
		one, ours, err := c.settleCounted(ctx, tx, []dibs.Settlement{done}, false)
		if err == nil && ours == 0 {
			err = errNotOurs
		}
		if err == nil {
			out = one[0]
		}
		return err
	})
	switch class := c.store.classOf(ctx, err); {
	case err == nil:
		return out, nil
	case errors.Is(err, errNotOurs):
		// Done before, or late. Not a second try: the work that belongs to it is
		// undone.
		s.LateOnly = true
		one, err := c.settleTogether(ctx, tx, []dibs.Settlement{s}, false)
		if err != nil {
			return out, err
		}
		return one[0], nil
	case class == ClassRetry || class == ClassConnection || class == ClassReadOnly:
		return out, err // of the transaction: repeat all of it
	}
	return dibs.Settled{Err: fmt.Errorf("item %s: %w", s.Held.Key, err)}, nil
}

// work calls the user's function, within the limit where its transaction keeps
// out all other writers, and puts its receipt into the settlement.
func (c *claims) work(ctx context.Context, tx *Tx, s dibs.Settlement, limit time.Duration) (dibs.Settlement, error) {
	if limit > 0 && c.store.dialect.BeginImmediate != "" {
		limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the transaction kept out all other writers for %s: %w", limit, dibs.ErrTimeout))
		defer cancel()
		ctx = limited
	}
	receipt, err := s.Work(ctx, tx.userTx())
	switch {
	case err != nil:
		return s, err
	case ctx.Err() != nil:
		return s, context.Cause(ctx)
	}
	s.Record.ReceiptID, s.Record.Evidence = receipt.ID, nil
	if len(receipt.Evidence) > 0 {
		if s.Record.Evidence, err = json.Marshal(receipt.Evidence); err != nil {
			return s, err
		}
	}
	if s.Effect != nil {
		effect := *s.Effect
		effect.ReceiptID, effect.Evidence = s.Record.ReceiptID, s.Record.Evidence
		s.Effect = &effect
	}
	return s, nil
}

// userTx is the transaction as user code sees it.
func (t *Tx) userTx() dibs.Tx {
	if t.tx != nil {
		return t.tx
	}
	return t.conn
}
