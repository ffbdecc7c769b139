//go:build unix

package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Run starts the child and waits for its end. Cancelling ctx sends TERM to the
// group and KILL after the grace; Run then returns when the group is gone.
//
// The error is nil whenever the child ran and ended, whatever its code. A
// command that never started gives a *StartError, and Result.ExitCode is 126 or
// 127. ErrNotStopped means that KILL did not end the child. Run may be called
// from several goroutines at a time unless Config.Wrapper is set.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.validate(); err != nil {
		return notStarted(err)
	}
	if ctx.Err() != nil {
		return notStarted(fmt.Errorf("start %s: %w", cfg.Argv[0], context.Cause(ctx)))
	}
	p, err := start(cfg.withDefaults())
	if err != nil {
		return notStarted(err)
	}
	defer p.close()
	p.supervise(ctx)
	return p.result()
}

// process is one running child. All fields are confined to the goroutine of Run.
type process struct {
	cfg    Config
	pid    int
	io     *plumbing
	events <-chan event
	tree   *tree
	// members lists what is left of the tree; tests replace it.
	members func() []proc
	jobs    *jobControl // nil unless Config.Wrapper
	pipe    chan os.Signal

	started time.Time
	exit    event // valid once exit.exited

	stopping  bool
	gone      bool // a stop is complete
	graceEnd  time.Time
	killed    time.Time
	killC     <-chan time.Time
	pollC     <-chan time.Time
	pollEvery time.Duration
	by        os.Signal
	swept     map[int]bool
	unstopped []int
}

func start(cfg Config) (*process, error) {
	if cfg.Dir != "" {
		if info, err := os.Stat(cfg.Dir); err != nil {
			return nil, &StartError{Name: cfg.Dir, Code: CodeNotExecutable, Err: err}
		} else if !info.IsDir() {
			return nil, &StartError{Name: cfg.Dir, Code: CodeNotExecutable, Err: syscall.ENOTDIR}
		}
	}
	file, err := lookup(cfg.Argv[0], cfg.Dir, cfg.Env)
	if err != nil {
		return nil, err
	}
	p := &process{cfg: cfg, swept: map[int]bool{}}
	if p.io, err = plumb(cfg); err != nil {
		return nil, err
	}
	// A write to a closed stdout would end a Go program. Being notified, unlike
	// ignoring, is not inherited by the child.
	p.pipe = make(chan os.Signal, 1)
	signal.Notify(p.pipe, syscall.SIGPIPE)
	var strangers map[int]uint64
	if cfg.Wrapper {
		strangers = existingChildren()
		if err = adoptOrphans(); err == nil {
			p.jobs = newJobControl(cfg)
		}
	}
	if err == nil {
		p.started = time.Now()
		p.pid, p.events, err = spawn(cfg, file, p.io.child)
	}
	if err != nil {
		p.io.abandon()
		p.close()
		return nil, err
	}
	p.io.closeChildEnds()
	p.io.carry(cfg.Stdin)
	p.tree = newTree(p.pid, cfg.Wrapper, strangers)
	p.members = p.tree.members
	p.jobs.childStarted(p.pid)
	return p, nil
}

// close gives back what is process-wide.
func (p *process) close() {
	signal.Stop(p.pipe)
	p.jobs.close()
}

// result collects the record once the child is over.
func (p *process) result() (Result, error) {
	res := Result{
		ExitCode: p.exit.status.ExitStatus(), PID: p.pid, Started: p.started, Ended: p.exit.at,
		Interrupted: p.by, Stopped: p.stopping, Killed: !p.killed.IsZero(), Unstopped: p.unstopped,
	}
	var err error
	switch {
	case !p.exit.exited:
		res.ExitCode, res.Ended = 128+int(unix.SIGKILL), time.Now()
		err = fmt.Errorf("stop process %d: %w", p.pid, ErrNotStopped)
	case p.exit.status.Signaled():
		res.Signal = p.exit.status.Signal()
		res.ExitCode = 128 + int(res.Signal)
	}
	for pid := range p.swept {
		res.Swept = append(res.Swept, pid)
	}
	p.reapAdopted()
	if !p.stopping && !p.tree.empty() {
		for _, m := range p.members() {
			res.LeftBehind = append(res.LeftBehind, m.pid)
		}
	}
	p.endIO(&res)
	return res, err
}

// endIO waits for the output, cuts it if need be, and fills in the record.
func (p *process) endIO(res *Result) {
	if p.io.feed != nil {
		_ = p.io.feed.Close() // ends the feeder; it may have closed it already
	}
	grace := p.cfg.OutputGrace
	if by := p.killBy(); p.stopping && !by.IsZero() {
		grace = min(grace, max(time.Until(by), 0))
	}
	res.OutputCut, res.Flushed = finish(p.io.streams, grace)
	for _, s := range p.io.streams {
		if err := s.firstErr(); err != nil && res.OutputErr == nil {
			res.OutputErr = fmt.Errorf("write output: %w", err)
		}
	}
	res.Tail, res.Truncated = p.io.tail.marked()
	res.Stdout, res.StdoutDropped = p.io.capture.bytes()
}
