package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// take receives a handler's answer and makes settlements of it.
func (s *shift) take(a answer) {
	s.slots--
	s.takeAnswer(a)
	for { // whatever else has arrived goes into the same flush
		select {
		case more := <-s.results:
			s.slots--
			s.takeAnswer(more)
		default:
			return
		}
	}
}

func (s *shift) takeAnswer(a answer) {
	if a.looked != nil {
		s.takeLooked(a)
		return
	}
	for i, it := range a.items {
		s.conclude(it, a.results[i], a.work[i], a.took)
	}
}

// conclude turns one result into a settlement.
func (s *shift) conclude(it *inHand, res dibs.Result, work string, took time.Duration) {
	if it.done != nil {
		s.concludeTx(it, res)
		return
	}
	if s.job.ReceiptRequired && res.Err == nil && res.Receipt.ID == "" {
		res.Err = errNoReceipt
	}
	v := s.verdictOf(res.Err)
	text := ""
	if res.Err != nil {
		text = res.Err.Error()
	}
	if s.claims == nil {
		s.concludeUnit(it, v, text)
		return
	}
	st := s.settlement(it, v.Outcome, text)
	if v.Outcome == dibs.OutcomeUncertain {
		st.Change = policy.Uncertain(s.row(it), s.job.lookupAfter, true, text)
	} else {
		st.Change = policy.Change(v.Outcome, v, s.row(it), roll(), text)
	}
	st.Record.WorkID, st.Record.Took = work, took
	s.judge(v)
	unknown := dibs.VerdictOf(res.Err).Outcome == dibs.OutcomeUncertain
	switch {
	case errors.Is(res.Err, errNoReceipt):
		st.Record.Reason = dibs.ReasonNoReceipt
	case v.Outcome == dibs.OutcomeHeld:
		st.Record.Reason = dibs.ReasonHold
	}
	st.Record.ReceiptID, st.Record.Evidence = receiptFields(res.Receipt)
	s.withEffect(it, &st, unknown)
	s.wait(it, st)
}

// concludeAs settles an item whose handler was not called, with an outcome that
// says why.
func (s *shift) concludeAs(it *inHand, o dibs.Outcome, res dibs.Result, work string, why dibs.Reason) {
	text := ""
	if res.Err != nil {
		text = res.Err.Error()
	}
	st := s.settlement(it, o, text)
	st.Change = policy.Change(o, dibs.Verdict{Outcome: o}, s.row(it), roll(), text)
	st.Record.WorkID, st.Record.Reason = work, why
	st.Record.ReceiptID, st.Record.Evidence = receiptFields(res.Receipt)
	s.withEffect(it, &st, false)
	s.wait(it, st)
}

// receiptFields are a receipt as records keep it.
func receiptFields(r dibs.Receipt) (string, json.RawMessage) {
	if len(r.Evidence) == 0 {
		return r.ID, nil
	}
	evidence, err := json.Marshal(r.Evidence)
	if err != nil { // a map of strings always marshals
		return r.ID, nil
	}
	return r.ID, evidence
}

// verdictOf reads a handler's error under the job's choice for unknown
// outcomes: under replay, unknown is a plain failure; under hold, a person
// decides.
func (s *shift) verdictOf(err error) dibs.Verdict {
	v := dibs.VerdictOf(err)
	if v.Outcome != dibs.OutcomeUncertain {
		return v
	}
	switch {
	case s.claims == nil || s.job.OnUncertain == dibs.Replay:
		v.Outcome = dibs.OutcomeFailed
	case s.job.OnUncertain == dibs.Hold:
		v.Outcome = dibs.OutcomeHeld
	}
	return v
}

// wait queues a settlement; an item lost meanwhile leaves only a late record.
func (s *shift) wait(it *inHand, st dibs.Settlement) {
	s.mu.Lock()
	if it.stage == gone || it.until.monotonic(time.Now()) <= 0 {
		st.LateOnly = true
		s.loseLocked(it)
	} else {
		it.stage = finished
	}
	st.Held = it.held
	s.mu.Unlock()
	if len(s.pending) == 0 {
		s.flushAt = time.Now().Add(flushAfter)
	}
	s.pending = append(s.pending, st)
	s.waiting = append(s.waiting, it)
}

func (s *shift) settlement(it *inHand, o dibs.Outcome, text string) dibs.Settlement {
	s.mu.Lock()
	h := it.held // a renewal may be writing its stamp
	s.mu.Unlock()
	return dibs.Settlement{Held: h, Outcome: o, Record: dibs.OutcomeRecord{
		Token: h.Token, Key: h.Key.String(), RunID: s.run.ID, Job: s.job.Name, Fence: h.Fence,
		Attempt: h.Attempts + 1, Outcome: o, Error: text,
	}}
}

func (s *shift) row(it *inHand) policy.Row {
	return policy.Row{
		OneShot: s.job.table.OneShot, Every: s.job.table.Every, HasQuarantine: s.claims.Table().Labels.Quarantined != "",
		Attempts: it.held.Attempts, Expirations: it.held.Expirations, Retry: s.job.Retry,
	}
}

// giveBack returns an item that was not started, exactly as it was.
func (s *shift) giveBack(it *inHand, why dibs.Reason) {
	if s.claims == nil {
		s.concludeUnit(it, dibs.Verdict{Outcome: dibs.OutcomeReleased}, string(why))
		return
	}
	st := s.settlement(it, dibs.OutcomeReleased, "")
	st.Change = dibs.RowChange{Restore: true}
	st.Record.Reason = why
	s.withEffect(it, &st, false)
	s.wait(it, st)
}

// quarantine sets aside a row whose lease has expired too often in a row.
func (s *shift) quarantine(it *inHand) {
	text := fmt.Sprintf("its lease expired %d times in a row, last under run %s: whoever runs it dies", it.held.Expirations, it.held.Prior.Token.Run())
	st := s.settlement(it, dibs.OutcomeFailed, text)
	st.Change = policy.Poison(s.row(it), text)
	st.Record.Reason = dibs.ReasonQuarantined
	s.wait(it, st)
}

// concludeUnit counts the run itself.
func (s *shift) concludeUnit(it *inHand, v dibs.Verdict, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.stage == gone {
		return
	}
	it.stage = finished
	s.counts.Add(v.Outcome, 1)
	if v.Outcome != dibs.OutcomeCompleted {
		s.unitErr = text
	}
	delete(s.hand, "")
}

// settleNow hands over everything that waits.
func (s *shift) settleNow() ([]dibs.Settlement, []*inHand) {
	settlements, items := s.pending, s.waiting
	s.pending, s.waiting = nil, nil
	s.mu.Lock()
	for _, it := range items {
		if it.stage == finished {
			it.stage = settling
		}
	}
	s.mu.Unlock()
	return settlements, items
}

// settle writes everything that waits, repeating until an answer has come or
// the leases are no longer believed.
func (s *shift) settle(ctx context.Context) {
	settlements, items := s.settleNow()
	s.settleAgain(ctx, items, settlements)
}

func (s *shift) settleAgain(ctx context.Context, items []*inHand, settlements []dibs.Settlement) {
	if len(settlements) > 0 {
		s.book(ctx, s.write(ctx, flush{items: items, settlements: settlements}, false))
	}
}

// unsettled gives up on outcomes that could not be written.
func (s *shift) unsettled(items []*inHand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range items {
		if it.stage != gone {
			s.loseLocked(it)
		}
	}
}

// settled reads the store's answers and counts.
func (s *shift) settled(items []*inHand, settlements []dibs.Settlement, got []dibs.Settled) {
	var events []Event
	s.mu.Lock()
	for i, it := range items {
		st := settlements[i]
		delete(s.hand, handKey(it.held))
		switch {
		case it.stage == gone: // counted when it was lost
		case got[i].Err != nil:
			s.r.log.Error("an outcome was refused by the database; its lease will heal it", "job", s.job.Name, "run", s.run.ID, "key", it.held.Key.String(), "err", got[i].Err)
			s.loseLocked(it)
		case got[i].Late || !got[i].OK:
			s.loseLocked(it)
		default:
			if got[i].EffectLost {
				s.r.log.Warn("an item's effect was no longer this run's: its state is left to whoever has it", "job", s.job.Name, "run", s.run.ID, "key", it.held.Key.String(), "work_id", st.Record.WorkID)
			}
			s.count(it, st.Outcome)
			s.position = it.held.Key.String()
			events = append(events, Event{
				Kind: EventItem, Job: s.job.Name, Run: s.run, Batch: it.batch, Key: it.held.Key, WorkID: st.Record.WorkID,
				Outcome: st.Outcome, DueIn: st.Change.DueIn, Took: st.Record.Took, Err: st.Record.Error, Counts: s.counts,
			})
		}
		if b := s.batches[it.batch]; b != nil && b.left == 0 {
			events = append(events, Event{Kind: EventBatch, Job: s.job.Name, Run: s.run, Batch: it.batch, Counts: b.counts, Took: time.Since(b.since)})
			delete(s.batches, it.batch)
		}
	}
	s.mu.Unlock()
	for _, e := range events {
		s.r.observe(e)
	}
}

// count books an outcome on the run and on its batch. Called under mu.
func (s *shift) count(it *inHand, o dibs.Outcome) {
	s.counts.Add(o, 1)
	if b := s.batches[it.batch]; b != nil {
		b.counts.Add(o, 1)
		b.left--
	}
}

// loseLocked books an item as lost, once. Called under mu.
func (s *shift) loseLocked(it *inHand) {
	if it.stage == gone {
		return
	}
	it.stage = gone
	s.count(it, dibs.OutcomeLost)
	if it.cancel != nil {
		it.cancel(dibs.ErrLeaseLost)
	}
}

// progress is what the run's row says while it runs.
func (s *shift) progress() dibs.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return dibs.Progress{Counts: s.counts, Position: s.position}
}
