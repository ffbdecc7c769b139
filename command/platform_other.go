//go:build unix && !linux

package command

import (
	"os"
	"syscall"
)

// adoptOrphans does nothing: there is no subreaper here.
func adoptOrphans() error { return nil }

// childAttr is how the child is started: a group of its own.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func platformSignals() []os.Signal { return nil }

// parentOf gives the parent of this process; others' cannot be asked for.
func parentOf(pid int) (int, bool) {
	return os.Getppid(), pid == os.Getpid()
}
