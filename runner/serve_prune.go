package runner

import (
	"context"
	"time"
)

// Paces of pruning: small bites, so that nobody waits for one.
const (
	pruneEvery = 10 * time.Minute
	pruneGap   = time.Second
)

// pruning takes bites of old history for as long as there is more.
func (s *Server) pruning(ctx context.Context) error {
	pause := pace(pruneEvery)
	for nap(ctx, pause) {
		more := false
		err := s.once(ctx, "prune", func(ctx context.Context) (err error) {
			more, err = s.prune(ctx)
			return err
		})
		if final(err) {
			return err
		}
		pause = pace(pruneEvery)
		if err == nil && more {
			pause = pruneGap
		}
	}
	return nil
}
