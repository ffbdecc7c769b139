package runner_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/store/mysql"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/store/sqlite"
)

const txWorkerURL = "DIBS_TEST_TX_WORKER"

// openStore opens a store by its database's kind.
func openStore(t testing.TB, kind, url string) dibs.Store {
	db := testdb.Open(t, url)
	switch kind {
	case "postgres":
		return postgres.New(db)
	case "mysql":
		return mysql.New(db)
	}
	return sqlite.New(db)
}

// TestItemTxWorker is not a test by itself: it is the process that
// TestItemTxUnderKills starts and kills.
func TestItemTxWorker(t *testing.T) {
	kind, url := os.Getenv(txWorkerURL+"_KIND"), os.Getenv(txWorkerURL)
	if url == "" {
		return
	}
	r, err := runner.New(runner.Config{Store: openStore(t, kind, url), Jobs: []dibs.Job{{
		Name: "count", Overlap: dibs.Allow, OnUncertain: dibs.Replay, Batch: 40, Concurrency: 4, Lease: 2 * time.Second,
		Retry:  dibs.Retry{Min: time.Second, Max: time.Second, MaxExpirations: 1 << 20, MaxAttempts: 1 << 20},
		Source: dibs.Table{Name: "counted", Key: "id", OneShot: true},
		Handle: func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			return dibs.Receipt{}, it.Tx(ctx, func(ctx context.Context, tx dibs.Tx) (dibs.Receipt, error) {
				_, err := tx.ExecContext(ctx, "UPDATE total SET n = n + 1")
				return dibs.Receipt{}, err
			})
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for t.Context().Err() == nil {
		if _, err := r.Tick(t.Context(), "count"); err != nil {
			t.Log(err)
		}
	}
}

// increments is 10,000 with DIBS_SOAK, and fewer in an ordinary run.
func increments() int {
	if os.Getenv("DIBS_SOAK") != "" {
		return 10_000
	}
	return 600
}

// Whatever kills the workers, and whenever: as many increments as items.
func TestItemTxUnderKills(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		db := testdb.Open(t, url)
		if m, ok := openStore(t, kind, url).(interface {
			Migrate(context.Context) ([]string, error)
		}); !ok {
			t.Fatal("the store cannot migrate")
		} else if _, err := m.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		at := map[string]string{"sqlite": "INTEGER", "postgres": "TIMESTAMPTZ DEFAULT '1970-01-02Z'", "mysql": "DATETIME(6) DEFAULT '1970-01-02'"}[kind]
		exec := func(query string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), query); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		due := map[string]string{"sqlite": "0", "postgres": "'1970-01-02Z'", "mysql": "'1970-01-02'"}[kind]
		started := map[string]string{"sqlite": "INTEGER", "postgres": "TIMESTAMPTZ", "mysql": "DATETIME(6)"}[kind]
		exec("CREATE TABLE total (n INTEGER NOT NULL)")
		exec("INSERT INTO total VALUES (0)")
		exec("CREATE TABLE counted (id INTEGER PRIMARY KEY, status VARCHAR(20) NOT NULL DEFAULT 'IDLE', started_at " + started + " NULL, claimable_at " + at + " NULL, " +
			"claim_token VARCHAR(96), fence BIGINT NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, expirations INTEGER NOT NULL DEFAULT 0, cycle BIGINT)")
		n := increments()
		for i := range n {
			exec("INSERT INTO counted (id, claimable_at) VALUES (" + strconv.Itoa(i+1) + ", " + due + ")")
		}
		killWorkers(t, kind, url, n, func() (done int) {
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM counted WHERE status = 'DONE'").Scan(&done); err != nil {
				t.Fatal(err)
			}
			return done
		})
		var total int
		if err := db.QueryRowContext(t.Context(), "SELECT n FROM total").Scan(&total); err != nil || total != n {
			t.Errorf("%d increments for %d items (%v)", total, n, err)
		}
	})
}

// killWorkers keeps two workers alive, and kills one at random moments whenever
// there was progress, until all n are done.
func killWorkers(t *testing.T, kind, url string, n int, done func() int) {
	t.Helper()
	workers := make([]*exec.Cmd, 2)
	startOne := func(i int) {
		t.Helper()
		workers[i] = exec.Command(os.Args[0], "-test.run=^TestItemTxWorker$")
		workers[i].Env = append(os.Environ(), txWorkerURL+"="+url, txWorkerURL+"_KIND="+kind)
		if err := workers[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	kill := func(i int) {
		_ = workers[i].Process.Kill() // it may have ended by itself
		_ = workers[i].Wait()
	}
	for i := range workers {
		startOne(i)
	}
	defer func() {
		for i := range workers {
			kill(i)
		}
	}()
	deadline := time.NewTimer(5 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last, next := 0, time.Now()
	for now := range ticks(tick, deadline) {
		d := done()
		if d == n {
			return
		}
		if d < last+n/30 || now.Before(next) {
			continue
		}
		i := rand.IntN(len(workers))
		kill(i)
		startOne(i)
		last, next = d, now.Add(rand.N(300*time.Millisecond))
	}
	t.Fatal("not done in five minutes")
}

// ticks yields until the deadline.
func ticks(tick *time.Ticker, deadline *time.Timer) func(func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		for {
			select {
			case <-deadline.C:
				return
			case now := <-tick.C:
				if !yield(now) {
					return
				}
			}
		}
	}
}
