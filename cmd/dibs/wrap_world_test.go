package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dibs-run/dibs/command"
	"github.com/dibs-run/dibs/internal/testdb"
)

// newWrapWorld makes a folder whose dibs.yaml names a database with our tables,
// for commands that are wrapped.
func newWrapWorld(t *testing.T, kind, url, binary string) *world {
	t.Helper()
	w := &world{t: t, binary: binary, dir: t.TempDir(), url: url, kind: kind}
	w.file("dibs.yaml", 0o600, fmt.Sprintf("database: %q\n", url))
	if out, code := w.run("init"); code != 0 {
		t.Fatalf("init: exit %d\n%s", code, out)
	}
	w.db = testdb.Open(t, url)
	return w
}

// wrap starts a shell script under the name job; flags come before.
func (w *world) wrap(script string, flags ...string) *process {
	w.t.Helper()
	return w.start(w.wrapped(script, flags...)...)
}

// wrapped are the arguments that run a shell script under the name job.
func (w *world) wrapped(script string, flags ...string) []string {
	return append(append([]string{"run", "job"}, flags...), "--", "bash", "-c", script)
}

// exists tells whether a file is in the folder.
func (w *world) exists(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

// await polls until a file is there.
func (w *world) await(name string) {
	w.t.Helper()
	w.poll(func() bool { return w.exists(name) }, func() string { return "no file " + name })
}

// text reads a file of the folder.
func (w *world) text(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// code wants an exit code.
func (w *world) wantCode(p *process, want int) {
	w.t.Helper()
	if got := p.code(w.t); got != want {
		w.t.Errorf("%q: exit %d, want %d\n%s", p.Args[1:], got, want, p.out)
	}
}

// running is the ID of the run that the job has.
func (w *world) running() string {
	w.t.Helper()
	w.until("1", "SELECT count(*) FROM dibs_runs WHERE state = 'running'")
	return w.one("SELECT id FROM dibs_runs WHERE state = 'running'")
}

// alive lists the processes that belong to a run.
func (w *world) alive(run string) []int {
	w.t.Helper()
	pids, known := command.Survivors("DIBS_RUN_ID", run)
	if !known {
		w.t.Fatal("this platform does not tell which processes live")
	}
	return pids
}

// wantNobody wants a run's processes to be gone; an ended one may take a moment
// to be reaped by the system's first process.
func (w *world) wantNobody(run string) {
	w.t.Helper()
	w.poll(func() bool { return len(w.alive(run)) == 0 }, func() string { return fmt.Sprintf("processes %v of %s live on", w.alive(run), run) })
}

// killAll ends what a test left on purpose.
func (w *world) killAll(run string) {
	for _, pid := range w.alive(run) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // gone already: as wanted
	}
	w.wantNobody(run)
}

// lines counts the lines of a file; none when it is not there.
func (w *world) lines(name string) int {
	if !w.exists(name) {
		return 0
	}
	return strings.Count(w.text(name), "\n")
}

// column reads a column of a query as one text, with spaces in between.
func (w *world) column(query string) string {
	w.t.Helper()
	rows, err := w.db.QueryContext(w.t.Context(), query)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// concat joins columns as each database spells it.
func (w *world) concat(parts ...string) string {
	if w.kind == "mysql" {
		return "concat(" + strings.Join(parts, ", ") + ")"
	}
	return strings.Join(parts, " || ")
}
