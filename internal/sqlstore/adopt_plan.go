package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-run/dibs"
)

// plan puts the steps together.
func (p *adopter) plan(ctx context.Context) (*AdoptPlan, error) {
	out := &AdoptPlan{Table: p.Table, Notes: []string{}, Steps: []AdoptStep{}}
	out.Table.Schema, out.Table.Name = p.Table.Schema, p.cat.name
	unfinished, err := p.unfinished(ctx)
	if err != nil {
		return nil, err
	}
	if len(p.missing) > 0 {
		out.Steps = append(out.Steps, p.addStep())
	}
	indexes, err := p.indexSteps(ctx)
	if err != nil {
		return nil, err
	}
	if p.lacks("claimable_at") || unfinished {
		out.Steps = append(out.Steps, p.fillStep())
		out.Steps = append(out.Steps, indexes...)
		if !p.sql.AtOnce {
			out.Steps = append(out.Steps, p.defaultStep())
		}
	} else {
		out.Steps = append(out.Steps, indexes...)
	}
	out.Reset = p.reset()
	return out, p.notes(ctx, out)
}

func (p *adopter) fill(text string, more Fragments) string {
	fr := Fragments{"table": p.table, "due": p.sql.Due, "lease": itoa(int64(max(p.Lease.Seconds(), 1)))}
	for n, v := range more {
		fr[n] = v
	}
	filled, err := fill(text, fr)
	if err != nil {
		panic(fmt.Sprintf("dialect %s: %v", p.store.dialect.Name, err)) // a fault of the dialect's data, met by every test
	}
	return filled
}

// unfinished tells whether claimable_at exists without its default: an earlier
// attempt ended before the last step.
func (p *adopter) unfinished(ctx context.Context) (bool, error) {
	if p.lacks("claimable_at") || p.sql.AtOnce {
		return false, nil
	}
	st, err := p.store.dialect.Compile("adopt_default", nil)
	if err != nil {
		return false, err
	}
	var has bool
	err = p.store.read(ctx, st, Binds{"schema": p.cat.schema, "name": p.cat.name, "column": p.r.m.Columns.ClaimableAt}, func(rows *sql.Rows) error {
		return rows.Scan(&has)
	})
	if err != nil {
		return false, fmt.Errorf("read the defaults of table %s: %w", p.Table, err)
	}
	return !has, nil
}

func (p *adopter) addStep() AdoptStep {
	var parts, names []string
	for _, m := range p.missing {
		definition := m.definition
		if m.role == "claimable_at" && p.sql.AtOnce {
			definition += " DEFAULT " + p.sql.Due
		}
		parts = append(parts, p.fill(p.sql.AddColumn, Fragments{"column": p.quote(m.name), "type": definition}))
		names = append(names, m.name)
	}
	step := AdoptStep{What: "add " + strings.Join(names, ", "), Locks: p.sql.AddLocks}
	if p.sql.OneByOne {
		for _, part := range parts {
			step.SQL = append(step.SQL, p.fill(p.sql.AddColumns, Fragments{"columns": part}))
		}
	} else {
		step.SQL = []string{p.fill(p.sql.AddColumns, Fragments{"columns": strings.Join(parts, ",\n  ")})}
	}
	step.apply = func(ctx context.Context, _ func(int64)) error { return p.change(ctx, true, step.SQL...) }
	return step
}

// ended are the labels of rows that never come again.
func (p *adopter) ended() string {
	var out []string
	for _, s := range []dibs.Status{dibs.StatusDone, dibs.StatusQuarantined} {
		if p.r.m.label(s) != "" {
			out = append(out, p.label(s))
		}
	}
	return strings.Join(out, ", ")
}

// fillStep gives every row its due time by its state.
func (p *adopter) fillStep() AdoptStep {
	status, claimable := p.quote(p.r.m.Columns.Status), p.quote(p.r.m.Columns.ClaimableAt)
	later := p.fill(p.sql.Later, nil)
	inProgress := status + " = " + p.label(dibs.StatusInProgress)
	if p.sql.AtOnce { // the default has made the others due already
		step := AdoptStep{What: "rows in progress get one lease from now, ended rows never come again", Locks: p.sql.IndexLocks,
			SQL: []string{fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", p.table, claimable, later, inProgress)}}
		if ended := p.ended(); ended != "" {
			step.SQL = append(step.SQL, fmt.Sprintf("UPDATE %s SET %s = NULL WHERE %s IN (%s)", p.table, claimable, status, ended))
		}
		step.apply = func(ctx context.Context, _ func(int64)) error { return p.change(ctx, true, step.SQL...) }
		return step
	}
	set := fmt.Sprintf("%s = CASE WHEN %s THEN %s ELSE %s END", claimable, inProgress, later, p.sql.Due)
	which := claimable + " IS NULL"
	if ended := p.ended(); ended != "" {
		which += fmt.Sprintf(" AND (%s IS NULL OR %s NOT IN (%s))", status, status, ended)
	}
	var keys []string
	for _, k := range p.r.m.keys {
		keys = append(keys, p.quote(k.Name))
	}
	step := AdoptStep{
		What:  "give each row its due time by its state: in progress one lease from now, ended never, else due",
		Locks: fmt.Sprintf("the rows of one batch of %d, for the time of one statement", adoptBatch), Repeat: true,
		SQL: []string{p.fill(p.sql.Batch, Fragments{"set": set, "which": which, "limit": itoa(adoptBatch), "keys": strings.Join(keys, ", ")})},
	}
	step.apply = func(ctx context.Context, report func(int64)) error { return p.fillRows(ctx, set, which, report) }
	return step
}

// adoptBatch is how many rows one filling statement writes.
const adoptBatch = 5000

func (p *adopter) defaultStep() AdoptStep {
	step := AdoptStep{What: "rows that are inserted from now on are due at once", Locks: p.sql.DefaultLocks,
		SQL: []string{p.fill(p.sql.Default, Fragments{"column": p.quote(p.r.m.Columns.ClaimableAt)})}}
	step.apply = func(ctx context.Context, _ func(int64)) error { return p.change(ctx, true, step.SQL...) }
	return step
}

// index is an index that claims or sweeps need.
type index struct {
	ending, why string
	columns     []string
	conditions  []string
}

func (p *adopter) indexes(fragment string) []index {
	c := p.r.m.Columns
	claimable, status := p.quote(c.ClaimableAt), p.quote(c.Status)
	keys := []string{}
	for _, k := range p.r.m.keys {
		keys = append(keys, p.quote(k.Name))
	}
	if !p.sql.Partial {
		return []index{
			{"_dibs_due", "claims walk it in order", append([]string{claimable}, keys...), nil},
			{"_dibs_sweep", "the sweep finds orphaned rows by it", []string{status, claimable}, nil},
		}
	}
	due := []string{claimable + " IS NOT NULL"}
	if fragment != "" {
		due = append(due, "("+fragment+")")
	}
	return []index{
		{"_dibs_due", "claims walk it in order", append([]string{claimable}, keys...), due},
		{"_dibs_busy", "the sweep finds claims without a lease by it", keys, []string{status + " = " + p.label(dibs.StatusInProgress)}},
		{"_dibs_never", "the sweep finds idle rows without a due time by it", keys, []string{status + " = " + p.label(dibs.StatusIdle), claimable + " IS NULL"}},
	}
}

// indexSteps lists the indexes that are not there, or not whole.
func (p *adopter) indexSteps(ctx context.Context) ([]AdoptStep, error) {
	fragment, err := p.indexable(ctx)
	if err != nil {
		return nil, err
	}
	st, err := p.store.dialect.Compile("adopt_index", nil)
	if err != nil {
		return nil, err
	}
	var steps []AdoptStep
	for _, x := range p.indexes(fragment) {
		name, state := p.indexName(x.ending), ""
		err := p.store.read(ctx, st, Binds{"schema": p.cat.schema, "table": p.cat.name, "name": name}, func(rows *sql.Rows) error {
			return rows.Scan(&state)
		})
		if err != nil {
			return nil, fmt.Errorf("read the indexes of table %s: %w", p.Table, err)
		}
		if state == "whole" {
			continue
		}
		step := AdoptStep{What: "index " + name + ": " + x.why, Locks: p.sql.IndexLocks}
		fr := Fragments{"index": p.quote(name), "schema": p.quote(p.cat.schema), "name": p.quote(p.cat.name),
			"columns": strings.Join(x.columns, ", "), "condition": ""}
		if len(x.conditions) > 0 {
			fr["condition"] = " WHERE " + strings.Join(x.conditions, " AND ")
		}
		if state == "broken" {
			step.SQL = append(step.SQL, p.fill(p.sql.DropIndex, fr))
		}
		step.SQL = append(step.SQL, p.fill(p.sql.Index, fr))
		step.apply = func(ctx context.Context, _ func(int64)) error { return p.change(ctx, p.sql.AtOnce, step.SQL...) }
		steps = append(steps, step)
	}
	return steps, nil
}

// indexable is the where fragment if an index may carry it: the database is
// asked, on an empty temporary table of the same shape, in a transaction that
// is rolled back.
func (p *adopter) indexable(ctx context.Context) (string, error) {
	where := p.r.m.Where
	if where == "" || !p.sql.Partial {
		return "", nil
	}
	statements, _ := p.store.dialect.Statements.Text("adopt_probe")
	kept, err := keepLines(statements, nil)
	if err != nil {
		return "", err
	}
	kept, err = fill(kept, Fragments{"table": p.table, "probe": p.quote(p.cat.name), "key": p.quote(p.r.m.keys[0].Name), "where": where})
	if err != nil {
		return "", err
	}
	var refused error
	err = p.store.InTx(ctx, "adopt", func(ctx context.Context, tx *Tx) error {
		refused = nil
		for _, one := range strings.Split(kept, ";\n") {
			if _, err := tx.q().ExecContext(ctx, one); err != nil {
				if c := p.store.classify(ctx, err); c == ClassRetry || c == ClassConnection {
					return err
				}
				refused = err
				break
			}
		}
		return errUndo
	})
	if err != nil && !errors.Is(err, errUndo) {
		return "", err
	}
	if refused != nil {
		return "", nil //nolint:nilerr // an index of all rows serves too
	}
	return where, nil
}

// errUndo rolls a transaction back on purpose.
var errUndo = errors.New("undone on purpose")

// reset is how a person makes one row due.
func (p *adopter) reset() string {
	c := p.r.m.Columns
	set := []string{
		p.quote(c.Status) + " = " + p.label(dibs.StatusIdle), p.quote(c.ClaimableAt) + " = " + p.sql.Due,
		p.quote(c.ClaimToken) + " = NULL", p.quote(c.Attempts) + " = 0", p.quote(c.Expirations) + " = 0",
	}
	var which []string
	for _, k := range p.r.m.keys {
		which = append(which, p.quote(k.Name)+" = 'KEY'")
	}
	return fmt.Sprintf("UPDATE %s SET %s WHERE %s", p.table, strings.Join(set, ", "), strings.Join(which, " AND "))
}

// notes say what a person must know, and what looks odd.
func (p *adopter) notes(ctx context.Context, out *AdoptPlan) error {
	if len(out.Steps) == 0 {
		return nil
	}
	out.Notes = append(out.Notes,
		"Stop every program that claims rows of "+p.Table.String()+" by itself first: it does not know the new columns. If it must stay, leave the table as it is and set two_column: true in dibs.yaml instead.",
		"Never reset the fence: it grows for the life of the row. To make one row due by hand, use the statement under \"reset\".")
	if p.lacks("status") {
		return nil
	}
	st, err := p.store.dialect.Compile("adopt_labels", Fragments{"table": p.table, "status": newWriter(p.store, p.r.m).q.Text(p.r.m.status, p.quote(p.r.m.status.Name))})
	if err != nil {
		return err
	}
	var unknown []string
	err = p.store.read(ctx, st, nil, func(rows *sql.Rows) error {
		var label string
		if err := rows.Scan(into(&label)); err != nil {
			return err
		}
		if p.r.m.state(label) == "" {
			unknown = append(unknown, fmt.Sprintf("%q", label))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the labels of table %s: %w", p.Table, err)
	}
	if len(unknown) > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Column %s holds %s, which stand for none of our states: such rows are never claimed. Map them with --label, for example --label idle=%s.",
			p.r.m.status.Name, strings.Join(unknown, ", "), strings.Trim(unknown[0], `"`)))
	}
	return nil
}
