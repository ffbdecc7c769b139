package testdb_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
)

// throughProxy runs a test on both servers, with one connection through a proxy
// and one straight to the server.
func throughProxy(t *testing.T, test func(t *testing.T, proxy *testdb.Proxy, db, straight *sql.DB)) {
	t.Helper()
	for name, fresh := range map[string]func(testing.TB) string{"postgres": testdb.Postgres, "mysql": testdb.MySQL} {
		t.Run(name, func(t *testing.T) {
			address := fresh(t)
			straight := testdb.Open(t, address)
			mustExec(t, straight, "CREATE TABLE account (id int PRIMARY KEY)")
			proxy, through := testdb.NewProxy(t, address)
			db := testdb.Open(t, through)
			db.SetMaxOpenConns(1)
			test(t, proxy, db, straight)
		})
	}
}

func TestProxyDropsTheAnswerToACommit(t *testing.T) {
	throughProxy(t, func(t *testing.T, proxy *testdb.Proxy, db, straight *sql.DB) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO account VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		lost := proxy.DropAnswerTo("COMMIT")
		if err := tx.Commit(); err == nil {
			t.Error("the commit was answered")
		}
		select {
		case <-lost:
		case <-time.After(5 * time.Second):
			t.Fatal("no answer was dropped")
		}
		if n := single[int](t, straight, "SELECT count(*) FROM account"); n != 1 {
			t.Errorf("%d rows: the server was to commit", n)
		}
	})
}

func TestProxyDropsTheAnswerAfterSomeBytes(t *testing.T) {
	throughProxy(t, func(t *testing.T, proxy *testdb.Proxy, db, _ *sql.DB) {
		conn, err := db.Conn(t.Context()) // a pool would try again elsewhere
		if err != nil {
			t.Fatal(err)
		}
		lost := proxy.DropAnswerAfter(1)
		if _, err := conn.ExecContext(t.Context(), "INSERT INTO account VALUES (1)"); err == nil {
			t.Error("the request was answered")
		}
		select {
		case <-lost:
		case <-time.After(5 * time.Second):
			t.Fatal("no answer was dropped")
		}
		_ = conn.Close() // reports the broken connection
	})
}

func TestProxyCutsAndRefuses(t *testing.T) {
	throughProxy(t, func(t *testing.T, proxy *testdb.Proxy, db, _ *sql.DB) {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		proxy.Cut()
		if err := conn.PingContext(t.Context()); err == nil {
			t.Error("the connection was not cut")
		}
		_ = conn.Close() // reports the broken connection
		if err := db.PingContext(t.Context()); err != nil {
			t.Errorf("a new connection after the cut: %v", err)
		}
		proxy.Refuse(true)
		proxy.Cut()
		if err := db.PingContext(t.Context()); err == nil {
			t.Error("a new connection was not refused")
		}
		proxy.Refuse(false)
		if err := db.PingContext(t.Context()); err != nil {
			t.Errorf("a new connection after the refusals: %v", err)
		}
	})
}

func TestProxyBlackHoleAndDelay(t *testing.T) {
	throughProxy(t, func(t *testing.T, proxy *testdb.Proxy, db, straight *sql.DB) {
		proxy.BlackHole(true)
		if _, err := db.ExecContext(soon(t), "INSERT INTO account VALUES (1)"); err == nil {
			t.Error("the black hole answered")
		}
		if n := single[int](t, straight, "SELECT count(*) FROM account"); n != 0 {
			t.Error("the black hole passed on the request")
		}
		proxy.BlackHole(false)
		if err := db.PingContext(t.Context()); err != nil {
			t.Errorf("after the black hole: %v", err)
		}
		proxy.Delay(100 * time.Millisecond)
		began := time.Now()
		_ = single[int](t, db, "SELECT 1")
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("took %v: the delay counts in both directions", took)
		}
	})
}
