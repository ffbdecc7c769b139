package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

// The exit codes. See the package comment.
const (
	exitOK          = 0
	exitUsage       = 2
	exitFailed      = 3
	exitUncertain   = 4
	exitUnavailable = 69
	exitRefused     = 75
	exitLost        = 76
)

// bodyError marks an error that came out of a command's own body; every other
// error is cobra's and says that the command was called wrongly.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// exitError carries an exit code. Without an error of its own everything has
// been said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith ends a command with a code after it has said everything itself.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// usageError is a wrong call that only a command's body can notice.
func usageError(format string, args ...any) error {
	return &misuse{fmt.Sprintf(format, args...)}
}

type misuse struct{ text string }

func (e *misuse) Error() string { return e.text }

// graver is the exit code that wins when several apply.
func graver(a, b int) int {
	order := []int{exitOK, exitRefused, exitFailed, exitUncertain, exitUsage, exitUnavailable, exitLost}
	if slices.Index(order, a) >= slices.Index(order, b) {
		return a
	}
	return b
}

// codeOf is the exit code that an error stands for.
func codeOf(err error) int {
	var (
		exit    *exitError
		bad     *misuse
		config  *dibs.ConfigError
		held    *dibs.HeldError
		refused *dibs.RefusedError
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, dibs.ErrLeaseLost):
		return exitLost
	case errors.Is(err, dibs.ErrUnavailable), errors.Is(err, dibs.ErrSchema), errors.Is(err, dibs.ErrForeign):
		return exitUnavailable
	case errors.As(err, &bad), errors.As(err, &config), errors.Is(err, dibs.ErrNotFound), errors.Is(err, dibs.ErrPoolTooSmall):
		return exitUsage
	case errors.As(err, &held), errors.As(err, &refused), errors.Is(err, dibs.ErrPaused):
		return exitRefused
	default:
		return exitUnavailable
	}
}

// finish says what went wrong and returns the exit code.
func (a *app) finish(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	var body *bodyError
	var bad *misuse
	if !errors.As(err, &body) || errors.As(err, &bad) {
		a.complain(err)
		fmt.Fprintf(a.log, "Try: %s --help\n", cmd.CommandPath())
		return exitUsage
	}
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	a.complain(body.err)
	return codeOf(body.err)
}

// complain writes each of an error's faults as a line that begins with "dibs:".
func (a *app) complain(err error) {
	for _, fault := range faultsOf(err) {
		text := strings.TrimSpace(a.opened.redact(fault.Error()))
		if errors.Is(fault, context.Canceled) && !errors.Is(fault, dibs.ErrStopping) {
			text = "stopped: " + text
		}
		fmt.Fprintf(a.log, "dibs: %s\n", text)
	}
}

// faultsOf takes errors.Join apart, so that each fault gets a line of its own.
func faultsOf(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	parts := joined.Unwrap()
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.Error()
	}
	if err.Error() != strings.Join(texts, "\n") { // a sentence made of several, not a list
		return []error{err}
	}
	var all []error
	for _, part := range parts {
		all = append(all, faultsOf(part)...)
	}
	return all
}
