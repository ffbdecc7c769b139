package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// TestServeTellsOfOutagesOnce: a database that is away for a while is waited
// for, and is in the log twice: when it went and when it came back.
func TestServeTellsOfOutagesOnce(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		j := w.unit("minutely", "* * * * *", c.handle("minutely", time.Second), nil)
		var log strings.Builder
		var mu sync.Mutex
		conf := jobs(j)
		conf.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
		flaky := &flaky{Store: w.store}
		ready := make(chan struct{})
		conf.Store, conf.Ready = flaky, func() { close(ready) }
		ctx, cancel := context.WithCancel(context.Background())
		end := make(chan error, 1)
		go func() { end <- runner.Serve(ctx, conf) }()
		<-ready
		began := time.Now()
		pass(2 * time.Minute)
		flaky.away.Store(true)
		pass(5 * time.Minute)
		flaky.away.Store(false)
		pass(90 * time.Second)
		w.decided("minutely", j.Schedule, began, time.Now())
		cancel()
		if err := <-end; err != nil {
			t.Errorf("serve: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if n := strings.Count(log.String(), "does not answer"); n != 1 {
			t.Errorf("the outage was told %d times:\n%s", n, log.String())
		}
		if n := strings.Count(log.String(), "answers again"); n != 1 {
			t.Errorf("its end was told %d times:\n%s", n, log.String())
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	to *strings.Builder
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// flaky is a store whose database can be away.
type flaky struct {
	dibs.Store
	away atomic.Bool
}

func (f *flaky) refuse() error {
	if f.away.Load() {
		return fmt.Errorf("dial: %w", dibs.ErrUnavailable)
	}
	return nil
}

func (f *flaky) Decide(ctx context.Context, lock string, fn func(context.Context, dibs.Desk) error) error {
	if err := f.refuse(); err != nil {
		return err
	}
	return f.Store.Decide(ctx, lock, fn)
}

func (f *flaky) WaitingLocks(ctx context.Context, limit int) ([]string, error) {
	if err := f.refuse(); err != nil {
		return nil, err
	}
	return f.Store.WaitingLocks(ctx, limit)
}

func (f *flaky) ExpiredRuns(ctx context.Context, limit int) ([]dibs.Run, error) {
	if err := f.refuse(); err != nil {
		return nil, err
	}
	return f.Store.ExpiredRuns(ctx, limit)
}

// TestServeAdoptsItsUnansweredRun: the start of a run was committed and the
// answer lost; the run is found by its holder and worked, once.
func TestServeAdoptsItsUnansweredRun(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		j := w.unit("often", "*/6 * * * *", c.handle("often", time.Second), nil)
		conf := jobs(j)
		mute := &mute{Store: w.store}
		ready := make(chan struct{})
		conf.Store, conf.Ready = mute, func() { close(ready) }
		ctx, cancel := context.WithCancel(context.Background())
		end := make(chan error, 1)
		go func() { end <- runner.Serve(ctx, conf) }()
		<-ready
		pass(time.Until(time.Now().Truncate(sixMinutes).Add(sixMinutes)) + 30*time.Second)
		cancel()
		if err := <-end; err != nil {
			t.Errorf("serve: %v", err)
		}
		if n := c.count("often"); n != 1 || !slices.Equal(mute.lost, []string{"often"}) {
			t.Errorf("ran %d times; lost answers: %q", n, mute.lost)
		}
		w.want("succeeded", "SELECT state FROM dibs_runs")
	})
}

// mute loses the answer to the first decision that starts a run.
type mute struct {
	dibs.Store
	mu   sync.Mutex
	lost []string
}

func (m *mute) Decide(ctx context.Context, lock string, fn func(context.Context, dibs.Desk) error) error {
	if err := m.Store.Decide(ctx, lock, fn); err != nil {
		return err
	}
	runs, err := m.ListRuns(ctx, dibs.RunFilter{State: dibs.RunRunning, Limit: 1})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(runs) == 1 && m.lost == nil {
		m.lost = append(m.lost, lock)
		return fmt.Errorf("commit: %w", dibs.ErrUnanswered)
	}
	return nil
}
