//go:build linux

package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal with a shell session on it.
type terminal struct {
	master *os.File
	cmd    *exec.Cmd

	mu  sync.Mutex
	out strings.Builder
}

// newTerminal runs script in bash, whose session owns the terminal. $0 is the
// test binary, $1 a file for a pid; WRAP runs the binary as a wrapper.
func newTerminal(t *testing.T, script, childHelper string) (term *terminal, pidFile string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	var ioErr error
	if err := conn.Control(func(fd uintptr) {
		if ioErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); ioErr == nil {
			n, ioErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); err != nil || ioErr != nil {
		t.Fatal(err, ioErr)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	pidFile = filepath.Join(t.TempDir(), "pid")
	term = &terminal{master: master, cmd: exec.Command("bash", "-c", "WRAP=(env "+helperEnv+"=wrapper \"$0\"); "+script, selfPath(t), pidFile)}
	term.cmd.Env = append(os.Environ(), "CHILD_HELPER="+childHelper, "TAIL=1000")
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = term.cmd.Process.Kill(); _ = term.cmd.Wait(); _ = master.Close() })
	go term.read()
	return term, pidFile
}

func (term *terminal) read() {
	var buf [1024]byte
	for {
		n, err := term.master.Read(buf[:])
		term.mu.Lock()
		term.out.Write(buf[:n])
		term.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (term *terminal) shows(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		term.mu.Lock()
		got := term.out.String()
		term.mu.Unlock()
		if strings.Contains(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("terminal shows %q, want %q", got, want)
		}
		<-tick.C
	}
}

func (term *terminal) typeIn(t *testing.T, keys string) {
	t.Helper()
	if _, err := term.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func TestTerminalIsLentAndTakenBack(t *testing.T) {
	for name, redirect := range map[string]string{"interactive": "", "stdout elsewhere": " | cat", "stdin elsewhere": " < /dev/null"} {
		t.Run(name, func(t *testing.T) {
			term, file := newTerminal(t, `"${WRAP[@]}" "$0" "$1"`+redirect+`; read line; echo shell=$line`, "tty")
			pidIn(t, file)
			term.typeIn(t, "hello\n")
			term.shows(t, `own=true got="hello\n" err=<nil>`)
			term.typeIn(t, "world\n") // the shell can read only if the terminal came back
			term.shows(t, "shell=world")
		})
	}
}

func TestTerminalIsLentAtOnceToAnInteractiveCommand(t *testing.T) {
	term, _ := newTerminal(t, `"${WRAP[@]}" "$0"`, "foreground")
	term.shows(t, "foreground=true")
}

func TestTerminalDescriptorDoesNotReachTheChild(t *testing.T) {
	term, _ := newTerminal(t, `"${WRAP[@]}" "$0" | sed 's/.*/fds=&./'`, "fds")
	term.shows(t, "fds=0 1 2.")
}

func TestTerminalIsLentLateWithoutAStop(t *testing.T) {
	// A job shell would see the wrapper stop, if it stopped.
	term, file := newTerminal(t, `set -m; "${WRAP[@]}" "$0" "$1" < /dev/null; echo ended=$?`, "tty")
	pidIn(t, file)
	term.typeIn(t, "hello\n")
	term.shows(t, "ended=")
	term.shows(t, "ended=0")
}

func TestTerminalStopAndContinue(t *testing.T) {
	term, file := newTerminal(t, `set -m; "${WRAP[@]}" "$0" "$1"; echo stopped=$?; fg; echo ended=$?`, "tty")
	pidIn(t, file)
	term.typeIn(t, "\x1a") // ctrl-Z
	term.shows(t, "stopped=147")
	term.typeIn(t, "hello\n")
	term.shows(t, `own=true got="hello\n" err=<nil>`)
	term.shows(t, "ended=0")
}

func TestTerminalStopsAndInterruptsAJobInTheBackgroundOfIt(t *testing.T) {
	term, file := newTerminal(t, `set -m; "${WRAP[@]}" "$0" "$1" < /dev/null; echo stopped=$?; read line; fg; echo ended=$?`, "sleep")
	pid := pidIn(t, file)
	term.typeIn(t, "\x1a")
	term.shows(t, "stopped=147")
	eventually(t, "child stopped with its wrapper", func() bool { return stateOf(pid) == 'T' })
	term.typeIn(t, "go on\n")
	eventually(t, "child continued with its wrapper", func() bool { return stateOf(pid) == 'S' })
	term.typeIn(t, "\x03") // ctrl-C
	term.shows(t, "ended=130")
	checkGone(t, pid)
}

func TestTerminalStopWithoutAShellIsUndone(t *testing.T) {
	// No parent in the session could continue us: the kernel ignores ctrl-Z
	// for such a group, and so must we.
	term, file := newTerminal(t, `exec "${WRAP[@]}" "$0" "$1"`, "tty")
	pidIn(t, file)
	term.typeIn(t, "\x1a")
	term.typeIn(t, "hello\n")
	term.shows(t, `got="hello\n" err=<nil>`)
}

func stateOf(pid int) byte {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return data[strings.LastIndexByte(string(data), ')')+2]
}
