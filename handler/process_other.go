//go:build unix && !linux

package handler

import "syscall"

// attributes puts a child into a group of its own. Outside Linux nothing ends
// it when this process dies without having stopped it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
