package runner

import (
	"context"
	"errors"

	"github.com/dibs-run/dibs"
)

// flush is one settle and its answer.
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
	if s.claims.OneWriter() || 2*len(s.pending) < s.job.Batch {
		return
	}
	s.joinFlush(ctx) // the last one is nearly done; going along with the claim would take longer
	settlements, items := s.settleNow()
	s.flushing = true
	go func() { s.flushed <- s.write(ctx, flush{items: items, settlements: settlements}, true) }()
}

// write settles, repeating until an answer has come or the leases are no longer
// believed: settling twice is success.
func (s *shift) write(ctx context.Context, f flush, beside bool) flush {
	dbCtx, cancel := s.dbContext(ctx)
	defer cancel()
	req := dibs.SettleRequest{Run: s.run.Ref(), Progress: s.progress(), Items: f.settlements, Beside: beside}
	for {
		f.got, f.err = s.claims.Settle(dbCtx, req)
		if !errors.Is(f.err, dibs.ErrUnanswered) || dbCtx.Err() != nil {
			return f
		}
	}
}

// book reads the answer of a settle.
func (s *shift) book(ctx context.Context, f flush) {
	if f.err == nil {
		s.settled(f.items, f.settlements, f.got)
		return
	}
	s.r.log.ErrorContext(ctx, "outcomes could not be recorded; their leases will heal them",
		"job", s.job.Name, "run", s.run.ID, "items", len(f.items), "err", f.err)
	s.unsettled(f.items)
}

// joinFlush waits for a settle that still runs beside.
func (s *shift) joinFlush(ctx context.Context) {
	if s.flushing {
		s.takeFlush(ctx, <-s.flushed)
	}
}

// takeFlush books a settle that ran beside a claim.
func (s *shift) takeFlush(ctx context.Context, f flush) {
	s.flushing = false
	s.book(ctx, f)
}
