//go:build !linux

package server

import "syscall"

// attributes makes a child run as the account and in a process group of its
// own, so that Ctrl-C in the terminal does not reach it. Outside Linux nothing
// ends the child when we die without having stopped it.
func (a account) attributes(syscall.Signal) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if a.switched {
		attributes.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attributes
}
