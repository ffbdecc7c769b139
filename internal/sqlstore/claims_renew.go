package sqlstore

import (
	"context"
	"time"

	"github.com/dibs-run/dibs"
)

func (c *claims) compileRenew(w writer, k compiler) error {
	own := Fragments{
		"fields": w.q.Fields(c.m.fields("t", "f", "b")), "proof": w.renewProof(),
		"renew_set": w.renewSet(), "renewed": w.renewed(w.col), "renewed_target": w.renewed(w.target),
	}
	if err := k.one(&c.st.renew, "renew", own); err != nil {
		return err
	}
	if err := k.optional(&c.st.renewWrite, "renew_write", own); err != nil {
		return err
	}
	return k.one(&c.st.renewLook, "renew_look", own)
}

// renewSet writes the later of now + lease and one unit after the start, never
// past the time that the run has to stop by. In a two-column table the stamp
// moves instead.
func (w writer) renewSet() string {
	m, q := w.m, w.q
	unit := itoa(m.startedAt.Unit.Microseconds())
	started := q.Micros(m.startedAt, w.col(m.startedAt))
	if m.two {
		now := alignDown(q, &m.startedAt, q.Least(w.now(), q.BindInt("until")+" - "+q.BindInt("lease")))
		return w.target(m.startedAt) + " = " + q.Time(m.startedAt, q.Greatest(now, started+" + "+unit))
	}
	unit = itoa(max(m.claimableAt.Unit, m.startedAt.Unit).Microseconds())
	ends := q.Greatest(q.Least(w.now()+" + "+q.BindInt("lease"), q.BindInt("until")), "coalesce("+started+" + "+unit+", 0)")
	return w.target(m.claimableAt) + " = " + q.Time(m.claimableAt, alignUp(q, &m.claimableAt, ends))
}

// renewed lists what a renewal answers.
func (w writer) renewed(col func(Column) string) string {
	m := w.m
	ends := "0"
	if !m.two {
		ends = w.q.Micros(m.claimableAt, col(m.claimableAt))
	}
	return ends + " AS ends, " + w.q.Micros(m.startedAt, col(m.startedAt)) + " AS stamp"
}

// Renew extends leases. See [dibs.Claims]. A row that somebody else has locked
// at the moment is not waited for: it keeps its lease end, which is answered, and
// nobody else can claim it meanwhile. When the run is refused, no item is
// extended, and what is still ours is answered with the end it has.
func (c *claims) Renew(ctx context.Context, r dibs.RenewRequest) (dibs.Renewed, error) {
	if err := c.m.leaseFits(r.Lease); err != nil {
		return dibs.Renewed{}, err
	}
	var out dibs.Renewed
	err := c.store.InReservedTx(ctx, "renew items of table "+c.m.asked, func(ctx context.Context, tx *Tx) error {
		run, err := c.store.extendRun(ctx, tx, r.Run, r.Lease)
		if err != nil {
			return err
		}
		run.Items, err = c.renew(ctx, tx, r, run)
		out = run
		return err
	})
	if err != nil {
		return dibs.Renewed{}, err
	}
	return out, nil
}

func (c *claims) renew(ctx context.Context, tx *Tx, r dibs.RenewRequest, run dibs.Renewed) ([]dibs.RenewedItem, error) {
	if len(r.Items) == 0 {
		return nil, nil
	}
	x := renewal{claims: c, tx: tx, lease: r.Lease, out: make([]dibs.RenewedItem, len(r.Items)), at: map[string]int{}}
	for i, h := range r.Items {
		it := keyed(h.Key)
		it.set("t", string(h.Token))
		it.number("f", int64(h.Fence))
		it.instant("b", h.Stamp)
		x.items = append(x.items, it)
		x.at[h.Key.String()] = i
	}
	until := farFuture
	if !run.StopBy.IsZero() {
		until = run.StopBy.UnixMicro()
	}
	if !run.Run.IsZero() {
		if err := x.extend(ctx, until); err != nil {
			return nil, err
		}
	}
	if err := x.look(ctx); err != nil {
		return nil, err
	}
	if run.Run.IsZero() {
		return x.out, nil
	}
	return x.out, x.renewEffects(ctx, r.Effects, until)
}

// renewal is one renewal under way.
type renewal struct {
	*claims
	tx    *Tx
	lease time.Duration
	items []item
	at    map[string]int // by key
	out   []dibs.RenewedItem
}

func (x *renewal) binds(items []item, until int64) (Binds, error) {
	batch, err := encodeItems(inKeyOrder(items))
	return Binds{"items": batch, "lease": x.leaseSpan(x.lease), "until": until}, err
}

// extend renews the rows that nobody else has locked.
func (x *renewal) extend(ctx context.Context, until int64) error {
	b, err := x.binds(x.items, until)
	if err != nil {
		return err
	}
	if !x.st.renewWrite.there() {
		return x.tx.records(ctx, x.st.renew, b, x.answer)
	}
	var locked []item
	err = x.tx.records(ctx, x.st.renew, b, func(rec record) error {
		if i, ok := x.at[x.m.key(rec).String()]; ok {
			locked = append(locked, x.items[i])
		}
		return nil
	})
	if err != nil || len(locked) == 0 {
		return err
	}
	if b, err = x.binds(locked, until); err != nil {
		return err
	}
	_, err = x.tx.Exec(ctx, x.st.renewWrite, b)
	return err
}

// look reads what is still ours of the rows without an answer.
func (x *renewal) look(ctx context.Context) error {
	var rest []item
	for key, i := range x.at {
		if x.out[i].EndsAt.IsZero() {
			rest = append(rest, x.items[x.at[key]])
		}
	}
	if len(rest) == 0 {
		return nil
	}
	b, err := x.binds(rest, 0)
	if err != nil {
		return err
	}
	return x.tx.records(ctx, x.st.renewLook, b, x.answer)
}

func (x *renewal) answer(rec record) error {
	i, ok := x.at[x.m.key(rec).String()]
	if !ok {
		return nil
	}
	r := reader{rec: rec}
	a := dibs.RenewedItem{EndsAt: r.instant("ends"), Stamp: r.instant("stamp")}
	if x.m.two {
		a.EndsAt = a.Stamp.Add(x.lease + x.store.skew)
	}
	x.out[i] = a
	return r.err
}
