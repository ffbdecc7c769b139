package handler

import (
	"os"
	"syscall"
)

// attributes: Windows has no process groups that signals reach; only the direct
// child is stopped, and at once.
func attributes() *syscall.SysProcAttr { return nil }

func terminateGroup(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // fails only when it has ended
	}
}

func groupAlive(int) bool { return false }
