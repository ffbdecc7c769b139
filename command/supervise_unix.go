//go:build unix

package command

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pollFirst = 2 * time.Millisecond
	pollLast  = 50 * time.Millisecond
)

// supervise serves the child until it is over: until the direct child ended,
// and after a stop until the whole tree is gone.
func (p *process) supervise(ctx context.Context) {
	done, signals := ctx.Done(), p.cfg.Signals
	for !p.over() {
		select {
		case <-done:
			done = nil
			p.stopWith(unix.SIGTERM)
		case sig, ok := <-signals:
			if !ok {
				signals = nil
				break
			}
			p.forward(sig)
		case sig := <-p.jobs.signals():
			p.jobs.received(sig)
		case ev := <-p.events:
			p.childEvent(ev)
		case <-p.killC:
			p.graceOver()
		case <-p.pollC:
			p.poll()
		}
	}
}

func (p *process) over() bool {
	if p.stopping {
		return p.gone
	}
	return p.exit.exited
}

func (p *process) childEvent(ev event) {
	if !ev.exited {
		p.jobs.childStopped(ev.status.StopSignal())
		return
	}
	p.exit = ev
	p.jobs.takeBack()
	if p.stopping {
		p.poll()
	}
}

// forward passes a signal to the group. One that asks for the end begins a stop.
func (p *process) forward(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if !stops(s) {
		p.signalGroup(s)
		return
	}
	if !p.stopping {
		p.by = s
	}
	p.stopWith(s)
}

// stopWith sends sig to the whole tree and starts the grace, once. A stopped
// process must be continued, or TERM waits for ever.
func (p *process) stopWith(sig syscall.Signal) {
	var escaped []proc
	if !p.stopping {
		// Before the signal: what has left the group is found through parents
		// that may be gone right after it.
		escaped = p.members()
	}
	p.signalGroup(sig)
	p.signalGroup(unix.SIGCONT)
	if p.stopping {
		return
	}
	p.stopping = true
	p.graceEnd = time.Now().Add(p.cfg.Grace)
	p.tree.signalEscaped(escaped, sig)
	p.armKill()
}

func (p *process) killBy() time.Time {
	if p.cfg.KillBy == nil {
		return time.Time{}
	}
	return p.cfg.KillBy()
}

// killAt is the end of the grace, or the hard limit if that comes first.
func (p *process) killAt() time.Time {
	if by := p.killBy(); !by.IsZero() && by.Before(p.graceEnd) {
		return by
	}
	return p.graceEnd
}

func (p *process) armKill() {
	p.killC = time.After(max(time.Until(p.killAt()), 0))
}

// graceOver sends KILL, unless the limit was moved meanwhile.
func (p *process) graceOver() {
	if time.Until(p.killAt()) > 0 {
		p.armKill()
		return
	}
	p.killC = nil
	p.killed = time.Now()
	p.poll()
}

// poll looks at what is left of a tree that is being stopped. After the grace
// it kills what it finds, again and again: a process may fork while it is
// being looked for.
func (p *process) poll() {
	p.reapAdopted()
	if p.exit.exited && p.tree.empty() {
		p.gone = true
		return
	}
	left := p.members()
	if len(left) == 0 && p.exit.exited {
		p.gone = true
		return
	}
	if !p.killed.IsZero() {
		p.kill(left)
		if time.Since(p.killed) > killWait {
			p.giveUp(left)
			return
		}
	}
	p.pollEvery = min(max(2*p.pollEvery, pollFirst), pollLast)
	p.pollC = time.After(p.pollEvery)
}

func (p *process) kill(left []proc) {
	p.signalGroup(unix.SIGKILL)
	p.tree.signalEscaped(left, unix.SIGKILL)
	for _, m := range left {
		if m.pid != p.pid {
			p.swept[m.pid] = true
		}
	}
}

func (p *process) giveUp(left []proc) {
	p.gone = true
	for _, m := range left {
		p.unstopped = append(p.unstopped, m.pid)
	}
}

// reapAdopted collects orphans once the waiter has ended with the child.
func (p *process) reapAdopted() {
	if !p.cfg.Wrapper || !p.exit.exited {
		return
	}
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if pid <= 0 {
			return
		}
	}
}

// signalGroup signals the child's group. That the group is gone is no error.
// Its number cannot belong to others while it has a member; between the last
// member's end and our noticing it lie milliseconds, and the kernel hands out
// every other number first.
func (p *process) signalGroup(sig syscall.Signal) {
	_ = unix.Kill(-p.pid, sig)
}
