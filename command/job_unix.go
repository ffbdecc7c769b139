//go:build unix

package command

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// jobControl makes wrapper and child look like one job to the shell that
// started the wrapper. The child has a group of its own, so the terminal, which
// serves one group, must be lent to it.
//
// It is lent at once when stdin and stdout are the terminal (an interactive
// command), otherwise only when the child was stopped for touching it: in
// `dibs run … | less` the terminal is the pager's. A nil jobControl does
// nothing. It is confined to the goroutine of Run.
type jobControl struct {
	tty    int // -1 without a controlling terminal
	eager  bool
	lent   bool
	paused bool // we asked for our own stop
	group  int  // the child's
	own    int
	ch     chan os.Signal
}

func newJobControl(cfg Config) *jobControl {
	j := &jobControl{tty: -1, own: unix.Getpgrp(), ch: make(chan os.Signal, 4)}
	signal.Notify(j.ch, syscall.SIGTSTP, syscall.SIGCONT)
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return j // cron, a service, a container without -t
	}
	j.tty = fd
	j.eager = isTerminal(cfg.Stdin) && isTerminal(cfg.Stdout)
	return j
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

func (j *jobControl) signals() <-chan os.Signal {
	if j == nil {
		return nil
	}
	return j.ch
}

// childStarted lends the terminal. From here on we may be in the background of
// it, and must neither be stopped for writing nor for taking it back; the child
// has been started, so it does not inherit that.
func (j *jobControl) childStarted(pid int) {
	if j == nil {
		return
	}
	j.group = pid
	if j.tty < 0 {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	if j.eager {
		j.lend()
	}
}

func (j *jobControl) foreground() int {
	group, err := unix.IoctlGetInt(j.tty, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// lend gives the terminal to the child if it is ours to give.
func (j *jobControl) lend() bool {
	if j.tty < 0 || j.foreground() != j.own {
		return false
	}
	j.lent = unix.IoctlSetPointerInt(j.tty, unix.TIOCSPGRP, j.group) == nil
	return j.lent
}

// takeBack makes us the terminal's group again, unless somebody else is by now.
func (j *jobControl) takeBack() {
	if j == nil || !j.lent {
		return
	}
	j.lent = false
	if fg := j.foreground(); fg == j.group || fg < 0 {
		_ = unix.IoctlSetPointerInt(j.tty, unix.TIOCSPGRP, j.own)
	}
}

// received handles TSTP and CONT sent to the wrapper.
func (j *jobControl) received(sig os.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		_ = unix.Kill(-j.group, unix.SIGTSTP)
		j.pause(os.Getpid()) // the rest of our group got its own
	case syscall.SIGCONT:
		if j.paused && j.eager {
			j.lend() // not if the shell continued us in the background
		}
		j.paused = false
		_ = unix.Kill(-j.group, unix.SIGCONT)
	}
}

// childStopped reacts to a stop of the direct child.
func (j *jobControl) childStopped(sig syscall.Signal) {
	if j == nil || j.tty < 0 {
		return // stopped by hand: whoever did it continues it
	}
	if sig == unix.SIGTTIN || sig == unix.SIGTTOU {
		if j.foreground() == j.group || j.lend() {
			_ = unix.Kill(-j.group, unix.SIGCONT)
			return
		}
		j.eager = true // it wants the terminal when the shell brings us forward
		j.pause(0)
		return
	}
	if j.lent { // ctrl-Z reached the child alone
		j.eager = true
		j.takeBack()
		j.pause(0)
	}
}

// pause stops us as the terminal would have, so that the shell sees the job
// stop: the one process whom, or our own group if whom is 0. Where no shell
// could continue us, the child is continued.
func (j *jobControl) pause(whom int) {
	switch {
	case j.paused:
	case j.tty < 0: // no job control here: only the child rests
	case j.orphaned():
		if j.eager {
			j.lend()
		}
		_ = unix.Kill(-j.group, unix.SIGCONT)
	default:
		j.paused = true
		_ = unix.Kill(whom, unix.SIGSTOP)
	}
}

// orphaned reports whether nobody could continue us: the kernel's rule, by
// which ctrl-Z does nothing to a group without a parent in its session.
func (j *jobControl) orphaned() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	for pid, known := os.Getpid(), true; known; {
		var parent int
		if parent, known = parentOf(pid); !known {
			break // inside our group further up: taken for a shell's job
		}
		sid, err := unix.Getsid(parent)
		if parent <= 0 || err != nil || sid != session {
			return true
		}
		if group, err := unix.Getpgid(parent); err != nil || group != j.own {
			return err != nil
		}
		pid = parent
	}
	return false
}

// close takes the terminal back. TTOU stays ignored, since Go cannot undo that:
// harmless for a process that was there for this one child.
func (j *jobControl) close() {
	if j == nil {
		return
	}
	j.takeBack()
	signal.Stop(j.ch)
	if j.tty >= 0 {
		_ = unix.Close(j.tty)
	}
}
