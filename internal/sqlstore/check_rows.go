package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs"
)

// shape is one way in which a time column's values are written.
type shape struct {
	form, example string
	n             int64
}

// shapes looks at how each time column's values are written.
func (k *checker) shapes(ctx context.Context) error {
	for _, c := range []Column{k.m.startedAt, k.m.claimableAt, k.m.lastSuccess} {
		if !c.there() {
			continue
		}
		found, err := k.shapesOf(ctx, c)
		if err != nil {
			return err
		}
		if k.store.dialect.Statements.Has("table_sample") {
			k.mixed(c, found)
			continue
		}
		for _, s := range found {
			k.add(Doubtful, "times", fmt.Sprintf("column %s holds %d values such as %s", c.Name, s.n, s.example),
				"such a row is due for ever, or never", "write a time, or NULL for never")
		}
	}
	return nil
}

func (k *checker) shapesOf(ctx context.Context, c Column) ([]shape, error) {
	st, err := k.store.dialect.Compile("check_shapes", Fragments{"table": k.store.tableName(k.m), "column": k.store.dialect.Quote(c.Name)})
	if err != nil {
		return nil, err
	}
	var found []shape
	err = k.store.read(ctx, st, nil, func(rows *sql.Rows) error {
		var s shape
		err := rows.Scan(into(&s.form), &s.n, into(&s.example))
		found = append(found, s)
		return err
	})
	return found, err
}

// mixed tells apart what is read rightly whatever its shape, texts, from what
// is compared as it is stored, numbers.
func (k *checker) mixed(c Column, found []shape) {
	kinds := map[string]*shape{}
	var order []string
	for _, s := range found {
		resolved, err := k.store.dialect.Columns.TimeShape(Column{Name: "", Kind: c.Kind, Type: c.Type}, []string{s.example})
		if err != nil {
			k.add(Wrong, "times", fmt.Sprintf("column %s %s (%d such values)", c.Name, err, s.n),
				"a row with such a value cannot be compared, and is never due or always", "rewrite these values")
			continue
		}
		if strings.HasPrefix(s.example, "integer:") && len(strings.TrimLeft(strings.TrimPrefix(s.example, "integer:"), "-0")) < 9 {
			continue // close to 1970: it fits every unit
		}
		kind := resolved.Shape
		if kinds[kind] == nil {
			kinds[kind] = &shape{example: s.example}
			order = append(order, kind)
		}
		kinds[kind].n += s.n
	}
	if len(order) < 2 {
		return
	}
	var said []string
	numbers := false
	for _, kind := range order {
		s := kinds[kind]
		_, value, _ := strings.Cut(s.example, ":")
		said = append(said, fmt.Sprintf("%d like %s", s.n, value))
		numbers = numbers || strings.HasPrefix(s.example, "integer:")
	}
	problem := fmt.Sprintf("column %s mixes forms of time: %s", c.Name, strings.Join(said, ", "))
	if numbers {
		k.add(Wrong, "times", problem, "they are compared as they are stored, so a lease can end decades early or late", "rewrite them in one form: "+formName(c, kinds[order[0]].example))
		return
	}
	k.add(Doubtful, "times", problem, "we read each for what it means, but the application's own comparisons of such texts are wrong", "rewrite them in one form: "+formName(c, kinds[order[0]].example))
}

// formName says in which form we write a column.
func formName(c Column, example string) string {
	switch c.Shape {
	case "s":
		return "whole seconds since 1970"
	case "ms":
		return "milliseconds since 1970"
	case "us":
		return "microseconds since 1970"
	}
	_, value, _ := strings.Cut(example, ":")
	return "as in " + value
}

// someRows is how many rows of a kind are looked at.
const someRows = 100

// some lists a few rows by a condition.
func (k *checker) some(ctx context.Context, which string) ([]dibs.Row, error) {
	base, err := newWriter(k.store, k.m).fragments()
	if err != nil {
		return nil, err
	}
	var st Statement
	if err := (compiler{k.claims, base}).one(&st, "rows", Fragments{"which": which, "order": base["key_order"]}); err != nil {
		return nil, err
	}
	var out []dibs.Row
	err = k.list(ctx, st, Binds{"limit": int64(someRows)}, func(rec record) error {
		out = append(out, k.m.row(rec))
		return nil
	})
	return out, err
}

// states looks for rows that no program of ours leaves behind.
func (k *checker) states(ctx context.Context) error {
	w, m := newWriter(k.store, k.m), k.m
	progress := w.is(dibs.StatusInProgress)
	type kind struct {
		code, which, what, why, fix string
		severity                    Severity
	}
	kinds := []kind{
		{"unknown_label", w.unknownLabel(), "in no state of ours", "never claimed", "map the label under labels, or correct the rows", Doubtful},
		{"no_lease", w.withoutLease(), "in progress without a lease", "nobody can take them before the next tick's sweep gives them one", "run a tick; find who claims rows without a lease", Doubtful},
		{"future", all(w.col(m.startedAt)+" IS NOT NULL", "NOT "+w.q.Before(m.startedAt, w.col(m.startedAt), w.now()+" + 3600000000", false)),
			"started more than an hour from now", "they are left alone until then; local times in a UTC column look like this", "have the application write UTC", Doubtful},
	}
	if !m.two {
		kinds = append(kinds,
			kind{"no_due", w.withoutDue(), "idle without a due time", "nobody can take them before the next tick's sweep makes them due", "run a tick; give claimable_at its default (dibs adopt)", Doubtful},
			kind{"no_token", all(progress, w.col(m.claimToken)+" IS NULL", w.ourClaim(), w.col(m.claimableAt)+" IS NOT NULL"),
				"in progress without a token", "nobody can settle them; they come again when their lease ends", "find who writes the state by hand", Doubtful},
			kind{"leftover", all("NOT "+progress, w.col(m.claimToken)+" IS NOT NULL"), "not in progress, with a claim's token left on them",
				"the next claim records that claim as lost", "clear the token where the state is reset by hand", Doubtful},
		)
	}
	if k.rows > 0 && k.unknown == k.rows {
		kinds[0].severity, kinds[0].why = Wrong, "no row of this table can ever be claimed"
	}
	clean := true
	for _, one := range kinds {
		rows, err := k.some(ctx, one.which)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			clean = false
			k.add(one.severity, one.code, sayRows(rows)+" "+one.what+sayLabels(rows), one.why, one.fix)
		}
	}
	if clean {
		k.add(Fine, "states", "no orphaned state", "", "")
	}
	return nil
}

func (w writer) unknownLabel() string {
	var labels []string
	for _, s := range []dibs.Status{dibs.StatusIdle, dibs.StatusInProgress, dibs.StatusFailed, dibs.StatusDone, dibs.StatusQuarantined} {
		if w.m.label(s) != "" {
			labels = append(labels, w.label(s))
		}
	}
	return either(w.col(w.m.status)+" IS NULL", w.col(w.m.status)+" NOT IN ("+strings.Join(labels, ", ")+")")
}

// sayRows counts rows and names some.
func sayRows(rows []dibs.Row) string {
	text := plural(int64(len(rows)), "row")
	if len(rows) >= someRows {
		text = fmt.Sprintf("%d or more rows", len(rows))
	}
	var names []string
	for i, r := range rows {
		if i == 3 {
			names = append(names, "…")
			break
		}
		names = append(names, r.Key.String())
	}
	return text + " (" + strings.Join(names, ", ") + ")"
}

// sayLabels names the labels that stand for no state.
func sayLabels(rows []dibs.Row) string {
	var labels []string
	for _, r := range rows {
		if l := fmt.Sprintf("%q", r.Label); r.Status == "" && !slices.Contains(labels, l) && len(labels) < 5 {
			labels = append(labels, l)
		}
	}
	if len(labels) == 0 {
		return ""
	}
	return ": " + strings.Join(labels, ", ")
}
