package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs"
)

// markGone ends a run whose holder has provably ended, although its lease has
// not. False: somebody else ended it first.
func (d *Dispatcher) markGone(ctx context.Context, desk dibs.Desk, run dibs.Run) (bool, error) {
	err := desk.EndRun(ctx, dibs.RunEnd{
		Run: run.Ref(), State: dibs.RunLost, Reason: dibs.ReasonHolderGone, Counts: run.Counts,
		Error: "its process has ended without recording an outcome",
	})
	switch {
	case errors.Is(err, dibs.ErrStaleFence):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("take over from run %s: %w", run.ID, err)
	}
	return true, nil
}
