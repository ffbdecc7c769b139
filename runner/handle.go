package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/dibs-run/dibs"
)

// handOut starts handlers for queued items while slots are free. An item whose
// lease we no longer believe in is not started.
func (s *shift) handOut(handlers context.Context) error {
	if s.claims != nil && s.job.ledger {
		return s.handOutIntended(handlers)
	}
	for s.slots < s.job.Concurrency {
		unit := s.nextUnit()
		if len(unit) == 0 {
			return nil
		}
		s.startUnit(handlers, unit)
	}
	return nil
}

// nextUnit takes from the queue what one handler call gets: one item, or, for a
// batch handler, all queued items of one batch.
func (s *shift) nextUnit() []*inHand {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var unit []*inHand
	kept := s.queue[:0]
	for i, it := range s.queue {
		if it.stage != queued { // lost meanwhile
			continue
		}
		wanted := len(unit) == 0 || s.job.HandleBatch != nil && it.batch == unit[0].batch
		if !wanted {
			kept = append(kept, s.queue[i:]...)
			break
		}
		if it.until.isZero() || it.until.left(now) <= 0 {
			// Not proved yet, or only the wall clock says it is over: ask first.
			kept = append(kept, it)
			poke(s.nudge)
			continue
		}
		it.stage = running
		unit = append(unit, it)
	}
	s.queue = kept
	return unit
}

// startUnit runs one handler call in a goroutine of its own. Its answer always
// arrives on results, which has room for every slot.
func (s *shift) startUnit(handlers context.Context, unit []*inHand) {
	ctx, cancel := context.WithCancelCause(handlers)
	items := make([]dibs.Item, 0, len(unit))
	work := make([]string, 0, len(unit))
	good := unit[:0]
	for _, it := range unit {
		item, err := s.item(it, cancel)
		if err != nil { // one unreadable row fails alone
			s.conclude(it, dibs.Result{Err: dibs.Reject(err)}, item.WorkID, 0)
			continue
		}
		good, items, work = append(good, it), append(items, item), append(work, item.WorkID)
	}
	if unit = good; len(unit) == 0 {
		cancel(nil)
		return
	}
	s.slots++
	keys := make([]string, len(unit))
	for i, it := range unit {
		keys[i] = s.flyingKey(it.held.Key)
		s.r.flying.Store(keys[i], s.run.ID)
	}
	go func() {
		defer cancel(nil)
		began := time.Now()
		results := s.call(ctx, cancel, items)
		for _, k := range keys {
			s.r.flying.CompareAndDelete(k, s.run.ID)
		}
		s.results <- answer{items: unit, results: results, work: work, took: time.Since(began)}
	}()
}

// call runs the handler under its time limit and contains whatever it does. A
// time-out asks it to stop; the slot and the lease stay until it has.
func (s *shift) call(ctx context.Context, cancel context.CancelCauseFunc, items []dibs.Item) (results []dibs.Result) {
	if limit := s.job.Timeout; limit > 0 {
		timer := time.AfterFunc(limit, func() { cancel(dibs.ErrTimeout) })
		defer timer.Stop()
		for i := range items {
			items[i].Deadline = time.Now().Add(limit)
		}
	}
	results = make([]dibs.Result, len(items))
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("handler panicked: %v\n%s", p, debug.Stack())
			for i := range results {
				results[i] = dibs.Result{Err: err}
			}
		}
		for i := range results {
			results[i].Err = withCause(ctx, results[i].Err)
		}
	}()
	if s.job.HandleBatch == nil {
		receipt, err := s.job.Handle(ctx, items[0])
		results[0] = dibs.Result{Receipt: receipt, Err: err}
		return results
	}
	got, err := s.job.HandleBatch(ctx, items)
	if err == nil && len(got) < len(items) {
		err = fmt.Errorf("handler answered for %d of %d items", len(got), len(items))
	}
	for i := range results {
		if i < len(got) {
			results[i] = got[i]
			continue
		}
		results[i] = dibs.Result{Err: err}
	}
	return results
}

// withCause says why the context ended, when that is what stopped the handler.
func withCause(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// flyingKey names a row in the process's register of running handlers.
func (s *shift) flyingKey(k dibs.Key) string { return s.job.Name + "\x00" + k.String() }

// item describes a row in hand to its handler.
func (s *shift) item(it *inHand, cancel context.CancelCauseFunc) (dibs.Item, error) {
	s.mu.Lock()
	it.cancel = cancel
	h := it.held
	s.mu.Unlock()
	item := dibs.Item{
		Job: s.job.Name, RunID: s.run.ID, Key: h.Key, Fence: h.Fence, Attempt: h.Attempts + 1, Cycle: h.Cycle,
		Payload: h.Payload, Origin: s.run.Origin, Slot: s.run.Slot, LastSuccess: h.LastSuccess,
		Concurrent: h.Prior.Expired(), Previous: s.run.Previous,
	}
	if s.rec != nil {
		item.Slot = s.rec.by[h.Token].Slot
	} else {
		s.window(&item)
	}
	if h.Prior.Expired() && h.Prior.Token != "" {
		item.Previous = "lost:" + h.Prior.Token.Run()
	}
	if h.Problem != "" {
		return item, fmt.Errorf("the row could not be read: %s", h.Problem)
	}
	if s.claims == nil {
		id, err := s.job.workID(h.Key, s.lastPart())
		item.WorkID = id
		return item, err
	}
	id, err := s.workID(h)
	item.WorkID = id
	return item.WithTx(s.itemTx(it, id)), err
}

// lastPart is what tells one action of a job without rows from the next.
func (s *shift) lastPart() string {
	switch {
	case !s.run.Slot.IsZero():
		return s.run.Slot.UTC().Format(time.RFC3339)
	case s.trigger.ExternalID != "":
		return s.trigger.ExternalID
	default:
		return s.trigger.ID
	}
}
