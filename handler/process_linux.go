package handler

import "syscall"

// attributes puts a child into a group of its own and lets the kernel kill it
// when this process dies without having stopped it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
