package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs"
)

// read runs a statement outside of any transaction, again while the error says
// that it may.
func (s *Store) read(ctx context.Context, st Statement, b Binds, scan func(*sql.Rows) error) error {
	return s.repeat(ctx, st.Name, func() error {
		if err := query(ctx, s.db, st, b, scan); err != nil {
			return &txError{err, s.classify(ctx, err)}
		}
		return nil
	})
}

// readCatalogue asks the database about a table by its exact name. A table that
// is not there is an error of its own, never an empty answer.
func (s *Store) readCatalogue(ctx context.Context, t dibs.Table) (*catalogue, error) {
	cat, err := s.findTable(ctx, t)
	if err != nil {
		return nil, err
	}
	b := Binds{"schema": cat.schema, "name": cat.name}
	st, err := s.dialect.Compile("table_columns", s.attached(cat.schema))
	if err != nil {
		return nil, err
	}
	err = s.read(ctx, st, b, func(rows *sql.Rows) error {
		var c CatalogColumn
		var notNull, generated int
		if err := rows.Scan(into(&c.Name), into(&c.Type), into(&c.Full), &c.Length, &c.Precision, &notNull, &generated,
			into(&c.OnUpdate), into(&c.Charset), into(&c.Collation), into(&c.Labels)); err != nil {
			return err
		}
		c.NotNull, c.Generated = notNull != 0, generated != 0
		cat.columns = append(cat.columns, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the columns of table %s: %w", t, err)
	}
	if st, err = s.dialect.Compile("table_keys", s.attached(cat.schema)); err != nil {
		return nil, err
	}
	err = s.read(ctx, st, b, func(rows *sql.Rows) error {
		var list string
		var x tableIndex
		if err := rows.Scan(into(&x.name), into(&list), &x.unique); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(list), &x.columns); err != nil {
			return fmt.Errorf("index columns %q: %w", list, err)
		}
		cat.indexes = append(cat.indexes, x)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys of table %s: %w", t, err)
	}
	return cat, nil
}

// attached names the schema for catalogues that are kept in each schema apart.
func (s *Store) attached(schema string) Fragments {
	return Fragments{"catalogue": s.dialect.Quote(schema)}
}

func (s *Store) findTable(ctx context.Context, t dibs.Table) (*catalogue, error) {
	st, err := s.dialect.Compile("table_find", nil)
	if err != nil {
		return nil, err
	}
	var found []*catalogue
	var names []string
	err = s.read(ctx, st, Binds{"schema": t.Schema, "name": t.Name}, func(rows *sql.Rows) error {
		c := &catalogue{}
		var match, shifts int
		if err := rows.Scan(&match, into(&c.schema), into(&c.name), into(&c.kind), into(&c.engine), &shifts); err != nil {
			return err
		}
		c.zoneShifts = shifts != 0
		if match != 0 {
			found = append(found, c)
		} else {
			names = append(names, c.name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", t, err)
	}
	if len(found) > 0 {
		return found[0], nil
	}
	fix := "name an existing table; schema and name are separate, and case counts"
	if near := nearest(t.Name, names); near != "" {
		fix = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, &dibs.ConfigError{Subject: "table " + t.String(), Problem: "does not exist", Fix: fix}
}

// nearest is the name most like the wanted one, or "" when none is near.
func nearest(wanted string, names []string) string {
	best, least := "", max(2, len(wanted)/3)+1
	for _, n := range names {
		if d := distance(fold(wanted), fold(n)); d < least {
			best, least = n, d
		}
	}
	return best
}

// fold leaves what people mean of a name: no case, no underscores.
func fold(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		switch {
		case r >= 'A' && r <= 'Z':
			out = append(out, r-'A'+'a')
		case r != '_' && r != '-' && r != ' ':
			out = append(out, r)
		}
	}
	return string(out)
}

// distance counts the edits between two short names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// refusal turns what the database says about a mapping's own SQL into a fault
// of configuration; other errors stay what they are.
func refusal(m *mapping, field string, err error) error {
	var te *txError
	if !errors.As(err, &te) {
		return err
	}
	switch te.class {
	case ClassOther, ClassMissing, ClassData:
		return &dibs.ConfigError{
			Subject: "table " + m.asked, Field: field,
			Problem: "is refused by the database: " + te.err.Error(),
			Fix:     "write one condition over the table's own columns",
		}
	case ClassDenied:
		return &dibs.ConfigError{
			Subject: "table " + m.asked, Field: field,
			Problem: "may not be read: " + te.err.Error(),
			Fix:     "grant SELECT and UPDATE on the table",
		}
	}
	return err
}
