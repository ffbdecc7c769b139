package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// looked is what the destination said about one item.
type looked struct {
	result dibs.LookupResult
	err    error
}

// startLookups asks the destination about items, one after another, in a
// goroutine that takes one slot. The answers arrive on results.
func (s *shift) startLookups(handlers context.Context, items []*inHand) {
	ctx, cancel := context.WithCancelCause(handlers)
	list := make([]dibs.Item, 0, len(items))
	good := make([]*inHand, 0, len(items))
	work := make([]string, 0, len(items))
	for _, it := range items {
		item, err := s.item(it, cancel)
		if err != nil {
			s.conclude(it, dibs.Result{Err: dibs.Reject(err)}, item.WorkID, 0)
			continue
		}
		good, list, work = append(good, it), append(list, item), append(work, item.WorkID)
	}
	if len(good) == 0 {
		cancel(nil)
		return
	}
	s.slots++
	go func() {
		defer cancel(nil)
		began := time.Now()
		answers := make([]looked, len(list))
		for i, item := range list {
			answers[i].result, answers[i].err = s.job.ask(ctx, item)
		}
		s.results <- answer{items: good, looked: answers, work: work, took: time.Since(began)}
	}()
}

// ask asks about one item under the job's time limit and contains whatever the
// lookup does.
func (j *job) ask(ctx context.Context, item dibs.Item) (res dibs.LookupResult, err error) {
	limit := j.askLimit()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, dibs.ErrTimeout)
	defer cancel()
	item.Deadline = time.Now().Add(limit)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("lookup panicked: %v\n%s", p, debug.Stack())
		}
		if err = withCause(ctx, err); err != nil {
			res = dibs.LookupResult{}
		}
	}()
	res, err = j.Lookup(ctx, item)
	switch res.Presence {
	case dibs.PresenceFound, dibs.PresenceAbsent, dibs.PresenceDuplicate:
	default:
		if err == nil {
			err = fmt.Errorf("the lookup answered %q, which is no answer", res.Presence)
		}
	}
	return res, err
}

// askLimit is the job's time limit for one lookup.
func (j *job) askLimit() time.Duration {
	if j.Timeout > 0 {
		return j.Timeout
	}
	return j.timing.lease
}

// takeLooked receives the answers of lookups: each confirms, clears the item to
// run, asks again later, or leaves it to a person.
func (s *shift) takeLooked(a answer) {
	var cleared []*inHand
	for i, it := range a.items {
		l, n := a.looked[i], it.intent
		n.step, n.reason = policy.Looked(n.effect, l.result.Presence)
		n.findings = append(n.findings, s.finding(it, l))
		switch n.step {
		case policy.StepDone:
			s.concludeAs(it, dibs.OutcomeAlreadyDone, dibs.Result{Receipt: l.result.Receipt}, a.work[i], n.reason)
		case policy.StepRun:
			n.cleared, n.effect.Lookups = true, 0
			cleared = append(cleared, it)
		default:
			s.askAgain(it, l, a.work[i])
		}
	}
	if !s.stopping {
		s.putBack(cleared)
		return
	}
	for _, it := range cleared {
		s.giveBack(it, s.stopReason())
	}
}

// askAgain settles an item about which the destination gave no answer that
// counts.
func (s *shift) askAgain(it *inHand, l looked, work string) {
	n := it.intent
	if n.reason == dibs.ReasonTooEarly {
		wait := n.effect.LookAt.Sub(n.effect.Now)
		err := fmt.Errorf("the destination does not have it yet, and an earlier attempt could still arrive: asked again in %s", wait.Round(time.Millisecond))
		s.concludeDoubt(it, dibs.OutcomeUncertain, err, work, wait)
		return
	}
	n.effect.Lookups++
	if n.step == policy.StepHold {
		s.concludeDoubt(it, dibs.OutcomeHeld, fmt.Errorf("the lookup gave no answer %d times in a row, last: %w", n.effect.Lookups, l.err), work, 0)
		return
	}
	wait := max(policy.Backoff(s.job.Retry, n.effect.Lookups, roll()), n.effect.LookAt.Sub(n.effect.Now))
	s.concludeDoubt(it, dibs.OutcomeUncertain, fmt.Errorf("look up: %w", l.err), work, wait)
}

// concludeDoubt settles an item that stays unknown without a new attempt.
func (s *shift) concludeDoubt(it *inHand, o dibs.Outcome, err error, work string, due time.Duration) {
	st := s.settlement(it, o, err.Error())
	if o == dibs.OutcomeHeld {
		st.Change = policy.Change(o, dibs.Verdict{}, s.row(it), roll(), st.Record.Error)
	} else {
		st.Change = policy.Uncertain(s.row(it), due, false, st.Record.Error)
	}
	st.Record.WorkID, st.Record.Reason = work, it.intent.reason
	s.withEffect(it, &st, false)
	s.wait(it, st)
}

// finding is the record of one lookup.
func (s *shift) finding(it *inHand, l looked) dibs.Finding {
	f := dibs.Finding{
		RunID: s.run.ID, Job: s.job.Name, WorkID: it.intent.effect.WorkID, Key: it.held.Key.String(),
		DestinationID: l.result.Receipt.ID,
	}
	switch l.result.Presence {
	case dibs.PresenceFound:
		f.Kind = dibs.FindingConfirmedLate
	case dibs.PresenceDuplicate:
		f.Kind = dibs.FindingDuplicate
		f.Detail = "the destination has it more than once: " + strings.Join(l.result.IDs, ", ")
	case dibs.PresenceAbsent:
		f.Kind = dibs.FindingAbsent
		if it.intent.reason == dibs.ReasonTooEarly {
			f.Detail = "not yet believed"
		}
	default:
		f.Kind = dibs.FindingUnreachable
		f.Detail = errors.Join(l.err).Error()
	}
	if len(l.result.Receipt.Evidence) > 0 {
		if evidence, err := json.Marshal(l.result.Receipt.Evidence); err == nil {
			f.Evidence = evidence
		}
	}
	return f
}

func (s *shift) stopReason() dibs.Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}
