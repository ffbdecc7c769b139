package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// itemTx is what an item's Tx does: the user's writes and the item's settle in
// one transaction, outside of the batch. It is called in the handler's goroutine.
func (s *shift) itemTx(it *inHand, work string) dibs.ItemTx {
	began := time.Now()
	return func(ctx context.Context, fn func(context.Context, dibs.Tx) (dibs.Receipt, error)) error {
		if !s.mayTx(it) {
			return fmt.Errorf("item %s: %w", it.held.Key, dibs.ErrLeaseLost)
		}
		st := s.settlement(it, dibs.OutcomeCompleted, "")
		st.Change = policy.Change(dibs.OutcomeCompleted, dibs.Verdict{Outcome: dibs.OutcomeCompleted}, s.row(it), roll(), "")
		st.Record.WorkID = work
		s.withEffect(it, &st, false)
		var receipt dibs.Receipt
		st.Work = func(ctx context.Context, tx dibs.Tx) (r dibs.Receipt, err error) {
			s.setStage(it, settling, running) // it may be repeated: renewals go on meanwhile
			if r, err = fn(ctx, tx); err != nil {
				return r, err
			}
			if s.job.ReceiptRequired && r.ID == "" {
				return r, errNoReceipt
			}
			if !s.setStage(it, running, settling) {
				return r, dibs.ErrLeaseLost
			}
			st.Record.Took, receipt = time.Since(began), r
			return r, nil
		}
		if err := s.commitTx(ctx, st); err != nil {
			s.setStage(it, settling, running)
			return err
		}
		st.Record.ReceiptID = receipt.ID
		s.mu.Lock()
		it.done = &st
		s.mu.Unlock()
		return nil
	}
}

// mayTx tells whether a handler that runs may still complete its item.
func (s *shift) mayTx(it *inHand) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return it.stage == running && it.done == nil && it.until.left(time.Now()) > 0
}

// setStage moves an item from one stage to another; false: it was in neither.
func (s *shift) setStage(it *inHand, from, to stage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.stage == from {
		it.stage = to
	}
	return it.stage == to
}

// commitTx settles, repeating a commit whose answer was lost: settling twice is
// success, and the user's writes are not made twice.
func (s *shift) commitTx(ctx context.Context, st dibs.Settlement) error {
	limit := s.job.timing.beat / 2
	if limit == 0 {
		limit = s.job.timing.lease - s.job.timing.margin
	}
	for {
		got, err := s.claims.Settle(ctx, dibs.SettleRequest{Items: []dibs.Settlement{st}, WorkLimit: limit})
		switch {
		case errors.Is(err, dibs.ErrUnanswered) && ctx.Err() == nil:
			continue
		case err != nil:
			return withCause(ctx, err)
		case got[0].Err != nil:
			return withCause(ctx, got[0].Err)
		case !got[0].OK:
			return fmt.Errorf("item %s: %w", st.Held.Key, dibs.ErrLeaseLost)
		}
		return nil
	}
}

// concludeTx books an item that its handler has completed in a transaction.
func (s *shift) concludeTx(it *inHand, res dibs.Result) {
	if res.Err != nil {
		s.r.log.Warn("the item was completed in its transaction; what its handler returned after that changes nothing", "job", s.job.Name, "run", s.run.ID, "key", it.held.Key.String(), "err", res.Err)
	}
	s.settled([]*inHand{it}, []dibs.Settlement{*it.done}, []dibs.Settled{{OK: true}})
}

// errNoReceipt is the outcome of a handler that says done without the proof that
// the job requires.
var errNoReceipt = errors.New("done, but without the destination's ID that receipt: required asks for")
