package testdb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// The variables in which scripts/with-servers.sh leaves the addresses.
	postgresVariable = "DIBS_TEST_POSTGRES"
	mysqlVariable    = "DIBS_TEST_MYSQL"

	// dropWait bounds the removal of a test's database.
	dropWait = 30 * time.Second
	// longestName is how much of the test's name its database carries; both
	// servers allow 63 bytes, of which the prefix and the digits take 18.
	longestName = 40
)

// Postgres makes a database for this test on the private PostgreSQL server and
// returns its URL (postgres://…). The database is dropped when the test ends,
// whoever is still connected.
func Postgres(t testing.TB) string {
	t.Helper()
	return create(t, variable(t, postgresVariable), `CREATE DATABASE "%" TEMPLATE template0`, `DROP DATABASE IF EXISTS "%" WITH (FORCE)`)
}

// MySQL makes a database for this test on the private MariaDB server and returns
// its URL (mysql://user:password@host:port/name). The database is dropped when
// the test ends.
func MySQL(t testing.TB) string {
	t.Helper()
	return create(t, variable(t, mysqlVariable), "CREATE DATABASE `%`", "DROP DATABASE IF EXISTS `%`")
}

// SQLite returns the URL (sqlite:/path) of a database file in the test's own
// temporary folder. The file does not exist yet.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "test.db")
}

// All runs the test once for each kind of database, as the subtests "sqlite",
// "postgres" and "mysql", each with the URL of a fresh database.
func All(t *testing.T, test func(t *testing.T, name, url string)) {
	t.Helper()
	for _, kind := range []struct {
		name  string
		fresh func(testing.TB) string
	}{{"sqlite", SQLite}, {"postgres", Postgres}, {"mysql", MySQL}} {
		t.Run(kind.name, func(t *testing.T) { test(t, kind.name, kind.fresh(t)) })
	}
}

// PostgresServer is the URL of the private PostgreSQL server itself, as a
// superuser: for tests of privileges and for server-wide settings.
func PostgresServer(t testing.TB) string {
	t.Helper()
	return variable(t, postgresVariable)
}

// MySQLServer is the URL of the private MariaDB server itself, without a
// database, as a user who may do anything.
func MySQLServer(t testing.TB) string {
	t.Helper()
	return variable(t, mysqlVariable)
}

func variable(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: this test needs a database server. Run `make test`, or `scripts/with-servers.sh go test ./…` for one package", name)
	}
	return value
}

// create makes a database of a new name on the server and returns its URL. The
// sign % in the statements stands for the name.
func create(t testing.TB, server, createStatement, dropStatement string) string {
	t.Helper()
	name := databaseName(t)
	fill := func(statement string) string { return strings.ReplaceAll(statement, "%", name) }
	if err := execute(t.Context(), server, fill(createStatement)); err != nil {
		t.Fatalf("make the test's database: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), dropWait)
		defer cancel()
		if err := execute(ctx, server, fill(dropStatement)); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	address, err := url.Parse(server)
	if err != nil {
		t.Fatalf("the server's address: %v", err)
	}
	address.Path = "/" + name
	return address.String()
}

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, address, statement string) error {
	driver, dsn, err := DSN(address)
	if err != nil {
		return err
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// databaseName carries the test's name, so that a list of databases can be read,
// and random digits, so that no two tests meet.
func databaseName(t testing.TB) string {
	clean := func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}
	name := strings.Map(clean, strings.ToLower(t.Name()))
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails: it ends the program instead
	return "dibs_" + name[:min(len(name), longestName)] + "_" + hex.EncodeToString(random)
}
