package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/internal/testdb/server"
)

// TestWrapper plays what happens to a wrapped command's lease, with real
// processes.
func TestWrapper(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	for name, play := range map[string]func(*world){
		"a hundred at once":     hundredAtOnce,
		"many in turn":          manyInTurn,
		"one more covers all":   oneMoreCoversAll,
		"only the newest":       onlyTheNewest,
		"paused past its lease": wrapperPaused,
		"lease loss accepted":   leaseLossAccepted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testdb.All(t, func(t *testing.T, kind, url string) { play(newWrapWorld(t, kind, url, binary)) })
		})
	}
	t.Run("database restarted", func(t *testing.T) {
		t.Parallel()
		databaseRestarted(t, binary, "15s", 0)
	})
	t.Run("a hundred in two network namespaces", func(t *testing.T) {
		t.Parallel()
		twoNetworks(t, binary)
	})
	t.Run("database gone for good", func(t *testing.T) {
		t.Parallel()
		databaseGone(t, binary)
	})
}

// TestWrapperSoak is the database restart at its full length: 90 seconds under a
// lease of five minutes.
func TestWrapperSoak(t *testing.T) {
	if os.Getenv("DIBS_SOAK") == "" {
		t.Log("only with DIBS_SOAK, as make soak sets it")
		return
	}
	databaseRestarted(t, buildBinary(t), "5m", 90*time.Second)
}

// hundredAtOnce: of a hundred that start together one runs, and the others say
// whom they stood back for.
func hundredAtOnce(w *world) {
	const n = 100
	w.file("hold", 0o600, "")
	script := "echo x >> ran; while [ -e hold ]; do sleep 0.05; done"
	all := make([]*process, n)
	for i := range all {
		all[i] = w.wrap(script)
	}
	w.until(fmt.Sprint(n-1), "SELECT count(*) FROM dibs_triggers WHERE decision = 'skipped' AND reason = 'running' AND blocking_run IS NOT NULL")
	w.remove("hold")
	for _, p := range all {
		w.wantCode(p, 0)
	}
	if got := w.lines("ran"); got != 1 {
		w.t.Errorf("%d commands ran, want 1", got)
	}
	w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")
	w.want("1", "SELECT count(*) FROM dibs_runs")
	w.want(fmt.Sprint(n), "SELECT count(*) FROM dibs_triggers")
}

// twoNetworks: a hundred wrappers, every second one in a network namespace of its
// own, reach one PostgreSQL through its socket: one runs. Making a namespace
// takes root; for others all are in the same one.
func twoNetworks(t *testing.T, binary string) {
	own := testdb.StartPostgres(t, server.Config{})
	u, err := url.Parse(own.URL())
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", own.Folder)
	q.Set("port", u.Port())
	u.Host, u.RawQuery = "", q.Encode()
	w := newWrapWorld(t, "postgres", own.URL(), binary)
	w.file("dibs.yaml", 0o600, fmt.Sprintf("database: %q\n", u.String()))
	w.file("hold", 0o600, "")
	const n = 100
	all := make([]*process, n)
	for i := range all {
		all[i] = w.command(w.wrapped("readlink /proc/self/ns/net >> ran; while [ -e hold ]; do sleep 0.05; done")...)
		if i%2 == 1 && os.Geteuid() == 0 {
			all[i].SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		}
		if err := all[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	w.until(fmt.Sprint(n-1), "SELECT count(*) FROM dibs_triggers WHERE decision = 'skipped' AND reason = 'running'")
	w.remove("hold")
	for _, p := range all {
		w.wantCode(p, 0)
	}
	if got := w.lines("ran"); got != 1 {
		t.Errorf("%d commands ran, want 1", got)
	}
	w.want("1", "SELECT count(*) FROM dibs_runs")
}

// manyInTurn: under queue all run, one after the other, in the order of their
// triggers; beyond the limit they stand back.
func manyInTurn(w *world) {
	const n = 12
	w.file("hold", 0o600, "")
	script := "echo begin $DIBS_WORK_ID >> log; while [ -e hold ]; do sleep 0.02; done; echo end >> log"
	all := []*process{w.wrap(script, "--overlap", "queue", "--queue-limit", fmt.Sprint(n-2))}
	w.running()
	for range n - 2 {
		all = append(all, w.wrap(script, "--overlap", "queue", "--queue-limit", fmt.Sprint(n-2)))
	}
	w.until(fmt.Sprint(n-2), "SELECT count(*) FROM dibs_triggers WHERE decision = 'waiting'")
	if out, code := w.run(w.wrapped(script, "--overlap", "queue", "--queue-limit", fmt.Sprint(n-2))...); code != 0 {
		w.t.Errorf("beyond the limit: exit %d\n%s", code, out)
	}
	w.want("1", "SELECT count(*) FROM dibs_triggers WHERE decision = 'skipped' AND reason = 'queue_full'")
	w.remove("hold")
	for _, p := range all {
		w.wantCode(p, 0)
	}
	lines := splitLines(strings.TrimSpace(w.text("log")))
	if len(lines) != 2*(n-1) {
		w.t.Fatalf("%d lines, want %d\n%s", len(lines), 2*(n-1), w.text("log"))
	}
	var ran []string
	for i := 0; i < len(lines); i += 2 {
		if !strings.HasPrefix(lines[i], "begin ") || lines[i+1] != "end" {
			w.t.Fatalf("two ran at once:\n%s", w.text("log"))
		}
		ran = append(ran, strings.TrimPrefix(lines[i], "begin "))
	}
	if got := strings.Join(ran, " "); got != w.column("SELECT id FROM dibs_triggers WHERE decision = 'started' ORDER BY created_at, id") {
		w.t.Errorf("the order is not that of the triggers: %s", got)
	}
}

// oneMoreCoversAll: under coalesce those that arrive during a run become one
// more, also when the one that waits is killed and another arrives.
func oneMoreCoversAll(w *world) {
	w.file("hold", 0o600, "")
	slot := func(n int) []string {
		return w.wrapped("echo $DIBS_SLOT $DIBS_COVERED_SLOTS >> log; while [ -e hold ]; do sleep 0.02; done",
			"--overlap", "coalesce", "--slot", fmt.Sprintf("2026-01-01T0%d:00:00Z", n))
	}
	first := w.start(slot(0)...)
	w.await("log")
	former := w.start(slot(1)...)
	w.until("1", "SELECT count(*) FROM dibs_triggers WHERE decision = 'waiting'")
	killed := w.start(slot(2)...)
	w.wantCode(former, 0) // the newest waits for all
	w.signal(killed, syscall.SIGKILL)
	_ = killed.code(w.t)
	last := w.start(slot(3)...)
	w.poll(func() bool {
		return strings.Contains(w.one("SELECT covered FROM dibs_triggers WHERE decision = 'waiting' AND slot IS NOT NULL ORDER BY created_at DESC LIMIT 1"), "T02:00")
	}, func() string { return "the last one does not cover the killed one's slot" })
	w.remove("hold")
	w.wantCode(first, 0)
	w.wantCode(last, 0)
	lines := splitLines(strings.TrimSpace(w.text("log")))
	if len(lines) != 2 || !strings.HasPrefix(lines[1], "2026-01-01T03:00:00Z ") || !strings.Contains(lines[1], "01:00:00Z") || !strings.Contains(lines[1], "02:00:00Z") {
		w.t.Errorf("want one more run with slot 03:00 that covers 01:00 and 02:00, got\n%s", w.text("log"))
	}
	w.want("2", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")
	w.want("0", "SELECT count(*) FROM dibs_triggers WHERE decision = 'waiting'")
}

// onlyTheNewest: under replace the running command is stopped in time, exits 75
// and is on record as replaced.
func onlyTheNewest(w *world) {
	old := w.wrap("touch ready; sleep 100; true", "--overlap", "replace", "--lease", "12s", "--grace", "500ms")
	w.await("ready")
	run := w.running()
	if out, code := w.run(w.wrapped("echo newest", "--overlap", "replace", "--lease", "12s", "--grace", "500ms")...); code != 0 || out != "newest\n" {
		w.t.Errorf("the newest: exit %d, %q", code, out)
	}
	w.wantCode(old, 75)
	w.wantNobody(run)
	w.want("cancelled|replaced", "SELECT "+w.concat("state", "'|'", "reason")+" FROM dibs_runs WHERE id = '"+run+"'")
	w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")
}

// wrapperPaused: a wrapper that slept through its lease stops its command and
// says so; its completion is refused, and both records are true.
func wrapperPaused(w *world) {
	paused := w.wrap("touch ready; sleep 100; true", "--lease", "3s", "--grace", "200ms")
	w.await("ready")
	run := w.running()
	w.pause(paused)
	w.poll(func() bool {
		out, code := w.run(w.wrapped("echo previous $DIBS_PREVIOUS")...)
		if code != 0 {
			w.t.Fatalf("the successor: exit %d\n%s", code, out)
		}
		return strings.Contains(out, "previous lost:"+run)
	}, func() string { return "nobody took over" })
	if len(w.alive(run)) == 0 {
		w.t.Error("the command was gone before its wrapper went on: the test shows nothing")
	}
	w.signal(paused, syscall.SIGCONT)
	w.wantCode(paused, 76)
	if !strings.Contains(paused.out.String(), "dibs: job: the lease was lost") {
		w.t.Errorf("nothing is said: %q", paused.out)
	}
	w.wantNobody(run)
	w.want("lost", "SELECT state FROM dibs_runs WHERE id = '"+run+"'")
	w.want("lease_ended", "SELECT reason FROM dibs_runs WHERE id = '"+run+"'")
	w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded' AND previous = 'lost:"+run+"'")
	w.want("0", "SELECT count(*) FROM dibs_runs WHERE state = 'running'")
}

// leaseLossAccepted: whoever asked for it keeps the command, and the record says
// whose the run was.
func leaseLossAccepted(w *world) {
	w.file("hold", 0o600, "")
	p := w.wrap("touch ready; while [ -e hold ]; do sleep 0.05; done; echo done", "--lease", "3s", "--grace", "200ms", "--on-lease-loss", "continue")
	w.await("ready")
	run := w.running()
	w.exec("UPDATE dibs_runs SET state = 'lost', reason = 'lease_ended' WHERE id = '" + run + "'")
	w.poll(func() bool { return w.one("SELECT count(*) FROM dibs_runs WHERE state = 'lost'") == "1" }, func() string { return "not lost" })
	w.remove("hold")
	w.wantCode(p, 76)
	if !strings.Contains(p.out.String(), "done\n") {
		w.t.Errorf("the command was stopped: %q", p.out)
	}
	w.want("lost", "SELECT state FROM dibs_runs WHERE id = '"+run+"'")
}

// databaseRestarted: a database that is away for less than the lease stops
// nothing, and the outcome is recorded.
func databaseRestarted(t *testing.T, binary, lease string, away time.Duration) {
	own := testdb.StartPostgres(t, server.Config{})
	w := newWrapWorld(t, "postgres", own.URL(), binary)
	w.file("hold", 0o600, "")
	p := w.wrap("touch ready; while [ -e hold ]; do sleep 0.05; done; echo done", "--lease", lease)
	w.await("ready")
	run := w.running()
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	<-time.After(away) // the outage itself
	if err := own.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.db = testdb.Open(t, own.URL()) // the old connections are broken
	before := w.one("SELECT lease_end FROM dibs_runs")
	w.poll(func() bool { return w.one("SELECT lease_end FROM dibs_runs") > before }, func() string { return "no renewal after the restart" })
	if len(w.alive(run)) == 0 {
		t.Error("the command was stopped")
	}
	w.remove("hold")
	w.wantCode(p, 0)
	if !strings.Contains(p.out.String(), "done\n") {
		t.Errorf("output %q", p.out)
	}
	w.want("succeeded", "SELECT state FROM dibs_runs")
}

// databaseGone: a database that stays away past the local deadline ends the
// command before somebody else could start one.
func databaseGone(t *testing.T, binary string) {
	own := testdb.StartPostgres(t, server.Config{})
	w := newWrapWorld(t, "postgres", own.URL(), binary)
	began := time.Now()
	p := w.wrap("trap '' TERM; touch ready; while :; do sleep 0.1; done", "--lease", "4s")
	w.await("ready")
	run := w.running()
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	w.wantNobody(run)
	if took := time.Since(began); took > 5500*time.Millisecond {
		t.Errorf("the command lived for %s under a lease of 4s that nobody renewed", took)
	}
	w.wantCode(p, 76)
	if !strings.Contains(p.out.String(), "could not be renewed in time") {
		t.Errorf("nothing is said: %q", p.out)
	}
}
