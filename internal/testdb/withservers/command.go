package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/term"
)

// runCommand runs the command in a process group of its own, passes signals on
// to the whole group, and returns the exit code (128 + the signal's number for
// a command that a signal ended). Whatever is left of the group is then ended.
func runCommand(ctx context.Context, args, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if stdin := int(os.Stdin.Fd()); term.IsTerminal(stdin) {
		// So that a shell started this way can read from the terminal.
		cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: stdin}
	}
	if err := cmd.Start(); err != nil {
		return exitFailure, fmt.Errorf("run %s: %w", args[0], err)
	}
	group := -cmd.Process.Pid
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case got := <-signals:
			if number, ok := got.(syscall.Signal); ok {
				_ = syscall.Kill(group, number) // ended already: as wanted
			}
		case err := <-done:
			_ = syscall.Kill(group, syscall.SIGKILL) // usually nobody is left
			return exitCode(err)
		}
	}
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		return exit.ExitCode(), nil
	default:
		return exitFailure, err
	}
}
