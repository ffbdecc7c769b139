package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
)

// world is a folder with a dibs.yaml, a table of accounts in a real database,
// and a handler that leaves a line in a log when it starts and when it ends.
type world struct {
	t      *testing.T
	binary string
	dir    string
	url    string
	kind   string
	db     *sql.DB
}

// newWorld makes n accounts (a001, a002, …) and a job whose lines may override
// the defaults.
func newWorld(t *testing.T, kind, url, binary string, n int, settings string) *world {
	t.Helper()
	w := &world{t: t, binary: binary, dir: t.TempDir(), url: url, kind: kind}
	w.file("dibs.yaml", 0o600, fmt.Sprintf(`database: %q
jobs:
  sync:
    overlap: allow
    on_uncertain: replay
    source: {table: accounts, key: id, every: 1h, columns: {last_error: last_error}}
    handler: {exec: [./handler]}
    %s
`, url, strings.ReplaceAll(settings, "\n", "\n    ")))
	// The handler waits while a file named hold-KEY (or hold) exists, fails while
	// fail-KEY does, and says so in the log.
	w.file("handler", 0o700, `#!/bin/sh
cat > /dev/null
echo "start $DIBS_KEY $DIBS_RUN_ID $DIBS_FENCE" >> log
while [ -e "hold-$DIBS_KEY" ] || [ -e hold ]; do sleep 0.05; done
echo "end $DIBS_KEY $DIBS_RUN_ID $DIBS_FENCE" >> log
[ ! -e "fail-$DIBS_KEY" ]
`)
	if out, code := w.run("init"); code != 0 {
		t.Fatalf("init: exit %d\n%s", code, out)
	}
	w.db = testdb.Open(t, url)
	key := "TEXT"
	if kind == "mysql" {
		key = "VARCHAR(20)"
	}
	w.exec("CREATE TABLE accounts (id " + key + " PRIMARY KEY, name VARCHAR(100))")
	for i := 1; i <= n; i++ {
		w.exec(fmt.Sprintf("INSERT INTO accounts (id, name) VALUES ('a%03d', 'Account %d')", i, i))
	}
	if out, code := w.run("adopt", "accounts", "--key", "id", "--column", "last_error=last_error", "--apply"); code != 0 {
		t.Fatalf("adopt: exit %d\n%s", code, out)
	}
	return w
}

func (w *world) file(name string, mode os.FileMode, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exec(query string) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), query); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
}

// one reads one value as text.
func (w *world) one(query string) string {
	w.t.Helper()
	var v sql.NullString
	if err := w.db.QueryRowContext(context.WithoutCancel(w.t.Context()), query).Scan(&v); err != nil && !errors.Is(err, sql.ErrNoRows) {
		w.t.Fatalf("%s: %v", query, err)
	}
	return v.String
}

func (w *world) want(want, query string) {
	w.t.Helper()
	if got := w.one(query); got != want {
		w.t.Errorf("%s: got %q, want %q", query, got, want)
	}
}

// until polls a query until it gives the wanted value.
func (w *world) until(want, query string) {
	w.t.Helper()
	w.poll(func() bool { return w.one(query) == want }, func() string { return fmt.Sprintf("%s gives %q, want %q", query, w.one(query), want) })
}

// poll waits, with a deadline, for something that another process does.
func (w *world) poll(ok func() bool, problem func() string) {
	w.t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			w.t.Fatalf("waited a minute: %s\n%s", problem(), w.log())
		case <-tick.C:
		}
	}
}

// process is a started invocation.
type process struct {
	*exec.Cmd
	out *bytes.Buffer
}

func (w *world) command(args ...string) *process {
	p := &process{exec.Command(w.binary, args...), &bytes.Buffer{}}
	p.Dir, p.Stdout, p.Stderr = w.dir, p.out, p.out
	p.Env = append(os.Environ(), "TZ=UTC")
	return p
}

func (w *world) start(args ...string) *process {
	w.t.Helper()
	p := w.command(args...)
	if err := p.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.Process.Kill() }) // already gone in the good case
	return p
}

// code waits for the process and gives its exit code.
func (p *process) code(t *testing.T) int {
	t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

func (w *world) run(args ...string) (string, int) {
	w.t.Helper()
	p := w.start(args...)
	code := p.code(w.t)
	return p.out.String(), code
}

func (w *world) signal(p *process, s syscall.Signal) {
	w.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// pause stops a process in its tracks, but not in the middle of a transaction:
// on SQLite that would keep everybody from writing for as long as it sleeps.
func (w *world) pause(p *process) {
	w.t.Helper()
	w.poll(func() bool {
		w.signal(p, syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		defer cancel()
		if _, err := w.db.ExecContext(ctx, "UPDATE dibs_meta SET value = value WHERE 1 = 0"); err == nil {
			return true
		}
		w.signal(p, syscall.SIGCONT)
		return false
	}, func() string { return "it is never outside a transaction" })
}

// log is what the handlers have written.
func (w *world) log() string {
	text, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(text)
}

// starts counts how often each key's handler was started.
func (w *world) starts() map[string]int {
	n := map[string]int{}
	for _, line := range splitLines(w.log()) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "start" {
			n[f[1]]++
		}
	}
	return n
}

// buildBinary is the path of the real program, which the first caller builds for
// all tests of this test program.
func buildBinary(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built builds the program once, into the folder of [tidy].
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(binaryFolder), "dibs")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// binaryFolder is the variable that names where the program is built.
const binaryFolder = "DIBS_TEST_BINARY_FOLDER"

// tidy gives the tests a folder for the program and removes it after them.
type tidy struct{ *testing.M }

// Run is called by the script tests' own main, in the test program alone.
func (m tidy) Run() int {
	dir, err := os.MkdirTemp("", "dibs-binary-")
	if err == nil {
		err = os.Setenv(binaryFolder, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the program:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder at worst
	return m.M.Run()
}

func splitLines(text string) []string { return strings.Split(text, "\n") }
