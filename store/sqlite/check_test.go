package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/store/sqlite"
)

func TestCaseB63CheckReadsTheSettingsBack(t *testing.T) {
	if err := sqlite.Check(t.Context(), testdb.OpenSQLite(t)); err != nil {
		t.Errorf("a good connection: %v", err)
	}
	path := filepath.Join(t.TempDir(), "bad.db")
	db := openWith(t, path, "_pragma=busy_timeout(60000)&_pragma=synchronous(NORMAL)")
	err := sqlite.Check(t.Context(), db)
	for _, field := range []string{"journal_mode", "synchronous", "busy_timeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
	var config *dibs.ConfigError
	if !errors.As(err, &config) || config.Fix == "" {
		t.Errorf("no fix: %v", err)
	}
	faults, err := sqlite.New(db).Durability(t.Context())
	if err != nil || len(faults) != 1 || !strings.Contains(faults[0], "synchronous is NORMAL") {
		t.Errorf("durability: %q, %v", faults, err)
	}
}

func openWith(t testing.TB, path, settings string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?"+settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestMigrateSwitchesToWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fresh.db")
	if _, err := sqlite.New(openWith(t, path, "_pragma=busy_timeout(0)")).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Check(t.Context(), openWith(t, path, "_pragma=busy_timeout(0)&_pragma=synchronous(FULL)")); err != nil {
		t.Error(err)
	}
}

// The first start of many, with connections that do not wait by themselves and
// do not ask for WAL.
func TestManyMigrateAFreshFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fresh.db")
	var group sync.WaitGroup
	for range 12 {
		s := sqlite.New(openWith(t, path, "_pragma=busy_timeout(0)&_pragma=synchronous(FULL)"))
		group.Go(func() {
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Errorf("migrate: %v", err)
			}
			if err := s.CheckSchema(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestCheckFile(t *testing.T) {
	if err := sqlite.CheckFile("/proc/none/here.db"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a folder that does not exist: %v", err)
	}
	for kind, want := range map[uint32]string{
		0x6969: "NFS", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x01021997: "9p", 0x65735546: "FUSE", 0x794c7630: "container's own layer",
		0xef53: "", 0x58465342: "", 0x9123683e: "", 0x01021994: "",
	} {
		if got := sqlite.Unfit(kind); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("file system %#x: %q, want %q", kind, got, want)
		}
	}
}

// B23: a copy of the file is another database.
func TestCaseB23CopyOfTheFileIsForeign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "production.db")
	const settings = "_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db := openWith(t, path, settings)
	if _, err := sqlite.New(db).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	staging := filepath.Join(t.TempDir(), "staging.db")
	if err := os.WriteFile(staging, content, 0o600); err != nil {
		t.Fatal(err)
	}
	copied := sqlite.New(openWith(t, staging, settings))
	if err := copied.CheckSchema(t.Context()); !errors.Is(err, dibs.ErrForeign) {
		t.Errorf("a copy: %v", err)
	}
	if _, err := copied.Adopt(t.Context(), "ops", "for tests"); err != nil {
		t.Fatal(err)
	}
	if err := copied.CheckSchema(t.Context()); err != nil {
		t.Errorf("adopted: %v", err)
	}
	moved := filepath.Join(filepath.Dir(path), "moved.db")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.New(openWith(t, moved, settings)).CheckSchema(t.Context()); err != nil {
		t.Errorf("the same file under another name: %v", err)
	}
}

func TestErrorsAreClassified(t *testing.T) {
	classify := sqlite.Dialect().Classify
	db := testdb.OpenSQLite(t)
	for _, setup := range []string{
		"CREATE TABLE a (id INTEGER PRIMARY KEY, u TEXT UNIQUE, n INTEGER NOT NULL CHECK (n < 10)) STRICT",
		"INSERT INTO a VALUES (1, 'x', 1)",
	} {
		if _, err := db.ExecContext(t.Context(), setup); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]sqlstore.Class{
		"INSERT INTO a VALUES (1, 'y', 1)":    sqlstore.ClassUnique,
		"INSERT INTO a VALUES (2, 'x', 1)":    sqlstore.ClassUnique,
		"INSERT INTO a VALUES (2, 'y', NULL)": sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 'y', 10)":   sqlstore.ClassData,
		"INSERT INTO a VALUES (2, 'y', 'n')":  sqlstore.ClassData,
		"SELECT * FROM b":                     sqlstore.ClassMissing,
		"SELECT b FROM a":                     sqlstore.ClassMissing,
		"INSERT INTO a (b) VALUES (1)":        sqlstore.ClassMissing,
		"SELEC":                               sqlstore.ClassOther,
	} {
		_, err := db.ExecContext(t.Context(), text)
		if err == nil {
			t.Fatalf("%s: no error", text)
		}
		if got := classify(err); got != want {
			t.Errorf("%s: class %d, want %d (%v)", text, got, want, err)
		}
	}
	for text, want := range map[string]sqlstore.Class{
		"database is locked (5) (SQLITE_BUSY)": sqlstore.ClassRetry,
		"unable to open database file":         sqlstore.ClassUnavailable,
	} {
		if got := classify(errors.New(text)); got != want {
			t.Errorf("%s: class %d, want %d", text, got, want)
		}
	}
	for code, want := range map[int]sqlstore.Class{5: sqlstore.ClassRetry, 517: sqlstore.ClassRetry, 2067: sqlstore.ClassData, 8: sqlstore.ClassUnavailable} {
		if got := classify(coded(code)); got != want {
			t.Errorf("code %d: class %d, want %d", code, got, want)
		}
	}
}

// coded is an error as a driver makes it that tells its code.
type coded int

func (c coded) Error() string { return "some text" }
func (c coded) Code() int     { return int(c) }

// Law 10: what cannot be used is refused at once, not waited for.
func TestUnusableFilesAreUnavailable(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly := filepath.Join(t.TempDir(), "readonly.db")
	if _, err := sqlite.New(openWith(t, readOnly, "_pragma=busy_timeout(1000)")).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, db := range map[string]*sql.DB{
		"a folder that is not there": openWith(t, filepath.Join(t.TempDir(), "none", "x.db"), "_pragma=busy_timeout(1000)"),
		"no database":                openWith(t, garbage, "_pragma=busy_timeout(1000)"),
		"a read-only file":           openWith(t, readOnly, "mode=ro&_pragma=busy_timeout(1000)"),
	} {
		s := sqlite.New(db)
		if err := s.Register(t.Context(), []dibs.JobRecord{{Name: "a", Hash: "h"}}); !errors.Is(err, dibs.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
