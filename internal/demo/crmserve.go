package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// serveCRM is the CRM as a process: it prints its address and serves until its
// standard input or ctx ends.
func serveCRM(ctx context.Context, c Config, args []string) (err error) {
	f := flag.NewFlagSet("demo crm", flag.ContinueOnError)
	f.SetOutput(c.Stderr)
	listen := f.String("listen", "127.0.0.1:0", "address to listen on")
	file := f.String("file", "crm.ndjson", "where to keep what was received")
	rules := f.String("rules", "[]", "the faults to begin with, as JSON")
	duplicates := f.Bool("duplicates", false, "make every request a note of its own")
	if err := f.Parse(args); err != nil {
		return usageError{err}
	}
	first, err := ParseRules([]byte(*rules))
	if err != nil {
		return usageError{err}
	}
	crm, err := NewCRM(CRMConfig{File: *file, Rules: first, Duplicates: *duplicates})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crm.Close()) }()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("start the CRM: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, c.Stdin) // its end is the message
	}()
	fmt.Fprintf(c.Stdout, "http://%s\n", l.Addr())
	return serve(ctx, l, crm)
}

// serve answers until ctx ends, then ends what is under way.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the CRM: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return fmt.Errorf("stop the CRM: %w", err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the CRM: %w", err)
	}
	return nil
}
