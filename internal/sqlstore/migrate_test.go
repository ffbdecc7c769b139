package sqlstore_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/store/mysql"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/store/sqlite"
)

func dialects() map[string]*sqlstore.Dialect {
	return map[string]*sqlstore.Dialect{"sqlite": sqlite.Dialect(), "postgres": postgres.Dialect(), "mysql": mysql.Dialect()}
}

// A database is a list of the same statements. Where one statement cannot both
// change rows and say what was there before, it has a companion that writes.
func TestDialectsHaveTheSameStatements(t *testing.T) {
	all := map[string]bool{}
	for _, d := range dialects() {
		for _, n := range d.Statements.Names() {
			if base, companion := strings.CutSuffix(n, "_write"); companion {
				if !d.Statements.Has(base) {
					t.Errorf("%s: %s is nobody's companion", d.Name, n)
				}
				continue
			}
			all[n] = true
		}
	}
	// Only SQLite has to look at values to learn what a time column holds.
	delete(all, "table_sample")
	for _, d := range dialects() {
		for _, n := range slices.Sorted(maps.Keys(all)) {
			if !d.Statements.Has(n) {
				t.Errorf("%s has no statement %s", d.Name, n)
			}
		}
	}
	if len(all) < 30 {
		t.Errorf("only %d statements", len(all))
	}
}

func TestDialectsHaveTheSameMigrations(t *testing.T) {
	want := sqlite.Dialect().Migrations.Names()
	for _, d := range dialects() {
		if got := d.Migrations.Names(); !slices.Equal(got, want) {
			t.Errorf("%s has %v, sqlite has %v", d.Name, got, want)
		}
	}
}

func TestMigrateTwiceIsANoOp(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		s := open(t, kind, testdb.Open(t, url), "")
		if err := s.CheckSchema(t.Context()); !errors.Is(err, dibs.ErrSchema) {
			t.Errorf("an empty database: %v", err)
		}
		if _, err := s.Installation(t.Context()); !errors.Is(err, dibs.ErrSchema) {
			t.Errorf("the installation of an empty database: %v", err)
		}
		if applied := migrate(t, s); !slices.Equal(applied, []string{"0001_tables"}) {
			t.Errorf("applied %v", applied)
		}
		installation, err := s.Installation(t.Context())
		if err != nil || installation == "" {
			t.Errorf("installation %q, %v", installation, err)
		}
		if applied := migrate(t, s); len(applied) != 0 {
			t.Errorf("applied %v again", applied)
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		if again, err := s.Installation(t.Context()); err != nil || again != installation {
			t.Errorf("installation %q, %v; was %q", again, err, installation)
		}
	})
}

func TestManyMigrateAtOnce(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		const many = 8
		var group sync.WaitGroup
		var mu sync.Mutex
		var did int
		names := map[string]int{}
		for range many {
			s := open(t, kind, testdb.Open(t, url), "") // a pool each, as processes have
			group.Go(func() {
				applied, err := s.Migrate(t.Context())
				if err != nil {
					t.Errorf("migrate: %v", err)
					return
				}
				name, err := s.Installation(t.Context())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				names[name]++
				if len(applied) > 0 {
					did++
				}
			})
		}
		group.Wait()
		if did != 1 || len(names) != 1 {
			t.Errorf("%d of %d applied the schema, installations %v", did, many, names)
		}
	})
}

// ahead is a store whose program knows one more migration, which lets programs
// of version oldest open the database.
func ahead(t testing.TB, kind, url, oldest string) *sqlstore.Store {
	t.Helper()
	d := dialects()[kind]
	d.Migrations = d.Migrations.With("0002_more", "-- oldest_compatible: "+oldest+"\nCREATE TABLE IF NOT EXISTS dibs_more (id INTEGER);\nCREATE TABLE IF NOT EXISTS dibs_still_more (id INTEGER);\n")
	return sqlstore.New(sqlstore.Config{DB: testdb.Open(t, url), Dialect: d})
}

func TestOlderProgramOpensANewerCompatibleSchema(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		older := open(t, kind, testdb.Open(t, url), "")
		migrate(t, older)
		newer := ahead(t, kind, url, "1")
		if err := newer.CheckSchema(t.Context()); !errors.Is(err, dibs.ErrSchema) {
			t.Errorf("the newer program on the older schema: %v", err)
		}
		if applied := migrate(t, newer); !slices.Equal(applied, []string{"0002_more"}) {
			t.Errorf("applied %v", applied)
		}
		if err := older.CheckSchema(t.Context()); err != nil {
			t.Errorf("the older program on a compatible schema: %v", err)
		}
		if applied := migrate(t, older); len(applied) != 0 {
			t.Errorf("the older program applied %v", applied)
		}
		start(t, older, "a", 1e9, true)
	})
}

func TestOlderProgramRefusesAnIncompatibleSchema(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		migrate(t, ahead(t, kind, url, "2"))
		older := open(t, kind, testdb.Open(t, url), "")
		if err := older.CheckSchema(t.Context()); !errors.Is(err, dibs.ErrSchema) {
			t.Errorf("check: %v", err)
		}
		if _, err := older.Migrate(t.Context()); !errors.Is(err, dibs.ErrSchema) {
			t.Errorf("migrate: %v", err)
		}
	})
}

func TestHalfAppliedMigrationIsFinished(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		s := open(t, kind, testdb.Open(t, url), "")
		migrate(t, s)
		execute(t, s, "CREATE TABLE dibs_more (id INTEGER)") // as a crash between two statements leaves it
		if applied := migrate(t, ahead(t, kind, url, "1")); len(applied) != 1 {
			t.Errorf("applied %v", applied)
		}
		execute(t, s, "INSERT INTO dibs_still_more VALUES (1)")
	})
}

func TestPrintedMigrationsAreTheWholeSchema(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		s := open(t, kind, testdb.Open(t, url), "")
		var script bytes.Buffer
		if err := s.PrintMigrations(&script); err != nil {
			t.Fatal(err)
		}
		for _, statement := range strings.Split(script.String(), ";\n") {
			if strings.TrimSpace(statement) != "" {
				execute(t, s, statement)
			}
		}
		if err := s.CheckSchema(t.Context()); !errors.Is(err, dibs.ErrSchema) {
			t.Errorf("before it was registered: %v", err)
		}
		if applied := migrate(t, s); len(applied) != 0 {
			t.Errorf("applied %v after the script", applied)
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// B23: a copy on another server, or under another name, is not ours until
// somebody says so.
func TestForeignDatabaseIsRefusedUntilAdopted(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		db := testdb.Open(t, url)
		migrate(t, open(t, kind, db, "production"))
		if err := open(t, kind, db, "production").CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		staging := open(t, kind, db, "staging")
		if err := staging.CheckSchema(t.Context()); !errors.Is(err, dibs.ErrForeign) {
			t.Errorf("another installation: %v", err)
		}
		if _, err := staging.Migrate(t.Context()); !errors.Is(err, dibs.ErrForeign) {
			t.Errorf("migrate another installation: %v", err)
		}
		execute(t, staging, "UPDATE dibs_meta SET value = 'somewhere else' WHERE name = 'identity'") // as a restored dump has it
		if err := open(t, kind, db, "production").CheckSchema(t.Context()); !errors.Is(err, dibs.ErrForeign) {
			t.Errorf("another server: %v", err)
		}
		if name, err := staging.Adopt(t.Context(), "ops@web", "a copy for tests"); err != nil || name != "staging" {
			t.Errorf("adopted as %q, %v", name, err)
		}
		if err := staging.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		if err := open(t, kind, db, "production").CheckSchema(t.Context()); !errors.Is(err, dibs.ErrForeign) {
			t.Errorf("production on the adopted copy: %v", err)
		}
		acts, err := staging.ListAudit(t.Context(), 1)
		if err != nil || len(acts) != 1 || acts[0].What != "adopt" || acts[0].Before != "production on somewhere else" {
			t.Errorf("recorded %+v, %v", acts, err)
		}
	})
}

func TestPrivateServersAreDurable(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		faults, err := s.Durability(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			if !strings.HasPrefix(f, "fsync ") && !strings.HasPrefix(f, "full_page_writes ") { // the test servers' own speed-up
				t.Error(f)
			}
		}
	})
}
