package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/dibs-run/dibs"
	wrapped "github.com/dibs-run/dibs/command"
)

// relay receives signals from the first moment on: before the child runs a
// request to stop ends the preparations, afterwards everything is the child's.
type relay struct {
	in  chan os.Signal
	out chan os.Signal // for the child
	// stopped ends when a request to stop has come.
	stopped context.Context //nolint:containedctx // it is the answer, not a caller's

	mu    sync.Mutex
	first os.Signal
}

// stopSignals is how many of [wrapped.Forwardable] ask for an end.
const stopSignals = 5

// receive begins at once with the signals that would end this process; rest
// adds the others, each of which costs a little. Stop gives up listening.
func receive(ctx context.Context) (r *relay, rest, stop func()) {
	r = &relay{in: make(chan os.Signal, 32), out: make(chan os.Signal, 32)}
	stopped, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r.stopped = stopped
	all := wrapped.Forwardable()
	first := all[:min(stopSignals, len(all))]
	signal.Notify(r.in, first...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a closed stdout is an error of a write, not an end
	done := make(chan struct{})
	go r.pass(ctx, cancel, done)
	rest = func() { signal.Notify(r.in, all[len(first):]...) }
	stop = sync.OnceFunc(func() {
		signal.Stop(r.in)
		close(done)
		cancel(nil)
	})
	return r, rest, stop
}

// pass hands signals on. A caller that asks for an end without a signal, as a
// program that embeds the commands may, counts as one.
func (r *relay) pass(ctx context.Context, cancel context.CancelCauseFunc, done <-chan struct{}) {
	asked := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-done:
			return
		case <-asked: // the program's own handler may be a little earlier than ours
			asked, late = nil, time.After(embeddedStop)
		case <-late:
			late = nil
			if r.which() == nil {
				cancel(dibs.ErrStopping)
			}
		case s := <-r.in:
			if ends(s) {
				r.note(s)
				cancel(dibs.ErrStopping)
			}
			select {
			case r.out <- s:
			default: // a flood: the child has more signals to see than it can
			}
		}
	}
}

// embeddedStop is how long a cancelled context waits for the signal behind it.
const embeddedStop = 200 * time.Millisecond

func (r *relay) note(s os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		r.first = s
	}
}

// which is the signal that asked for an end first, or nil.
func (r *relay) which() os.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}

// ends tells whether a signal asks a process to end.
func ends(s os.Signal) bool {
	switch s {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGABRT:
		return true
	}
	return false
}

// codeOfSignal is the shell's exit code for a process that a signal ended.
func codeOfSignal(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitRefused
}
