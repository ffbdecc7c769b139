package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs"
)

// maxAnswer bounds one line of a stream process, in bytes.
const maxAnswer = 1 << 20

// streamProcess is one life of the process of a StreamHandler.
type streamProcess struct {
	name   string
	grace  time.Duration
	notice func(string)
	// stop ends the process group; the first cause stays.
	stop  context.CancelCauseFunc
	input *os.File
	// lines hands one line at a time to the writer: what was taken may have
	// reached the process, what was not has not.
	lines    chan handed
	started  chan struct{}
	gone     chan struct{} // closed when the process has ended and all its output was read
	finished chan struct{} // closed by endInput
	endOnce  sync.Once
	// err and exit are set before gone is closed: the end as an item without an
	// answer sees it, and as Close tells it.
	err, exit error

	mu      sync.Mutex
	waiting map[string]*waiter // by work ID; guarded by mu
	partial []byte             // of a line; used by the copier of the output alone
	skip    bool               // the rest of an overlong line; likewise
}

// waiter is an item without an answer.
type waiter struct {
	fence  dibs.Fence
	answer chan streamAnswer // holds one
}

type streamAnswer struct {
	receipt dibs.Receipt
	err     error
}

// handed is one line for the process, and the item that it brings, if any.
type handed struct {
	line []byte
	item *waiter
}

// settle keeps the first answer.
func (w *waiter) settle(a streamAnswer) {
	select {
	case w.answer <- a:
	default:
	}
}

// last is the answer that came before the process ended, or that end.
func (w *waiter) last(end error) (dibs.Receipt, error) {
	select {
	case a := <-w.answer:
		return a.receipt, a.err
	default:
		return dibs.Receipt{}, fmt.Errorf("the process ended before it answered: %w", end)
	}
}

func startStream(ctx context.Context, s *StreamHandler, job string) (*streamProcess, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p := &streamProcess{
		name: s.command.name(), grace: s.grace, notice: s.notice, input: write,
		lines: make(chan handed), started: make(chan struct{}), gone: make(chan struct{}), finished: make(chan struct{}),
		waiting: map[string]*waiter{},
	}
	ctx, p.stop = context.WithCancelCause(ctx)
	env := slices.Concat(os.Environ(), s.command.Env)
	for _, name := range variables {
		env = append(env, name+"=")
	}
	c := child{
		argv: s.command.Argv, dir: s.command.Dir, env: append(env, "DIBS_JOB="+job),
		stdin: read, stdout: p, grace: s.grace / 2, outputGrace: defaultOutputGrace,
		started: func() { close(p.started) },
	}
	go p.write()
	go func() {
		end, err := c.run(ctx)
		_ = read.Close() // ours; nothing can be lost in it
		p.ended(s.command, end, err, context.Cause(ctx))
	}()
	return p, nil
}

// ended closes gone after the last answer has been read.
func (p *streamProcess) ended(command ExecConfig, end ended, err, cause error) {
	if len(p.partial) > 0 {
		p.line(p.partial)
	}
	switch {
	case err != nil:
		p.err = fmt.Errorf("start %s: %w", p.name, err)
		p.exit = p.err
	default:
		// The cause belongs to another item: told, but not to be branched on.
		p.err = errors.New(command.failure(end, cause).Error())
		if end.code != 0 {
			p.exit = p.err
		}
	}
	select {
	case <-p.finished:
	default:
		p.notice(p.err.Error())
	}
	p.stop(nil)
	_ = p.input.Close() // wakes the writer
	close(p.gone)
}

// write passes lines on until the process has ended or its input shall.
func (p *streamProcess) write() {
	for {
		select {
		case h := <-p.lines:
			if n, err := p.input.Write(h.line); err != nil {
				if n == 0 && h.item != nil {
					h.item.settle(streamAnswer{err: dibs.NotApplied(fmt.Errorf("%s: the item was not given to it: %w", p.name, err))})
				}
				p.stop(errors.New("it reads no more"))
				return
			}
		case <-p.finished:
			_ = p.input.Close() // nothing of ours is buffered in it
			return
		case <-p.gone:
			return
		}
	}
}

func (p *streamProcess) endInput() { p.endOnce.Do(func() { close(p.finished) }) }

// expect registers an item. One that is in the process's hands already is
// refused: two answers could not be told apart.
func (p *streamProcess) expect(it dibs.Item) (*waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, twice := p.waiting[it.WorkID]; twice {
		return nil, errors.New("it is at work on the same work ID")
	}
	w := &waiter{fence: it.Fence, answer: make(chan streamAnswer, 1)}
	p.waiting[it.WorkID] = w
	return w, nil
}

func (p *streamProcess) forget(workID string, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[workID] == w {
		delete(p.waiting, workID)
	}
}

// giveUp asks the process for an end to one item, and ends the process if it
// gives none. It returns when nothing works on the item any more.
func (p *streamProcess) giveUp(workID string, w *waiter, cause error) (dibs.Receipt, error) {
	over := time.NewTimer(p.grace / 2)
	defer over.Stop()
	request, lines := handed{line: fmt.Appendf(nil, "{\"cancel\":%s}\n", jsonText(workID))}, p.lines
	for {
		select {
		case a := <-w.answer:
			return a.receipt, a.err
		case lines <- request:
			lines = nil
		case <-p.gone:
			r, err := w.last(p.err)
			if err != nil {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			return r, err
		case <-over.C:
			p.stop(fmt.Errorf("an item had to end (%w)", cause))
		}
	}
}

// Write takes the output of the process; os/exec calls it from one goroutine.
func (p *streamProcess) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if !p.skip {
			p.line(append(p.partial, b[:i]...))
		}
		p.partial, p.skip, b = p.partial[:0], false, b[i+1:]
	}
	if p.skip {
		return n, nil
	}
	if p.partial = append(p.partial, b...); len(p.partial) > maxAnswer {
		p.notice(fmt.Sprintf("%s: a line longer than %d bytes was left out", p.name, maxAnswer))
		p.partial, p.skip = nil, true
	}
	return n, nil
}

// line reads one line of output.
func (p *streamProcess) line(b []byte) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return
	}
	doc, _ := decodeJSON(b)
	object, _ := doc.(map[string]any)
	workID, ok := object["work_id"].(string)
	if !ok {
		p.notice(p.name + ": not an answer: " + quoteStart(b, quotedBody))
		return
	}
	fence, fenced := object["fence"].(json.Number)
	p.mu.Lock()
	w := p.waiting[workID]
	if w != nil && fenced && fence.String() != fmt.Sprint(w.fence) {
		w = nil
	}
	if w != nil {
		delete(p.waiting, workID)
	}
	p.mu.Unlock()
	if w == nil {
		p.notice(p.name + ": an answer to nothing that was asked: " + quoteStart([]byte(workID), quotedBody))
		return
	}
	w.settle(readAnswer(p.name, object))
}

// readAnswer turns an answer's fields into a receipt or a typed error.
func readAnswer(name string, object map[string]any) streamAnswer {
	status, _ := object["status"].(string)
	if status == "done" {
		r, _ := objectReceipt(object)
		return streamAnswer{receipt: r}
	}
	text := name + ": " + quoteStart([]byte(status), 60)
	if said := quoteStart([]byte(scalarText(object["error"])), quotedBody); said != "" {
		text += ": " + said
	}
	err := errors.New(text)
	switch status {
	case "rejected":
		err = dibs.Reject(err)
	case "not_applied":
		err = dibs.NotApplied(err)
	case "stop":
		err = dibs.Stop(err)
	case "later":
		after, _ := object["after"].(json.Number)
		seconds, _ := after.Float64() // no number: no wish, the usual pause
		d := time.Duration(min(max(seconds, 0), maxRetryAfter.Seconds()) * float64(time.Second))
		err = fmt.Errorf("%w: %w", err, dibs.Later(d))
	}
	return streamAnswer{err: err}
}
