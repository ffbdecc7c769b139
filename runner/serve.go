package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs"
)

// Only splits a server into its two halves.
type Only string

// The halves of a server.
const (
	Both         Only = ""         // decide what is due, and run it
	OnlySchedule Only = "schedule" // decide what is due; others run it
	OnlyRun      Only = "run"      // run what waits and what is due again
)

// ServeConfig makes a Server.
type ServeConfig struct {
	// Config is the runner's: store, jobs, log.
	Config
	// Only leaves one half out. Default: both.
	Only Only
	// MaxRuns bounds the runs at work in this process at once; beyond it triggers
	// wait for whoever is free. Default 16.
	MaxRuns int
	// Wake, if set, shortens the wait for waiting triggers: something was
	// received on it when another process left one. Nothing depends on it.
	Wake <-chan struct{}
	// Pulse and Alive prove that the server's loop turns: Alive is called by it
	// every Pulse. It must be quick. Zero: never.
	Pulse time.Duration
	Alive func()
	// Ready is called once, when every job is registered and the duties have
	// begun.
	Ready func()
	// Prune removes a small bite of old history and tells whether there is more.
	// Nil: nothing is pruned.
	Prune func(ctx context.Context) (more bool, err error)
}

// Defaults and paces of a server.
const (
	defaultMaxRuns = 16
	deciders       = 4                // decisions on their way to the database at once
	callFor        = 15 * time.Second // one call, while the database is away
	lastWords      = 5 * time.Second  // a call that is under way when the server stops
)

// Server is scheduler and runner in one process: it decides slots when they are
// due, runs what it decided, takes over what waits, retries what failed, and
// sweeps up what dead processes left. Any number of servers, ticks and outside
// schedulers may work on one database: each decision is made in the database.
//
// The methods are safe for concurrent use.
type Server struct {
	only  Only
	log   *slog.Logger
	store dibs.Store
	prune func(context.Context) (bool, error)
	wake  <-chan struct{}
	pulse time.Duration
	alive func()
	ready func()

	runner atomic.Pointer[Runner] // as of the last reload

	slots   chan struct{} // one for each run at work
	freed   chan struct{} // a slot has come free, or a lock may have
	again   chan due      // a job to be looked at, from any duty to the due duty
	swap    chan swap     // a reload on its way to the due duty
	offset  atomic.Int64  // nanoseconds from this process's clock to the database's
	outages outages       // so that one outage is told once
	started atomic.Bool
	stopped chan struct{} // closed when Serve has begun to return

	reloading sync.Mutex // one reload at a time

	// starting is held for reading from the moment a run is asked for until it is
	// in known, so that whoever holds it for writing sees every run of this
	// process whose start was answered.
	starting sync.RWMutex
	mu       sync.Mutex
	known    map[string]bool // runs at work here, by ID; guarded by mu
	work     sync.WaitGroup  // runs
}

// NewServer checks the configuration. It does not connect.
func NewServer(c ServeConfig) (*Server, error) {
	var faults []error
	switch c.Only {
	case Both, OnlySchedule, OnlyRun:
	default:
		faults = append(faults, &dibs.ConfigError{Subject: "serve", Field: "only", Problem: fmt.Sprintf("%q is no half of a server", c.Only), Fix: "use schedule or run, or leave it out"})
	}
	if c.MaxRuns < 0 || c.Pulse < 0 {
		faults = append(faults, &dibs.ConfigError{Subject: "serve", Field: "max_runs", Problem: "a limit is negative", Fix: "use a positive one, or leave it out"})
	}
	r, err := New(c.Config)
	if err = errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	if c.MaxRuns == 0 {
		c.MaxRuns = defaultMaxRuns
	}
	s := &Server{
		only: c.Only, log: r.log, store: c.Store, prune: c.Prune, wake: c.Wake, pulse: c.Pulse, alive: c.Alive, ready: c.Ready,
		slots: make(chan struct{}, c.MaxRuns), freed: make(chan struct{}, 1),
		again: make(chan due), swap: make(chan swap), stopped: make(chan struct{}), known: map[string]bool{},
	}
	if s.alive == nil {
		s.pulse = 0
	}
	s.runner.Store(r)
	return s, nil
}

// Serve is [NewServer] and [Server.Serve] in one.
func Serve(ctx context.Context, c ServeConfig) error {
	s, err := NewServer(c)
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}

// Holder is this process, as leases name it.
func (s *Server) Holder() dibs.Holder { return s.runner.Load().holder }

// Serve works until ctx ends, and then stops in order: nothing more is decided
// or taken, running handlers have their job's grace, what was not started is
// given back, and renewals end last. The answer is nil then. A database that is
// away for a while is waited for; one that may not be used, as a restored copy,
// ends it with an error. It may be called once.
func (s *Server) Serve(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("serve: a server serves once")
	}
	defer close(s.stopped)
	parent := ctx
	group, ctx := errgroup.WithContext(ctx)
	release, states, err := s.open(ctx)
	if err != nil {
		return stopOf(parent, err)
	}
	defer release()
	decide := make(chan string)
	group.Go(func() error { return s.due(ctx, states, decide) })
	for range deciders {
		group.Go(func() error { return s.decide(ctx, decide) })
	}
	group.Go(func() error { return s.sweep(ctx) })
	if s.only != OnlySchedule {
		group.Go(func() error { return s.waiting(ctx) })
		group.Go(func() error { return s.retry(ctx) })
	}
	if s.prune != nil {
		group.Go(func() error { return s.pruning(ctx) })
	}
	if s.ready != nil {
		s.ready()
	}
	err = group.Wait()
	if n := len(s.slots); n > 0 {
		s.log.InfoContext(parent, "stopping: waiting for runs", "runs", n)
	}
	s.work.Wait()
	return stopOf(parent, err)
}

// stopOf forgives what only says that the server was asked to stop.
func stopOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// open waits for the database, reserves the connection for renewals, registers
// every job and reads what is known of them.
func (s *Server) open(ctx context.Context) (release func(), states map[string]dibs.JobState, err error) {
	err = s.until(ctx, "reserve a connection", func(ctx context.Context) error {
		release, err = s.store.Reserve(ctx)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if states, err = s.register(ctx, s.runner.Load()); err != nil {
		release()
		return nil, nil, err
	}
	s.reportUndefined(ctx, states)
	return release, states, nil
}

// reportUndefined says which jobs of the database nobody fires here: another
// program may, or they were left out of the file.
func (s *Server) reportUndefined(ctx context.Context, states map[string]dibs.JobState) {
	r := s.runner.Load()
	var names []string
	for name, state := range states {
		if _, defined := r.jobs[name]; !defined && state.RetiredAt.IsZero() {
			names = append(names, name)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		s.log.InfoContext(ctx, "the database has jobs that are not defined here: nobody fires them here", "jobs", names)
	}
}

// register tells the database of every job that it does not know as it is,
// waiting for it if need be, and says what is known of them then.
func (s *Server) register(ctx context.Context, r *Runner) (map[string]dibs.JobState, error) {
	states, err := s.states(ctx)
	if err != nil {
		return nil, err
	}
	var records []dibs.JobRecord
	for _, name := range r.order {
		if j := r.jobs[name]; states[j.Name].Definition != j.hash || !states[j.Name].RetiredAt.IsZero() {
			records = append(records, dibs.JobRecord{Name: j.Name, Hash: j.hash, Text: j.text})
		}
	}
	for bite := range slices.Chunk(records, registerBite) {
		err := s.until(ctx, "register the jobs", func(ctx context.Context) error { return s.store.Register(ctx, bite) })
		if err != nil {
			return nil, err
		}
	}
	if len(records) == 0 {
		return states, nil
	}
	return s.states(ctx)
}

// registerBite is how many jobs one transaction registers.
const registerBite = 200

// until repeats a call until the database answers.
func (s *Server) until(ctx context.Context, what string, call func(context.Context) error) error {
	for {
		err := s.once(ctx, what, call)
		if err == nil || ctx.Err() != nil || final(err) {
			return err
		}
		if !nap(ctx, pace(time.Second)) {
			return ctx.Err()
		}
	}
}

// once makes one call, bounded, and keeps account of outages. A call that is
// under way when ctx ends may still finish: breaking it off could lose the
// answer to its commit.
func (s *Server) once(ctx context.Context, what string, call func(context.Context) error) error {
	bounded, cancel := linger(ctx, callFor, lastWords)
	defer cancel()
	err := call(bounded)
	if ctx.Err() == nil {
		s.outages.note(s.log, what, err)
	}
	return err
}

// linger is a context that ends after a time, or a shorter time after its
// parent.
func linger(parent context.Context, limit, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), limit)
	stop := context.AfterFunc(parent, func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}

// final tells whether an error stays whatever one waits for.
func final(err error) bool {
	return errors.Is(err, dibs.ErrForeign) || errors.Is(err, dibs.ErrSchema) || errors.Is(err, dibs.ErrPoolTooSmall)
}

// nap waits; false: ctx ended first.
func nap(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// pace spreads a pause over a quarter of its length, so that servers started
// together do not ask together.
func pace(d time.Duration) time.Duration {
	return d - time.Duration(roll()*float64(d)/4)
}

// outages tells of the database's absence once, and of its return.
type outages struct {
	mu    sync.Mutex
	since time.Time
}

func (o *outages) note(log *slog.Logger, what string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil && !o.since.IsZero():
		log.Info("the database answers again", "after", time.Since(o.since).Round(time.Millisecond))
		o.since = time.Time{}
	case err == nil:
	case !errors.Is(err, dibs.ErrUnavailable) && !errors.Is(err, dibs.ErrUnanswered) && !errors.Is(err, context.DeadlineExceeded):
		log.Error("could not "+what, "err", err)
	case o.since.IsZero():
		o.since = time.Now()
		log.Warn("the database does not answer; asking again until it does", "what", what, "err", err)
	}
}
