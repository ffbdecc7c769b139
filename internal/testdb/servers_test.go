package testdb_test

import (
	"math"
	"net"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/internal/testdb/server"
)

func TestSkewedServersHaveAnotherClock(t *testing.T) {
	for name, test := range map[string]struct {
		start func(testing.TB, string) string
		query string
	}{
		"postgres": {testdb.SkewedPostgres, "SELECT extract(epoch FROM clock_timestamp())::float8"},
		"mysql":    {testdb.SkewedMySQL, "SELECT unix_timestamp(now(6)) + 0e0"},
	} {
		for clock, offset := range map[string]float64{"+1h": 3600, "-1h": -3600} {
			t.Run(name+clock, func(t *testing.T) {
				db := testdb.Open(t, test.start(t, clock))
				there := single[float64](t, db, test.query)
				here := float64(time.Now().UnixMicro()) / 1e6
				if got := there - here; math.Abs(got-offset) > 5 {
					t.Errorf("the server's clock is off by %.1f s, want %.0f s", got, offset)
				}
			})
		}
	}
}

func TestOwnServerStopsAndStartsAgain(t *testing.T) {
	postgres := testdb.StartPostgres(t, server.Config{})
	mysql := testdb.StartMySQL(t, server.Config{})
	for name, own := range map[string]struct {
		server *server.Server
		url    string
	}{"postgres": {postgres, postgres.URL()}, "mysql": {mysql, testdb.MySQLDatabase(t, mysql)}} {
		t.Run(name, func(t *testing.T) {
			db := testdb.Open(t, own.url)
			mustExec(t, db, "CREATE TABLE account (id int PRIMARY KEY)")
			for _, end := range []func() error{own.server.Stop, own.server.Kill} {
				if err := end(); err != nil {
					t.Fatal(err)
				}
				if err := db.PingContext(t.Context()); err == nil {
					t.Fatal("an ended server answered")
				}
				if err := own.server.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustExec(t, db, "INSERT INTO account SELECT count(*) FROM account")
			}
			if n := single[int](t, db, "SELECT count(*) FROM account"); n != 2 {
				t.Errorf("%d rows after two restarts", n)
			}
		})
	}
}

func TestOwnServerCanBePaused(t *testing.T) {
	own := testdb.StartPostgres(t, server.Config{})
	db := testdb.Open(t, own.URL())
	if err := own.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := db.PingContext(soon(t)); err == nil {
		t.Error("a paused server answered")
	}
	if err := own.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

func TestSettingsReachTheServer(t *testing.T) {
	own := testdb.StartPostgres(t, server.Config{Settings: map[string]string{"synchronous_commit": "off"}})
	if got := single[string](t, testdb.Open(t, own.URL()), "SHOW synchronous_commit"); got != "off" {
		t.Errorf("synchronous_commit = %s", got)
	}
}

// The port was free when it was chosen, and somebody else was quicker to use it.
func TestServerTakesAnotherPortWhenItsPortIsTaken(t *testing.T) {
	var listen net.ListenConfig
	squatter, err := listen.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	taken := squatter.Addr().(*net.TCPAddr).Port
	for name, start := range map[string]func(testing.TB, server.Config) *server.Server{
		"postgres": testdb.StartPostgres, "mysql": testdb.StartMySQL,
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			own := start(t, server.Config{Port: func() (int, error) {
				asked++
				if asked == 1 {
					return taken, nil
				}
				return server.FreePort()
			}})
			if asked != 2 || own.Port == taken {
				t.Errorf("asked %d times for a port and got %d", asked, own.Port)
			}
			_ = testdb.Open(t, own.URL())
		})
	}
}
