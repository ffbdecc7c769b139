// Command dibs gives each piece of scheduled work to exactly one run.
//
// It is the wiring: it links the database drivers and hands the command line to
// package cli. Nothing else in this module imports a driver.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // a container may have no zones of its own

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/cli"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	stopOnSignal(cancel)
	os.Exit(cli.Main(ctx, program(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// program is this command as package cli sees it.
func program() cli.Program {
	return cli.Program{Name: "dibs", Version: versionText(), Open: open, OpenSQLite: openSQLiteFile}
}

// stopOnSignal asks running work to stop at the first INT or TERM. The second
// one ends the process as if nobody listened.
func stopOnSignal(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // not Reset: a wrapped command has its own listener
		cancel(dibs.ErrStopping)
	}()
}
