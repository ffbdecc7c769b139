// Command withservers starts a private PostgreSQL and a private MariaDB, runs a
// command that finds their addresses in its environment, stops both and ends
// with the command's exit code.
//
//	withservers COMMAND [ARGUMENT…]   run the command between start and stop
//	withservers -missing              print the Debian packages that are missing
//
// It must not know what the command does: it deals in servers, variables and
// exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/testdb/server"
)

const (
	exitUsage   = 2
	exitFailure = 70 // the servers, not the command
	startWait   = 90 * time.Second
)

func main() { os.Exit(run(context.Background(), os.Args[1:])) }

func run(ctx context.Context, args []string) int {
	if len(args) == 1 && args[0] == "-missing" {
		fmt.Println(strings.Join(server.MissingPackages(), " "))
		return 0
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "Usage: scripts/with-servers.sh COMMAND [ARGUMENT…]")
		return exitUsage
	}
	// Caught from the first moment: a signal during the start must not leave a
	// half-made server behind.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	code, err := between(ctx, args, signals)
	if err != nil {
		fmt.Fprintf(os.Stderr, "with-servers: %v\n", err)
		if code == 0 {
			code = exitFailure
		}
	}
	return code
}

// between runs the command between start and stop of the servers.
func between(ctx context.Context, args []string, signals chan os.Signal) (code int, err error) {
	config := server.Config{Durable: os.Getenv("DIBS_BENCH") == "1"}
	config.Folder = server.FastFolder()
	if config.Durable {
		config.Folder = server.DiskFolder()
	}
	if err := server.Sweep(); err != nil {
		fmt.Fprintf(os.Stderr, "with-servers: %v\n", err)
	}
	postgres, mariadb, err := startBoth(ctx, config, signals)
	defer func() { err = errors.Join(err, end(postgres), end(mariadb)) }()
	var ended *signalError
	switch {
	case errors.As(err, &ended):
		return 128 + int(ended.number), err
	case err != nil:
		return exitFailure, err
	}
	return runCommand(ctx, args, append(os.Environ(), variables(postgres, mariadb)...), signals)
}

// signalError says that a signal broke off the start.
type signalError struct{ number syscall.Signal }

func (e *signalError) Error() string { return "ended by the signal " + e.number.String() }

// startBoth starts the two servers side by side. A signal breaks it off.
func startBoth(ctx context.Context, config server.Config, signals chan os.Signal) (postgres, mariadb *server.Server, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, startWait, errors.New("the server took too long to start"))
	defer stop()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	started := make(chan struct{})
	go func() {
		select {
		case got := <-signals:
			number, _ := got.(syscall.Signal)
			abort(&signalError{number})
		case <-started:
		}
	}()
	var postgresErr, mariadbErr error
	var both sync.WaitGroup
	both.Go(func() { postgres, postgresErr = server.StartPostgres(ctx, config) })
	both.Go(func() { mariadb, mariadbErr = server.StartMariaDB(ctx, config) })
	both.Wait()
	close(started)
	return postgres, mariadb, errors.Join(postgresErr, mariadbErr)
}

// end stops a server and removes its folder; nil is a server that never was.
func end(s *server.Server) error {
	if s == nil {
		return nil
	}
	return errors.Join(s.Stop(), s.Remove())
}

// variables tells the command where the servers are.
func variables(postgres, mariadb *server.Server) []string {
	var list []string
	for _, one := range []struct {
		prefix string
		server *server.Server
	}{{"DIBS_TEST_POSTGRES", postgres}, {"DIBS_TEST_MYSQL", mariadb}} {
		list = append(list,
			one.prefix+"="+one.server.URL(),
			one.prefix+"_SOCKET="+one.server.Socket,
			fmt.Sprintf("%s_PID=%d", one.prefix, one.server.PID()),
			one.prefix+"_DATA="+one.server.Data,
			one.prefix+"_BIN="+one.server.Bin,
			one.prefix+"_COMMAND="+strings.Join(one.server.Command(), " "),
		)
	}
	return list
}
