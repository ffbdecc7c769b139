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

// mapping is a user's table resolved against the catalogue.
type mapping struct {
	dibs.Table
	two   bool
	asked string // the table as it was asked for, for people

	keys        []Column
	status      Column
	startedAt   Column
	claimableAt Column // the rest is absent from a two-column table
	claimToken  Column
	fence       Column
	attempts    Column
	expirations Column
	cycle       Column // absent from a one-shot table that has none
	lastSuccess Column // absent unless mapped, as lastError
	lastError   Column
	selects     []Column

	keyIndex string // names of the indexes that serve, where the database
	dueIndex string // must be told; empty: it need not be
}

func (c Column) there() bool { return c.Name != "" }

// catalogue is what the database says of one table.
type catalogue struct {
	schema, name string
	kind         string // "table", or what it is instead
	engine       string // empty, or a storage engine that cannot be used
	zoneShifts   bool   // the session's zone has daylight saving
	columns      []CatalogColumn
	indexes      []tableIndex
}

// tableIndex is an index of the catalogue. Its name is empty where nobody needs it.
type tableIndex struct {
	name    string
	columns []string
	unique  bool
}

// resolve reads the catalogue and fits the table to it. All faults are reported
// together, each a [dibs.ConfigError].
func (s *Store) resolve(ctx context.Context, t dibs.Table) (*mapping, error) {
	if t.Name == "" {
		return nil, &dibs.ConfigError{Subject: "table", Field: "name", Problem: "is missing", Fix: "name the table to claim from"}
	}
	cat, err := s.readCatalogue(ctx, t)
	if err != nil {
		return nil, err
	}
	r := resolver{store: s, cat: cat, m: &mapping{Table: t, asked: t.String()}}
	r.m.Schema, r.m.Name = cat.schema, cat.name
	r.m.Columns = t.Columns.WithDefaults()
	r.m.Labels = t.Labels.WithDefaults(t.OneShot)
	r.kind()
	if len(r.faults) == 0 {
		r.fields()
		r.key()
		r.states()
		r.serving()
	}
	if len(r.faults) == 0 {
		if err := r.times(ctx); err != nil {
			return nil, err
		}
		r.where()
	}
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults...)
	}
	return r.m, nil
}

// resolver collects faults while it fits a table to the catalogue.
type resolver struct {
	store  *Store
	cat    *catalogue
	m      *mapping
	faults []error
}

func (r *resolver) fault(field, problem, fix string) {
	r.faults = append(r.faults, &dibs.ConfigError{
		Subject: "table " + r.m.asked, Field: field, Problem: problem, Fix: fix,
	})
}

func (r *resolver) kind() {
	if r.cat.kind != "table" {
		r.fault("", "is a "+r.cat.kind+", not a table", "name the table behind it: a claim has to lock its rows")
	}
	if r.cat.engine != "" {
		r.fault("", "uses the storage engine "+r.cat.engine+", which has no transactions",
			"run ALTER TABLE "+r.cat.name+" ENGINE=InnoDB")
	}
}

// column finds a column by the name it is mapped to.
func (r *resolver) column(name string) (Column, bool) {
	for _, c := range r.cat.columns {
		if r.store.dialect.Columns.SameName(c.Name, name) {
			return r.store.dialect.Columns.Resolve(c), true
		}
	}
	return Column{}, false
}

// need finds a column or records that it is missing.
func (r *resolver) need(name, why string) Column {
	c, ok := r.column(name)
	if !ok {
		fix := "add it, or map another one under columns"
		if near := nearest(name, r.columnNames()); near != "" {
			fix = fmt.Sprintf("did you mean %q? Map it under columns", near)
		}
		r.fault("column "+name, "does not exist, and is needed "+why, fix)
	}
	return c
}

func (r *resolver) columnNames() []string {
	names := make([]string, len(r.cat.columns))
	for i, c := range r.cat.columns {
		names[i] = c.Name
	}
	return names
}

// fields decides between full and two-column tables and checks the columns that
// a claim writes.
func (r *resolver) fields() {
	c := r.m.Columns
	type field struct {
		into *Column
		name string
		want string // kinds
	}
	full := []field{
		{&r.m.claimableAt, c.ClaimableAt, "time"}, {&r.m.claimToken, c.ClaimToken, "text"}, {&r.m.fence, c.Fence, "integer"},
		{&r.m.attempts, c.Attempts, "integer"}, {&r.m.expirations, c.Expirations, "integer"},
	}
	if !r.m.OneShot {
		full = append(full, field{&r.m.cycle, c.Cycle, "integer"})
	}
	var have, missing []string
	for _, f := range full {
		if _, ok := r.column(f.name); ok {
			have = append(have, f.name)
		} else {
			missing = append(missing, f.name)
		}
	}
	r.m.two = r.m.TwoColumn || len(have) == 0
	if !r.m.two && len(missing) > 0 {
		r.fault("columns "+strings.Join(missing, ", "),
			"do not exist, although "+strings.Join(have, ", ")+" does: a table has all of them, or only status and started_at",
			"add them (dibs adopt prints the DDL), map them under columns, or set two_column")
		return
	}
	fields := []field{{&r.m.status, c.Status, "status"}, {&r.m.startedAt, c.StartedAt, "time"}}
	if !r.m.two {
		fields = append(fields, full...)
		if r.m.OneShot {
			if _, ok := r.column(c.Cycle); ok {
				fields = append(fields, field{&r.m.cycle, c.Cycle, "integer"})
			}
		}
		if c.LastSuccessAt != "" {
			fields = append(fields, field{&r.m.lastSuccess, c.LastSuccessAt, "time"})
		}
		if c.LastError != "" {
			fields = append(fields, field{&r.m.lastError, c.LastError, "text"})
		}
	}
	for _, f := range fields {
		*f.into = r.need(f.name, "to claim")
		if f.into.Charset == "binary" && (f.want == "text" || f.want == "status") {
			f.into.Kind = KindText // VARBINARY holding text, as in our own tables
		}
		if f.into.there() {
			r.writable(*f.into, f.want)
		}
	}
	r.distinct()
	for _, n := range r.m.Select {
		r.m.selects = append(r.m.selects, r.need(n, "by select"))
	}
	r.nullable()
}

// distinct refuses a column that is mapped to two of our words.
func (r *resolver) distinct() {
	m, seen := r.m, map[string]bool{}
	for _, c := range []Column{m.status, m.startedAt, m.claimableAt, m.claimToken, m.fence, m.attempts, m.expirations, m.cycle, m.lastSuccess, m.lastError} {
		if c.there() && seen[c.Name] {
			r.fault("column "+c.Name, "is mapped twice", "give each a column of its own")
		}
		seen[c.Name] = true
	}
}

// writable refuses columns that a claim cannot write or that change by
// themselves.
func (r *resolver) writable(c Column, want string) {
	where := "column " + c.Name
	switch {
	case c.Generated:
		r.fault(where, "is generated by the database", "map a plain column")
	case c.OnUpdate != "":
		r.fault(where, "changes by itself (ON UPDATE "+c.OnUpdate+")", "drop the ON UPDATE clause or map another column")
	}
	switch want {
	case "integer":
		if c.Kind != KindInt && c.Kind != KindUint {
			r.fault(where, fmt.Sprintf("has type %s (%s)", c.Type, c.Kind), "make it BIGINT")
		}
	case "text":
		if c.Kind != KindText {
			r.fault(where, fmt.Sprintf("has type %s (%s)", c.Type, c.Kind), "make it TEXT or VARCHAR(96)")
		}
	}
}

// Least sizes of the columns that must hold what we write.
const leastToken = 64

// nullable checks the columns that must be able to say "nothing", and those
// that must not be too small.
func (r *resolver) nullable() {
	if r.m.two {
		return
	}
	for _, c := range []Column{r.m.claimableAt, r.m.claimToken} {
		if c.there() && c.NotNull {
			r.fault("column "+c.Name, "does not allow NULL", "drop its NOT NULL: NULL means never due, or not claimed")
		}
	}
	if c := r.m.claimToken; c.there() && c.Length > 0 && c.Length < leastToken {
		r.fault("column "+c.Name, fmt.Sprintf("holds %d characters; a token needs %d", c.Length, leastToken), "make it VARCHAR(96)")
	}
	if c := r.m.cycle; c.there() && c.Bytes > 0 && c.Bytes < 8 {
		r.fault("column "+c.Name, "has type "+c.Type+"; it starts at the epoch's seconds", "make it BIGINT")
	}
	if c := r.m.fence; c.there() && c.Bytes > 0 && c.Bytes < 4 {
		r.fault("column "+c.Name, "has type "+c.Type+", which a fence outgrows", "make it BIGINT")
	}
}

// times resolves how each time column holds its times.
func (r *resolver) times(ctx context.Context) error {
	for _, c := range []*Column{&r.m.startedAt, &r.m.claimableAt, &r.m.lastSuccess} {
		if !c.there() {
			continue
		}
		found, err := r.store.sample(ctx, r.m, *c)
		if err != nil {
			return err
		}
		resolved, err := r.store.dialect.Columns.TimeShape(*c, found)
		if err != nil {
			r.fault("column "+c.Name, err.Error(), "or map another column")
			continue
		}
		if resolved.Form == FormSessionZone && r.cat.zoneShifts {
			r.fault("column "+c.Name, "has type "+c.Type+", read and written in the session's zone, which has daylight saving: an hour each year would be ambiguous",
				"make it DATETIME(6) holding UTC, or set time_zone='+00:00' for the connection")
		}
		*c = resolved
	}
	return nil
}

// FormSessionZone is the form of a time column that the database reads and
// writes in the session's zone.
const FormSessionZone = "session zone"

func (r *resolver) where() {
	if r.m.Where == "" {
		return
	}
	if problem := checkWhere(r.m.Where, r.store.dialect.Columns.Where()); problem != "" {
		r.fault("where", problem, "write one expression over the table's own columns")
	}
}

// sample reads some values of a time column whose type leaves its form open.
func (s *Store) sample(ctx context.Context, m *mapping, c Column) ([]string, error) {
	if !s.dialect.Statements.Has("table_sample") {
		return nil, nil
	}
	st, err := s.dialect.Compile("table_sample", Fragments{
		"table": s.tableName(m), "column": s.dialect.Quote(c.Name),
	})
	if err != nil {
		return nil, err
	}
	var found []string
	err = s.read(ctx, st, Binds{}, func(rows *sql.Rows) error {
		var v string
		if err := rows.Scan(into(&v)); err != nil {
			return err
		}
		found = append(found, v)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read times of table %s: %w", m.asked, err)
	}
	return found, nil
}

// leaseFits refuses a lease that the table's time columns cannot tell from none.
func (m *mapping) leaseFits(lease time.Duration) error {
	unit := max(m.startedAt.Unit, m.claimableAt.Unit)
	if lease >= 2*unit {
		return nil
	}
	return &dibs.ConfigError{
		Subject: "table " + m.asked, Field: "lease",
		Problem: fmt.Sprintf("%s is too short for time columns that keep steps of %s", lease, unit),
		Fix:     fmt.Sprintf("use a lease of at least %s, or a finer column type", 2*unit),
	}
}
