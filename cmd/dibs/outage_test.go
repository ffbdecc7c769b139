package main

import (
	"fmt"
	"testing"

	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/internal/testdb/server"
)

// TestDatabaseRestartStopsNoRun: a server that goes away and comes back inside
// the lease costs a run nothing.
func TestDatabaseRestartStopsNoRun(t *testing.T) {
	binary := buildBinary(t)
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		srv := testdb.StartPostgres(t, server.Config{})
		restartScenario(newWorld(t, "postgres", srv.URL(), binary, 8, "batch: 4\nconcurrency: 2\nlease: 40s"), srv)
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		srv := testdb.StartMySQL(t, server.Config{})
		restartScenario(newWorld(t, "mysql", testdb.MySQLDatabase(t, srv), binary, 8, "batch: 4\nconcurrency: 2\nlease: 40s"), srv)
	})
}

func restartScenario(w *world, srv *server.Server) {
	w.file("hold", 0o600, "")
	run := w.start("tick", "sync")
	w.poll(func() bool { return len(w.starts()) == 2 }, func() string { return "handlers did not start" })
	if err := srv.Stop(); err != nil {
		w.t.Fatal(err)
	}
	w.remove("hold") // handlers finish while nobody can be told
	w.poll(func() bool { return countLines(w.log(), "end ") >= 2 }, func() string { return "handlers did not end" })
	if err := srv.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if code := run.code(w.t); code != 0 {
		w.t.Errorf("exit %d\n%s", code, run.out)
	}
	w.db = testdb.Open(w.t, w.url)
	w.want("8", "SELECT count(*) FROM accounts WHERE status = 'IDLE' AND fence = 1")
	for key, n := range w.starts() {
		if n != 1 {
			w.t.Errorf("%s was handled %d times", key, n)
		}
	}
}

// TestCaseB12LostAnswers: the n-th COMMIT of a run is carried out and its answer
// lost, for each n in turn; every row is still done exactly once, and no run
// ends lost.
func TestCaseB12LostAnswers(t *testing.T) {
	binary := buildBinary(t)
	for kind, commit := range map[string]string{"postgres": "commit\x00", "mysql": "\x03commit"} {
		t.Run(kind, func(t *testing.T) {
			fresh := map[string]func(testing.TB) string{"postgres": testdb.Postgres, "mysql": testdb.MySQL}[kind]
			direct := fresh(t)
			w := newWorld(t, kind, direct, binary, 6, "batch: 2\nlease: 4s")
			proxy, through := testdb.NewProxy(t, direct)
			for round := 1; round <= 6; round++ {
				w.exec("UPDATE accounts SET claimable_at = (SELECT * FROM (SELECT min(started_at) FROM accounts) AS m) WHERE started_at IS NOT NULL")
				w.file("hold", 0o600, "")
				run := w.start("tick", "sync", "--db", through)
				w.poll(func() bool { return len(w.starts()) > 0 && countLines(w.log(), "start ") > 6*(round-1) }, func() string { return "no handler started" })
				dropped := proxy.DropAnswerTo(commit)
				w.remove("hold")
				if code := run.code(t); code != 0 {
					t.Fatalf("round %d: exit %d\n%s", round, code, run.out)
				}
				select {
				case <-dropped:
				default:
					t.Fatalf("round %d: no answer was dropped", round)
				}
				w.want(fmt.Sprint(6*round), "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'completed' AND late = FALSE")
				w.want("0", "SELECT count(*) FROM accounts WHERE status <> 'IDLE'")
			}
			for key, n := range w.starts() {
				if n != 6 {
					t.Errorf("%s was handled %d times in 6 rounds", key, n)
				}
			}
		})
	}
}

func countLines(text, prefix string) int {
	n := 0
	for _, line := range splitLines(text) {
		if len(line) >= len(prefix) && line[:len(prefix)] == prefix {
			n++
		}
	}
	return n
}
