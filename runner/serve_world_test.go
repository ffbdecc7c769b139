package runner_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/schedule"
)

// sixMinutes is the distance of slots of "*/6 * * * *": short, since every
// second of virtual time costs a few statements.
const sixMinutes = 6 * time.Minute

// every is a schedule in UTC.
func every(t *testing.T, expr string) dibs.Scheduler {
	t.Helper()
	s, err := schedule.ParseExpr(expr, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// calls counts the runs of jobs, and how many were at work at once.
type calls struct {
	mu        sync.Mutex
	of        map[string]int
	now, most int
}

// handle makes a handler that takes a while.
func (c *calls) handle(name string, takes time.Duration) dibs.Handle {
	return func(ctx context.Context, _ dibs.Item) (dibs.Receipt, error) {
		c.mu.Lock()
		if c.of == nil {
			c.of = map[string]int{}
		}
		c.of[name]++
		c.now++
		c.most = max(c.most, c.now)
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.now--
			c.mu.Unlock()
		}()
		select {
		case <-time.After(takes):
			return dibs.Receipt{}, nil
		case <-ctx.Done():
			return dibs.Receipt{}, context.Cause(ctx)
		}
	}
}

func (c *calls) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[name]
}

// unit is a job without items.
func (w *world) unit(name, expr string, h dibs.Handle, change func(*dibs.Job)) dibs.Job {
	j := dibs.Job{Name: name, Overlap: dibs.Skip, Schedule: every(w.t, expr), Handle: h}
	if change != nil {
		change(&j)
	}
	return j
}

// serving is a server at work.
type serving struct {
	*runner.Server
	stop func() error
}

// serve starts a server; stop ends it and gives its error.
func (w *world) serve(c runner.ServeConfig) serving {
	w.t.Helper()
	c.Store, c.Observe = w.store, w.observe
	ready := make(chan struct{})
	c.Ready = func() { close(ready) }
	s, err := runner.NewServer(c)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	<-ready
	stop := sync.OnceValue(func() error {
		cancel(dibs.ErrStopping)
		return <-done
	})
	w.t.Cleanup(func() { _ = stop() }) // after a Fatal
	return serving{s, stop}
}

func jobs(list ...dibs.Job) runner.ServeConfig {
	return runner.ServeConfig{Config: runner.Config{Jobs: list}}
}

// end stops servers and wants no error.
func (w *world) end(list ...serving) {
	w.t.Helper()
	for _, s := range list {
		if err := s.stop(); err != nil {
			w.t.Errorf("serve: %v", err)
		}
	}
}

// decided wants every slot of a job in a span to have exactly one owner.
func (w *world) decided(job string, sched dibs.Scheduler, after, upTo time.Time) {
	w.t.Helper()
	list, err := w.store.ListTriggers(context.Background(), dibs.TriggerFilter{Job: job, Limit: 100_000})
	if err != nil {
		w.t.Fatal(err)
	}
	owners := map[int64]int{}
	for _, t := range list {
		switch {
		case !t.OwnsSlot:
		case t.Missed > 1:
			for at := t.Covered[0]; !at.After(t.Slot); at, _ = sched.Next(at) {
				owners[at.Unix()]++
			}
		default:
			owners[t.Slot.Unix()]++
		}
	}
	for at, ok := sched.Next(after); ok && !at.After(upTo); at, ok = sched.Next(at) {
		if n := owners[at.Unix()]; n != 1 {
			w.t.Errorf("%s: slot %s was decided %d times", job, at.UTC().Format(time.TimeOnly), n)
		}
	}
}
