package command

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of every orphan below it, so that
// a daemon that left the group can still be found and reaped.
func adoptOrphans() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// childAttr is how the child is started: a group of its own, and death with
// the thread that started it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// platformSignals are those that only Linux has. Real-time signals below 35
// belong to the C library, and Go does not catch them.
func platformSignals() []os.Signal {
	sigs := []os.Signal{unix.SIGPWR}
	for rt := syscall.Signal(35); rt <= 64; rt++ {
		sigs = append(sigs, rt)
	}
	return sigs
}

// parentOf gives the parent of a process.
func parentOf(pid int) (int, bool) {
	if pid == os.Getpid() {
		return os.Getppid(), true
	}
	if _, err := ownProc(); err != nil {
		return 0, false
	}
	p, err := readProc(strconv.Itoa(pid))
	return p.parent, err == nil
}
