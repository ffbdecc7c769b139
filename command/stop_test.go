//go:build unix

package command_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/command"
)

// outcome is a Run that goes on beside the test.
type outcome struct {
	res command.Result
	err error
}

func background(ctx context.Context, cfg command.Config) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		res, err := command.Run(ctx, cfg)
		ch <- outcome{res, err}
	}()
	return ch
}

func await(t *testing.T, ch <-chan outcome) command.Result {
	t.Helper()
	select {
	case o := <-ch:
		if o.err != nil {
			t.Fatal(o.err)
		}
		return o.res
	case <-time.After(15 * time.Second):
		t.Fatal("Run did not return within 15 s")
		return command.Result{}
	}
}

// gone reports whether a pid is no living process any more.
func gone(pid int) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(data), ") Z ")
}

func TestCaseB72StopReachesTheWholeGroup(t *testing.T) {
	exe := selfPath(t)
	// bash replaces itself by a last command; these three shapes it cannot.
	for name, script := range map[string]string{
		"list":     `"$0" "$1"; true`,
		"pipeline": `"$0" "$1" | cat | cat`,
		"subshell": `( ( "$0" "$1"; true ); true ); true`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ch := background(ctx, command.Config{Argv: []string{"bash", "-c", script, exe, file}, Env: helperEnviron("sleep")})
			pid := pidIn(t, file)
			cancel()
			res := await(t, ch)
			if res.ExitCode != 143 || !res.Stopped || res.Killed || res.Interrupted != nil {
				t.Errorf("result %+v", res)
			}
			if !gone(pid) {
				t.Errorf("process %d outlived the stop", pid)
			}
		})
	}
}

func TestCaseB72KillFollowsTheGrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// The shell dies of TERM; its child does not, and Run must wait for it.
	ch := background(ctx, command.Config{
		Argv:  []string{"bash", "-c", `"$0" "$1"; true`, selfPath(t), file},
		Env:   helperEnviron("stubborn"),
		Grace: 200 * time.Millisecond,
	})
	pid := pidIn(t, file)
	cancelled := time.Now()
	cancel()
	res := await(t, ch)
	took := time.Since(cancelled)
	if !res.Killed || res.ExitCode != 143 || len(res.Swept) != 1 || res.Swept[0] != pid {
		t.Errorf("result %+v, want KILL of %d", res, pid)
	}
	if !gone(pid) {
		t.Errorf("process %d outlived the stop", pid)
	}
	if took < 200*time.Millisecond || took > 5*time.Second {
		t.Errorf("stop took %v with a grace of 200 ms", took)
	}
}

func TestKillByCutsTheGraceShort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	limit := time.Now().Add(time.Hour)
	moved := 0
	ch := background(ctx, command.Config{
		Argv: []string{selfPath(t), file}, Env: helperEnviron("stubborn"), Grace: time.Hour,
		KillBy: func() time.Time {
			if moved++; moved == 1 {
				limit = time.Now().Add(50 * time.Millisecond)
			} else if moved == 2 { // a renewal that came in between
				limit = time.Now().Add(150 * time.Millisecond)
			}
			return limit
		},
	})
	pidIn(t, file)
	cancelled := time.Now()
	cancel()
	res := await(t, ch)
	if res.Signal != syscall.SIGKILL || res.ExitCode != 137 || !res.Killed {
		t.Errorf("result %+v", res)
	}
	if took := time.Since(cancelled); took < 150*time.Millisecond || took > 5*time.Second {
		t.Errorf("killed after %v, want the moved limit", took)
	}
}

func TestNegativeGraceKillsAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch := background(ctx, command.Config{Argv: []string{selfPath(t), file}, Env: helperEnviron("stubborn"), Grace: -1})
	pidIn(t, file)
	cancel()
	if res := await(t, ch); res.ExitCode != 137 {
		t.Errorf("result %+v", res)
	}
}

func TestStoppedChildCanBeStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := filepath.Join(t.TempDir(), "pid")
	ch := background(ctx, command.Config{Argv: []string{selfPath(t), file}, Env: helperEnviron("sleep"), Grace: time.Minute})
	pid := pidIn(t, file)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "child stopped", func() bool {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(data), ") T ")
	})
	cancel()
	if res := await(t, ch); res.ExitCode != 143 || res.Killed {
		t.Errorf("result %+v, want death by TERM", res)
	}
}

func TestCaseB72EveryCatchableSignalIsForwarded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(selfPath(t), selfPath(t), file)
	cmd.Env = helperEnviron("wrapper", "CHILD_HELPER=catch", "TAIL=4096")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pidIn(t, file)
	if err := out.(*os.File).SetReadDeadline(time.Now().Add(15 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// One at a time: what is sent at once may arrive in any order. TERM, at
	// which the child ends, comes last; PROF only a profiler catches.
	lines := bufio.NewReader(out)
	signals := slices.DeleteFunc(command.Forwardable(), func(s os.Signal) bool {
		return s == syscall.SIGPROF || s == syscall.SIGTERM
	})
	for _, sig := range append(signals, syscall.SIGTERM) {
		n := int(sig.(syscall.Signal))
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("%d\n", n) {
			t.Fatalf("signal %d: child printed %q, %v", n, line, err)
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 33 {
		t.Errorf("exit code %d, want the child's own 33", code)
	}
}

func TestForwardedTermEscalates(t *testing.T) {
	dir := t.TempDir()
	file, report := filepath.Join(dir, "pid"), filepath.Join(dir, "report")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		_ = os.Remove(file)
		cmd := exec.Command(selfPath(t), selfPath(t), file)
		cmd.Env = helperEnviron("wrapper", "CHILD_HELPER=stubborn", "GRACE=100ms", "REPORT="+report)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := pidIn(t, file)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 137 {
			t.Errorf("%v: exit code %d, want 137", sig, code)
		}
		if !gone(pid) {
			t.Errorf("%v: child outlived the wrapper", sig)
		}
		if got := readReport(t, report); !strings.Contains(got, "interrupted="+sig.String()) || !strings.Contains(got, "killed=true") {
			t.Errorf("%v: report %s", sig, got)
		}
	}
}

func readReport(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func killAndWait(t *testing.T, pid int) {
	t.Helper()
	_ = unix.Kill(pid, unix.SIGKILL)
	eventually(t, fmt.Sprintf("end of %d", pid), func() bool { return gone(pid) })
}
