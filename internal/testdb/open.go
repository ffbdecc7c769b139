package testdb

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"       // the driver "pgx"
	_ "github.com/ncruces/go-sqlite3/driver" // the driver "sqlite3"
)

// OpenPostgres opens a fresh database, see [Postgres] and [Open].
func OpenPostgres(t testing.TB) *sql.DB {
	t.Helper()
	return Open(t, Postgres(t))
}

// OpenMySQL opens a fresh database, see [MySQL] and [Open].
func OpenMySQL(t testing.TB) *sql.DB {
	t.Helper()
	return Open(t, MySQL(t))
}

// OpenSQLite opens a fresh database, see [SQLite] and [Open].
func OpenSQLite(t testing.TB) *sql.DB {
	t.Helper()
	return Open(t, SQLite(t))
}

// Open opens the database at a URL in the form dibs takes and checks that it
// answers. It is closed when the test ends.
func Open(t testing.TB, address string) *sql.DB {
	t.Helper()
	driver, dsn, err := DSN(address)
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the test's database: %v", err)
		}
	})
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatalf("reach the test's database: %v", err)
	}
	return db
}

// DSN translates a URL in the form dibs takes into the name of a database/sql
// driver and what that driver wants to be given.
func DSN(address string) (driver, dsn string, err error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		file := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}
		return "sqlite3", file.String() + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)" +
			"&_pragma=synchronous(FULL)&_txlock=immediate", nil
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return "", "", fmt.Errorf("database address: %w", err)
	}
	switch parsed.Scheme {
	case "postgres", "postgresql":
		return "pgx", address, nil
	case "mysql":
		return "mysql", mysqlDSN(parsed), nil
	default:
		return "", "", fmt.Errorf("database address: no driver for %q", parsed.Scheme)
	}
}

// mysqlDSN asks for rows found instead of rows changed (a guarded write that
// changes nothing has still found its row), and for UTC on both sides.
func mysqlDSN(address *url.URL) string {
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", address.Host
	config.User = address.User.Username()
	config.Passwd, _ = address.User.Password()
	config.DBName = strings.TrimPrefix(address.Path, "/")
	config.ClientFoundRows = true
	config.ParseTime = true
	config.InterpolateParams = true
	config.Params = map[string]string{"time_zone": "'+00:00'"}
	return config.FormatDSN()
}
