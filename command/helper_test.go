//go:build unix

package command_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/command"
)

// helpers are the programs that the test binary can be; each returns its exit
// code.
var helpers = map[string]func(args []string) int{
	"wrapper": wrapperHelper,
	"exit":    func(args []string) int { n, _ := strconv.Atoi(args[0]); return n },
	"die":     dieHelper,
	"fds":     fdsHelper,
	"env":     func([]string) int { fmt.Print(strings.Join(os.Environ(), "\n")); return 0 },
	"stubborn": func(args []string) int {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		return sleepHelper(args)
	},
	"sleep":      sleepHelper,
	"daemon":     daemonHelper,
	"flood":      floodHelper,
	"count":      func([]string) int { n, _ := io.Copy(io.Discard, os.Stdin); fmt.Print(n); return 0 },
	"catch":      catchHelper,
	"tty":        ttyHelper,
	"foreground": foregroundHelper,
	"identity":   func([]string) int { fmt.Println(command.Self().Boot != ""); return 0 },
}

// dieHelper ends by the signal of its first argument.
func dieHelper(args []string) int {
	n, _ := strconv.Atoi(args[0])
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	signal.Reset()
	// The Go runtime turns some signals into panics, so leave it to a shell.
	err := syscall.Exec("/bin/sh", []string{"sh", "-c", "kill -" + strconv.Itoa(n) + " $$"}, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	return 98
}

// sleepHelper writes its pid to the file named first and sleeps.
func sleepHelper(args []string) int {
	if len(args) > 0 {
		writePID(args[0])
	}
	time.Sleep(100 * time.Second)
	return 0
}

func writePID(file string) {
	_ = os.WriteFile(file+".new", fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600)
	_ = os.Rename(file+".new", file)
}

// daemonHelper leaves a setsid daemon behind that holds stdout and stderr, and
// ends itself, or sleeps if told to: daemon FILE [stay] [stubborn].
func daemonHelper(args []string) int {
	kind := "sleep"
	if strings.Contains(strings.Join(args, " "), "stubborn") {
		kind = "stubborn"
	}
	exe, _ := os.Executable()
	cmd := exec.Command(exe, args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+kind)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 97
	}
	fmt.Println("started")
	if strings.Contains(strings.Join(args, " "), "stay") {
		return sleepHelper(nil)
	}
	return 0
}

// fdsHelper prints the open descriptors that the test did not inherit itself.
func fdsHelper([]string) int {
	inherited := strings.Fields(os.Getenv(inheritedEnv))
	fds := slices.DeleteFunc(openFDs(), func(fd string) bool {
		return fd != "0" && fd != "1" && fd != "2" && slices.Contains(inherited, fd)
	})
	fmt.Print(strings.Join(fds, " "))
	return 0
}

// openFDs lists this process's descriptors, less the one used for listing and
// those of its own runtime.
func openFDs() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var fds []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.Contains(target, "/proc/") && !strings.HasPrefix(target, "anon_inode:") {
			fds = append(fds, e.Name())
		}
	}
	slices.Sort(fds)
	return fds
}

// floodHelper writes args[0] MiB without any newline and then "end".
func floodHelper(args []string) int {
	mib, _ := strconv.Atoi(args[0])
	chunk := bytes.Repeat([]byte{'x', 0, 0xff, 0xc3}, 1<<18)
	for range mib {
		if _, err := os.Stdout.Write(chunk); err != nil {
			return 95
		}
	}
	_, _ = os.Stdout.WriteString("end")
	return 0
}

// catchHelper prints each signal it gets and ends with 33 at TERM.
func catchHelper(args []string) int {
	ch := make(chan os.Signal, 64)
	signal.Notify(ch)
	writePID(args[0])
	for sig := range ch {
		if n := sig.(syscall.Signal); n != syscall.SIGURG && n != syscall.SIGCHLD && n != syscall.SIGCONT {
			fmt.Printf("%d\n", int(n))
			if n == syscall.SIGTERM {
				return 33
			}
		}
	}
	return 0
}

// ttyHelper writes its pid, echoes one line from the terminal, and reports
// whether its group is the terminal's.
func ttyHelper(args []string) int {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return 94
	}
	writePID(args[0])
	var line [64]byte
	n, err := tty.Read(line[:])
	fg, _ := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	fmt.Printf("own=%v got=%q err=%v\n", fg == unix.Getpgrp(), line[:n], err)
	return 0
}

// foregroundHelper waits until its group is the terminal's, up to 5 s, without
// touching the terminal.
func foregroundHelper([]string) int {
	ok := false
	for until := time.Now().Add(5 * time.Second); !ok && time.Now().Before(until); {
		fg, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		ok = fg == unix.Getpgrp()
		<-time.After(5 * time.Millisecond)
	}
	fmt.Printf("foreground=%v\n", ok)
	return 0
}
