package sqlstore

import (
	"fmt"
	"sort"
	"strings"
)

// parts are statement files that are not statements: expressions and lists of
// columns that others include as fragments of the same name.
func parts() []string {
	return []string{"clock", "run_columns", "trigger_columns", "job_columns", "effect_columns"}
}

// own compiles one of our own statements, once for each set of conditions that
// it is asked for with: every given name makes its "-- if" true.
func (s *Store) own(name string, conditions ...string) (Statement, error) {
	sort.Strings(conditions)
	id := name + " " + strings.Join(conditions, " ")
	if known, ok := s.compiled.Load(id); ok {
		return known.(Statement), nil
	}
	fr, err := s.fragments(conditions...)
	if err != nil {
		return Statement{}, fmt.Errorf("statement %s: %w", name, err)
	}
	st, err := s.dialect.Compile(name, fr)
	if err != nil {
		return Statement{}, err
	}
	s.compiled.Store(id, st)
	return st, nil
}

// fragments are what every statement on our own tables may include, under
// conditions that hold.
func (s *Store) fragments(conditions ...string) (Fragments, error) {
	fr := Fragments{"schema": s.qualifier(), "schema_name": s.dialect.Quote(s.schema)}
	for _, c := range conditions {
		fr[c] = c
	}
	for _, part := range parts() {
		file, _ := s.dialect.Statements.Text(part)
		text, err := keepLines(file, fr)
		if err != nil {
			return nil, err
		}
		if fr[part], err = fill(text, fr); err != nil {
			return nil, err
		}
	}
	return fr, nil
}

// qualifier stands before the names of our tables.
func (s *Store) qualifier() string {
	if s.schema == "" {
		return ""
	}
	return s.dialect.Quote(s.schema) + "."
}
