package server

import "syscall"

// attributes makes a child run as the account, in a process group of its own
// (so that Ctrl-C in the terminal does not reach it), and lets the kernel send
// it the signal when we die without having stopped it.
func (a account) attributes(onParentDeath syscall.Signal) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onParentDeath}
	if a.switched {
		attributes.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attributes
}
