package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-run/dibs"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	// Wrong is a fault: work would be lost, done twice, or not at all.
	Wrong Severity = "error"
	// Doubtful works, but somebody should know.
	Doubtful Severity = "warning"
	// Noted is a fact with consequences.
	Noted Severity = "note"
	// Fine is something that was looked at and is good.
	Fine Severity = "ok"
)

// Finding is one thing that a check found.
type Finding struct {
	Severity Severity `json:"severity"`
	// Code names the kind of finding for programs.
	Code string `json:"code"`
	// Subject is the thing at fault.
	Subject string `json:"subject"`
	// Problem says what is wrong (or fine), Why why it matters, Fix what to do.
	Problem string `json:"problem"`
	Why     string `json:"why,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// CheckServer looks at the server, its settings and our own tables. It changes
// nothing. An error means that the database could not be asked.
func (s *Store) CheckServer(ctx context.Context) ([]Finding, error) {
	var found []Finding
	err := s.facts(ctx, "check_server", nil, nil, "database", &found)
	if err != nil {
		return nil, err
	}
	durability, err := s.checkDurability(ctx)
	if err != nil {
		return nil, err
	}
	found = append(found, durability...)
	if !s.dialect.Returning {
		counts, err := s.CountsFoundRows(ctx)
		if err != nil && s.classOf(ctx, err) != ClassDenied {
			return nil, err
		}
		if err == nil && !counts {
			found = append(found, Finding{Wrong, "found_rows", "connection", "an UPDATE answers with the rows that it changed, not with those that it found",
				"every guarded write that changes nothing looks refused", "open the database with clientFoundRows=true"})
		}
	}
	return s.checkOwn(ctx, found)
}

// facts runs a statement whose rows are findings.
func (s *Store) facts(ctx context.Context, name string, fr Fragments, b Binds, subject string, found *[]Finding) error {
	st, err := s.dialect.Compile(name, fr)
	if err != nil {
		return err
	}
	var list []Finding
	err = s.reading(ctx, "check "+subject, func() error {
		list = nil
		return query(ctx, s.db, st, b, func(rows *sql.Rows) error {
			f := Finding{Subject: subject}
			err := rows.Scan(into(&f.Code), into(&f.Severity), into(&f.Problem), into(&f.Why), into(&f.Fix))
			list = append(list, f)
			return err
		})
	})
	*found = append(*found, list...)
	return err
}

// checkOwn asks whether our own tables may be written.
func (s *Store) checkOwn(ctx context.Context, found []Finding) ([]Finding, error) {
	fr, err := s.fragments()
	if err != nil {
		return nil, err
	}
	st, err := s.dialect.Compile("check_own", fr)
	if err != nil {
		return nil, err
	}
	denied := 0
	for _, one := range strings.Split(st.SQL, ";\n") {
		refused, err := s.tryWrite(ctx, one)
		if err != nil {
			return nil, err
		}
		if refused != "" {
			verb, _, _ := strings.Cut(one, " ")
			table := strings.Fields(strings.ReplaceAll(one, "INSERT INTO", "INSERT"))[1]
			denied++
			found = append(found, Finding{Wrong, "privilege", "table " + table, verb + " is refused: " + refused,
				"runs could not be recorded, so none may start", "grant SELECT, INSERT, UPDATE and DELETE on our tables, and the use of their sequences"})
		}
	}
	if denied == 0 {
		found = append(found, Finding{Severity: Fine, Code: "privilege", Subject: "database", Problem: "our tables can be written"})
	}
	return found, nil
}

// tryWrite runs a statement that writes no row, in a transaction that is rolled
// back, and returns what the database says against it.
func (s *Store) tryWrite(ctx context.Context, text string) (refused string, err error) {
	err = s.InTx(ctx, "check privileges", func(ctx context.Context, tx *Tx) error {
		refused = ""
		_, err := tx.q().ExecContext(ctx, text)
		if err == nil {
			return errUndo
		}
		switch c := s.classify(ctx, err); c {
		case ClassRetry, ClassConnection, ClassUnavailable:
			return &txError{err, c}
		}
		refused = err.Error()
		return errUndo
	})
	if errors.Is(err, errUndo) {
		err = nil
	}
	return refused, err
}

// CheckTable looks at a job's table: mapping, privileges, indexes, times,
// states, and what a claim really does, in a transaction that is rolled back.
// Lease is the job's; scope is that of a run that would start now. It changes
// nothing, although triggers of the table's own run and are undone. An error
// means that the database could not be asked.
func (s *Store) CheckTable(ctx context.Context, t dibs.Table, scope dibs.Scope) ([]Finding, error) {
	opened, err := s.Claims(ctx, t)
	if err != nil {
		return s.mappingFaults(ctx, t, err)
	}
	k := &checker{claims: opened.(*claims), scope: scope, subject: "table " + opened.Table().String()}
	for _, step := range []func(context.Context) error{
		k.mapping, k.catalogue, k.indexes, k.privileges, k.shapes, k.states, k.effect,
	} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("check table %s: %w", t, err)
		}
	}
	return k.found, nil
}

// mappingFaults turns what Claims refuses into findings.
func (s *Store) mappingFaults(ctx context.Context, t dibs.Table, err error) ([]Finding, error) {
	var found []Finding
	for _, fault := range parted(err) {
		var config *dibs.ConfigError
		switch {
		case errors.As(fault, &config):
			subject := config.Subject
			if config.Field != "" {
				subject += ", " + config.Field
			}
			found = append(found, Finding{Wrong, "mapping", subject, config.Problem, "the table cannot be claimed from as it is mapped", config.Fix})
		case s.classOf(ctx, fault) == ClassDenied:
			found = append(found, Finding{Wrong, "privilege", "table " + t.String(), fault.Error(), "the table cannot be read", "grant SELECT and UPDATE on the table"})
		default:
			return nil, err
		}
	}
	return found, nil
}

// parted takes errors.Join apart.
func parted(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, parted(one)...)
		}
		return all
	}
	return []error{err}
}

// checker collects what is found about one table.
type checker struct {
	*claims
	scope   dibs.Scope
	subject string
	found   []Finding
	// suspects are the table's own means of changing what is written.
	suspects []string
	rows     int64
	unknown  int64 // of rows: in no state of ours
	denied   bool
}

func (k *checker) add(sev Severity, code, problem, why, fix string) {
	k.found = append(k.found, Finding{sev, code, k.subject, problem, why, fix})
}

// mapping says how the table was understood.
func (k *checker) mapping(ctx context.Context) error {
	stats, err := k.Stats(ctx)
	if err != nil {
		return err
	}
	k.unknown = stats.Other
	k.rows = stats.Idle + stats.InProgress + stats.Expired + stats.Failed + stats.Done + stats.Quarantined + stats.Other
	kind := "full"
	if k.m.two {
		kind = "two columns"
	}
	k.add(Fine, "mapping", fmt.Sprintf("%s, key %s, %s", kind, strings.Join(k.m.KeyColumns(), ", "), plural(k.rows, "row")), "", "")
	if k.m.two {
		k.add(Noted, "two_columns", "only "+k.m.status.Name+" and "+k.m.startedAt.Name+" are used",
			"no attempts are counted, so nothing is quarantined; backoff is one fixed pause; an unanswered claim cannot be asked about; a process that writes the table by itself can take a row without being noticed",
			"dibs adopt "+k.m.Table.String()+" adds what is missing")
	}
	if err := k.m.leaseFits(k.scope.Lease); err != nil {
		var config *dibs.ConfigError
		if errors.As(err, &config) {
			k.add(Wrong, "lease_unit", "lease "+config.Problem, "a lease could end before it begins", config.Fix)
		}
	}
	return nil
}

// catalogue looks for what changes or hides rows behind a claim's back.
func (k *checker) catalogue(ctx context.Context) error {
	s, t := k.store, k.m.Table
	cat, err := s.readCatalogue(ctx, t)
	if err != nil {
		return err
	}
	for _, c := range cat.columns {
		if c.OnUpdate != "" { // those that a claim writes were refused already
			k.add(Noted, "on_update", "column "+c.Name+" changes by itself at each claim, renewal and settle (ON UPDATE "+c.OnUpdate+")",
				"it no longer says when the application changed the row", "drop the clause if anything reads the column so")
		}
	}
	before := len(k.found)
	if err := s.facts(ctx, "check_table", s.attached(t.Schema), Binds{"schema": t.Schema, "name": t.Name}, k.subject, &k.found); err != nil {
		return err
	}
	for _, f := range k.found[before:] {
		k.suspects = append(k.suspects, f.Problem)
	}
	return nil
}

// manyRows is from how many on a missing index hurts.
const manyRows = 1000

// indexes looks for one that a claim can walk in order.
func (k *checker) indexes(ctx context.Context) error {
	s, m := k.store, k.m
	st, err := s.dialect.Compile("check_index", s.attached(m.Schema))
	if err != nil {
		return err
	}
	want := []string{m.claimableAt.Name}
	if m.two {
		want = []string{m.status.Name, m.startedAt.Name}
	}
	served := false
	err = s.read(ctx, st, Binds{"schema": m.Schema, "name": m.Name}, func(rows *sql.Rows) error {
		var list string
		var names []string
		if err := rows.Scan(into(&list)); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(list), &names); err != nil {
			return fmt.Errorf("index columns %q: %w", list, err)
		}
		fits := len(names) >= len(want)
		for i := 0; fits && i < len(want); i++ {
			fits = s.dialect.Columns.SameName(names[i], want[i])
		}
		served = served || fits
		return nil
	})
	switch columns := strings.Join(want, ", "); {
	case err != nil:
		return err
	case served:
		k.add(Fine, "index", "an index begins with "+columns, "", "")
	default:
		severity := Noted
		if k.rows >= manyRows {
			severity = Doubtful
		}
		fix := "dibs adopt " + m.Table.String() + " --key " + strings.Join(m.KeyColumns(), ",") + " makes it"
		if m.two {
			fix = "create one on (" + columns + ")"
		}
		k.add(severity, "index", "no index begins with "+columns, "every claim reads the whole table", fix)
	}
	return nil
}

// privileges tries to write each column that we write, without a row.
func (k *checker) privileges(ctx context.Context) error {
	w := newWriter(k.store, k.m)
	for _, c := range k.written() {
		st, err := k.store.dialect.Compile("check_columns", Fragments{"table": k.store.tableName(k.m), "w": w.w, "set": w.target(c) + " = " + w.col(c)})
		if err != nil {
			return err
		}
		refused, err := k.store.tryWrite(ctx, st.SQL)
		if err != nil {
			return err
		}
		if refused != "" {
			k.denied = true
			k.add(Wrong, "privilege", "column "+c.Name+" may not be written: "+refused, "nothing can be claimed or settled",
				"grant SELECT and UPDATE on the table")
		}
	}
	if !k.denied {
		k.add(Fine, "privilege", "every column of a claim may be written", "", "")
	}
	return nil
}

// written are the columns that we write.
func (k *checker) written() []Column {
	var out []Column
	m := k.m
	for _, c := range []Column{m.status, m.startedAt, m.claimableAt, m.claimToken, m.fence, m.attempts, m.expirations, m.cycle, m.lastSuccess, m.lastError} {
		if c.there() {
			out = append(out, c)
		}
	}
	return out
}

// plural writes "1 row", "3 rows".
func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
