package dispatch

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs"
)

// Retire takes the waiting triggers of a job that is no longer defined out of
// the line of its lock, and says how many there were. Those of waiters stay:
// their processes have a definition of their own.
func (d *Dispatcher) Retire(ctx context.Context, lock, job string) (int, error) {
	n := 0
	err := d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
		n = 0
		s, err := d.sit(ctx, desk, lock, "")
		if err != nil {
			return err
		}
		var kept []dibs.Trigger
		for _, t := range s.waiting {
			if t.Job != job || !t.Anybody() {
				kept = append(kept, t)
				continue
			}
			t.Decision, t.Reason = dibs.DecisionMissed, dibs.ReasonRetired
			t.Detail = "the job is no longer defined"
			if err := desk.PutTrigger(ctx, t); err != nil {
				return err
			}
			n++
		}
		s.waiting = kept
		_, err = s.grant(ctx, nil)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("retire %s: %w", job, err)
	}
	return n, nil
}
