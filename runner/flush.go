package runner

import (
	"context"
	"errors"

	"github.com/dibs-run/dibs"
)

// flush is a settle that runs beside the next claim.
type flush struct {
	items       []*inHand
	settlements []dibs.Settlement
	got         []dibs.Settled
	err         error
}

// flushBeside settles what waits on a connection of its own while the
// coordinator claims the next batch: the two are the same length, so this nearly
// doubles what one run can do. A few outcomes go along with the claim instead,
// since a transaction of their own would cost more; and so do all of them where
// the database has only one writer.
func (s *shift) flushBeside(ctx context.Context) {
	if s.flushing || s.claims.OneWriter() || 2*len(s.pending) < s.job.Batch {
		return
	}
	settlements, items := s.settleNow()
	s.flushing = true
	go func() {
		f := flush{items: items, settlements: settlements}
		dbCtx, cancel := s.dbContext(ctx)
		defer cancel()
		for {
			f.got, f.err = s.claims.Settle(dbCtx, dibs.SettleRequest{Run: s.run.Ref(), Items: settlements, Beside: true})
			if !errors.Is(f.err, dibs.ErrUnanswered) || dbCtx.Err() != nil {
				break // settling twice is success
			}
		}
		s.flushed <- f
	}()
}

// takeFlush reads the answer of a settle that ran beside a claim.
func (s *shift) takeFlush(ctx context.Context, f flush) {
	s.flushing = false
	if f.err == nil {
		s.settled(f.items, f.settlements, f.got)
		return
	}
	s.r.log.ErrorContext(ctx, "outcomes could not be recorded; their leases will heal them",
		"job", s.job.Name, "run", s.run.ID, "items", len(f.items), "err", f.err)
	s.unsettled(f.items, f.settlements)
}

// joinFlush waits for a settle that still runs beside.
func (s *shift) joinFlush(ctx context.Context) {
	if s.flushing {
		s.takeFlush(ctx, <-s.flushed)
	}
}
