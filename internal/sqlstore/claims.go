package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// claims is the claim primitive on one table. It is safe for concurrent use.
type claims struct {
	store *Store
	m     *mapping
	st    statements
}

var _ dibs.Claims = (*claims)(nil)

// statements are a table's statements, compiled once.
type statements struct {
	claim, claimMark                 Statement
	claimPlain, claimPlainMark       Statement // without IdleStartedBefore
	claimKey, claimWrite             Statement
	class                            [classes]Statement
	settle, settleWrite              Statement
	outcomeInsert, outcomeFind       Statement
	renew, renewWrite, renewLook     Statement
	find, look, stats                Statement
	rowsAll, rowsStatus, rowsKey     Statement
	rowsDue, rowsOrphaned, remaining Statement
	sweepLease, sweepDue             Statement
	sweepLeaseWrite, sweepDueWrite   Statement
}

// Claims opens the claim primitive on a table. See [dibs.Store].
func (s *Store) Claims(ctx context.Context, t dibs.Table) (dibs.Claims, error) {
	m, err := s.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	c := &claims{store: s, m: m}
	if err := c.compile(); err != nil {
		return nil, err
	}
	if err := c.probe(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Table is the mapping as it was resolved.
func (c *claims) Table() dibs.Table { return c.m.Table }

// TwoColumn tells whether only status and started_at are used.
func (c *claims) TwoColumn() bool { return c.m.two }

// OneWriter tells whether one transaction writes at a time. See [dibs.Claims].
func (c *claims) OneWriter() bool { return c.store.dialect.BeginImmediate != "" }

// probe lets the database itself read the mapping's SQL, the where fragment
// above all, without touching a row.
func (c *claims) probe(ctx context.Context) error {
	st, err := c.store.dialect.Compile("table_probe", Fragments{
		"table": c.store.tableName(c.m), "w": c.store.dialect.Quote(c.m.Name), "where": orTrue(newWriter(c.store, c.m).where()),
	})
	if err != nil {
		return err
	}
	st.SQL = strings.ReplaceAll(st.SQL, whereMark, c.m.Where)
	if err := c.store.read(ctx, st, Binds{}, func(*sql.Rows) error { return nil }); err != nil {
		return fmt.Errorf("probe table %s: %w", c.m.asked, refusal(c.m, "where", err))
	}
	return nil
}

func orTrue(condition string) string {
	if condition == "" {
		return "1 = 1"
	}
	return condition
}

// compile fills the table's statements.
func (c *claims) compile() error {
	w := newWriter(c.store, c.m)
	base, err := w.fragments()
	if err != nil {
		return err
	}
	for _, part := range []func(writer, compiler) error{c.compileClaim, c.compileSettle, c.compileRenew, c.compileReads} {
		if err := part(w, compiler{c, base}); err != nil {
			return fmt.Errorf("table %s: %w", c.m.asked, err)
		}
	}
	return nil
}

// compiler compiles statements from the table's fragments and some of their own.
type compiler struct {
	c    *claims
	base Fragments
}

// one compiles a statement; the user's fragment goes in last, unread.
func (k compiler) one(into *Statement, name string, own Fragments) error {
	fr := make(Fragments, len(k.base)+len(own))
	for n, v := range k.base {
		fr[n] = v
	}
	for n, v := range own {
		fr[n] = v
	}
	st, err := k.c.store.dialect.Compile(name, fr)
	if err != nil {
		return err
	}
	st.SQL = strings.ReplaceAll(st.SQL, whereMark, k.c.m.Where)
	*into = st
	return nil
}

// optional is one for a statement that not every dialect has.
func (k compiler) optional(into *Statement, name string, own Fragments) error {
	if !k.c.store.dialect.Statements.Has(name) {
		return nil
	}
	return k.one(into, name, own)
}

func (s Statement) there() bool { return s.SQL != "" }

// checkpoint is the fenced first statement of every claiming or settling
// transaction. It tells whether the run is still running and ours, and not past
// the time it has to stop by, and the database's time. Without a run there is
// nothing to check.
func (s *Store) checkpoint(ctx context.Context, tx *Tx, r dibs.RunRef, p dibs.Progress) (live bool, now time.Time, err error) {
	if r.ID == "" {
		return true, now, nil
	}
	b := Binds{
		"id": r.ID, "token": string(r.Token), "position": text(p.Position),
		"selected": p.Counts.Selected, "completed": p.Counts.Completed, "already_done": p.Counts.AlreadyDone,
		"failed": p.Counts.Failed, "rejected": p.Counts.Rejected, "uncertain": p.Counts.Uncertain,
		"held": p.Counts.Held, "released": p.Counts.Released, "lost": p.Counts.Lost, "remaining": p.Counts.Remaining,
	}
	st, err := s.own("run_checkpoint")
	if err != nil {
		return false, now, err
	}
	found := false
	err = tx.Query(ctx, st, b, func(rows *sql.Rows) error {
		var n int
		found = true
		err := rows.Scan(&n, timeInto{&now})
		live = n != 0
		return err
	})
	if err != nil || !found || !s.dialect.Statements.Has("run_checkpoint_write") {
		return live, now, err
	}
	if st, err = s.own("run_checkpoint_write"); err != nil {
		return false, now, err
	}
	_, err = tx.Exec(ctx, st, b)
	return live, now, err
}

// span is a duration as a bind; a lease also has the clocks' skew.
func span(d time.Duration) int64 { return d.Microseconds() }

func (c *claims) leaseSpan(d time.Duration) int64 { return (d + c.store.skew).Microseconds() }
