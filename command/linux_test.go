//go:build linux

package command_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/command"
)

func TestCaseB05ChildDiesWithAKilledWrapper(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(selfPath(t), selfPath(t), file)
	cmd.Env = helperEnviron("wrapper", "CHILD_HELPER=stubborn", "TAIL=100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, file)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "end of the child", func() bool { return gone(pid) })
}

// The harder form: wrapper and shell are dead, a grandchild lives on, so every
// recorded pid looks dead. What it inherited still tells whose it is.
func TestCaseB05SurvivorsOfAKilledWrapperAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	run := "run-" + strconv.Itoa(os.Getpid())
	cmd := exec.Command(selfPath(t), "bash", "-c", `"$0" "$1"; true`, selfPath(t), file)
	cmd.Env = helperEnviron("wrapper", "CHILD_HELPER=sleep", "DIBS_RUN_ID="+run)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, file)
	wrapper := identityOf(t, cmd.Process.Pid)
	if gone, known := wrapper.Gone(); gone || !known {
		t.Errorf("a living wrapper: gone %v, known %v", gone, known)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if gone, known := wrapper.Gone(); !gone || !known {
		t.Errorf("a dead wrapper: gone %v, known %v", gone, known)
	}
	eventually(t, "only the grandchild left", func() bool {
		pids, known := command.Survivors("DIBS_RUN_ID", run)
		return known && slices.Equal(pids, []int{pid})
	})
	killAndWait(t, pid)
	if pids, known := command.Survivors("DIBS_RUN_ID", run); len(pids) > 0 || !known {
		t.Errorf("survivors %v, known %v", pids, known)
	}
}

func TestStopReachesSetsidEscapees(t *testing.T) {
	tests := []struct {
		name, helper string
		wrapper      bool
		argv         func(exe, file string) []string
	}{
		{"parent lives, handler", "daemon", false, func(exe, file string) []string { return []string{exe, file, "stay", "stubborn"} }},
		{"parent lives, wrapper", "daemon", true, func(exe, file string) []string { return []string{exe, file, "stay", "stubborn"} }},
		{"orphan, wrapper", "daemon", true, func(exe, file string) []string {
			return []string{"bash", "-c", `"$0" "$1" stubborn; sleep 100; true`, exe, file}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file, report := filepath.Join(dir, "pid"), filepath.Join(dir, "report")
			argv := tt.argv(selfPath(t), file)
			if tt.wrapper {
				cmd := exec.Command(selfPath(t), argv...)
				cmd.Env = helperEnviron("wrapper", "CHILD_HELPER="+tt.helper, "TAIL=9", "GRACE=100ms", "REPORT="+report)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				pid := pidIn(t, file)
				_ = cmd.Process.Signal(syscall.SIGTERM)
				_ = cmd.Wait()
				if got := readReport(t, report); !strings.Contains(got, "code=143") || !strings.Contains(got, "killed=true swept=1") || !strings.Contains(got, "cut=false") {
					t.Errorf("report %s", got)
				}
				checkGone(t, pid)
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ch := background(ctx, command.Config{Argv: argv, Env: helperEnviron(tt.helper), Grace: 100 * time.Millisecond})
			pid := pidIn(t, file)
			cancel()
			if res := await(t, ch); !slices.Equal(res.Swept, []int{pid}) || res.ExitCode != 143 {
				t.Errorf("result %+v, want %d swept", res, pid)
			}
			checkGone(t, pid)
		})
	}
}

func checkGone(t *testing.T, pid int) {
	t.Helper()
	if !gone(pid) {
		t.Errorf("process %d outlived the stop", pid)
		killAndWait(t, pid)
	}
}

func TestNoDescriptorOfOursReachesTheChild(t *testing.T) {
	// Some of ours, as a database would have.
	for range 5 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	for _, cfg := range []command.Config{
		{CaptureStdout: 1000, TailBytes: 1000, Stdin: strings.NewReader("x")},
		{CaptureStdout: 1000, Stderr: os.Stderr},
	} {
		cfg.Argv, cfg.Env = []string{selfPath(t)}, helperEnviron("fds")
		if res := run(t, cfg); string(res.Stdout) != "0 1 2" {
			t.Errorf("child has descriptors %q, want 0 1 2", res.Stdout)
		}
	}
	// And of a wrapper, which opens the terminal too.
	cmd := exec.Command(selfPath(t), selfPath(t))
	cmd.Env = helperEnviron("wrapper", "CHILD_HELPER=fds", "TAIL=10")
	if out, err := cmd.Output(); err != nil || string(out) != "0 1 2" {
		t.Errorf("child of a wrapper has descriptors %q, %v", out, err)
	}
}

// asPID1 is the prefix that makes a command the first process of its own pid
// namespace, or nothing where that is not permitted: a wrapper adopts orphans
// either way.
func asPID1(t *testing.T, more ...string) (prefix []string, isolated bool) {
	t.Helper()
	prefix = append([]string{"unshare", "--pid", "--fork"}, more...)
	if exec.Command(prefix[0], append(prefix[1:], "true")...).Run() != nil {
		return nil, false
	}
	return prefix, true
}

func TestCaseB71ProcessOneReapsOrphansAndKeepsTheCode(t *testing.T) {
	// Orphans that end with 3 while the child, which is to end with 5, looks
	// for zombies.
	const script = `for i in 1 2 3 4 5 6 7 8 9 10; do ( (sleep 0.0$i; exit 3) & ); done; sleep 0.2; n=0
		while grep -q "^PPid:.$PPID$" $(grep -l '^State:.Z' /proc/[0-9]*/status) /dev/null 2>/dev/null; do
			n=$((n+1)); [ $n -gt 200 ] && exit 9; sleep 0.01; done; exit 5`
	prefix, _ := asPID1(t, "--mount-proc")
	argv := append(prefix, selfPath(t), "bash", "-c", script)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = helperEnviron("wrapper", "TAIL=100")
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit code %d, want 5 (9: zombies stay); output %q", code, out)
	}
}

func TestCaseB72ProcessOneForwardsTERM(t *testing.T) {
	for _, more := range [][]string{{"--mount-proc"}, nil} { // nil: a /proc that is not ours
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			prefix, isolated := asPID1(t, more...)
			argv := append(prefix, selfPath(t), "bash", "-c", `"$0" "$1"; true`, selfPath(t), file)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = helperEnviron("wrapper", "CHILD_HELPER=stubborn", "TAIL=100", "GRACE=100ms")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pidIn(t, file)
			target := cmd.Process.Pid
			if isolated {
				target = onlyChild(t, target)
			}
			if err := unix.Kill(target, unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 143 {
				t.Errorf("exit code %d, want 143", code)
			}
		})
	}
}

func TestForeignProcIsNotBelieved(t *testing.T) {
	for more, want := range map[string]string{"--mount-proc": "true\n", "--": "false\n"} {
		prefix, isolated := asPID1(t, more)
		if !isolated {
			want = "true\n"
		}
		argv := append(prefix, selfPath(t))
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = helperEnviron("identity")
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("%s: identity known: %q, %v, want %q", more, out, err, want)
		}
	}
}

func onlyChild(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// identityOf is what the process would say of itself.
func identityOf(t *testing.T, pid int) command.ProcessID {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	id := command.Self()
	id.PID, id.Start = pid, start
	return id
}

func TestIdentity(t *testing.T) {
	me := command.Self()
	if me.PID != os.Getpid() || me.Boot == "" || me.Namespace == 0 || me.Start == 0 {
		t.Fatalf("own identity %+v", me)
	}
	if me != identityOf(t, os.Getpid()) {
		t.Errorf("own identity %v, /proc says %v", me, identityOf(t, os.Getpid()))
	}
	back, err := command.ParseProcessID(me.String())
	if err != nil || back != me {
		t.Errorf("%q read back as %v, %v", me, back, err)
	}
	tests := []struct {
		name        string
		change      func(*command.ProcessID)
		gone, known bool
	}{
		{"myself", func(*command.ProcessID) {}, false, true},
		{"my pid, another start", func(p *command.ProcessID) { p.Start++ }, true, true},
		{"a pid beyond all", func(p *command.ProcessID) { p.PID = 1<<22 + 1 }, true, true},
		{"another boot", func(p *command.ProcessID) { p.Boot = "x" }, false, false},
		{"no boot", func(p *command.ProcessID) { p.Boot = "" }, false, false},
		{"another namespace", func(p *command.ProcessID) { p.Namespace++ }, false, false},
		{"no pid", func(p *command.ProcessID) { p.PID = 0 }, false, false},
	}
	for _, tt := range tests {
		id := me
		tt.change(&id)
		if gone, known := id.Gone(); gone != tt.gone || known != tt.known {
			t.Errorf("%s: gone %v, known %v, want %v, %v", tt.name, gone, known, tt.gone, tt.known)
		}
	}
	for _, bad := range []string{"", "a/1/2", "a/x/2/3", "a/1/x/3", "a/1/0/3", "a/1/-2/3", "a/1/2/x", "a/1/2/3/4"} {
		if id, err := command.ParseProcessID(bad); err == nil {
			t.Errorf("%q read as %v", bad, id)
		}
	}
}

func TestZombieCountsAsGone(t *testing.T) {
	cmd := exec.Command("sleep", "0.02")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := identityOf(t, cmd.Process.Pid)
	eventually(t, "zombie counted as gone", func() bool {
		gone, known := id.Gone()
		return gone && known
	})
	_ = cmd.Wait()
}
