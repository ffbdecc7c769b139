package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

const (
	defaultGrace       = 10 * time.Second
	defaultOutputGrace = 2 * time.Second
	// killWait bounds the wait for processes that KILL does not end: those
	// stuck in the kernel and those that changed user out of our reach.
	killWait = 5 * time.Second

	// CodeNotExecutable is the shell's exit code for a command that was found
	// and could not be executed.
	CodeNotExecutable = 126
	// CodeNotFound is the shell's exit code for a command that was not found.
	CodeNotFound = 127
)

// ErrNotStopped says that KILL was sent and the direct child is still there
// after five seconds. Result.Unstopped names what is left.
var ErrNotStopped = errors.New("process does not end after KILL")

// ErrUnsupported says that this platform has no Run.
var ErrUnsupported = errors.New("running commands is not supported on this platform")

// Config describes one child. Argv is required; every other zero value works.
type Config struct {
	// Argv is the command and its arguments. A name without a slash is looked
	// up in the PATH of Env, as a shell does.
	Argv []string
	// Dir is the working directory; empty means ours.
	Dir string
	// Env is the complete environment, "K=V"; of equal keys the last one wins.
	// Nil means this process's environment.
	Env []string

	// Stdin is passed on: a *os.File as it is, any other reader through a pipe.
	// Nil means an empty input. A reader whose Read blocks for ever keeps one
	// goroutine after Run has returned.
	Stdin io.Reader
	// Stdout and Stderr receive the child's output unchanged; nil discards it.
	// A *os.File goes to the child directly when nothing is to be recorded. If
	// both are the same open thing, one pipe keeps their order. An error from
	// them never stops the child: see Result.OutputErr.
	Stdout, Stderr io.Writer
	// TailBytes bounds Result.Tail, the end of stdout and stderr together.
	// Zero records nothing.
	TailBytes int
	// CaptureStdout bounds Result.Stdout, the end of stdout alone, in bytes.
	CaptureStdout int

	// Grace is the time between the request to stop and KILL. Zero means 10 s;
	// negative means KILL at once.
	Grace time.Duration
	// OutputGrace bounds the wait for output after the child has ended. Zero
	// means 2 s; negative means no wait.
	OutputGrace time.Duration
	// KillBy, if set, is asked during a stop for the instant at which KILL is
	// sent at the latest; the zero time means no such instant. It is asked
	// again when that instant comes, so a renewed lease may move it. It is
	// called from the goroutine of Run.
	KillBy func() time.Time
	// Signals are forwarded to the group; INT, TERM, HUP, QUIT and ABRT also
	// begin a stop. See Forwardable. A closed channel is no longer read.
	Signals <-chan os.Signal
	// Wrapper says that this process exists for this one child. Run then reaps
	// every child process and adopts orphans (Linux), handles TSTP and CONT,
	// shares its terminal with the child, and survives a closed stdout. Never
	// set it in a program that starts other processes at the same time: their
	// exit codes would be taken from them.
	Wrapper bool
}

// Result tells how the child ended. Times carry the monotonic clock.
type Result struct {
	// ExitCode is the code a shell reports: the child's own, 128+n for death
	// by signal n, 126 or 127 for a command that never started.
	ExitCode int
	// Signal is what the child died of, or zero.
	Signal syscall.Signal
	// PID is the direct child's, or zero if it never started.
	PID int
	// Started is the instant before the start, Ended the one at which the
	// direct child was seen to have ended.
	Started, Ended time.Time

	// Tail is the end of the output, of any bytes. If something is missing
	// before it, it starts with a line that says how many bytes.
	Tail []byte
	// Truncated says that Tail does not hold the whole output.
	Truncated bool
	// Stdout is the end of stdout, and StdoutDropped counts the bytes that
	// were written before it.
	Stdout        []byte
	StdoutDropped int64
	// OutputCut says that output was still open when the grace was over: a
	// process left behind held the pipe, or our own stdout did not take it.
	OutputCut bool
	// OutputErr is the first error of Config.Stdout or Stderr; what came after
	// it was read and discarded.
	OutputErr error
	// Flushed is closed when all that was read has been handed to Config.Stdout
	// and Stderr; usually before Run returns. It stays open only while a writer
	// blocks. Wait for it after the outcome is safe and before exit.
	Flushed <-chan struct{}

	// Interrupted is the first forwarded signal that began a stop, or nil.
	Interrupted os.Signal
	// Stopped says that a stop was begun, by the context or by a signal.
	Stopped bool
	// Killed says that the grace was over and KILL was sent.
	Killed bool
	// Swept lists the processes other than the direct child that got KILL.
	Swept []int
	// LeftBehind lists processes still alive after an end without a stop.
	LeftBehind []int
	// Unstopped lists processes still alive five seconds after KILL.
	Unstopped []int
}

// StartError says why the child never ran.
type StartError struct {
	// Name is the command, or the directory, at fault.
	Name string
	// Code is 126 or 127.
	Code int
	// Err is the cause; errors.Is works with fs.ErrNotExist and the like.
	Err error
}

// Error implements error.
func (e *StartError) Error() string { return fmt.Sprintf("start %s: %v", e.Name, e.Err) }

// Unwrap gives the cause.
func (e *StartError) Unwrap() error { return e.Err }

// notStarted is the result of a child that never ran.
func notStarted(err error) (Result, error) {
	flushed := make(chan struct{})
	close(flushed)
	res := Result{ExitCode: CodeNotExecutable, Flushed: flushed}
	var se *StartError
	if errors.As(err, &se) {
		res.ExitCode = se.Code
	}
	return res, err
}

func (c Config) validate() error {
	var faults []error
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		faults = append(faults, errors.New("no command given"))
	}
	if c.TailBytes < 0 {
		faults = append(faults, fmt.Errorf("tail of %d bytes: must not be negative", c.TailBytes))
	}
	if c.CaptureStdout < 0 {
		faults = append(faults, fmt.Errorf("capture of %d bytes: must not be negative", c.CaptureStdout))
	}
	return errors.Join(faults...)
}

// withDefaults turns zero into the default and negative into zero.
func (c Config) withDefaults() Config {
	c.Grace = orDefault(c.Grace, defaultGrace)
	c.OutputGrace = orDefault(c.OutputGrace, defaultOutputGrace)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = lastWins(c.Env)
	return c
}

func orDefault(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return 0
	}
	return d
}

// lastWins keeps the last entry of each key, in order, so that a caller may
// append to an environment.
func lastWins(env []string) []string {
	last := make(map[string]int, len(env))
	for i, kv := range env {
		last[envKey(kv)] = i
	}
	if len(last) == len(env) {
		return env
	}
	out := make([]string, 0, len(last))
	for i, kv := range env {
		if last[envKey(kv)] == i {
			out = append(out, kv)
		}
	}
	return out
}

func envKey(kv string) string {
	for i := range len(kv) {
		if kv[i] == '=' {
			return kv[:i]
		}
	}
	return kv
}
