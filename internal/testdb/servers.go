package testdb

import (
	"context"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb/server"
)

// serverWait bounds the start of a server of a test's own.
const serverWait = 60 * time.Second

// SkewedPostgres starts a PostgreSQL server of the test's own whose clock is off
// by the given time ("+1h", "-90m") and returns the URL of its database. The
// server ends with the test.
func SkewedPostgres(t testing.TB, clock string) string {
	t.Helper()
	return StartPostgres(t, server.Config{Clock: clock}).URL()
}

// SkewedMySQL starts a MariaDB server of the test's own whose clock is off by
// the given time ("+1h", "-90m") and returns the URL of a database on it. The
// server ends with the test.
func SkewedMySQL(t testing.TB, clock string) string {
	t.Helper()
	return MySQLDatabase(t, StartMySQL(t, server.Config{Clock: clock}))
}

// StartPostgres starts a PostgreSQL server of the test's own, to be paused,
// stopped, killed and started again. It ends with the test.
func StartPostgres(t testing.TB, config server.Config) *server.Server {
	t.Helper()
	return start(t, server.StartPostgres, config)
}

// StartMySQL is [StartPostgres] for MariaDB.
func StartMySQL(t testing.TB, config server.Config) *server.Server {
	t.Helper()
	return start(t, server.StartMariaDB, config)
}

// MySQLDatabase makes a database on a server of the test's own and returns its
// URL.
func MySQLDatabase(t testing.TB, own *server.Server) string {
	t.Helper()
	if err := execute(t.Context(), own.URL(), "CREATE DATABASE IF NOT EXISTS test"); err != nil {
		t.Fatalf("make the test's database: %v", err)
	}
	return own.URL() + "test"
}

func start(t testing.TB, starter func(context.Context, server.Config) (*server.Server, error), config server.Config) *server.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), serverWait)
	defer cancel()
	own, err := starter(ctx, config)
	if err != nil {
		t.Fatalf("start a server of the test's own: %v", err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Errorf("stop the test's own server: %v", err)
		}
		if err := own.Remove(); err != nil {
			t.Errorf("remove the test's own server: %v", err)
		}
	})
	return own
}
