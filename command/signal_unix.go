//go:build unix

package command

import (
	"os"
	"os/signal"
	"syscall"
)

// Forwardable lists the signals that a wrapper should pass on: all that a Go
// program can catch, less those ignored when it was started (as nohup does with
// HUP), less TSTP and CONT (Run handles them itself), TTIN, TTOU and CHLD (they
// concern us alone), PIPE (our own output) and URG (the Go runtime's own).
//
//	signals := make(chan os.Signal, 16)
//	signal.Notify(signals, command.Forwardable()...)
func Forwardable() []os.Signal {
	all := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGABRT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGPROF,
		syscall.SIGWINCH, syscall.SIGIO, syscall.SIGXCPU, syscall.SIGXFSZ,
	}
	all = append(all, platformSignals()...)
	kept := all[:0]
	for _, sig := range all {
		if !signal.Ignored(sig) {
			kept = append(kept, sig)
		}
	}
	return kept
}

// stops reports whether a forwarded signal asks the child to end, so that KILL
// follows after the grace.
func stops(sig os.Signal) bool {
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGABRT:
		return true
	}
	return false
}
