package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

func (c *claims) compileReads(w writer, k compiler) error {
	m := c.m
	order := w.col(m.startedAt)
	due, token := w.anyClass(), "1 = 0"
	if !m.two {
		order = w.col(m.claimableAt)
		due = w.due()
		token = all(w.is(dibs.StatusInProgress), w.col(m.claimToken)+" = "+w.q.Value(m.claimToken, w.q.BindText("token")))
	}
	order += ", " + k.base["key_order"]
	found := Fragments{"which": token, "claimed": w.claimed()}
	for _, one := range []struct {
		into *Statement
		name string
		own  Fragments
	}{
		{&c.st.find, "find", found},
		{&c.st.look, "look", Fragments{"which": w.keyBound()}},
		{&c.st.rowsAll, "rows", Fragments{"which": "1 = 1", "order": k.base["key_order"]}},
		{&c.st.rowsStatus, "rows", Fragments{"which": w.col(m.status) + " = " + w.q.Value(m.status, w.q.BindText("label")), "order": order}},
		{&c.st.rowsDue, "rows", Fragments{"which": due, "order": order}},
		{&c.st.rowsKey, "rows", Fragments{"which": w.byKey(), "order": k.base["key_order"]}},
		{&c.st.rowsOrphaned, "rows", Fragments{"which": w.orphaned(), "order": k.base["key_order"]}},
		{&c.st.remaining, "remaining", Fragments{"remaining": w.remaining()}},
		{&c.st.sweepLease, "sweep", Fragments{"which": w.withoutLease(), "sweep_set": w.sweepLease(), "fields": w.q.Fields(m.fields())}},
		{&c.st.sweepDue, "sweep", Fragments{"which": w.withoutDue(), "sweep_set": w.sweepDue(), "fields": w.q.Fields(m.fields())}},
		{&c.st.stats, "stats", w.stats()},
	} {
		if err := k.one(one.into, one.name, one.own); err != nil {
			return err
		}
	}
	if err := k.optional(&c.st.sweepLeaseWrite, "sweep_write", Fragments{"sweep_set": w.sweepLease(), "fields": w.q.Fields(m.fields())}); err != nil {
		return err
	}
	return k.optional(&c.st.sweepDueWrite, "sweep_write", Fragments{"sweep_set": w.sweepDue(), "fields": w.q.Fields(m.fields())})
}

// remaining counts class by class, each up to the limit.
func (w writer) remaining() string {
	one := func(which string) string {
		return "(SELECT count(*) FROM (SELECT 1 AS one FROM " + w.s.tableName(w.m) + " AS " + w.w +
			" WHERE " + which + " LIMIT " + w.q.BindInt("limit") + ") AS dibs_n)"
	}
	if !w.m.two {
		return one(w.due())
	}
	sum := ""
	for c := range classes {
		if c > 0 {
			sum += "\n  + "
		}
		sum += one(w.class(c))
	}
	return sum
}

func (w writer) sweepLease() string {
	m := w.m
	if m.two {
		return w.target(m.startedAt) + " = " + w.q.Time(m.startedAt, alignDown(w.q, &m.startedAt, w.now()))
	}
	ends := alignUp(w.q, &m.claimableAt, w.q.Greatest(w.now()+" + "+w.q.BindInt("lease"),
		"coalesce("+w.q.Micros(m.startedAt, w.col(m.startedAt))+" + "+itoa(max(m.claimableAt.Unit, m.startedAt.Unit).Microseconds())+", 0)"))
	return w.target(m.claimableAt) + " = " + w.q.Time(m.claimableAt, ends)
}

func (w writer) sweepDue() string {
	m := w.m
	if m.two {
		return w.target(m.startedAt) + " = " + w.target(m.startedAt)
	}
	return w.target(m.claimableAt) + " = " + w.q.Time(m.claimableAt, alignDown(w.q, &m.claimableAt, w.now()))
}

// stats are the fragments of the count by state. What is due in a two-column
// table depends on its job, so only rows never started count there.
func (w writer) stats() Fragments {
	m := w.m
	due, expired, oldest := all(w.is(dibs.StatusIdle), w.col(m.startedAt)+" IS NULL"), "1 = 0", "0"
	if !m.two {
		due = all(w.claimable(), w.dueNow(), w.ourClaim(), w.keysThere(), w.where())
		expired = all(w.is(dibs.StatusInProgress), w.dueNow(), w.ourClaim())
		oldest = w.q.Micros(m.claimableAt, w.col(m.claimableAt))
	}
	return Fragments{
		"status_out": w.q.Text(m.status, w.col(m.status)), "due": due, "expired": expired, "oldest": oldest,
		"status_raw": w.col(m.status),
	}
}

// Find asks which rows carry a token. See [dibs.Claims]. What was there before
// the claim is no longer known: the items' Prior is the nearest state that a
// release can give back. A two-column table keeps no token and finds nothing.
func (c *claims) Find(ctx context.Context, token dibs.Token) ([]dibs.Held, error) {
	if c.m.two {
		return nil, nil
	}
	var out []dibs.Held
	err := c.list(ctx, c.st.find, Binds{"token": string(token)}, func(rec record) error {
		h := c.m.held(rec, token, 0)
		h.Prior = dibs.Prior{Status: dibs.StatusIdle, StartedAt: h.Prior.StartedAt, ClaimableAt: h.Stamp, Expirations: h.Expirations}
		if h.Attempts > 0 {
			h.Prior.Status = dibs.StatusFailed
		}
		out = append(out, h)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find claim %s in table %s: %w", token, c.m.asked, err)
	}
	return out, nil
}

// Look reads one row. See [dibs.Claims]; [dibs.ErrNotFound] when there is none.
func (c *claims) Look(ctx context.Context, key dibs.Key) (dibs.Row, error) {
	if len(key) != len(c.m.keys) {
		return dibs.Row{}, fmt.Errorf("look at item %s of table %s: the key has %d parts, the table's has %d", key, c.m.asked, len(key), len(c.m.keys))
	}
	if !c.m.possible(key) {
		return dibs.Row{}, fmt.Errorf("look at item %s of table %s: not a key of this table: %w", key, c.m.asked, dibs.ErrNotFound)
	}
	var out []dibs.Row
	err := c.list(ctx, c.st.look, c.scopeBinds(dibs.Scope{Key: key}), func(rec record) error {
		out = append(out, c.m.row(rec))
		return nil
	})
	switch {
	case err != nil && c.badKey(ctx, err):
		return dibs.Row{}, fmt.Errorf("look at item %s of table %s: %w: %w", key, c.m.asked, dibs.ErrNotFound, err)
	case err != nil:
		return dibs.Row{}, fmt.Errorf("look at item %s of table %s: %w", key, c.m.asked, err)
	case len(out) == 0:
		return dibs.Row{}, fmt.Errorf("look at item %s of table %s: %w", key, c.m.asked, dibs.ErrNotFound)
	}
	return out[0], nil
}

// badKey is true when the database says that a text is no value of the key's
// type: such a row cannot exist.
func (c *claims) badKey(ctx context.Context, err error) bool {
	return c.store.classOf(ctx, err) == ClassData
}

// Rows lists rows. See [dibs.Claims].
func (c *claims) Rows(ctx context.Context, f dibs.RowFilter) ([]dibs.Row, error) {
	if f.Scope.Key != nil && !c.m.possible(f.Scope.Key) {
		return nil, nil
	}
	st, b := c.st.rowsAll, c.scopeBinds(f.Scope)
	b["limit"] = int64(limitOf(f.Limit))
	switch {
	case f.Orphaned:
		st = c.st.rowsOrphaned
	case f.Due && f.Scope.Key != nil:
		st = c.st.rowsKey
	case f.Due:
		st = c.st.rowsDue
	case f.Status != "":
		label := c.m.label(f.Status)
		if label == "" {
			return nil, nil // a state that the table does not have
		}
		st, b["label"] = c.st.rowsStatus, label
	}
	var out []dibs.Row
	err := c.list(ctx, st, b, func(rec record) error {
		out = append(out, c.m.row(rec))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list rows of table %s: %w", c.m.asked, err)
	}
	return out, nil
}

// Remaining counts rows without locks. See [dibs.Claims].
func (c *claims) Remaining(ctx context.Context, s dibs.Scope, limit int) (int64, error) {
	b := c.scopeBinds(s)
	b["limit"] = int64(limit)
	var n int64
	err := c.store.read(ctx, c.st.remaining, b, func(rows *sql.Rows) error { return rows.Scan(&n) })
	if err != nil {
		return 0, fmt.Errorf("count what remains in table %s: %w", c.m.asked, err)
	}
	return min(n, int64(limit)), nil
}

// sweepAtOnce is the most rows that one sweeping transaction writes.
const sweepAtOnce = 1000

// Sweep repairs states that no claim can pick up. See [dibs.Claims].
func (c *claims) Sweep(ctx context.Context, lease time.Duration) (dibs.Swept, error) {
	if err := c.m.leaseFits(lease); err != nil {
		return dibs.Swept{}, err
	}
	var out dibs.Swept
	for _, kind := range []struct {
		st, write Statement
		n         *int64
	}{
		{c.st.sweepLease, c.st.sweepLeaseWrite, &out.InProgressWithoutLease},
		{c.st.sweepDue, c.st.sweepDueWrite, &out.IdleWithoutDue},
	} {
		for {
			n, err := c.sweepOnce(ctx, kind.st, kind.write, lease)
			if err != nil {
				return out, err
			}
			if *kind.n += n; n < sweepAtOnce {
				break
			}
		}
	}
	return out, nil
}

func (c *claims) sweepOnce(ctx context.Context, st, write Statement, lease time.Duration) (n int64, err error) {
	b := Binds{"lease": c.leaseSpan(lease), "limit": int64(sweepAtOnce)}
	err = c.store.InTx(ctx, "sweep table "+c.m.asked, func(ctx context.Context, tx *Tx) error {
		var items []item
		if err := tx.records(ctx, st, b, func(rec record) error {
			items = append(items, keyed(c.m.key(rec)))
			return nil
		}); err != nil {
			return err
		}
		if n = int64(len(items)); n == 0 || !write.there() {
			return nil
		}
		batch, err := encodeItems(inKeyOrder(items))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, write, Binds{"items": batch, "lease": b["lease"]})
		return err
	})
	return n, err
}

// Stats counts rows by state. See [dibs.Claims].
func (c *claims) Stats(ctx context.Context) (dibs.TableStats, error) {
	var out dibs.TableStats
	err := c.list(ctx, c.st.stats, Binds{}, func(rec record) error {
		r := reader{rec: rec}
		n, expired := r.number("n"), r.number("expired")
		switch c.m.state(rec.text("status")) {
		case dibs.StatusIdle:
			out.Idle += n
		case dibs.StatusInProgress:
			out.InProgress, out.Expired = out.InProgress+n-expired, out.Expired+expired
		case dibs.StatusFailed:
			out.Failed += n
		case dibs.StatusDone:
			out.Done += n
		case dibs.StatusQuarantined:
			out.Quarantined += n
		default:
			out.Other += n
		}
		out.Due += r.number("due")
		if oldest := r.instant("oldest"); !oldest.IsZero() && !c.m.two && (out.OldestDue.IsZero() || oldest.Before(out.OldestDue)) {
			out.OldestDue = oldest
		}
		out.Now = r.instant("now")
		return r.err
	})
	if err != nil {
		return out, fmt.Errorf("count rows of table %s: %w", c.m.asked, err)
	}
	return out, nil
}

// list runs a reading statement outside of any transaction.
func (c *claims) list(ctx context.Context, st Statement, b Binds, fn func(record) error) error {
	return c.store.read(ctx, st, b, (&recordScan{fn: fn}).row)
}
