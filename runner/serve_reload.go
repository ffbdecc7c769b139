package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// Changes is what a reload changed, as names in the order of the definitions.
type Changes struct {
	Added, Removed, Changed []string
}

// None tells whether nothing changed.
func (c Changes) None() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 }

// String says it in one line.
func (c Changes) String() string {
	if c.None() {
		return "no job changed"
	}
	return fmt.Sprintf("added %q, removed %q, changed %q", c.Added, c.Removed, c.Changed)
}

// swap is a reload as the due duty sees it.
type swap struct {
	next   *Runner
	states map[string]dibs.JobState
	done   chan struct{}
}

// errStopped answers a reload of a server that does not serve.
var errStopped = errors.New("the server does not serve any more")

// Reload replaces the definitions and says what changed. Definitions with a
// fault change nothing: the old ones stay. Runs at work go on as they were
// defined. A job that is no longer defined fires no more, and its waiting
// triggers leave the line. It waits for the database.
func (s *Server) Reload(ctx context.Context, jobs []dibs.Job) (Changes, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	old := s.runner.Load()
	next, err := old.with(jobs)
	if err != nil {
		return Changes{}, err
	}
	changes := difference(old, next)
	states, err := s.register(ctx, next)
	if err != nil {
		return Changes{}, err
	}
	load := swap{next: next, states: states, done: make(chan struct{})}
	select {
	case s.swap <- load:
		<-load.done
	case <-s.stopped:
		return Changes{}, errStopped
	case <-ctx.Done():
		return Changes{}, ctx.Err()
	}
	var faults []error
	for _, name := range changes.Removed {
		j := old.jobs[name]
		err := s.until(ctx, "retire "+j.Name, func(ctx context.Context) error {
			n, err := next.dispatch.Retire(ctx, dispatch.LockOf(&j.Job), j.Name)
			if n > 0 {
				s.log.InfoContext(ctx, "triggers of a job that is no longer defined were dropped", "job", j.Name, "triggers", n)
			}
			if err != nil {
				return err
			}
			return s.store.RetireJob(ctx, j.Name)
		})
		faults = append(faults, err)
	}
	return changes, errors.Join(faults...)
}

// with is a runner for other definitions in the same process: the same holder,
// the same register of what is in flight.
func (r *Runner) with(jobs []dibs.Job) (*Runner, error) {
	next, err := New(Config{Store: r.store, Jobs: jobs, By: r.by, Log: r.log, Observe: r.observe})
	if err != nil {
		return nil, err
	}
	next.holder, next.dispatch, next.flying = r.holder, r.dispatch, r.flying
	return next, nil
}

// difference compares definitions by their hash.
func difference(old, next *Runner) (c Changes) {
	for _, name := range next.order {
		was, known := old.jobs[name]
		switch {
		case !known:
			c.Added = append(c.Added, name)
		case was.hash != next.jobs[name].hash:
			c.Changed = append(c.Changed, name)
		}
	}
	for _, name := range old.order {
		if _, still := next.jobs[name]; !still {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}
