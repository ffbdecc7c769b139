package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
)

// TestCaseB71WrapperPassesTheExitCodeOn: every code exactly, and 128+n for every
// signal that ends the command; both are on record.
func TestCaseB71WrapperPassesTheExitCodeOn(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	w := newWrapWorld(t, "sqlite", testdb.SQLite(t), binary)
	type end struct {
		script string
		want   int
	}
	var ends []end
	for code := range 256 {
		ends = append(ends, end{fmt.Sprintf("exit %d", code), code})
	}
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGABRT, syscall.SIGFPE, syscall.SIGKILL,
		syscall.SIGSEGV, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		ends = append(ends, end{fmt.Sprintf("ulimit -c 0; kill -%d $$", int(s)), 128 + int(s)})
	}
	next := make(chan end)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for e := range next {
				p := w.command("run", "job", "--overlap", "allow", "--", "sh", "-c", e.script)
				if err := p.Run(); err != nil && p.ProcessState == nil {
					t.Error(err)
				} else if got := p.ProcessState.ExitCode(); got != e.want {
					t.Errorf("%s: exit %d, want %d\n%s", e.script, got, e.want, p.out)
				}
			}
		})
	}
	for _, e := range ends {
		next <- e
	}
	close(next)
	group.Wait()
	w.want(strconv.Itoa(len(ends)), "SELECT count(*) FROM dibs_runs WHERE exit_code IS NOT NULL")
	w.want("256", "SELECT count(DISTINCT exit_code) FROM dibs_runs")
	w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")

	for script, want := range map[string]int{"/nonexistent/program": 127, "/etc/passwd": 126, "no-such-program": 127} {
		p := w.start("run", "other", "--", script)
		w.wantCode(p, want)
		if !strings.HasPrefix(p.out.String(), "dibs: ") {
			t.Errorf("%s: nothing is said: %q", script, p.out)
		}
	}
}

// TestCaseB72SignalsReachTheCommand: what the wrapper can catch reaches the
// command; a request to end reaches the whole tree, however it was started.
func TestCaseB72SignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	w := newWrapWorld(t, "sqlite", testdb.SQLite(t), binary)
	signals := map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM, "WINCH": syscall.SIGWINCH,
	}
	for name, s := range signals {
		p := w.wrap(fmt.Sprintf("trap 'echo got %s; exit 42' %s; touch ready-%s; while :; do sleep 0.02; done", name, name, name))
		w.await("ready-" + name)
		w.signal(p, s)
		w.wantCode(p, 42)
		if !strings.Contains(p.out.String(), "got "+name) {
			t.Errorf("%s did not arrive: %q", name, p.out)
		}
	}
	for name, script := range map[string]string{
		"shell between":  "touch ready; sleep 100; true",
		"pipeline":       "touch ready; sleep 100 | sleep 101 | cat",
		"background":     "sleep 100 & sleep 101 & touch ready; wait",
		"double fork":    "(setsid sleep 100 &) ; touch ready; sleep 101; true",
		"ignores TERM":   "trap '' TERM; touch ready; while :; do sleep 0.1; done",
		"tree ignores":   "trap '' TERM; (trap '' TERM; setsid sleep 100) & touch ready; sleep 101; sleep 102",
		"stopped itself": "touch ready; kill -STOP $$; sleep 100",
	} {
		p := w.wrap(script, "--grace", "300ms")
		w.await("ready")
		run := w.running()
		w.signal(p, syscall.SIGTERM)
		if code := p.code(t); code != 143 && code != 137 {
			t.Errorf("%s: exit %d, want 143 or 137\n%s", name, code, p.out)
		}
		if left := w.alive(run); len(left) > 0 {
			t.Errorf("%s: processes %v outlived the wrapper", name, left)
		}
		w.want("cancelled", fmt.Sprintf("SELECT state FROM dibs_runs WHERE id = '%s'", run))
		w.remove("ready")
	}
	w.want("0", "SELECT count(*) FROM dibs_locks WHERE run IS NOT NULL")
}

// TestCaseB72OutputCannotPreventTheOutcome: one line of 100 MB, NUL bytes, broken
// UTF-8, and a closed stdout.
func TestCaseB72OutputCannotPreventTheOutcome(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	testdb.All(t, func(t *testing.T, kind, url string) {
		w := newWrapWorld(t, kind, url, binary)
		p := w.command(w.wrapped(`head -c 100000000 /dev/zero | tr '\0' x; printf '\nb\x00d \xff\xfe end'; exit 3`)...)
		var size counter
		p.Stdout = &size
		if err := p.Run(); err == nil || p.ProcessState.ExitCode() != 3 {
			t.Errorf("exit %d, want 3\n%s", p.ProcessState.ExitCode(), p.out)
		}
		if want := int64(100000000 + 11); size.n != want {
			t.Errorf("%d bytes were passed on, want %d", size.n, want)
		}
		output := w.one("SELECT output FROM dibs_runs")
		if len(output) > 66<<10 || !strings.HasSuffix(output, " end") || strings.Contains(output, "\x00") {
			t.Errorf("kept %d bytes, ending in %q", len(output), output[max(0, len(output)-20):])
		}

		r, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p = w.command(w.wrapped("for i in 1 2 3; do echo line; done; exit 4")...)
		p.Stdout = writer
		_ = r.Close() // nobody reads
		if err := p.Run(); err == nil || p.ProcessState.ExitCode() != 4 {
			t.Errorf("stdout closed: exit %d, want 4\n%s", p.ProcessState.ExitCode(), p.out)
		}
		_ = writer.Close()
		w.want("2", "SELECT count(*) FROM dibs_runs WHERE state = 'failed'")
	})
}

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// TestCaseB05WrapperIsKilled: the direct child dies with its wrapper, and what
// lives on keeps others out until its lease has ended; then the next run knows.
func TestCaseB05WrapperIsKilled(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		w := newWrapWorld(t, "sqlite", testdb.SQLite(t), binary)
		p := w.wrap("touch ready; exec sleep 100")
		w.await("ready")
		run := w.running()
		w.signal(p, syscall.SIGKILL)
		_ = p.code(t)
		w.wantNobody(run)
		out, code := w.run(w.wrapped("echo previous $DIBS_PREVIOUS")...)
		if code != 0 || out != "previous lost:"+run+"\n" {
			t.Errorf("exit %d, got %q, want previous lost:%s", code, out, run)
		}
		w.want("lost|holder_gone", fmt.Sprintf("SELECT state || '|' || reason FROM dibs_runs WHERE id = '%s'", run))
		w.want("holder_gone", "SELECT reason FROM dibs_triggers WHERE run_id <> '"+run+"'")
	})
	t.Run("grandchild lives on", func(t *testing.T) {
		t.Parallel()
		w := newWrapWorld(t, "sqlite", testdb.SQLite(t), binary)
		p := w.wrap("touch ready; sleep 100; true", "--lease", "15s")
		w.await("ready")
		run := w.running()
		w.signal(p, syscall.SIGKILL)
		_ = p.code(t)
		defer w.killAll(run)
		if out, code := w.run(w.wrapped("echo twice")...); code != 0 || out != "" {
			t.Errorf("beside a survivor: exit %d, %q", code, out)
		}
		w.want("1", "SELECT count(*) FROM dibs_triggers WHERE decision = 'skipped' AND blocking_run = '"+run+"'")
		w.poll(func() bool {
			out, _ := w.run(w.wrapped("echo previous $DIBS_PREVIOUS")...)
			return strings.Contains(out, "previous lost:"+run)
		}, func() string { return "nobody took over after the lease" })
		w.want("lost|lease_ended", fmt.Sprintf("SELECT state || '|' || reason FROM dibs_runs WHERE id = '%s'", run))
	})
}

// TestCaseB28DaemonLeftBehind: a daemon that the command starts keeps neither the
// lease nor the pipe, and inherits no descriptor of ours.
func TestCaseB28DaemonLeftBehind(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	plain := exec.Command("sleep", "100") // what whoever runs the tests leaves open
	if err := plain.Start(); err != nil {
		t.Fatal(err)
	}
	inherited := descriptors(t, plain.Process.Pid)
	_ = plain.Process.Kill()
	_ = plain.Wait() // killed
	for name, script := range map[string]string{
		"holds the pipe": "sleep 100 & echo started $!",
		"double fork":    "(setsid sleep 100 & echo started $!)",
		"detached":       "setsid sleep 100 </dev/null >/dev/null 2>&1 & echo started $!",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWrapWorld(t, "sqlite", testdb.SQLite(t), binary)
			began := time.Now()
			p := w.command(w.wrapped(script)...)
			r, writer, err := os.Pipe() // not a buffer: os/exec would wait for the daemon
			if err != nil {
				t.Fatal(err)
			}
			p.Stdout, p.Stderr = writer, writer
			if err := p.Run(); err != nil {
				t.Fatal(err)
			}
			_ = writer.Close()
			var out bytes.Buffer
			_, _ = io.Copy(&out, r)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("the wrapper waited %s for the daemon", took)
			}
			run := w.one("SELECT id FROM dibs_runs")
			defer w.killAll(run)
			pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(out.String(), "started ")))
			if err != nil {
				t.Fatalf("output %q: %v", out.String(), err)
			}
			for _, fd := range descriptors(t, pid) {
				if fd > 2 && !slices.Contains(inherited, fd) {
					t.Errorf("the daemon has descriptor %d of ours", fd)
				}
			}
			w.want("succeeded", "SELECT state FROM dibs_runs")
			if out, code := w.run("run", "job", "--", "echo", "next"); code != 0 || out != "next\n" {
				t.Errorf("the next run: exit %d, %q", code, out)
			}
		})
	}
}

// descriptors lists the open descriptors of a process.
func descriptors(t *testing.T, pid int) []int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatalf("the daemon is gone: %v", err)
	}
	var list []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, n)
		}
	}
	return list
}
