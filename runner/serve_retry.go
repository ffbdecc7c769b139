package runner

import (
	"context"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// Paces of the look for items that are due again: each job with items in turn,
// every retryEvery, and never faster than retryGap.
const (
	retryEvery = 10 * time.Second
	retryGap   = 20 * time.Millisecond
	tableEvery = 10 * time.Minute
)

// retry fires the one retry of each job whose failed or expired items are due.
func (s *Server) retry(ctx context.Context) error {
	swept := map[string]time.Time{}
	for {
		r := s.runner.Load()
		began := time.Now()
		for _, name := range r.order {
			j := r.jobs[name]
			if j.table == nil || !r.mayRun(j) {
				continue
			}
			if err := s.retryOne(ctx, r, j, swept); final(err) {
				return err
			}
			if !nap(ctx, retryGap) {
				return nil
			}
		}
		if !nap(ctx, max(pace(retryEvery)-time.Since(began), retryGap)) {
			return nil
		}
	}
}

// retryOne looks, without locks, whether anything of the job is due again, and
// fires if so. Now and then it also repairs what no claim can pick up.
func (s *Server) retryOne(ctx context.Context, r *Runner, j *job, swept map[string]time.Time) error {
	due := false
	err := s.once(ctx, "look for retries of "+j.Name, func(ctx context.Context) error {
		claims, err := r.open(ctx, j)
		if err != nil {
			return err
		}
		if now := time.Now(); now.Sub(swept[j.Name]) >= tableEvery {
			if err := r.sweepTable(ctx, j, claims); err != nil {
				return err
			}
			swept[j.Name] = now
		}
		due, err = r.retryDue(ctx, j, claims)
		return err
	})
	if err != nil || !due || len(s.slots) == cap(s.slots) {
		return err
	}
	_, err = s.start(ctx, r, "retry "+j.Name, func(ctx context.Context, able dispatch.Able) (dispatch.Fired, error) {
		if able == nil {
			return dispatch.Fired{}, nil
		}
		return r.dispatch.Fire(ctx, dispatch.Request{
			Job: &j.Job, Hash: j.hash, Origin: dibs.OriginRetry, Kind: j.kind(), Lease: j.timing.lease,
			By: r.by, Able: able, RetryDue: true,
		})
	})
	return err
}
