package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// Exit codes of handlers and lookups that mean something to us.
const (
	// CodeAbsent says that a lookup did not find the action.
	CodeAbsent = 3
	// CodeRejected says that the destination will never accept the item
	// (EX_DATAERR).
	CodeRejected = 65
	// CodeNotApplied says that nothing was applied and a later attempt may
	// succeed (EX_TEMPFAIL).
	CodeNotApplied = 75
)

const (
	defaultGrace       = 10 * time.Second
	defaultOutputGrace = 2 * time.Second
	stdoutTail         = 64 << 10
	stderrTail         = 16 << 10
	quotedStderr       = 2000
)

// ExecConfig describes a command that is started once for each item. Argv is
// required; every other zero value works.
type ExecConfig struct {
	// Argv is the command and its arguments, as they are: never a shell, and no
	// templates. The item comes on standard input and in the environment. A name
	// without a slash is looked up in PATH.
	Argv []string
	// Dir is the working directory; empty means this process's own.
	Dir string
	// Env is added to this process's environment, "K=V". The variables of
	// [Environ] cannot be set.
	Env []string
	// Grace is the time between TERM and KILL when the context ends. Zero means
	// 10 s; negative means KILL at once.
	Grace time.Duration
	// OutputGrace bounds the wait for output after the child has ended and left
	// a process behind that holds it open. Zero means 2 s; negative as little as
	// possible.
	OutputGrace time.Duration
}

// validate returns every fault at once.
func (c ExecConfig) validate(subject string) error {
	var faults []error
	fault := func(field, problem, fix string) {
		faults = append(faults, &dibs.ConfigError{Subject: subject, Field: field, Problem: problem, Fix: fix})
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		fault("argv", "no command given", "list the command and its arguments: [./sync, --fast]")
	}
	for _, a := range append([]string{c.Dir}, c.Argv...) {
		if strings.ContainsRune(a, 0) {
			fault("argv", "a NUL byte cannot be passed to a process", "")
		}
	}
	for _, kv := range c.Env {
		name, _, ok := strings.Cut(kv, "=")
		switch {
		case !ok || name == "" || strings.ContainsRune(kv, 0):
			fault("env", fmt.Sprintf("%q is not a variable's name", quoteStart([]byte(name), 60)), "write NAME=VALUE")
		case slices.Contains(variables[:], name):
			fault("env", name+" is set for each item", "choose another name")
		}
	}
	return errors.Join(faults...)
}

func (c ExecConfig) child(it dibs.Item) (child, error) {
	stdin, err := encodeItem(it)
	if err != nil {
		return child{}, err
	}
	own := Environ(it)
	for _, kv := range own {
		if strings.ContainsRune(kv, 0) {
			name, _, _ := strings.Cut(kv, "=")
			return child{}, dibs.Reject(fmt.Errorf("%s holds a NUL byte, which no environment variable can", name))
		}
	}
	return child{
		argv: c.Argv, dir: c.Dir, env: slices.Concat(os.Environ(), c.Env, own),
		stdin: bytes.NewReader(append(stdin, '\n')),
		grace: orDefault(c.Grace, defaultGrace), outputGrace: max(orDefault(c.OutputGrace, defaultOutputGrace), time.Millisecond),
	}, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}

// Exec returns a handler that starts a process for each item, in a process
// group of its own, and returns when that process has ended.
//
// The item is one line of JSON on standard input, which the process need not
// read, and the environment of [Environ]. The last line that it writes to
// standard output, if at most 64 KiB, may be a receipt. Exit code 0 means done,
// [CodeRejected] (65) rejected for good, [CodeNotApplied] (75), 126, 127 and a
// failure to start mean not applied; any other code and any signal mean that
// the outcome is unknown. The end of standard error goes into the error text.
//
// When the context ends, the group gets TERM, and what is left of it after
// the grace KILL; a process that answers by its exit code meanwhile is believed.
// On Linux the kernel also kills the direct child when this process dies. What
// leaves the group (setsid) is not followed, and what the child leaves behind on
// an ordinary end is left alone.
func Exec(c ExecConfig) (dibs.Handle, error) {
	if err := c.validate("exec handler"); err != nil {
		return nil, err
	}
	c.Argv, c.Env = slices.Clone(c.Argv), slices.Clone(c.Env)
	return c.handle, nil
}

func (c ExecConfig) handle(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
	stdout := &tail{limit: stdoutTail}
	end, err := c.run(ctx, it, stdout)
	if err != nil {
		return dibs.Receipt{}, err
	}
	if end.code == 0 {
		r, _ := lineReceipt(stdout.lastLine())
		return r, nil
	}
	err = c.failure(end, context.Cause(ctx))
	switch end.code {
	case CodeRejected:
		return dibs.Receipt{}, dibs.Reject(err)
	case CodeNotApplied, 126, 127:
		return dibs.Receipt{}, dibs.NotApplied(err)
	}
	return dibs.Receipt{}, err
}

// run runs the process. Its error is typed: nothing was started.
func (c ExecConfig) run(ctx context.Context, it dibs.Item, stdout io.Writer) (ended, error) {
	if it.Deadline.IsZero() {
		it.Deadline, _ = ctx.Deadline()
	}
	p, err := c.child(it)
	if err != nil {
		return ended{}, err
	}
	if ctx.Err() != nil {
		return ended{}, dibs.NotApplied(fmt.Errorf("%s: not started: %w", c.name(), context.Cause(ctx)))
	}
	p.stdout = stdout
	end, err := p.run(ctx)
	if err != nil {
		return ended{}, dibs.NotApplied(fmt.Errorf("start %s: %w", c.name(), err))
	}
	return end, nil
}

// failure says how the process ended, why it was stopped if it was, and what
// it wrote to standard error.
func (c ExecConfig) failure(end ended, cause error) error {
	text := c.name() + ": " + end.how
	kept, _ := end.stderr.bytes()
	if quoted := quoteEnd(kept, quotedStderr); quoted != "" {
		text += ": " + quoted
	}
	if end.stopped {
		return fmt.Errorf("%s: stopped: %w", text, cause)
	}
	return errors.New(text)
}

// name is the command for people. Arguments may hold secrets.
func (c ExecConfig) name() string { return quoteStart([]byte(filepath.Base(c.Argv[0])), 100) }

// LookupExec returns a lookup that starts a process for each question, with the
// same standard input and environment as [Exec]. Exit code 0 with a receipt as
// the last line of standard output means found: {"id": "n-17"}; or, with
// {"ids": ["n-17", "n-18"]}, found more than once. [CodeAbsent] (3) means
// absent. Anything else, also 0 without an id, means that it cannot be told.
func LookupExec(c ExecConfig) (dibs.LookupFunc, error) {
	if err := c.validate("exec lookup"); err != nil {
		return nil, err
	}
	c.Argv, c.Env = slices.Clone(c.Argv), slices.Clone(c.Env)
	return c.lookup, nil
}

func (c ExecConfig) lookup(ctx context.Context, it dibs.Item) (dibs.LookupResult, error) {
	stdout := &tail{limit: stdoutTail}
	end, err := c.run(ctx, it, stdout)
	switch {
	case err != nil:
		return dibs.LookupResult{}, err
	case end.stopped, end.code != 0 && end.code != CodeAbsent:
		return dibs.LookupResult{}, c.failure(end, context.Cause(ctx))
	case end.code == CodeAbsent:
		return dibs.LookupResult{Presence: dibs.PresenceAbsent}, nil
	}
	r, ids := lineReceipt(stdout.lastLine())
	if r.ID != "" {
		ids = append([]string{r.ID}, ids...)
	}
	res, err := foundResult(r, ids)
	if err != nil {
		return dibs.LookupResult{}, fmt.Errorf("%s: exit status 0 says found, but %w", c.name(), err)
	}
	return res, nil
}

// foundResult tells one from several by their different IDs.
func foundResult(r dibs.Receipt, ids []string) (dibs.LookupResult, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if r.ID == "" && len(ids) > 0 {
		r.ID = ids[0]
	}
	switch len(ids) {
	case 0:
		if problem := r.Evidence[problemField]; problem != "" {
			return dibs.LookupResult{}, errors.New(problem)
		}
		return dibs.LookupResult{}, errors.New("gives no id")
	case 1:
		return dibs.LookupResult{Presence: dibs.PresenceFound, Receipt: r}, nil
	}
	return dibs.LookupResult{Presence: dibs.PresenceDuplicate, Receipt: r, IDs: ids}, nil
}
