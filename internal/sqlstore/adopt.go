package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// AdoptSQL is how a dialect makes a user's table claimable: data, as the rest
// of a dialect. Texts hold the fragments {table} {index} {columns} {column}
// {name} {due} {lease} and, in batches, {limit} {set} {which} {from} {to}.
type AdoptSQL struct {
	// Types are the types of the columns, with the defaults that cost nothing
	// when the column is added. CycleType and the others go by our own names.
	Types map[string]string
	// Status is the type of a missing status column; {label} is the idle label.
	Status string
	// Due is "due since 1970" and Later "one lease from now" as claimable_at
	// holds them; {lease} is in seconds.
	Due, Later string
	// AddColumn is one part of AddColumns, whose parts {columns} joins.
	AddColumn, AddColumns string
	// OneByOne is true when each column needs a statement of its own.
	OneByOne bool
	// AtOnce is true when everything fits one short transaction: the columns are
	// then added with their defaults, and only rows that differ are written.
	AtOnce bool
	// Batch writes up to {limit} rows, for people who repeat it until none is
	// left.
	Batch string
	// Default makes inserted rows due; unused when AtOnce.
	Default string
	// Index makes an index; {condition} is its condition, empty without one. A
	// database without partial indexes leaves {condition} out.
	Index   string
	Partial bool
	// DropIndex removes a broken index that an interrupted attempt left; empty
	// where there are none.
	DropIndex string
	// Patience and Restore stand around each change of the schema on its own
	// connection, so that it gives up rather than make others queue behind it.
	Patience, Restore string
	// PatienceInside is Patience for inside the transaction of the change.
	PatienceInside string
	// AddLocks, IndexLocks and DefaultLocks tell people what the steps lock.
	AddLocks, IndexLocks, DefaultLocks string
}

// Adoption asks to make a table claimable.
type Adoption struct {
	// Table is the mapping wished for: missing columns get their mapped names.
	Table dibs.Table
	// Lease is what rows in progress get. Default 60 s.
	Lease time.Duration
}

// AdoptStep is one step of an adoption.
type AdoptStep struct {
	// What is done, for people.
	What string `json:"what"`
	// SQL are its statements in order.
	SQL []string `json:"sql"`
	// Locks says what it locks and for how long.
	Locks string `json:"locks"`
	// Repeat is true for statements that are to be repeated until they change no
	// row.
	Repeat bool `json:"repeat,omitempty"`

	apply func(ctx context.Context, report func(rows int64)) error
}

// AdoptPlan is what an adoption would do.
type AdoptPlan struct {
	// Table is the mapping as it will be.
	Table dibs.Table `json:"-"`
	// Steps are empty when the table is claimable already.
	Steps []AdoptStep `json:"steps"`
	// Notes are what a person must know before.
	Notes []string `json:"notes"`
	// Reset is the statement that makes one row due by hand; KEY stands for its
	// key.
	Reset string `json:"reset"`
}

// Summary names the steps, for the record of who did this.
func (p *AdoptPlan) Summary() string {
	var parts []string
	for _, step := range p.Steps {
		parts = append(parts, step.What)
	}
	return strings.Join(parts, "; ")
}

// PlanAdoption reads the catalogue and works out what would make the table
// claimable. It changes nothing. What cannot be supported is refused with a
// [dibs.ConfigError] for each fault.
func (s *Store) PlanAdoption(ctx context.Context, a Adoption) (*AdoptPlan, error) {
	if a.Table.Name == "" {
		return nil, &dibs.ConfigError{Subject: "table", Field: "name", Problem: "is missing", Fix: "name the table to adopt"}
	}
	if a.Lease == 0 {
		a.Lease = time.Minute
	}
	cat, err := s.readCatalogue(ctx, a.Table)
	if err != nil {
		return nil, err
	}
	p := &adopter{store: s, sql: s.dialect.Adopt, cat: cat, Adoption: a}
	p.r = resolver{store: s, cat: cat, m: &mapping{Table: a.Table, asked: a.Table.String()}}
	p.r.m.Schema, p.r.m.Name = cat.schema, cat.name
	p.r.m.Columns = a.Table.Columns.WithDefaults()
	p.r.m.Labels = a.Table.Labels.WithDefaults(a.Table.OneShot)
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	return p.plan(ctx)
}

// adopter is the state of one plan.
type adopter struct {
	store *Store
	sql   *AdoptSQL
	cat   *catalogue
	r     resolver
	Adoption

	missing []column // to be added
	table   string   // quoted
}

// column is a column to be added.
type column struct{ role, name, definition string }

// check refuses what no added column could mend.
func (p *adopter) check(ctx context.Context) error {
	r, c := &p.r, p.r.m.Columns
	r.kind()
	if len(r.faults) > 0 {
		return errors.Join(r.faults...)
	}
	r.key()
	p.table = p.store.tableName(r.m)
	if status, ok := r.column(c.Status); ok {
		r.m.status = status
		r.writable(status, "status")
		r.states()
	}
	for _, f := range p.roles() {
		col, ok := r.column(f.name)
		if !ok {
			p.missing = append(p.missing, f)
			continue
		}
		want := map[string]string{"claim_token": "text", "fence": "integer", "attempts": "integer", "expirations": "integer", "cycle": "integer"}[f.role]
		r.writable(col, want)
	}
	for _, n := range p.Table.Select {
		r.need(n, "by select")
	}
	r.where()
	if len(r.faults) > 0 {
		return errors.Join(r.faults...)
	}
	return p.probe(ctx)
}

// probe lets the database read the where fragment, without touching a row.
func (p *adopter) probe(ctx context.Context) error {
	m := p.r.m
	if m.Where == "" {
		return nil
	}
	st, err := p.store.dialect.Compile("table_probe", Fragments{"table": p.table, "w": p.quote(m.Name), "where": "(" + whereMark + ")"})
	if err != nil {
		return err
	}
	st.SQL = strings.ReplaceAll(st.SQL, whereMark, m.Where)
	if err := p.store.read(ctx, st, Binds{}, func(*sql.Rows) error { return nil }); err != nil {
		return fmt.Errorf("probe table %s: %w", m.asked, refusal(m, "where", err))
	}
	return nil
}

// roles are the columns of a full table, in the order in which they are added.
func (p *adopter) roles() []column {
	c := p.r.m.Columns
	var out []column
	add := func(role, name, definition string) {
		if name != "" {
			out = append(out, column{role, name, definition})
		}
	}
	idle := "'" + strings.ReplaceAll(p.r.m.Labels.Idle, "'", "''") + "'"
	add("status", c.Status, strings.ReplaceAll(p.sql.Status, "{label}", idle))
	add("started_at", c.StartedAt, p.sql.Types["started_at"])
	add("claimable_at", c.ClaimableAt, p.sql.Types["claimable_at"])
	add("claim_token", c.ClaimToken, p.sql.Types["claim_token"])
	add("fence", c.Fence, p.sql.Types["fence"])
	add("attempts", c.Attempts, p.sql.Types["attempts"])
	add("expirations", c.Expirations, p.sql.Types["expirations"])
	if !p.Table.OneShot {
		add("cycle", c.Cycle, p.sql.Types["cycle"])
	}
	add("last_success_at", c.LastSuccessAt, p.sql.Types["started_at"])
	add("last_error", c.LastError, p.sql.Types["last_error"])
	return out
}

func (p *adopter) lacks(role string) bool {
	for _, m := range p.missing {
		if m.role == role {
			return true
		}
	}
	return false
}

func (p *adopter) quote(name string) string { return p.store.dialect.Quote(name) }

// indexName is the table's name with an ending, within what every database
// allows.
func (p *adopter) indexName(ending string) string {
	name := p.cat.name
	if len(name)+len(ending) > 60 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name)) // never fails
		name = strings.ToValidUTF8(name[:60-len(ending)-9], "") + fmt.Sprintf("_%08x", h.Sum32())
	}
	return name + ending
}

// label is a state's label as a literal, whatever the status column's type is
// or will be.
func (p *adopter) label(s dibs.Status) string {
	if p.lacks("status") {
		return "'" + strings.ReplaceAll(p.r.m.label(s), "'", "''") + "'"
	}
	return newWriter(p.store, p.r.m).label(s)
}
