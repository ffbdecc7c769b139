package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs"
)

const defaultWindow = 64

// StreamConfig describes one long-lived process that is given every item. Argv
// is required; every other zero value works.
type StreamConfig struct {
	// Argv, Dir and Env are those of [ExecConfig]. Of the variables of [Environ]
	// only DIBS_JOB has a value.
	Argv []string
	Dir  string
	Env  []string
	// Window is the most items that are unanswered at a time. Zero means 64.
	Window int
	// Grace is how long a cancelled item may take to end: half of it for an
	// answer, then the process gets TERM, and after the other half KILL. Zero
	// means 10 s; negative means KILL at once.
	Grace time.Duration
	// Notice, if set, is told what would otherwise go unseen, in one bounded line:
	// output that is no answer, answers for items that the process was not given
	// or has answered, its unexpected ends. Calls are not concurrent with one
	// another for one process.
	Notice func(text string)
}

// StreamHandler gives items to one long-lived process. It is safe for
// concurrent use. Close ends the process.
type StreamHandler struct {
	command ExecConfig
	grace   time.Duration
	notice  func(string)
	window  chan struct{}

	mu      sync.Mutex
	process *streamProcess // guarded by mu; nil before the first item
	closed  bool           // guarded by mu
}

// Stream returns a handler that starts one process at its first item, again
// after it has ended, and talks NDJSON with it, in any order.
//
// The process reads items, one per line, as [Exec] writes them, and answers
// each with a line:
//
//	{"work_id": "…", "fence": 3, "status": "done", "id": "n-1", "evidence": {}}
//	{"work_id": "…", "fence": 3, "status": "rejected", "error": "no such account"}
//
// The status is done, rejected, not_applied, later (with "after", in seconds),
// stop, or unknown, which is what any other text means too. The fence is
// optional; with it, an answer that comes too late is never taken for the answer
// to a later attempt. A line {"cancel": "WORK_ID"} asks the process to give an
// item up and answer for it; one that does not within half the grace is ended.
// At the end of its input the process should exit.
//
// A process that ends makes the items that it was given and has not answered
// uncertain, and no others. An item that could not be handed to it is not
// applied. The process need not read faster than it works: items wait.
func Stream(c StreamConfig) (*StreamHandler, error) {
	command := ExecConfig{Argv: slices.Clone(c.Argv), Dir: c.Dir, Env: slices.Clone(c.Env)}
	err := command.validate("stream handler")
	if c.Window < 0 {
		err = errors.Join(err, &dibs.ConfigError{Subject: "stream handler", Field: "window", Problem: "must be positive"})
	}
	if err != nil {
		return nil, err
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	return &StreamHandler{
		command: command, grace: orDefault(c.Grace, defaultGrace), notice: c.Notice, window: make(chan struct{}, c.Window),
	}, nil
}

// Handle gives one item to the process and returns its answer. It is a
// [dibs.Handle].
func (s *StreamHandler) Handle(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
	line, err := encodeItem(it)
	if err != nil {
		return dibs.Receipt{}, err
	}
	select {
	case s.window <- struct{}{}:
		defer func() { <-s.window }()
	case <-ctx.Done():
		return dibs.Receipt{}, s.notGiven(context.Cause(ctx))
	}
	p, err := s.running(ctx, it)
	if err == nil && ctx.Err() != nil { // a select may prefer the other case
		err = context.Cause(ctx)
	}
	if err != nil {
		return dibs.Receipt{}, s.notGiven(err)
	}
	w, err := p.expect(it)
	if err != nil {
		return dibs.Receipt{}, s.notGiven(err)
	}
	defer p.forget(it.WorkID, w)
	select {
	case p.lines <- handed{line: append(line, '\n'), item: w}:
	case <-p.gone:
		return dibs.Receipt{}, s.notGiven(p.err)
	case <-ctx.Done():
		return dibs.Receipt{}, s.notGiven(context.Cause(ctx))
	}
	select {
	case a := <-w.answer:
		return a.receipt, a.err
	case <-p.gone:
		return w.last(p.err)
	case <-ctx.Done():
		return p.giveUp(it.WorkID, w, context.Cause(ctx))
	}
}

// notGiven marks an item that the process has not seen.
func (s *StreamHandler) notGiven(err error) error {
	return dibs.NotApplied(fmt.Errorf("%s: the item was not given to it: %w", s.command.name(), err))
}

// running returns a process that has started.
func (s *StreamHandler) running(ctx context.Context, it dibs.Item) (*streamProcess, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p, err := s.current(ctx, it)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.started:
		return p, nil
	case <-p.gone:
		return nil, p.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// current is the process of now, started if there is none.
func (s *StreamHandler) current(ctx context.Context, it dibs.Item) (*streamProcess, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("closed")
	}
	if s.process != nil {
		select {
		case <-s.process.gone:
		default:
			return s.process, nil
		}
	}
	p, err := startStream(context.WithoutCancel(ctx), s, it.Job)
	if err != nil {
		return nil, err
	}
	s.process = p
	return p, nil
}

// Close ends the input of the process and waits for it to exit; after the
// grace it is ended by TERM and KILL. Items without an answer are uncertain.
// It returns how the process ended if that was not exit code 0. Later items are
// not applied.
func (s *StreamHandler) Close() error {
	s.mu.Lock()
	s.closed = true
	p := s.process
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	p.endInput()
	over := time.NewTimer(s.grace)
	defer over.Stop()
	select {
	case <-p.gone:
	case <-over.C:
		p.stop(errors.New("it did not exit at the end of its input"))
		<-p.gone
	}
	return p.exit
}
