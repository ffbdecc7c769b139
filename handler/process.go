package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"time"
)

// groupPoll is how often a stopped group is asked whether anybody is left.
const groupPoll = 20 * time.Millisecond

// child is one process to run.
type child struct {
	argv []string
	dir  string
	env  []string
	// stdin is passed on through a pipe, or as it is if it is an *os.File.
	stdin io.Reader
	// stdout receives the output; it must never fail.
	stdout io.Writer
	// started, if set, is called once the child runs.
	started func()
	// grace is the time between TERM and KILL.
	grace time.Duration
	// outputGrace bounds the wait for output that a process left behind holds
	// open after the child has ended.
	outputGrace time.Duration
}

// ended is how a child came to its end.
type ended struct {
	// code is the exit code, -1 when a signal ended the child.
	code int
	// how is the end in words: "exit status 3", "signal: killed".
	how string
	// stopped says that the context ended first and the group was told to stop.
	stopped bool
	// stderr is the end of standard error.
	stderr *tail
}

// run starts the child in a process group of its own and returns when it has
// ended. Its error means that the child never ran. When the context ends, the
// group gets TERM, and what is left of it after the grace KILL. A process that
// the child leaves behind on an ordinary end is left alone.
func (c child) run(ctx context.Context) (ended, error) {
	// The parent-death signal follows the thread that started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	end := ended{stderr: &tail{limit: stderrTail}}
	// Not CommandContext: it would kill the direct child alone and at once.
	cmd := exec.Command(c.argv[0], c.argv[1:]...) //nolint:gosec,noctx // running what the job names is the purpose
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, end.stderr
	cmd.SysProcAttr = attributes()
	cmd.WaitDelay = c.outputGrace
	if err := cmd.Start(); err != nil {
		return ended{}, err
	}
	if c.started != nil {
		c.started()
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()

	var err error
	select {
	case err = <-waited:
	case <-ctx.Done():
		end.stopped = true
		err = stopGroup(cmd, waited, c.grace)
	}
	end.code, end.how = cmd.ProcessState.ExitCode(), cmd.ProcessState.String()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		end.how = fmt.Sprintf("%s (%v)", end.how, err)
	}
	return end, nil
}

// stopGroup asks the group to stop, and kills what is left when the grace is
// over. The direct child has ended when it returns.
func stopGroup(cmd *exec.Cmd, waited <-chan error, grace time.Duration) error {
	over := time.NewTimer(grace)
	defer over.Stop()
	pid := cmd.Process.Pid
	terminateGroup(pid)
	var err error
	select {
	case err = <-waited:
	case <-over.C:
		killGroup(pid)
		return <-waited
	}
	// The child is gone, but others of its group may still be cleaning up. Their
	// group's number cannot be given to strangers while one of them is there.
	poll := time.NewTicker(groupPoll)
	defer poll.Stop()
	for groupAlive(pid) {
		select {
		case <-poll.C:
		case <-over.C:
			killGroup(pid)
			return err
		}
	}
	return err
}
