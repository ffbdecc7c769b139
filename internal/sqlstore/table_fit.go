package sqlstore

import (
	"fmt"
	"strings"
)

// key checks that the key columns name one row.
func (r *resolver) key() {
	names := r.m.KeyColumns()
	if len(names) == 0 {
		r.fault("key", "is missing", "name the key column, or keys for a composite one")
		return
	}
	for _, n := range names {
		c := r.need(n, "as key")
		if !c.there() {
			return
		}
		switch c.Kind {
		case KindText, KindInt, KindUint, KindDecimal, KindUUID, KindBytes, KindDate, KindEnum:
		default:
			r.fault("column "+c.Name, fmt.Sprintf("has type %s (%s), which has no one text form for each value", c.Type, c.Kind),
				"name another unique column as key")
			return
		}
		r.m.keys = append(r.m.keys, c)
	}
	if !r.unique() {
		r.fault("key "+strings.Join(names, ", "), "is neither the primary key nor unique: one claim could take two rows for one",
			"add a unique index on exactly these columns, or name the columns of one: "+r.uniqueList())
		return
	}
	if r.m.Key != "" {
		r.m.Key = r.m.keys[0].Name
	}
}

func (r *resolver) uniqueList() string {
	var lists []string
	for _, x := range r.cat.indexes {
		if x.unique {
			lists = append(lists, "("+strings.Join(x.columns, ", ")+")")
		}
	}
	if len(lists) == 0 {
		return "the table has none"
	}
	return strings.Join(lists, ", ")
}

// unique tells whether a unique index is on exactly the key's columns, in any
// order, none of which may be NULL.
func (r *resolver) unique() bool {
	for _, x := range r.cat.indexes {
		if !x.unique || len(x.columns) != len(r.m.keys) {
			continue
		}
		found := 0
		for _, k := range r.m.keys {
			for _, n := range x.columns {
				if n == k.Name {
					found++
				}
			}
		}
		if found == len(x.columns) {
			r.m.keyIndex = x.name
			return true
		}
	}
	return false
}

// serving remembers the index that begins with the columns a claim orders by.
func (r *resolver) serving() {
	want := []string{r.m.claimableAt.Name}
	if r.m.two {
		want = []string{r.m.status.Name, r.m.startedAt.Name}
	}
	for _, x := range r.cat.indexes {
		if len(x.columns) < len(want) {
			continue
		}
		serves := true
		for i, n := range want {
			serves = serves && x.columns[i] == n
		}
		if serves && x.name != "" && r.m.dueIndex == "" {
			r.m.dueIndex = x.name
		}
	}
}

// states checks that every label fits the status column.
func (r *resolver) states() {
	c, l := r.m.status, r.m.Labels
	if !c.there() {
		return
	}
	seen := map[string]string{}
	for _, p := range []struct{ state, label string }{
		{"IDLE", l.Idle}, {"IN_PROGRESS", l.InProgress}, {"FAILED", l.Failed}, {"DONE", l.Done}, {"QUARANTINED", l.Quarantined},
	} {
		if p.label == "" {
			continue
		}
		field := "column " + c.Name + ", label " + p.label
		if problem := labelProblem(c, p.label); problem != "" {
			r.fault(field, problem, "map "+p.state+" to an existing label under labels")
		}
		if other, twice := seen[p.label]; twice {
			r.fault(field, "stands for both "+other+" and "+p.state, "give each state its own label")
		}
		seen[p.label] = p.state
	}
	if r.m.two && r.m.OneShot && r.m.TwoColumn && l.Done == "" {
		r.fault("labels", "lacks DONE", "map DONE: a one-shot row of a two-column table has no other end")
	}
}

func labelProblem(c Column, label string) string {
	if strings.ContainsFunc(label, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }) {
		return "has a control character or a backslash"
	}
	switch c.Kind {
	case KindText:
		if c.Length > 0 && len([]rune(label)) > c.Length {
			return fmt.Sprintf("is longer than the column's %d characters", c.Length)
		}
	case KindInt, KindUint:
		if strings.Trim(strings.TrimPrefix(label, "-"), "0123456789") != "" || strings.Trim(label, "-") == "" {
			return "is no number, and the column is a " + c.Type
		}
	case KindEnum:
		for _, l := range c.Labels {
			if l == label {
				return ""
			}
		}
		return "is not one of the enum's labels (" + strings.Join(c.Labels, ", ") + ")"
	default:
		return "cannot be held by type " + c.Type + " (" + c.Kind.String() + ")"
	}
	return ""
}
