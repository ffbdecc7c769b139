package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/dibs-run/dibs"
)

// The names in dibs_meta.
const (
	metaVersion      = "schema_version"
	metaOldest       = "oldest_compatible"
	metaInstallation = "installation"
	metaIdentity     = "identity"
)

var (
	// errNoTables is the schema error of a database without our tables.
	errNoTables = fmt.Errorf("%w: our tables are not there; run dibs init", dibs.ErrSchema)
	// errOlder is the schema error of a database that a migration would mend.
	errOlder = fmt.Errorf("%w: our tables are older than this program needs; run dibs migrate", dibs.ErrSchema)
	// errUnregistered is the schema error of tables that were made by hand.
	errUnregistered = fmt.Errorf("%w: our tables are there but belong to no installation; run dibs init", dibs.ErrSchema)
)

// meta is what dibs_meta says, and where it was read.
type meta struct {
	version, oldest int
	installation    string
	identity        string
	// here is the identity of the server and database it was read from.
	here string
}

// complete tells whether the database has been made ours.
func (m meta) complete() bool { return m.installation != "" && m.identity != "" }

// check refuses what a program that knows the schema up to version known and
// expects an installation (empty: any) must not open.
func (m meta) check(expected string, known int) error {
	switch {
	case m.identity != "" && m.identity != m.here:
		return fmt.Errorf("%w: installation %s was made on %s and this is %s: a copy? if it is to run here, dibs init --adopt",
			dibs.ErrForeign, m.installation, m.identity, m.here)
	case m.installation != "" && expected != "" && m.installation != expected:
		return fmt.Errorf("%w: it is %s, expected is %s", dibs.ErrForeign, m.installation, expected)
	case m.version > known && m.oldest > known:
		return fmt.Errorf("%w: the database has version %d, open to programs of version %d or later, and this one has %d; install a newer dibs",
			dibs.ErrSchema, m.version, m.oldest, known)
	case m.version < known:
		return fmt.Errorf("%w (the database has version %d, this program %d)", errOlder, m.version, known)
	case !m.complete():
		return errUnregistered
	}
	return nil
}

// readMeta reads dibs_meta outside of a transaction.
func (s *Store) readMeta(ctx context.Context) (m meta, err error) {
	err = s.reading(ctx, "read the installation", func() error {
		m, err = s.metaOf(ctx, s.db)
		if err != nil && s.classify(ctx, err) == ClassMissing {
			err = fmt.Errorf("%w: %w", errNoTables, err)
		}
		return err
	})
	return m, err
}

// metaOf reads dibs_meta and where it is.
func (s *Store) metaOf(ctx context.Context, q querier) (m meta, err error) {
	st, err := s.own("meta_read")
	if err != nil {
		return m, err
	}
	values := map[string]string{}
	if err := query(ctx, q, st, Binds{"schema": s.schema}, func(rows *sql.Rows) error {
		var n, v string
		err := rows.Scan(into(&n), into(&v))
		values[n] = v
		return err
	}); err != nil {
		return m, err
	}
	m.installation, m.identity = values[metaInstallation], values[metaIdentity]
	for _, number := range []struct {
		name string
		into *int
	}{{metaVersion, &m.version}, {metaOldest, &m.oldest}} {
		if v, ok := values[number.name]; ok {
			if *number.into, err = strconv.Atoi(v); err != nil {
				return m, fmt.Errorf("%w: dibs_meta: %s is %q", dibs.ErrSchema, number.name, v)
			}
		}
	}
	if m.here, err = s.dialect.Identity(ctx, q, values); err != nil {
		return m, fmt.Errorf("identify the server: %w", err)
	}
	return m, nil
}

// CheckSchema refuses a database that this program must not use:
// [dibs.ErrSchema] when our tables are missing, older than needed, or newer than
// compatible; [dibs.ErrForeign] when the server or the installation is another
// than expected; [dibs.ErrUnavailable] when it cannot be reached. A newer schema
// is fine while it says that programs like this one may open it.
func (s *Store) CheckSchema(ctx context.Context) error {
	list, err := s.dialect.migrations()
	if err != nil {
		return err
	}
	m, err := s.readMeta(ctx)
	if err != nil {
		return err
	}
	return m.check(s.installation, len(list))
}

// Installation is the name of this installation, as kept in the database.
func (s *Store) Installation(ctx context.Context) (string, error) {
	m, err := s.readMeta(ctx)
	if err == nil && m.installation == "" {
		err = errNoTables
	}
	return m.installation, err
}

// Adopt makes a copied database an installation of its own, on the server where
// it is now, and records who did that and why. It takes the name that the store
// was configured to expect, else a new one. Nothing of the copy's running work is
// touched: its leases end by themselves.
func (s *Store) Adopt(ctx context.Context, by, why string) (installation string, err error) {
	if _, err := s.readMeta(ctx); err != nil {
		return "", fmt.Errorf("adopt the database: %w", err)
	}
	err = s.InTx(ctx, "adopt the database", func(ctx context.Context, tx *Tx) error {
		m, err := s.metaOf(ctx, tx.q())
		if err != nil {
			return err
		}
		if m.version == 0 {
			return errNoTables
		}
		if installation = s.installation; installation == "" {
			installation = newInstallation()
		}
		for n, v := range map[string]string{metaInstallation: installation, metaIdentity: m.here} {
			if _, err := s.execOwn(ctx, tx.q(), "meta_put", Binds{"name": n, "value": v}); err != nil {
				return err
			}
		}
		return s.audit(ctx, tx.q(), dibs.AuditRecord{
			By: by, What: "adopt", Object: "installation", Why: why,
			Before: m.installation + " on " + m.identity, After: installation + " on " + m.here,
		})
	})
	return installation, err
}

// CountsFoundRows tells whether an UPDATE answers with the rows that it found,
// also those that it did not change, as every guarded write needs it.
func (s *Store) CountsFoundRows(ctx context.Context) (found bool, err error) {
	err = s.InTx(ctx, "count found rows", func(ctx context.Context, tx *Tx) error {
		n, err := s.execOwn(ctx, tx.q(), "meta_touch", nil)
		found = n > 0
		return err
	})
	return found, err
}
