package sqlstore

import (
	"fmt"
	"strings"

	"github.com/dibs-run/dibs"
)

// tableName is the table's quoted name.
func (s *Store) tableName(m *mapping) string {
	if m.Schema == "" {
		return s.dialect.Quote(m.Name)
	}
	return s.dialect.Quote(m.Schema) + "." + s.dialect.Quote(m.Name)
}

// writer writes the fragments of one table's statements. Inside a statement the
// table goes by its own bare name, so that a where fragment may use that name;
// dibs_r are the items handed over, dibs_p the rows picked.
type writer struct {
	s *Store
	q ColumnSQL
	m *mapping
	w string // the table's bare name, quoted
	// plain leaves out what only the scope of a retry run needs.
	plain bool
}

func newWriter(s *Store, m *mapping) writer {
	return writer{s: s, q: s.dialect.Columns, m: m, w: s.dialect.Quote(m.Name)}
}

// col is a column in the table, target the same as SET and RETURNING want it.
func (w writer) col(c Column) string    { return w.w + "." + w.s.dialect.Quote(c.Name) }
func (w writer) target(c Column) string { return w.q.Target(w.w, w.s.dialect.Quote(c.Name)) }

// label is a state's label as a literal of the status column's type.
func (w writer) label(s dibs.Status) string {
	return w.literal(w.m.label(s))
}

func (w writer) literal(label string) string {
	switch w.m.status.Kind {
	case KindInt, KindUint:
		return label
	}
	return w.q.Literal(w.m.status, "'"+strings.ReplaceAll(label, "'", "''")+"'")
}

// label is a state's label; a state without one has none of its own.
func (m *mapping) label(s dibs.Status) string {
	l := m.Labels
	switch s {
	case dibs.StatusIdle:
		return l.Idle
	case dibs.StatusInProgress:
		return l.InProgress
	case dibs.StatusFailed:
		return l.Failed
	case dibs.StatusDone:
		return l.Done
	case dibs.StatusQuarantined:
		return l.Quarantined
	}
	return ""
}

// state is the state that a label stands for, or "".
func (m *mapping) state(label string) dibs.Status {
	for _, s := range []dibs.Status{
		dibs.StatusIdle, dibs.StatusInProgress, dibs.StatusFailed, dibs.StatusDone, dibs.StatusQuarantined,
	} {
		if own := m.label(s); own != "" && own == label {
			return s
		}
	}
	if m.foldsCase() {
		return m.like(strings.TrimRight(label, " "))
	}
	return ""
}

// foldsCase is true when the database takes labels for equal that differ in case
// or in blanks at the end: it claims such rows, so they must be understood.
func (m *mapping) foldsCase() bool {
	c := strings.ToLower(m.status.Collation)
	return strings.Contains(c, "_ci") || c == "nocase"
}

// like is the state whose label is the same but for its case.
func (m *mapping) like(label string) dibs.Status {
	for _, s := range []dibs.Status{
		dibs.StatusIdle, dibs.StatusInProgress, dibs.StatusFailed, dibs.StatusDone, dibs.StatusQuarantined,
	} {
		if own := m.label(s); own != "" && strings.EqualFold(own, label) {
			return s
		}
	}
	return ""
}

func (w writer) is(s dibs.Status) string {
	return "(" + w.col(w.m.status) + " = " + w.label(s) + ")"
}

func all(conditions ...string) string {
	kept := conditions[:0:0]
	for _, c := range conditions {
		if c != "" {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		return "1 = 1"
	}
	return strings.Join(kept, "\n  AND ")
}

func either(conditions ...string) string { return "(" + strings.Join(conditions, " OR ") + ")" }

// fragments are those that every statement on the table may use.
func (w writer) fragments() (Fragments, error) {
	fr, err := w.s.fragments()
	if err != nil {
		return nil, err
	}
	fr["table"], fr["w"] = w.s.tableName(w.m), w.w
	var names, out, returned, raw, join, match, order, picked []string
	for i, k := range w.m.keys {
		name := fmt.Sprintf("k%d", i)
		names = append(names, name)
		out = append(out, w.q.Text(k, w.col(k))+" AS "+name)
		returned = append(returned, w.q.Text(k, w.target(k))+" AS "+name)
		raw = append(raw, fmt.Sprintf("%s AS c%d", w.col(k), i))
		join = append(join, fmt.Sprintf("%s = dibs_p.c%d", w.col(k), i))
		match = append(match, w.col(k)+" = "+w.q.Value(k, w.q.Field(name)))
		order = append(order, w.col(k))
		picked = append(picked, fmt.Sprintf("c%d", i))
	}
	fr["key_names"] = strings.Join(names, ", ")
	fr["key_out"] = strings.Join(out, ", ")
	fr["key_returned"] = strings.Join(returned, ", ")
	fr["key_raw"] = strings.Join(raw, ", ")
	if k := w.m.keys[0]; len(w.m.keys) == 1 {
		if among := w.q.Among(w.col(k), "c0", "dibs_p"); among != "" {
			join = append(join, among)
		}
		if among := w.q.Among(w.col(k), w.q.Value(k, w.q.Field("k0")), "dibs_r"); among != "" {
			match = append(match, among)
		}
	}
	fr["key_join"] = strings.Join(join, " AND ")
	fr["key_match"] = strings.Join(match, " AND ")
	fr["key_order"] = strings.Join(order, ", ")
	fr["key_picked"] = strings.Join(picked, ", ")
	fr["row"] = w.row(out)
	fr["seen"] = w.seen()
	fr["now"] = w.q.NowMicros()
	fr["by_key"], fr["by_due"] = w.hint(w.m.keyIndex), w.hint(w.m.dueIndex)
	return fr, nil
}

func (w writer) hint(index string) string {
	if index == "" {
		return ""
	}
	return w.q.Hint(w.s.dialect.Quote(index))
}

// row lists what is read of a row: its key, its claim columns, its payload.
func (w writer) row(keys []string) string {
	m := w.m
	out := append(keys[:len(keys):len(keys)],
		w.q.Text(m.status, w.col(m.status))+" AS status",
		w.q.Micros(m.startedAt, w.col(m.startedAt))+" AS started")
	add := func(c Column, expr, name string) {
		if c.there() {
			out = append(out, expr+" AS "+name)
		}
	}
	if !m.two {
		add(m.claimableAt, w.q.Micros(m.claimableAt, w.col(m.claimableAt)), "claimable")
		for _, p := range []struct {
			c    Column
			name string
		}{
			{m.claimToken, "token"}, {m.fence, "fence"}, {m.attempts, "attempts"}, {m.expirations, "expirations"},
			{m.cycle, "cycle"}, {m.lastError, "last_error"},
		} {
			if p.c.there() {
				add(p.c, w.q.Text(p.c, w.col(p.c)), p.name)
			}
		}
		if m.lastSuccess.there() {
			add(m.lastSuccess, w.q.Micros(m.lastSuccess, w.col(m.lastSuccess)), "success")
		}
	}
	for i, c := range m.selects {
		out = append(out, fmt.Sprintf("%s AS p%d", w.q.Payload(c, w.col(c)), i))
	}
	return strings.Join(out, ",\n       ")
}

// seen adds what only lists need.
func (w writer) seen() string {
	filtered := "0"
	if w.m.Where != "" {
		filtered = "(CASE WHEN (" + whereMark + ") THEN 0 ELSE 1 END)"
	}
	return filtered + " AS filtered, " + w.q.NowMicros() + " AS now"
}

// whereMark stands for the user's fragment until the binds are numbered: its
// text is never looked into.
const whereMark = "\x00where\x00"

func (w writer) where() string {
	if w.m.Where == "" {
		return ""
	}
	return "(" + whereMark + ")"
}

// keysThere leaves out rows whose key is NULL, where the database allows that.
func (w writer) keysThere() string {
	var out []string
	for _, k := range w.m.keys {
		if !k.NotNull {
			out = append(out, w.col(k)+" IS NOT NULL")
		}
	}
	return strings.Join(out, " AND ")
}

func (w writer) now() string { return w.q.NowMicros() }

// stamp is what a claim writes to started_at, in microseconds. In a two-column
// table it never moves back, since it is the fence.
func (w writer) stamp() string {
	now := alignDown(w.q, &w.m.startedAt, w.now())
	if !w.m.two {
		return now
	}
	old := "coalesce(" + w.q.Micros(w.m.startedAt, w.col(w.m.startedAt)) + " + " + itoa(w.m.startedAt.Unit.Microseconds()) + ", 0)"
	return w.q.Greatest(now, old)
}

// ends is the lease end that a claim writes, in microseconds.
func (w writer) ends() string {
	return alignUp(w.q, &w.m.claimableAt, w.now()+" + "+w.q.BindInt("lease"))
}

func (w writer) expired() string {
	return "(CASE WHEN " + w.is(dibs.StatusInProgress) + " THEN 1 ELSE 0 END)"
}

func (w writer) newFence() string { return "coalesce(" + w.col(w.m.fence) + ", 0) + 1" }

func (w writer) newCycle() string {
	return "coalesce(" + w.col(w.m.cycle) + ", " + w.q.Div(w.now(), "1000000") + ")"
}

func (w writer) newExpirations() string {
	return "coalesce(" + w.col(w.m.expirations) + ", 0) + " + w.expired()
}

// sets writes the assignments of a claim from the given expressions.
func (w writer) sets(stamp, ends, token, fence, expirations, cycle string) string {
	m := w.m
	out := []string{
		w.target(m.status) + " = " + w.label(dibs.StatusInProgress),
		w.target(m.startedAt) + " = " + w.q.Time(m.startedAt, stamp),
	}
	if !m.two {
		out = append(out,
			w.target(m.claimableAt)+" = "+w.q.Time(m.claimableAt, ends),
			w.target(m.claimToken)+" = "+token,
			w.target(m.fence)+" = "+fence,
			w.target(m.expirations)+" = "+expirations)
		if m.cycle.there() {
			out = append(out, w.target(m.cycle)+" = "+cycle)
		}
	}
	return strings.Join(out, ",\n    ")
}

// claimSet writes a claim from the row itself.
func (w writer) claimSet() string {
	if w.m.two {
		return w.sets(w.stamp(), "", "", "", "", "")
	}
	cycle := ""
	if w.m.cycle.there() {
		cycle = w.newCycle()
	}
	return w.sets(w.stamp(), w.ends(), w.q.BindText("token"), w.newFence(), w.newExpirations(), cycle)
}

// claimWrite writes a claim whose values were computed when the row was picked.
func (w writer) claimWrite() string {
	n := func(f string) string { return w.q.Int(w.q.Field(f)) }
	return w.sets(n("b"), n("c"), w.q.BindText("token"), n("f"), n("x"), n("y"))
}

// claimed reads back, claiming computes beforehand, what a claim writes.
func (w writer) claimed() string {
	m := w.m
	out := []string{w.q.Micros(m.startedAt, w.col(m.startedAt)) + " AS stamp"}
	if !m.two {
		out = append(out,
			w.q.Micros(m.claimableAt, w.col(m.claimableAt))+" AS ends",
			w.q.Text(m.fence, w.col(m.fence))+" AS new_fence",
			w.q.Text(m.expirations, w.col(m.expirations))+" AS new_expirations")
		if m.cycle.there() {
			out = append(out, w.q.Text(m.cycle, w.col(m.cycle))+" AS new_cycle")
		}
	}
	return strings.Join(append(out, w.q.ClockMicros()+" AS now"), ",\n       ")
}

func (w writer) claiming() string {
	m := w.m
	out := []string{w.stamp() + " AS stamp"}
	if !m.two {
		out = append(out, w.ends()+" AS ends", w.newFence()+" AS new_fence", w.newExpirations()+" AS new_expirations")
		if m.cycle.there() {
			out = append(out, w.newCycle()+" AS new_cycle")
		}
	}
	return strings.Join(append(out, w.q.ClockMicros()+" AS now"), ",\n       ")
}
