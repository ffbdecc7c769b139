package runner

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/dispatch"
)

// Paces of the look at waiting triggers. A lock that gave this process nothing
// is left alone for longer each time: somebody has it, and whoever ends a run
// hands the lock on by itself.
const (
	waitingEvery = time.Second
	quietLongest = 8 * time.Second
)

// quiet is how long a lock is left alone.
type quiet struct {
	until time.Time
	for_  time.Duration
}

// waiting looks for triggers that wait for anybody, and runs them. It polls: a
// signal from elsewhere only shortens the wait.
func (s *Server) waiting(ctx context.Context) error {
	left := map[string]quiet{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.wake:
			clear(left)
		case <-s.freed:
			clear(left)
		}
		if err := s.pump(ctx, left); final(err) {
			return err
		}
		timer.Reset(pace(waitingEvery))
	}
}

// pump looks once after every lock with waiting triggers.
func (s *Server) pump(ctx context.Context, left map[string]quiet) error {
	var locks []string
	err := s.once(ctx, "look for waiting triggers", func(ctx context.Context) (err error) {
		locks, err = s.runner.Load().dispatch.WaitingLocks(ctx)
		return err
	})
	if err != nil {
		return err
	}
	now := time.Now()
	still := map[string]bool{}
	for _, lock := range locks {
		still[lock] = true
		if now.Before(left[lock].until) {
			continue
		}
		if len(s.slots) == cap(s.slots) {
			return nil // a run's end wakes this duty
		}
		ran, err := s.pumpLock(ctx, lock)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if ran {
			delete(left, lock)
			continue
		}
		q := quiet{for_: min(max(2*left[lock].for_, waitingEvery), quietLongest)}
		q.until = now.Add(pace(q.for_))
		left[lock] = q
	}
	for lock := range left {
		if !still[lock] {
			delete(left, lock)
		}
	}
	return nil
}

// pumpLock gives a free lock to the head of its line, which runs here if it may.
func (s *Server) pumpLock(ctx context.Context, lock string) (ran bool, err error) {
	r := s.runner.Load()
	fired, err := s.start(ctx, r, "look after a lock", func(ctx context.Context, able dispatch.Able) (dispatch.Fired, error) {
		return r.dispatch.Pump(ctx, lock, able)
	})
	return fired.Run != nil, err
}
