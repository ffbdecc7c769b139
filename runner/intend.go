package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// intent is an item's effect at the destination, as this claim has it.
type intent struct {
	ref     dibs.EffectRef // never changes: renewals read it
	effect  dibs.Effect
	claimed bool
	step    policy.Step
	reason  dibs.Reason
	err     error
	hash    string
	// cleared and again say that this claim may run what it found uncertain.
	cleared, again bool
	findings       []dibs.Finding
}

// effectRef is the item's effect while this claim has it.
func (it *inHand) effectRef() dibs.EffectRef {
	if it.intent == nil || !it.intent.claimed {
		return dibs.EffectRef{}
	}
	return it.intent.ref
}

// handOutIntended is handOut for a job with effects: each is claimed before its
// item's handler is called, all that are about to start in one transaction, and
// what the claim finds decides.
func (s *shift) handOutIntended(handlers context.Context) error {
	for s.slots < s.job.Concurrency {
		var units [][]*inHand
		for len(units) < s.job.Concurrency-s.slots {
			unit := s.nextUnit()
			if len(unit) == 0 {
				break
			}
			units = append(units, unit)
		}
		if len(units) == 0 {
			return nil
		}
		if err := s.intend(handlers, units); err != nil {
			for i := len(units) - 1; i >= 0; i-- {
				s.putBack(units[i])
			}
			return fmt.Errorf("intend effects of %s: %w", s.job.Name, err)
		}
		for _, unit := range units {
			s.startIntended(handlers, unit)
		}
	}
	return nil
}

// putBack returns items to the head of the queue.
func (s *shift) putBack(items []*inHand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var back []*inHand
	for _, it := range items {
		if it.stage == running {
			it.stage = queued
			back = append(back, it)
		}
	}
	s.queue = append(back, s.queue...)
}

// intend claims the effects of items that have none yet, or that were cleared to
// run. An item without a work ID fails alone.
func (s *shift) intend(ctx context.Context, units [][]*inHand) error {
	req := dibs.IntendRequest{Job: s.job.Name, RunID: s.run.ID, Lease: s.job.timing.lease, LookupAfter: s.job.lookupAfter}
	var items []*inHand
	for _, unit := range units {
		for _, it := range unit {
			if it.intent != nil && !it.intent.cleared {
				continue // decided before, and put back since
			}
			in, err := s.intention(it)
			if err != nil {
				s.mu.Lock()
				it.intent = &intent{step: policy.StepReject, err: err}
				s.mu.Unlock()
				continue
			}
			req.Items, items = append(req.Items, in), append(items, it)
		}
	}
	if len(items) == 0 {
		return nil
	}
	got, err := s.askIntents(ctx, req)
	if err != nil {
		return err
	}
	for i, it := range items {
		s.decided(it, got[i], req.Items[i])
	}
	return nil
}

// askIntents asks until an answer has come or the leases are no longer believed:
// to ask twice is harmless.
func (s *shift) askIntents(ctx context.Context, req dibs.IntendRequest) ([]dibs.Intent, error) {
	ctx, cancel := s.dbContext(ctx)
	defer cancel()
	for {
		got, err := s.r.store.Intend(ctx, req)
		if err == nil || !errors.Is(err, dibs.ErrUnanswered) || ctx.Err() != nil {
			return got, err
		}
	}
}

// intention names the action that an item stands for.
func (s *shift) intention(it *inHand) (dibs.Intention, error) {
	s.mu.Lock()
	h := it.held
	s.mu.Unlock()
	if h.Problem != "" {
		return dibs.Intention{}, fmt.Errorf("the row could not be read: %s", h.Problem)
	}
	work, err := s.workID(h)
	if err != nil {
		return dibs.Intention{}, err
	}
	in := dibs.Intention{WorkID: work, Key: h.Key.String(), Cycle: h.Cycle, Token: h.Token, RequestHash: contentHash(h.Payload)}
	if it.intent != nil && it.intent.cleared {
		in.Cleared, in.Again = it.intent.effect.Fence, it.intent.again
	}
	return in, nil
}

// workID names the action by the job's identity.
func (s *shift) workID(h dibs.Held) (string, error) {
	if s.rec != nil && !s.job.fixed() {
		return s.rec.by[h.Token].Work, nil
	}
	trigger := s.trigger.ExternalID
	if trigger == "" {
		trigger = s.trigger.ID
	}
	return s.job.identity.WorkID(dibs.Subject{
		Job: s.job.Name, Operation: s.job.Operation, Key: h.Key, Cycle: h.Cycle, Slot: s.run.Slot, Trigger: trigger, Payload: h.Payload,
	})
}

// contentHash names what a handler is given of the row.
func contentHash(payload json.RawMessage) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:16])
}

// decided keeps an intention's answer and what it allows.
func (s *shift) decided(it *inHand, got dibs.Intent, in dibs.Intention) {
	n := &intent{ref: got.Effect.Ref(), effect: got.Effect, claimed: got.Claimed, hash: in.RequestHash, err: got.Refused}
	if it.intent != nil {
		n.findings = it.intent.findings
	}
	doubt := policy.Doubt{OnUncertain: s.job.OnUncertain, ValidFor: s.job.Idempotency.ValidFor, OneShot: s.job.table.OneShot}
	n.step, n.reason = policy.Intended(got, doubt, in.RequestHash)
	if n.step == policy.StepAgain {
		n.cleared, n.again = true, true
	}
	s.mu.Lock()
	it.intent = n
	s.mu.Unlock()
}

// startIntended starts, looks up, or concludes the items of a unit.
func (s *shift) startIntended(handlers context.Context, unit []*inHand) {
	var run, look, back []*inHand
	for _, it := range unit {
		s.mu.Lock()
		over, doubted := it.stage != running, it.until.left(time.Now()) <= 0
		s.mu.Unlock()
		switch n := it.intent; {
		case over: // lost meanwhile
		case n.step == policy.StepDone, n.step == policy.StepHold, n.step == policy.StepElsewhere, n.step == policy.StepReject:
			s.concludeIntent(it)
		case doubted, n.step == policy.StepAgain:
			back = append(back, it) // to be proved, or intended, first
		case n.step == policy.StepLookup:
			look = append(look, it)
		default:
			run = append(run, it)
		}
	}
	if len(run) > 0 {
		s.startUnit(handlers, run)
	}
	if len(look) > 0 && s.slots < s.job.Concurrency {
		s.startLookups(handlers, look)
		look = nil
	}
	if back = append(back, look...); len(back) > 0 {
		s.putBack(back)
		poke(s.nudge)
	}
}

// concludeIntent settles an item whose effect says that its handler is not to be
// called.
func (s *shift) concludeIntent(it *inHand) {
	n := it.intent
	work := n.effect.WorkID
	switch n.step {
	case policy.StepDone:
		res := dibs.Result{Receipt: receiptOf(n.effect)}
		s.concludeAs(it, dibs.OutcomeAlreadyDone, res, work, n.reason)
	case policy.StepReject:
		s.concludeAs(it, dibs.OutcomeRejected, dibs.Result{Err: n.err}, work, n.reason)
	case policy.StepHold:
		s.concludeAs(it, dibs.OutcomeHeld, dibs.Result{Err: holdError(n)}, work, n.reason)
	default:
		st := s.settlement(it, dibs.OutcomeReleased, "")
		st.Held.Prior.ClaimableAt = n.effect.LeaseEnd.Truncate(time.Second).Add(time.Second)
		st.Change = dibs.RowChange{Restore: true}
		st.Record.Reason, st.Record.WorkID = n.reason, work
		it.held.Prior = st.Held.Prior
		s.wait(it, st)
	}
}

// holdError says to a person why an item is held.
func holdError(n *intent) error {
	switch n.reason {
	case dibs.ReasonContent:
		return fmt.Errorf("this action was done before, with other content (destination id %q)", n.effect.DestinationID)
	case dibs.ReasonValidFor:
		return fmt.Errorf("unknown since %s, which is longer than the destination recognises a replay", n.effect.IntendedAt.UTC().Format(time.RFC3339))
	}
	text := "an attempt began and left no outcome: whether the destination has it is not known"
	if n.effect.Error != "" {
		text += ": " + n.effect.Error
	}
	return errors.New(text)
}

// receiptOf is the proof that an effect holds.
func receiptOf(e dibs.Effect) dibs.Receipt {
	r := dibs.Receipt{ID: e.DestinationID}
	if len(e.Evidence) > 0 && json.Unmarshal(e.Evidence, &r.Evidence) != nil {
		r.Evidence = nil // of another shape: the effect has it
	}
	return r
}

// withEffect adds to a settlement what becomes of the item's effect.
func (s *shift) withEffect(it *inHand, st *dibs.Settlement, unknown bool) {
	n := it.intent
	if n == nil {
		return
	}
	st.Findings = n.findings
	if !n.claimed {
		return
	}
	state := policy.EffectOf(st.Outcome, n.effect.State)
	change := &dibs.EffectChange{
		EffectRef: n.ref, State: state, Reason: st.Record.Reason,
		ReceiptID: st.Record.ReceiptID, Evidence: st.Record.Evidence, Error: st.Record.Error, Lookups: n.effect.Lookups,
	}
	if unknown && n.effect.State == dibs.EffectIntended { // something may have been sent, until now
		if st.Outcome == dibs.OutcomeFailed {
			change.State = dibs.EffectUncertain // a replay's failure, as far as the row goes
		}
		change.LookIn = &s.job.lookupAfter
	}
	st.Effect = change
}
