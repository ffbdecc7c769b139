package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/dibs-run/dibs"
)

// Requeue asks to give rows that were set aside another chance.
type Requeue struct {
	// Error restricts to rows whose last error holds this text. Empty: all.
	Error string
	// Confirm is how many rows there must be; any other number changes nothing.
	Confirm int64
	// Act is recorded with it.
	Act dibs.AuditRecord
}

// requeueStatements are compiled for one call: it is a rare act.
type requeueStatements struct{ count, take, write Statement }

// Quarantined counts the rows that [claims.Requeue] would take.
func (c *claims) Quarantined(ctx context.Context, r Requeue) (int64, error) {
	st, err := c.compileRequeue(r)
	if err != nil {
		return 0, err
	}
	return c.countRequeue(ctx, st, r)
}

func (c *claims) countRequeue(ctx context.Context, st requeueStatements, r Requeue) (n int64, err error) {
	b := Binds{"limit": int64(1) << 40, "pattern": likePattern(r.Error)}
	err = c.list(ctx, st.count, b, func(rec record) error {
		r := reader{rec: rec}
		n = r.number("n")
		return r.err
	})
	return n, err
}

// Requeue makes quarantined rows failed ones that are due now, with their budgets
// whole again. It changes nothing unless exactly Confirm rows would be taken,
// and says how many were.
func (c *claims) Requeue(ctx context.Context, r Requeue) (int64, error) {
	st, err := c.compileRequeue(r)
	if err != nil {
		return 0, err
	}
	there, err := c.countRequeue(ctx, st, r)
	if err != nil {
		return 0, err
	}
	if there != r.Confirm {
		return 0, fmt.Errorf("requeue rows of table %s: %d rows are quarantined, %d were confirmed", c.m.asked, there, r.Confirm)
	}
	act := &r.Act
	var total int64
	for {
		n, err := c.requeueOnce(ctx, st, r, act)
		if total += n; err != nil || n < sweepAtOnce {
			return total, err
		}
		act = nil
	}
}

func (c *claims) requeueOnce(ctx context.Context, st requeueStatements, r Requeue, act *dibs.AuditRecord) (n int64, err error) {
	b := Binds{"limit": int64(sweepAtOnce), "pattern": likePattern(r.Error)}
	err = c.store.InTx(ctx, "requeue rows of table "+c.m.asked, func(ctx context.Context, tx *Tx) error {
		if act != nil {
			if err := c.store.audit(ctx, tx.q(), *act); err != nil {
				return err
			}
		}
		var items []item
		if err := tx.records(ctx, st.take, b, func(rec record) error {
			items = append(items, keyed(c.m.key(rec)))
			return nil
		}); err != nil {
			return err
		}
		if n = int64(len(items)); n == 0 || !st.write.there() {
			return nil
		}
		batch, err := encodeItems(inKeyOrder(items))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, st.write, Binds{"items": batch})
		return err
	})
	return n, err
}

func (c *claims) compileRequeue(r Requeue) (st requeueStatements, err error) {
	m := c.m
	fault := func(field, problem, fix string) error {
		return &dibs.ConfigError{Subject: "table " + m.asked, Field: field, Problem: problem, Fix: fix}
	}
	switch {
	case m.two:
		return st, fault("two_column", "a table of two columns keeps no count of attempts, so nothing is ever quarantined", "")
	case m.label(dibs.StatusQuarantined) == "":
		return st, fault("labels.quarantined", "not mapped: quarantined rows cannot be told from held ones", "map it, or reset the rows by hand: status FAILED, claimable_at now, attempts 0")
	case r.Error != "" && !m.lastError.there():
		return st, fault("columns.last_error", "not mapped: rows cannot be chosen by their error", "leave --error out")
	}
	w := newWriter(c.store, m)
	base, err := w.fragments()
	if err != nil {
		return st, err
	}
	which := all(w.is(dibs.StatusQuarantined), w.keysThere())
	if r.Error != "" {
		which = all(which, w.q.Text(m.lastError, w.col(m.lastError))+" LIKE "+w.q.BindText("pattern")+" ESCAPE '!'")
	}
	set := strings.Join([]string{
		w.target(m.status) + " = " + w.label(dibs.StatusFailed),
		w.target(m.claimableAt) + " = " + w.q.Time(m.claimableAt, alignDown(w.q, &m.claimableAt, w.now())),
		w.target(m.attempts) + " = 0", w.target(m.expirations) + " = 0",
	}, ", ")
	k := compiler{c, base}
	own := Fragments{"which": which, "sweep_set": set, "fields": w.q.Fields(m.fields())}
	counted := "(SELECT count(*) FROM " + c.store.tableName(m) + " AS " + w.w + " WHERE " + which + ") AS n"
	if err = k.one(&st.count, "remaining", Fragments{"remaining": counted}); err != nil {
		return st, err
	}
	if err = k.one(&st.take, "sweep", own); err != nil {
		return st, err
	}
	return st, k.optional(&st.write, "sweep_write", own)
}

// likePattern finds a text anywhere; what LIKE reads as a sign is escaped.
func likePattern(text string) string {
	return "%" + escapeLike(text) + "%"
}
