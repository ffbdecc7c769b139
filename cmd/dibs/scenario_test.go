package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
)

// TestAwkwardScenarios are the five that this program exists for, and the
// paused worker, with real processes on every database. What counts is both
// sides: the rows, and what the handlers did.
func TestAwkwardScenarios(t *testing.T) {
	binary := buildBinary(t)
	for _, s := range []struct {
		name     string
		rows     int
		settings string
		play     func(w *world)
	}{
		{"two at the same instant", 20, "batch: 3\nconcurrency: 2", func(w *world) { manyAtOnce(w, 2) }},
		{"fifty at the same instant", 60, "batch: 3\nconcurrency: 2", func(w *world) { manyAtOnce(w, 50) }},
		{"killed in mid-batch", 6, "batch: 3\nlease: 10s", killedInMidBatch},
		{"one row throws", 12, "batch: 5", oneRowThrows},
		{"manual trigger during a run", 4, "batch: 2\nconcurrency: 2", manualDuringRun},
		{"paused past its lease", 2, "batch: 2\nconcurrency: 2\nlease: 3s", pausedPastItsLease},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			testdb.All(t, func(t *testing.T, kind, url string) {
				s.play(newWorld(t, kind, url, binary, s.rows, s.settings))
			})
		})
	}
}

// manyAtOnce starts n ticks together: each row is claimed by exactly one.
func manyAtOnce(w *world, n int) {
	ticks := make([]*process, n)
	for i := range ticks {
		ticks[i] = w.start("tick", "sync")
	}
	for _, p := range ticks {
		if code := p.code(w.t); code != 0 {
			w.t.Errorf("a tick ended with exit %d\n%s", code, p.out)
		}
	}
	rows := w.one("SELECT count(*) FROM accounts")
	w.want(rows, "SELECT count(*) FROM accounts WHERE status = 'IDLE' AND fence = 1 AND attempts = 0 AND claim_token IS NULL")
	w.want(rows, "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'completed'")
	w.want(fmt.Sprint(n), "SELECT count(*) FROM dibs_triggers WHERE decision = 'started'")
	w.want(fmt.Sprint(n), "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")
	starts := w.starts()
	if fmt.Sprint(len(starts)) != rows {
		w.t.Errorf("%d of %s rows were handled", len(starts), rows)
	}
	for key, times := range starts {
		if times != 1 {
			w.t.Errorf("%s was handled %d times", key, times)
		}
	}
}

// killedInMidBatch: rows of a killed run are taken after their lease has ended,
// and not before.
func killedInMidBatch(w *world) {
	w.file("hold", 0o600, "")
	victim := w.start("tick", "sync")
	w.until("3", "SELECT count(*) FROM accounts WHERE status = 'IN_PROGRESS'")
	w.poll(func() bool { return len(w.starts()) == 1 }, func() string { return "no handler started" })
	w.signal(victim, syscall.SIGKILL)
	_ = victim.code(w.t)
	w.remove("hold")
	if out, code := w.run("tick", "sync"); code != 0 {
		w.t.Fatalf("the tick beside the dead run: exit %d\n%s", code, out)
	}
	w.want("3", "SELECT count(*) FROM accounts WHERE status = 'IN_PROGRESS'")
	w.want("3", "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'completed'")

	w.poll(func() bool {
		out, code := w.run("tick", "sync")
		if code != 0 {
			w.t.Fatalf("the tick after the lease: exit %d\n%s", code, out)
		}
		return w.one("SELECT count(*) FROM dibs_outcomes WHERE outcome = 'completed'") == "6"
	}, func() string { return "the dead run's rows were never taken" })
	w.want("3", "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'lost'")
	// The run's own lease may end between that tick's sweep and its claim.
	if out, code := w.run("tick", "sync"); code != 0 {
		w.t.Fatalf("one more tick: exit %d\n%s", code, out)
	}
	w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'lost'")
	w.want("0", notBeforeTheLease(w.kind))
	w.want("6", "SELECT count(*) FROM accounts WHERE status = 'IDLE' AND expirations = 0")
}

// notBeforeTheLease counts runs that took over before the victim's lease, as
// renewed last, had ended. It holds because the victim never ended by itself.
func notBeforeTheLease(string) string {
	return `SELECT count(*) FROM dibs_outcomes AS o JOIN dibs_runs AS dead ON dead.id = o.run_id AND dead.state = 'lost'
		WHERE o.outcome = 'lost' AND o.recorded_at < dead.lease_end AND o.recorded_at < (
			SELECT max(d.lease_end) FROM dibs_runs AS d WHERE d.id = dead.id)`
}

func oneRowThrows(w *world) {
	w.file("fail-a005", 0o600, "")
	out, code := w.run("tick", "sync")
	if code != 3 || !strings.Contains(out, "a005") {
		w.t.Errorf("exit %d, want 3 and the row's name\n%s", code, out)
	}
	w.want("FAILED", "SELECT status FROM accounts WHERE id = 'a005'")
	w.want("11", "SELECT count(*) FROM accounts WHERE status = 'IDLE'")
	w.want("partial", "SELECT state FROM dibs_runs")
}

func manualDuringRun(w *world) {
	w.file("hold-a001", 0o600, "")
	w.exec("UPDATE accounts SET claimable_at = NULL, status = 'FAILED' WHERE id IN ('a003', 'a004')") // not for this run
	busy := w.start("tick", "sync")
	w.poll(func() bool { return w.starts()["a001"] == 1 }, func() string { return "a001 was not started" })
	out, code := w.run("run", "sync", "--key", "a001")
	if code != 75 || !strings.Contains(out, "held by") {
		w.t.Errorf("row in progress: exit %d, want 75 and who holds it\n%s", code, out)
	}
	w.exec("UPDATE accounts SET status = 'IDLE', claimable_at = (SELECT * FROM (SELECT max(claimable_at) FROM accounts) AS m) WHERE id = 'a003'")
	if out, code = w.run("run", "sync", "--key", "a003"); code != 0 {
		w.t.Errorf("another row: exit %d\n%s", code, out)
	}
	w.want("skipped", "SELECT decision FROM dibs_triggers WHERE item_key = 'a001'")
	w.want("in_progress", "SELECT reason FROM dibs_triggers WHERE item_key = 'a001'")
	w.remove("hold-a001")
	if code := busy.code(w.t); code != 0 {
		w.t.Errorf("the run: exit %d\n%s", code, busy.out)
	}
	if n := w.starts()["a001"]; n != 1 {
		w.t.Errorf("a001 was handled %d times", n)
	}
}

// pausedPastItsLease: a worker stopped past its lease changes no owned row when
// it goes on, ends lost, and leaves what it learned as late.
func pausedPastItsLease(w *world) {
	w.file("hold", 0o600, "")
	paused := w.start("tick", "sync")
	w.poll(func() bool { return len(w.starts()) == 2 }, func() string { return "handlers did not start" })
	w.pause(paused)
	w.remove("hold") // its handlers finish while it sleeps
	w.poll(func() bool {
		out, code := w.run("tick", "sync")
		if code != 0 {
			w.t.Fatalf("the successor: exit %d\n%s", code, out)
		}
		return w.one("SELECT count(*) FROM accounts WHERE status = 'IDLE' AND fence = 2") == "2"
	}, func() string { return "nobody took the rows over" })
	before := w.one("SELECT max(claimable_at) FROM accounts")
	w.signal(paused, syscall.SIGCONT)
	if code := paused.code(w.t); code != 76 {
		w.t.Errorf("the paused worker: exit %d, want 76\n%s", code, paused.out)
	}
	w.want(before, "SELECT max(claimable_at) FROM accounts")
	w.want("2", "SELECT count(*) FROM accounts WHERE status = 'IDLE' AND fence = 2 AND attempts = 0")
	w.want("2", "SELECT count(*) FROM dibs_outcomes WHERE late = TRUE")
	w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'lost'")
}

// TestClocksAndZones: workers whose clocks are an hour off the database's, and
// sessions in three zones at once, never take live work and always free dead
// work.
func TestClocksAndZones(t *testing.T) {
	binary := buildBinary(t)
	for _, shift := range []string{"+1h", "-1h"} {
		t.Run("postgres "+shift, func(t *testing.T) {
			t.Parallel()
			clockScenario(newWorld(t, "postgres", testdb.SkewedPostgres(t, shift), binary, 3, "lease: 3s\nbatch: 3"), nil)
		})
		t.Run("mysql "+shift, func(t *testing.T) {
			t.Parallel()
			clockScenario(newWorld(t, "mysql", testdb.SkewedMySQL(t, shift), binary, 3, "lease: 3s\nbatch: 3"), nil)
		})
	}
	t.Run("postgres zones", func(t *testing.T) {
		t.Parallel()
		url := testdb.Postgres(t)
		sep := "?"
		if strings.Contains(url, "?") {
			sep = "&"
		}
		zones := []string{"UTC", "America/New_York", "Pacific/Kiritimati"}
		for i := range zones {
			zones[i] = url + sep + "timezone=" + zones[i]
		}
		clockScenario(newWorld(t, "postgres", url, binary, 3, "lease: 3s\nbatch: 3"), zones)
	})
}

// clockScenario holds three rows for longer than a lease, has others look on,
// kills the holder, and sees the rows freed after the lease. dbs are the
// addresses that the lookers-on use in turn.
func clockScenario(w *world, dbs []string) {
	with := func(i int) []string {
		if len(dbs) == 0 {
			return []string{"tick", "sync"}
		}
		return []string{"tick", "sync", "--db", dbs[i%len(dbs)]}
	}
	w.file("hold", 0o600, "")
	holder := w.start(with(1)...)
	w.until("3", "SELECT count(*) FROM accounts WHERE status = 'IN_PROGRESS'")
	began := time.Now()
	for i := 0; time.Since(began) < 7*time.Second; i++ { // more than two leases
		if out, code := w.run(with(i)...); code != 0 {
			w.t.Fatalf("looker-on %d: exit %d\n%s", i, code, out)
		}
	}
	w.want("3", "SELECT count(*) FROM accounts WHERE status = 'IN_PROGRESS' AND fence = 1")
	w.signal(holder, syscall.SIGKILL)
	_ = holder.code(w.t)
	w.remove("hold")
	for i := 0; ; i++ {
		if out, code := w.run(with(i)...); code != 0 {
			w.t.Fatalf("successor: exit %d\n%s", code, out)
		}
		if w.one("SELECT count(*) FROM accounts WHERE status = 'IDLE'") == "3" {
			break
		}
		if time.Since(began) > time.Minute {
			w.t.Fatal("the dead holder's rows were never freed")
		}
	}
	w.want("3", "SELECT count(*) FROM accounts WHERE status = 'IDLE' AND fence = 2")
}
