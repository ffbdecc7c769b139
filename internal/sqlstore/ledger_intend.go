package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// Intend claims effects. See [dibs.Ledger].
func (s *Store) Intend(ctx context.Context, r dibs.IntendRequest) ([]dibs.Intent, error) {
	x := intending{Store: s, r: r}
	err := s.InTx(ctx, "intend effects of "+r.Job, func(ctx context.Context, tx *Tx) error {
		x.out = make([]dibs.Intent, len(r.Items))
		x.open = make(map[string][]int, len(r.Items))
		return x.intend(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return x.out, nil
}

// intending is one Intend under way.
type intending struct {
	*Store
	r    dibs.IntendRequest
	out  []dibs.Intent
	open map[string][]int // unanswered intentions by work ID, in order
}

func (x *intending) intend(ctx context.Context, tx *Tx) error {
	var fresh, all []note
	for i, in := range x.r.Items {
		if err := fitIntention(in, x.r); err != nil {
			x.out[i].Refused = err
			continue
		}
		if len(x.open[in.WorkID]) == 0 {
			all = append(all, note{"w": in.WorkID})
		}
		x.open[in.WorkID] = append(x.open[in.WorkID], i)
		if in.Cleared == 0 {
			fresh = append(fresh, x.note(in))
		}
	}
	if err := x.insert(ctx, tx, inWorkOrder(fresh)); err != nil {
		return err
	}
	rest := all[:0]
	for _, it := range all {
		if len(x.open[it["w"]]) > 0 {
			rest = append(rest, it)
		}
	}
	found, err := x.lockEffects(ctx, tx, inWorkOrder(rest))
	if err != nil {
		return err
	}
	var claimed []note
	for _, e := range found {
		for _, i := range x.open[e.WorkID] {
			if it := x.answer(i, &e); it != nil {
				claimed = append(claimed, it)
			}
		}
		delete(x.open, e.WorkID)
	}
	for work, list := range x.open {
		if len(list) > 0 {
			return fmt.Errorf("effect %s: neither inserted nor there", work)
		}
	}
	return x.claimEffects(ctx, tx, claimed, x.r.Lease)
}

// fitIntention refuses names that would be cut.
func fitIntention(in dibs.Intention, r dibs.IntendRequest) error {
	if in.WorkID == "" {
		return fmt.Errorf("intend: no work id")
	}
	if err := fit(dibs.MaxWorkID, "work id", in.WorkID); err != nil {
		return err
	}
	return fit(mostKey, "key", in.Key, "job", r.Job)
}

// note encodes an intention.
func (x *intending) note(in dibs.Intention) note {
	it := note{"w": in.WorkID, "jb": x.r.Job, "ik": in.Key, "rid": x.r.RunID, "t": string(in.Token), "h": in.RequestHash}
	it.number("y", in.Cycle)
	return it
}

// insert writes effects that are not there yet. Where the database tells which,
// those are answered.
func (x *intending) insert(ctx context.Context, tx *Tx, items []note) error {
	if len(items) == 0 {
		return nil
	}
	more := Binds{"lease": span(x.r.Lease + x.skew)}
	if !x.dialect.Returning {
		_, err := x.write(ctx, tx, "effect_insert", items, more)
		return err
	}
	st, err := x.ledger("effect_insert")
	if err != nil {
		return err
	}
	b, err := itemBinds(items, more)
	if err != nil {
		return err
	}
	return tx.Query(ctx, st, b, func(rows *sql.Rows) error {
		var work, key string
		if err := rows.Scan(into(&work), into(&key)); err != nil {
			return err
		}
		list := x.open[work]
		for n, i := range list {
			if in := x.r.Items[i]; in.Key == key && in.Cleared == 0 {
				x.out[i] = dibs.Intent{Claimed: true, Effect: dibs.Effect{
					WorkID: work, Job: x.r.Job, Key: key, Cycle: in.Cycle, RunID: x.r.RunID, State: dibs.EffectIntended,
					Token: in.Token, Fence: 1, RequestHash: in.RequestHash,
				}}
				x.open[work] = append(append([]int(nil), list[:n]...), list[n+1:]...)
				return nil
			}
		}
		return fmt.Errorf("effect %s of key %s was not asked for", work, key)
	})
}

// answer decides one intention about an effect that was there, and returns what
// to write. The effect is changed as it will be, for the next one that asks.
func (x *intending) answer(i int, e *dibs.Effect) note {
	in, out := x.r.Items[i], &x.out[i]
	mine := e.Token == in.Token && e.Key == in.Key && !e.LeaseEnd.IsZero()
	defer func() { out.Effect = *e }()
	switch out.Found = e.State; {
	case e.Job != x.r.Job:
		out.Refused = fmt.Errorf("work id %s belongs to job %s", e.WorkID, e.Job)
		return nil
	case mine && e.State == dibs.EffectIntended && e.Live():
		out.Claimed, out.Found = true, "" // asked twice
		return nil
	case mine && e.State == dibs.EffectUncertain && in.Cleared == e.Fence:
		out.Found = ""
		return x.begin(in, e, out, !in.Again)
	case mine && e.State == dibs.EffectUncertain && e.Live() && in.Cleared == 0:
		out.Claimed = true
		return nil
	case e.Live(), in.Cleared != 0, e.State == dibs.EffectConfirmed, e.State == dibs.EffectHeld:
		return nil
	case e.State == dibs.EffectNotApplied, e.State == dibs.EffectRejected:
		return x.begin(in, e, out, true)
	}
	doubt(e, x.r.LookupAfter)
	it := x.note(in)
	delete(it, "h") // what was sent is what is looked up
	return x.take(it, in, e, out)
}

// begin makes an effect intended, with new content.
func (x *intending) begin(in dibs.Intention, e *dibs.Effect, out *dibs.Intent, first bool) note {
	it := x.note(in)
	e.State, e.Lookups, e.LookAt, e.SentUntil, e.RequestHash = dibs.EffectIntended, 0, time.Time{}, time.Time{}, in.RequestHash
	if first {
		it["ia"] = "1"
		e.IntendedAt = e.Now
	}
	return x.take(it, in, e, out)
}

// take raises the fence.
func (x *intending) take(it note, in dibs.Intention, e *dibs.Effect, out *dibs.Intent) note {
	e.Token, e.Key, e.RunID, e.Cycle = in.Token, in.Key, x.r.RunID, in.Cycle
	out.Claimed = true
	return claimItem(it, e, x.r.Lease)
}

// doubt makes an effect whose attempt left no outcome uncertain.
func doubt(e *dibs.Effect, lookupAfter time.Duration) {
	e.State = dibs.EffectUncertain
	if e.SentUntil.IsZero() {
		e.SentUntil = e.LeaseEnd
	}
	if e.LookAt.IsZero() {
		e.LookAt = e.SentUntil.Add(lookupAfter)
	}
}

// claimItem encodes the claim of an effect as it is to become.
func claimItem(it note, e *dibs.Effect, lease time.Duration) note {
	it.number("f", int64(e.Fence))
	it["st"] = string(e.State)
	it.number("n", int64(e.Lookups))
	it.instant("la", e.LookAt)
	it.instant("su", e.SentUntil)
	e.Fence++
	e.LeaseEnd = e.Now.Add(lease)
	return it
}

func (s *Store) claimEffects(ctx context.Context, tx *Tx, items []note, lease time.Duration) error {
	if len(items) == 0 {
		return nil
	}
	n, err := s.write(ctx, tx, "effect_claim", inWorkOrder(items), Binds{"lease": span(lease + s.skew)})
	if err == nil && n != int64(len(items)) {
		err = fmt.Errorf("claim effects: %d of %d were written: %w", n, len(items), dibs.ErrStaleFence)
	}
	return err
}

// ClaimEffect claims one effect. See [dibs.Ledger].
func (s *Store) ClaimEffect(ctx context.Context, c dibs.EffectClaim) (dibs.Effect, error) {
	var e dibs.Effect
	err := s.InTx(ctx, "claim effect "+c.WorkID, func(ctx context.Context, tx *Tx) error {
		list, err := s.lockEffects(ctx, tx, []note{{"w": c.WorkID}})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return dibs.ErrNotFound
		}
		e = list[0]
		if e.Live() && e.Token == c.Token {
			return nil // asked twice
		}
		if e.Live() {
			return &dibs.HeldError{What: e.WorkID, Run: e.RunID, ExpiresAt: e.LeaseEnd, Now: e.Now}
		}
		if e.State == dibs.EffectIntended {
			doubt(&e, 0)
		}
		e.Token, e.RunID = c.Token, c.RunID
		it := note{"w": e.WorkID, "jb": e.Job, "ik": e.Key, "rid": c.RunID, "t": string(c.Token)}
		it.number("y", e.Cycle)
		return s.claimEffects(ctx, tx, []note{claimItem(it, &e, c.Lease)}, c.Lease)
	})
	if err != nil {
		return dibs.Effect{}, err
	}
	return e, nil
}
