package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/internal/testdb/server"
)

// newServed is a world without a table: a folder with a file of jobs.
func newServed(t *testing.T, kind, url, binary, jobs string) *world {
	t.Helper()
	w := &world{t: t, binary: binary, dir: t.TempDir(), url: url, kind: kind}
	w.jobs(jobs)
	if out, code := w.run("init"); code != 0 {
		t.Fatalf("init: exit %d\n%s", code, out)
	}
	w.db = testdb.Open(t, url)
	return w
}

// jobs writes dibs.yaml.
func (w *world) jobs(jobs string) {
	w.t.Helper()
	w.file("dibs.yaml", 0o600, fmt.Sprintf("database: %q\ndefaults: {overlap: skip, on_uncertain: replay}\njobs:\n  %s\n",
		w.url, strings.ReplaceAll(strings.TrimSpace(jobs), "\n", "\n  ")))
}

// address is a free one on loopback.
func address(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// get asks a server; 0: it does not answer.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(body)
}

func (w *world) answers(url string, want int) {
	w.t.Helper()
	var code int
	var body string
	w.poll(func() bool { code, body = get(w.t, url); return code == want }, func() string { return fmt.Sprintf("%s gives %d %s, want %d", url, code, body, want) })
}

// notifySocket listens where systemd would.
func notifySocket(t *testing.T) (path string, messages <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "dibs") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := make(chan string, 1000)
	go func() {
		defer close(c)
		buf := make([]byte, 4096)
		for {
			n, _, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			c <- string(buf[:n])
		}
	}()
	return path, c
}

// told waits for a message to systemd.
func told(t *testing.T, messages <-chan string, want string) {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for {
		select {
		case m := <-messages:
			if strings.Contains(m, want) {
				return
			}
		case <-late.C:
			t.Fatalf("systemd was not told %s", want)
		}
	}
}

// TestServeUnderSystemd: start, beats, a reload with a good and with a bad file,
// and a stop during a run, as systemd sees them.
func TestServeUnderSystemd(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	w := newServed(t, "sqlite", testdb.SQLite(t), binary, `
kept: {schedule: "@every 1s", handler: {shell: "echo kept $NOTIFY_SOCKET >> log"}}
gone: {schedule: "@every 1s", handler: {shell: "echo gone >> log"}}
`)
	socket, messages := notifySocket(t)
	http := address(t)
	serve := w.command("serve", "--listen", http)
	serve.Env = append(serve.Env, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=400000")
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill() })
	told(t, messages, "READY=1")
	told(t, messages, "WATCHDOG=1")
	w.answers("http://"+http+"/readyz", 200)
	w.answers("http://"+http+"/healthz", 200)
	w.answers("http://"+http+"/", 404)
	w.poll(func() bool { return strings.Contains(w.log(), "gone") && strings.Contains(w.log(), "kept") }, func() string { return "no job ran" })
	if strings.Contains(w.log(), socket) {
		t.Error("a handler was given systemd's socket")
	}

	w.file("dibs.yaml", 0o600, "jobs: [")
	w.signal(serve, syscall.SIGHUP)
	told(t, messages, "RELOADING=1\nMONOTONIC_USEC=")
	told(t, messages, "READY=1")
	before := countLines(w.log(), "gone")
	w.poll(func() bool { return countLines(w.log(), "gone") > before }, func() string { return "a bad file ended the old definitions" })

	w.jobs(`
kept: {schedule: "@every 1s", handler: {shell: "echo kept >> log"}}
slow: {schedule: "@every 1s", grace: 8s, handler: {shell: "echo slow >> log; sleep 2; echo over >> log"}}
`)
	w.signal(serve, syscall.SIGHUP)
	told(t, messages, "RELOADING=1")
	told(t, messages, "READY=1")
	before = countLines(w.log(), "gone")
	kept := countLines(w.log(), "kept")
	w.poll(func() bool { return countLines(w.log(), "kept") >= kept+2 && strings.Contains(w.log(), "slow") }, func() string { return "new definitions do not run" })
	if n := countLines(w.log(), "gone"); n > before+1 { // one may have begun before
		t.Errorf("a job that is no longer defined ran %d times more", n-before)
	}
	slow := countLines(w.log(), "slow")
	w.poll(func() bool { return countLines(w.log(), "slow") > slow }, func() string { return "slow did not start again" })
	w.signal(serve, syscall.SIGTERM)
	told(t, messages, "STOPPING=1")
	if code := serve.code(t); code != 0 {
		t.Errorf("exit %d\n%s", code, serve.out)
	}
	if countLines(w.log(), "slow") != countLines(w.log(), "over") {
		t.Errorf("a run was not let finish within its grace:\n%s", w.log())
	}
	w.want("0", "SELECT count(*) FROM dibs_runs WHERE state NOT IN ('succeeded')")
	for _, want := range []string{"the old definitions stay", "added=[slow]", "removed=[gone]"} {
		if !strings.Contains(serve.out.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, serve.out)
		}
	}
}

// TestReadyMeansCanWrite: readyz follows the database, healthz does not.
func TestReadyMeansCanWrite(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	srv := testdb.StartPostgres(t, server.Config{})
	w := newServed(t, "postgres", srv.URL(), binary, `
beat: {schedule: "@every 1s", handler: {shell: "echo $DIBS_RUN_ID >> log"}}
`)
	at := address(t)
	serve := w.start("serve", "--listen", at)
	w.answers("http://"+at+"/readyz", 200)
	for range 2 {
		if err := srv.Stop(); err != nil {
			t.Fatal(err)
		}
		w.answers("http://"+at+"/readyz", 503)
		if code, body := get(t, "http://"+at+"/healthz"); code != 200 {
			t.Errorf("healthz gives %d %s while the database is away", code, body)
		}
		if err := srv.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.answers("http://"+at+"/readyz", 200)
		n := countLines(w.log(), "run_")
		w.poll(func() bool { return countLines(w.log(), "run_") > n+1 }, func() string { return "nothing runs after the database has come back" })
	}
	w.signal(serve, syscall.SIGTERM)
	if code := serve.code(t); code != 0 {
		t.Errorf("exit %d\n%s", code, serve.out)
	}
}

// fleet is daemons that are killed and started again.
type fleet struct {
	w  *world
	mu sync.Mutex
	of []*process
}

func (f *fleet) replace(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.of[i]; old != nil {
		_ = old.Process.Kill() // as kill -9 does
		_ = old.Wait()
	}
	p := f.w.command("serve", "--listen", "off", "--max-runs", "6")
	if err := p.Start(); err != nil {
		f.w.t.Error(err)
	}
	f.of[i] = p
}

// TestServeSurvivesKillsSoak: three daemons that are killed every few seconds,
// a database that is restarted twice, ticks and a crontab registered twice
// beside them: each slot has one decision, and no slot ran twice.
func TestServeSurvivesKillsSoak(t *testing.T) {
	t.Parallel()
	lasts := 25 * time.Second
	if os.Getenv("DIBS_SOAK") != "" {
		lasts = 2 * time.Minute
	}
	binary := buildBinary(t)
	srv := testdb.StartPostgres(t, server.Config{})
	w := newServed(t, "postgres", srv.URL(), binary, `
beat: {schedule: "@every 1s", lease: 4s, grace: 500ms, handler: {exec: [./handler, "0.1"]}}
long: {schedule: "@every 1s", lease: 4s, grace: 500ms, handler: {exec: [./handler, "2.3"]}}
each: {schedule: {cron: "*/2 * * * * *", seconds: true}, time_zone: UTC, overlap: queue, lease: 4s, grace: 500ms, handler: {exec: [./handler, "0.5"]}}
last: {schedule: "@every 1s", overlap: coalesce, lease: 4s, grace: 500ms, handler: {exec: [./handler, "1.5"]}}
`)
	w.file("handler", 0o700, "#!/bin/sh\ncat > /dev/null\necho \"start $DIBS_RUN_ID $DIBS_SLOT\" >> log\nsleep $1\necho \"end $DIBS_RUN_ID\" >> log\n")
	f := &fleet{w: w, of: make([]*process, 3)}
	for i := range f.of {
		f.replace(i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var all sync.WaitGroup
	chaos := func(every time.Duration, act func(i int)) {
		all.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					act(i)
				}
			}
		})
	}
	chaos(3*time.Second, func(i int) { f.replace(i % 3) })
	restarts := 0
	chaos(lasts/3-time.Second, func(int) {
		if restarts++; restarts > 2 {
			return
		}
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
		if err := srv.Start(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	tick := func(args ...string) {
		p := w.command(append([]string{"tick"}, args...)...)
		if err := p.Start(); err != nil {
			t.Error(err)
			return
		}
		// A tick goes on for as long as something waits under its lock.
		stop := context.AfterFunc(ctx, func() { _ = p.Process.Signal(syscall.SIGTERM) })
		defer stop()
		_ = p.Wait() // fails while the database is away
	}
	chaos(2*time.Second, func(int) { all.Go(func() { tick("beat") }); tick("beat") }) // registered twice
	chaos(3*time.Second, func(int) { all.Go(func() { tick() }); all.Go(func() { tick() }); tick() })
	all.Wait()
	if restarts < 2 {
		t.Errorf("the database was restarted %d times", restarts)
	}
	for i, p := range f.of {
		w.signal(p, syscall.SIGTERM)
		if code := p.code(t); code != 0 {
			t.Errorf("daemon %d: exit %d\n%s", i, code, p.out)
		}
	}
	w.db = testdb.Open(t, w.url)
	f.judge()
}

// judge looks at what the database and the handlers' log say.
func (f *fleet) judge() {
	w := f.w
	for job, step := range map[string]int{"beat": 1, "long": 1, "each": 2, "last": 1} {
		w.until("0", "SELECT count(*) FROM dibs_runs WHERE state = 'running' AND lease_end > now() AND job = '"+job+"'")
		// Every slot between the first and the last that was decided has exactly one
		// owner; a missed range stands for each of its slots.
		w.want("", fmt.Sprintf(`WITH owned AS (
  SELECT g AS slot FROM dibs_triggers t, generate_series(
    CASE WHEN t.missed > 1 THEN t.slot - (t.missed - 1) * interval '%[2]d s' ELSE t.slot END, t.slot, interval '%[2]d s') AS g
  WHERE t.job = '%[1]s' AND t.owns_slot IS NOT NULL
), wanted AS (
  SELECT g AS slot FROM (SELECT min(slot) AS a, max(slot) AS z FROM owned) AS e, generate_series(a, z, interval '%[2]d s') AS g
)
SELECT string_agg(slot || ' x ' || n, ', ') FROM (
  SELECT w.slot, count(o.slot) AS n FROM wanted w LEFT JOIN owned o ON o.slot = w.slot GROUP BY w.slot
) AS counted WHERE n <> 1`, job, step))
	}
	// A slot runs again only after its run was lost.
	w.want("", `SELECT string_agg(job || ' ' || slot || ' x ' || n, ', ') FROM (
  SELECT job, slot, count(*) AS n FROM dibs_runs WHERE slot IS NOT NULL AND state <> 'lost' GROUP BY job, slot
) AS counted WHERE n > 1`)
	w.want("", `SELECT string_agg(a.id || ' ' || b.id, ', ') FROM dibs_runs a JOIN dibs_runs b
  ON a.job = b.job AND a.id <> b.id AND a.started_at <= b.started_at AND a.ended_at > b.started_at AND a.started_at < b.ended_at`)
	starts := map[string]int{}
	for _, line := range splitLines(w.log()) {
		if p := strings.Fields(line); len(p) >= 2 && p[0] == "start" {
			starts[p[1]]++
		}
	}
	for run, n := range starts {
		if n > 1 {
			w.t.Errorf("the handler of run %s was started %d times", run, n)
		}
	}
	if len(starts) < 20 {
		w.t.Errorf("only %d runs were started", len(starts))
	}
	w.t.Logf("%d runs; %s lost; %s missed slots; decisions %s", len(starts), w.one("SELECT count(*) FROM dibs_runs WHERE state = 'lost'"),
		w.one("SELECT coalesce(sum(greatest(missed, 1)), 0) FROM dibs_triggers WHERE decision = 'missed'"),
		w.one("SELECT string_agg(d, ' ') FROM (SELECT decision || '=' || count(*) AS d FROM dibs_triggers GROUP BY decision) AS x"))
}
