package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs"
)

// metaMigration makes dibs_meta; it is applied whenever that is missing and has
// no number of its own.
const metaMigration = "0000_meta"

// migration is one numbered schema file.
type migration struct {
	number int
	name   string
	text   string
	// oldest is the oldest version of the schema whose programs may still open
	// the database once this one is applied.
	oldest int
}

// migrations lists a dialect's numbered files in order.
func (d *Dialect) migrations() ([]migration, error) {
	var list []migration
	for _, n := range d.Migrations.Names() {
		if n == metaMigration {
			continue
		}
		digits, _, _ := strings.Cut(n, "_")
		number, err := strconv.Atoi(digits)
		if err != nil || number != len(list)+1 {
			return nil, fmt.Errorf("schema file %s: want number %04d", n, len(list)+1)
		}
		text, _ := d.Migrations.Text(n)
		oldest, err := oldestOf(text)
		if err != nil {
			return nil, fmt.Errorf("schema file %s: %w", n, err)
		}
		list = append(list, migration{number: number, name: n, text: text, oldest: oldest})
	}
	return list, nil
}

// oldestOf reads the line "-- oldest_compatible: N", which every file begins
// with.
func oldestOf(text string) (int, error) {
	first, _, _ := strings.Cut(text, "\n")
	digits, ok := strings.CutPrefix(first, "-- oldest_compatible: ")
	if !ok {
		return 0, errors.New("want -- oldest_compatible: N in the first line")
	}
	return strconv.Atoi(strings.TrimSpace(digits))
}

// split cuts a schema file into statements: without comments, at each ";" that
// ends a line.
func (s *Store) split(text string) ([]string, error) {
	kept, err := keepLines(text, nil)
	if err != nil {
		return nil, err
	}
	filled, err := fill(kept, Fragments{"schema": s.qualifier()})
	if err != nil {
		return nil, err
	}
	var list []string
	for _, one := range strings.Split(filled, ";\n") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list, nil
}

// Migrate brings our tables up to what this program knows and returns the names
// of what it applied, none when there was nothing to do. Any number of processes
// may call it at once. The database becomes ours: it gets its installation and
// the identity of its server, if it has none yet. A database of another server
// or installation is [dibs.ErrForeign], one that is too new [dibs.ErrSchema].
func (s *Store) Migrate(ctx context.Context) (applied []string, err error) {
	list, err := s.dialect.migrations()
	if err != nil {
		return nil, err
	}
	m, err := s.readMeta(ctx)
	if err == nil && m.complete() && m.version >= len(list) {
		return nil, m.check(s.installation, len(list))
	}
	if err != nil && !errors.Is(err, errNoTables) {
		return nil, err
	}
	if s.dialect.BeforeMigrate != nil {
		if err := s.dialect.BeforeMigrate(ctx, s.db); err != nil {
			return nil, fmt.Errorf("migrate: %w", err)
		}
	}
	if s.dialect.TransactionalDDL {
		return s.migrateInside(ctx, list)
	}
	return s.migrateBeside(ctx, list)
}

// migrateInside does everything in one transaction.
func (s *Store) migrateInside(ctx context.Context, list []migration) (applied []string, err error) {
	err = s.InTx(ctx, "migrate", func(ctx context.Context, tx *Tx) error {
		if err := s.queryOwn(ctx, tx.q(), "meta_lock", Binds{"lock": "dibs " + s.schema}); err != nil {
			return err
		}
		if err := s.ensureMeta(ctx, tx.q()); err != nil {
			return err
		}
		applied, err = s.apply(ctx, tx.q(), tx.q(), list)
		return err
	})
	return applied, err
}

// migrateBeside holds a row of dibs_meta in a transaction while the schema is
// changed on a second connection, since every such change there commits what its
// own connection has open. Where that row does not exclude another node of a
// cluster, both apply the same statements, which do nothing the second time.
func (s *Store) migrateBeside(ctx context.Context, list []migration) (applied []string, err error) {
	if s.db.Stats().MaxOpenConnections == 1 {
		return nil, fmt.Errorf("migrate: %w: it needs two connections; call db.SetMaxOpenConns(2) or more", dibs.ErrPoolTooSmall)
	}
	if err := s.ensureMeta(ctx, s.db); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	if _, err := s.execOwn(ctx, s.db, "meta_seed", Binds{"name": metaVersion, "value": "0"}); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	err = s.InTx(ctx, "migrate", func(ctx context.Context, tx *Tx) error {
		if err := s.queryOwn(ctx, tx.q(), "meta_lock", Binds{"lock": metaVersion}); err != nil {
			return err
		}
		applied, err = s.apply(ctx, tx.q(), s.db, list)
		return err
	})
	return applied, err
}

// ensureMeta makes the schema and dibs_meta when they are missing. It asks first:
// "create if not exists" wants privileges that a role may lack later on.
func (s *Store) ensureMeta(ctx context.Context, q querier) error {
	for _, step := range []struct{ exists, create string }{
		{"schema_exists", "schema_create"}, {"meta_exists", ""},
	} {
		st, err := s.own(step.exists)
		if err != nil {
			return err
		}
		var found bool
		if err := query(ctx, q, st, Binds{"schema": s.schema, "table": "dibs_meta"}, func(rows *sql.Rows) error {
			return rows.Scan(&found)
		}); err != nil {
			return err
		}
		switch {
		case found:
		case step.create != "":
			if _, err := s.execOwn(ctx, q, step.create, nil); err != nil {
				return err
			}
		default:
			if err := s.script(ctx, q, metaMigration); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply reads the version under the lock, applies what is missing over ddl, and
// writes the new version and what makes the database ours over q.
func (s *Store) apply(ctx context.Context, q, ddl querier, list []migration) (applied []string, err error) {
	m, err := s.metaOf(ctx, q)
	if err != nil {
		return nil, err
	}
	err = m.check(s.installation, len(list))
	if err != nil && !errors.Is(err, errOlder) && !errors.Is(err, errUnregistered) {
		return nil, err
	}
	for _, next := range list[min(m.version, len(list)):] {
		if err := s.script(ctx, ddl, next.name); err != nil {
			return nil, err
		}
		applied = append(applied, next.name)
	}
	values := map[string]string{metaIdentity: m.here, metaInstallation: s.installation}
	if s.installation == "" {
		values[metaInstallation] = newInstallation()
	}
	for _, n := range []string{metaInstallation, metaIdentity} {
		if _, err := s.execOwn(ctx, q, "meta_seed", Binds{"name": n, "value": values[n]}); err != nil {
			return nil, err
		}
	}
	if len(applied) == 0 {
		return nil, nil
	}
	return applied, s.putVersion(ctx, q, list)
}

func (s *Store) putVersion(ctx context.Context, q querier, list []migration) error {
	last := list[len(list)-1]
	for n, v := range map[string]int{metaVersion: last.number, metaOldest: last.oldest} {
		if _, err := s.execOwn(ctx, q, "meta_put", Binds{"name": n, "value": strconv.Itoa(v)}); err != nil {
			return err
		}
	}
	return nil
}

// script runs one schema file.
func (s *Store) script(ctx context.Context, q querier, name string) error {
	file, _ := s.dialect.Migrations.Text(name)
	statements, err := s.split(file)
	if err != nil {
		return fmt.Errorf("schema file %s: %w", name, err)
	}
	for i, one := range statements {
		if _, err := q.ExecContext(ctx, one); err != nil {
			return fmt.Errorf("schema file %s, statement %d: %w", name, i+1, err)
		}
	}
	return nil
}

// execOwn runs one of our own statements.
func (s *Store) execOwn(ctx context.Context, q querier, name string, b Binds) (int64, error) {
	st, err := s.own(name)
	if err != nil {
		return 0, err
	}
	return exec(ctx, q, st, b)
}

// queryOwn runs one of our own statements for its effect, whatever it returns.
func (s *Store) queryOwn(ctx context.Context, q querier, name string, b Binds) error {
	st, err := s.own(name)
	if err != nil {
		return err
	}
	return query(ctx, q, st, b, func(*sql.Rows) error { return nil })
}

// PrintMigrations writes all schema changes as one script, for people who apply
// them with a tool of their own. Migrate afterwards changes no table; it only
// registers the installation.
func (s *Store) PrintMigrations(w io.Writer) error {
	list, err := s.dialect.migrations()
	if err != nil {
		return err
	}
	var b strings.Builder
	if s.schema != "" {
		st, err := s.own("schema_create")
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s;\n\n", st.SQL)
	}
	names := []string{metaMigration}
	for _, m := range list {
		names = append(names, m.name)
	}
	for _, n := range names {
		file, _ := s.dialect.Migrations.Text(n)
		text, err := fill(file, Fragments{"schema": s.qualifier()})
		if err != nil {
			return fmt.Errorf("schema file %s: %w", n, err)
		}
		fmt.Fprintf(&b, "-- %s\n%s\n", n, text)
	}
	put, err := s.own("meta_put")
	if err != nil {
		return err
	}
	last := list[len(list)-1]
	for _, v := range []struct {
		name  string
		value int
	}{{metaVersion, last.number}, {metaOldest, last.oldest}} {
		fmt.Fprintf(&b, "%s;\n", s.literal(put, map[string]string{"name": v.name, "value": strconv.Itoa(v.value)}))
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// literal writes plain words in the place of binds, for people to read and run.
func (s *Store) literal(st Statement, words map[string]string) string {
	text := st.SQL
	for i, bind := range st.binds {
		text = strings.Replace(text, s.dialect.Placeholder(i+1), "'"+words[bind]+"'", 1)
	}
	return text
}

// newInstallation names a new installation.
func newInstallation() string { return "dibs_" + strings.ToLower(rand.Text()[:16]) }
