package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// ApplyAdoption carries a plan out, step by step, and then opens the table for
// claims to prove that it can be claimed. Where the database can, an interrupted
// plan leaves nothing behind; elsewhere a new plan continues it. Report is
// called before each step with rows 0, and with the rows written so far.
func (s *Store) ApplyAdoption(ctx context.Context, p *AdoptPlan, report func(step int, rows int64)) error {
	if report == nil {
		report = func(int, int64) {}
	}
	var err error
	if s.dialect.Adopt.AtOnce {
		err = s.applyAtOnce(ctx, p, report)
	} else {
		for i, step := range p.Steps {
			report(i, 0)
			if err = step.apply(ctx, func(rows int64) { report(i, rows) }); err != nil {
				err = fmt.Errorf("adopt %s, step %d (%s): %w", p.Table, i+1, step.What, s.refusedChange(p.Table, err))
				break
			}
		}
	}
	if err != nil {
		return err
	}
	if _, err := s.Claims(ctx, p.Table); err != nil {
		return fmt.Errorf("adopt %s: open it for claims: %w", p.Table, err)
	}
	return nil
}

// applyAtOnce runs all statements in one transaction.
func (s *Store) applyAtOnce(ctx context.Context, p *AdoptPlan, report func(int, int64)) error {
	err := s.InTx(ctx, "adopt "+p.Table.String(), func(ctx context.Context, tx *Tx) error {
		for i, step := range p.Steps {
			report(i, 0)
			for _, one := range step.SQL {
				if _, err := tx.q().ExecContext(ctx, one); err != nil {
					return fmt.Errorf("step %d (%s): %w", i+1, step.What, err)
				}
			}
		}
		return nil
	})
	return s.refusedChange(p.Table, err)
}

// refusedChange says what to do about a missing privilege.
func (s *Store) refusedChange(t dibs.Table, err error) error {
	if err == nil {
		return nil
	}
	class := s.dialect.Classify(err)
	var te *txError
	if errors.As(err, &te) {
		class = te.class
	}
	if class != ClassDenied {
		return err
	}
	return &dibs.ConfigError{Subject: "table " + t.String(), Problem: "may not be changed: " + err.Error(),
		Fix: "run this as the table's owner, or give what it prints without --apply to whoever is"}
}

// Tries of a change that has to wait for a lock, and the pause between them, in
// which everybody who queued behind it gets through.
const (
	changeTries = 10
	changePause = 2 * time.Second
)

// change runs statements on a connection of their own, in one transaction where
// wanted and possible. It gives up waiting for a lock soon and tries again later,
// since everybody else queues behind it.
func (p *adopter) change(ctx context.Context, inside bool, statements ...string) error {
	for try := 1; ; try++ {
		err := p.changeOnce(ctx, inside && p.store.dialect.TransactionalDDL, statements)
		if err == nil || p.store.classify(ctx, err) != ClassRetry {
			return err
		}
		if try == changeTries {
			return fmt.Errorf("%w: gave up after %d tries: somebody keeps the table locked: %w", dibs.ErrUnavailable, try, err)
		}
		if !wait(ctx, changePause) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

func (p *adopter) changeOnce(ctx context.Context, inside bool, statements []string) (err error) {
	conn, err := p.store.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%w: connect: %w", dibs.ErrUnavailable, err)
	}
	defer func() { _ = conn.Close() }() // back to the pool
	if inside {
		return p.changeInside(ctx, conn, statements)
	}
	if p.sql.Patience != "" {
		if _, err := conn.ExecContext(ctx, p.sql.Patience); err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if _, rerr := conn.ExecContext(ctx, p.sql.Restore); err == nil && rerr != nil {
				err = rerr
			}
		}()
	}
	for _, one := range statements {
		if _, err := conn.ExecContext(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func (p *adopter) changeInside(ctx context.Context, conn *sql.Conn, statements []string) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if p.sql.PatienceInside != "" {
		statements = append([]string{p.sql.PatienceInside}, statements...)
	}
	for _, one := range statements {
		if _, err := tx.ExecContext(ctx, one); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// fillRows walks the table in ranges of its key, so that no row is looked at
// twice and no transaction is long.
func (p *adopter) fillRows(ctx context.Context, set, which string, report func(int64)) error {
	m := p.r.m
	var names, texts, order []string
	for i, k := range m.keys {
		names = append(names, p.quote(k.Name))
		texts = append(texts, p.store.dialect.Columns.Text(k, p.quote(k.Name))+fmt.Sprintf(" AS k%d", i))
		order = append(order, p.quote(k.Name))
	}
	fr := Fragments{
		"table": p.table, "set": set, "which": which, "limit": itoa(adoptBatch), "key": "(" + strings.Join(names, ", ") + ")",
		"key_text": strings.Join(texts, ", "), "order": strings.Join(order, ", "),
	}
	var last []string
	var written int64
	for {
		fr["after"], fr["upto"] = p.within(last, ">", "a"), ""
		next, err := p.edge(ctx, fr, last)
		if err != nil {
			return err
		}
		if next != nil {
			fr["upto"] = p.within(next, "<=", "z")
		}
		st, err := p.store.dialect.Compile("adopt_fill", fr)
		if err != nil {
			return err
		}
		b := Binds{}
		bindKey(b, "a", last)
		bindKey(b, "z", next)
		var n int64
		err = p.store.InTx(ctx, "fill "+p.Table.String(), func(ctx context.Context, tx *Tx) error {
			n, err = tx.Exec(ctx, st, b)
			return err
		})
		if err != nil {
			return err
		}
		written += n
		report(written)
		if next == nil {
			return nil
		}
		last = next
	}
}

// edge is the key that ends the next range, nil when the rest is one range.
func (p *adopter) edge(ctx context.Context, fr Fragments, last []string) ([]string, error) {
	st, err := p.store.dialect.Compile("adopt_edge", fr)
	if err != nil {
		return nil, err
	}
	b := Binds{}
	bindKey(b, "a", last)
	var next []string
	err = p.store.read(ctx, st, b, func(rows *sql.Rows) error {
		next = make([]string, len(p.r.m.keys))
		dest := make([]any, len(next))
		for i := range next {
			dest[i] = into(&next[i])
		}
		return rows.Scan(dest...)
	})
	return next, err
}

// within compares the whole key with values in binds.
func (p *adopter) within(values []string, op, prefix string) string {
	if values == nil {
		return ""
	}
	q := p.store.dialect.Columns
	var names, binds []string
	for i, k := range p.r.m.keys {
		names = append(names, p.quote(k.Name))
		binds = append(binds, q.Value(k, q.BindText(fmt.Sprintf("%s%d", prefix, i))))
	}
	return "(" + strings.Join(names, ", ") + ") " + op + " (" + strings.Join(binds, ", ") + ")"
}

func bindKey(b Binds, prefix string, values []string) {
	for i, v := range values {
		b[fmt.Sprintf("%s%d", prefix, i)] = v
	}
}
