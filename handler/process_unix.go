//go:build unix

package handler

import "syscall"

// A signal can only fail to be sent when nobody is left to receive it, which
// the caller sees by itself.

func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// groupAlive tells whether a group whose first process has ended still has
// members. In a container whose first process we are, its orphans become our
// children and stay zombies, which count as members, until they are waited for.
func groupAlive(pid int) bool {
	for {
		reaped, err := syscall.Wait4(-pid, nil, syscall.WNOHANG, nil)
		if err != nil || reaped <= 0 {
			break
		}
	}
	return syscall.Kill(-pid, 0) == nil
}
