package demo

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Config is what the demo needs of the program that it shows.
type Config struct {
	// Args are the arguments after "demo": flags, or one of the two hidden
	// commands that the demo starts as processes of their own (crm, gate).
	Args []string
	// Stdin is read by the hidden commands alone: they end when it ends.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Executable is the program's file. Default: the running one.
	Executable string
	// Open opens a SQLite file that exists or is made. Required.
	Open func(ctx context.Context, path string) (*sql.DB, error)
}

// The exit codes, as the program's other commands have them.
const (
	exitOK      = 0
	exitUsage   = 2
	exitFailed  = 3
	exitRefused = 75
)

// Main runs the demo and returns an exit code: 0 when everything that it promises
// was seen to be so. When ctx ends it stops its processes and returns.
func Main(ctx context.Context, c Config) int {
	if c.Executable == "" {
		path, err := os.Executable()
		if err != nil {
			return complain(c.Stderr, fmt.Errorf("find this program's file: %w", err))
		}
		c.Executable = path
	}
	var err error
	switch {
	case len(c.Args) > 0 && c.Args[0] == "crm":
		err = serveCRM(ctx, c, c.Args[1:])
	case len(c.Args) > 0 && c.Args[0] == "gate":
		return gate(c, c.Args[1:])
	default:
		err = play(ctx, c)
	}
	return complain(c.Stderr, err)
}

// usageError is a fault of the arguments.
type usageError struct{ error }

// complain writes an error and finds its exit code.
func complain(w io.Writer, err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	fmt.Fprintf(w, "dibs: demo: %v\n", err)
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

// options are the flags of the demo itself.
type options struct {
	keep bool
	dir  string
}

func readOptions(c Config) (options, error) {
	var o options
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(c.Stderr)
	f.BoolVar(&o.keep, "keep", false, "keep the files, in ./demo-… of the working folder")
	f.StringVar(&o.dir, "dir", "", "keep the files in this folder, which must not exist")
	if err := f.Parse(c.Args); err != nil {
		return o, usageError{err}
	}
	if f.NArg() > 0 {
		return o, usageError{fmt.Errorf("%q: the demo takes no arguments", f.Arg(0))}
	}
	return o, nil
}

// play sets the stage, runs the script, and clears up.
func play(ctx context.Context, c Config) (err error) {
	o, err := readOptions(c)
	if err != nil {
		return err
	}
	if c.Open == nil {
		return errors.New("this program brings no SQLite driver")
	}
	if !gatesWork {
		return errors.New("the demo needs a Unix system: it kills a process and starts five at the same instant")
	}
	st, err := newStage(ctx, c, o)
	if err != nil {
		return err
	}
	p := newPrinter(c.Stdout)
	s := &script{stage: st, out: p}
	err = s.run(ctx)
	if ctx.Err() != nil {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	if errClose := st.close(err != nil && ctx.Err() == nil); err == nil {
		err = errClose
	}
	if st.kept {
		p.line("")
		p.line("the files are in %s", st.dir)
	}
	return err
}

// exitCode is how a process ended, in the way of shells: 128+n for signals.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit):
		return codeOf(exit.ProcessState), nil
	}
	return 0, err
}
