package runner

import (
	"context"
	"time"

	"github.com/dibs-run/dibs"
)

// sweepEvery is how often a server looks for what dead processes left. Every
// server does, so that the last one alive does too.
const sweepEvery = 5 * time.Second

// lostLook is how many of the newest lost runs are looked at.
const lostLook = 50

// sweep records as lost what has lost its lease, whoever's it was, and brings
// the slots of lost runs back onto the agenda.
func (s *Server) sweep(ctx context.Context) error {
	seen := map[string]bool{}
	for {
		var lost []dibs.Run
		err := s.once(ctx, "sweep", func(ctx context.Context) error {
			if _, err := s.runner.Load().dispatch.Sweep(ctx); err != nil {
				return err
			}
			var err error // whoever swept them: the sweeper may not have the job
			lost, err = s.store.ListRuns(ctx, dibs.RunFilter{State: dibs.RunLost, Limit: lostLook})
			return err
		})
		if final(err) {
			return err
		}
		if err == nil {
			now := map[string]bool{}
			for _, run := range lost {
				now[run.ID] = true
				if !seen[run.ID] && !s.revive(ctx, run) {
					return nil
				}
			}
			seen = now
		}
		if !nap(ctx, pace(sweepEvery)) {
			return nil
		}
	}
}

// revive asks for a look at a job whose run for a slot was lost; false: ctx has
// ended.
func (s *Server) revive(ctx context.Context, run dibs.Run) bool {
	j, ok := s.runner.Load().jobs[run.Job]
	if !ok || j.Schedule == nil || run.Slot.IsZero() || s.only == OnlyRun {
		return true
	}
	select {
	case s.again <- due{run.Job, time.Now()}:
		return true
	case <-ctx.Done():
		return false
	}
}
