package runner

import (
	"context"

	"github.com/dibs-run/dibs"
)

// DefaultBreaker is [dibs.Job.Breaker]'s default.
const DefaultBreaker = 10

// recall looks how the job's last run ended: when its destination was down, this
// run first probes with one item.
func (s *shift) recall(ctx context.Context) error {
	if s.claims == nil || s.breaker() <= 0 {
		return nil
	}
	runs, err := s.r.store.ListRuns(ctx, dibs.RunFilter{Job: s.job.Name, Limit: 5})
	if err != nil {
		s.r.log.WarnContext(ctx, "could not look how the last run ended", "job", s.job.Name, "err", err)
		return nil
	}
	for _, run := range runs {
		if run.ID == s.run.ID || run.State == dibs.RunRunning {
			continue
		}
		s.probing = run.Reason == dibs.ReasonDestination
		break
	}
	return nil
}

func (s *shift) breaker() int {
	if s.job.Breaker == 0 {
		return DefaultBreaker
	}
	return s.job.Breaker
}

// judge counts consecutive answers that the destination is down, or refuses us
// altogether, and stops claiming when there are too many: no item is to blame,
// so none spends its budget. Called by the coordinator for every answer.
func (s *shift) judge(v dibs.Verdict) {
	limit := s.breaker()
	if s.claims == nil || limit <= 0 {
		return
	}
	down := v.Stop || v.Outcome == dibs.OutcomeFailed && v.Free && v.After <= 0
	if !down {
		s.down, s.probing = 0, false
		return
	}
	s.down++
	if s.down >= limit || s.probing {
		s.beginStop(dibs.ReasonDestination)
	}
}
