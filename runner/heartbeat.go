package runner

import (
	"context"
	"time"

	"github.com/dibs-run/dibs"
)

// heartbeat renews the run's lease and those of the items in hand, at every
// beat and whenever nudged, until ctx ends. It runs until the last handler has
// returned and the last outcome is settled.
func (s *shift) heartbeat(ctx context.Context) error {
	beat := s.job.timing.beat
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.nudge:
		}
		timer.Reset(beat)
		if s.isLost() {
			continue
		}
		s.askUnanswered(ctx)
		if !s.renew(ctx) {
			timer.Reset(min(beat/4, time.Second)) // the local deadline keeps falling: do not wait a whole beat
		}
	}
}

// renew makes one renewal, bounded by one beat or by what is left of the
// deadline. A failed beat stops nothing while lease is left; false asks for
// another try soon.
func (s *shift) renew(ctx context.Context) bool {
	items, held, effects := s.renewable()
	limit := s.job.timing.beat
	s.mu.Lock()
	limit = max(min(limit, s.believe.monotonic(time.Now())), 100*time.Millisecond)
	s.mu.Unlock()
	callCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	got, err := s.callRenew(callCtx, held, effects)
	if ctx.Err() != nil {
		return true
	}
	if err != nil {
		s.r.log.WarnContext(ctx, "a renewal failed; leases last a while yet", "job", s.job.Name, "run", s.run.ID, "err", err)
		s.r.observe(Event{Kind: EventBeatFail, Job: s.job.Name, Run: s.run, Err: err.Error()})
		return false
	}
	s.renewed(items, got, sent)
	return true
}

func (s *shift) callRenew(ctx context.Context, held []dibs.Held, effects []dibs.EffectRef) (dibs.Renewed, error) {
	if s.claims == nil {
		return s.r.store.RenewRun(ctx, s.run.Ref(), s.job.timing.lease)
	}
	return s.claims.Renew(ctx, dibs.RenewRequest{Run: s.run.Ref(), Lease: s.job.timing.lease, Items: held, Effects: effects})
}

// renewable lists the rows to renew: everything in hand that is not lost.
func (s *shift) renewable() ([]*inHand, []dibs.Held, []dibs.EffectRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var effects []dibs.EffectRef // of jobs that have them
	items := make([]*inHand, 0, len(s.hand))
	held := make([]dibs.Held, 0, len(s.hand))
	for _, it := range s.hand {
		// What is being settled is renewed too, since a settle may wait for a
		// connection; but not where a renewal moves the very stamp that proves it.
		if it.stage != gone && (it.stage != settling || !s.claims.TwoColumn()) {
			items = append(items, it)
			held = append(held, it.held)
			if s.job.ledger {
				effects = append(effects, it.effectRef())
			}
		}
	}
	return items, held, effects
}

// renewed moves the local deadlines, and cancels what was refused.
func (s *shift) renewed(items []*inHand, got dibs.Renewed, sent time.Time) {
	t := s.job.timing
	s.mu.Lock()
	if got.Run.IsZero() && !got.Ends.IsZero() && !got.StopBy.IsZero() {
		s.stopNowLocked(got, sent)
		s.mu.Unlock()
		poke(s.moved)
		poke(s.wake)
		return
	}
	if got.Run.IsZero() {
		s.lostLocked()
		s.mu.Unlock()
		s.announceLost()
		return
	}
	margin := t.margin
	if !got.StopBy.IsZero() {
		margin -= t.grace // the grace is what the rest of this lease is for
	}
	s.believe = deadlineFrom(sent, min(t.lease, got.Run.Sub(got.Now)), margin)
	if !got.StopBy.IsZero() {
		s.stopBy = deadlineFrom(sent, got.StopBy.Sub(got.Now), 0)
	}
	if s.claims == nil {
		for _, it := range s.hand {
			it.until = s.believe
		}
		got.Items = nil
	}
	var lost []*inHand
	for i, r := range got.Items {
		it := items[i]
		if it.stage == gone || it.stage == settling && r.EndsAt.IsZero() {
			continue // its own write decides
		}
		if _, still := s.hand[handKey(it.held)]; !still {
			continue // settled while the renewal was on its way
		}
		if r.EndsAt.IsZero() {
			s.loseLocked(it)
			lost = append(lost, it)
			continue
		}
		it.until = deadlineFrom(sent, min(t.lease, r.EndsAt.Sub(got.Now)), margin)
		if !r.Stamp.IsZero() {
			it.held.Stamp = r.Stamp
		}
	}
	n := len(got.Items) - len(lost)
	left := s.believe.left(time.Now())
	s.mu.Unlock()
	poke(s.moved)
	poke(s.wake)
	s.r.observe(Event{Kind: EventRenewed, Job: s.job.Name, Run: s.run, N: n, LeaseLeft: left + t.margin})
	for _, it := range lost {
		s.r.observe(Event{Kind: EventLost, Job: s.job.Name, Run: s.run, Batch: it.batch, Key: it.held.Key})
	}
}

// stopNowLocked acts on a renewal that was refused because the time to stop has
// come: what is left of the lease is for stopping, and not extended again. Called
// under mu.
func (s *shift) stopNowLocked(got dibs.Renewed, sent time.Time) {
	t := s.job.timing
	rest := deadlineFrom(sent, got.Ends.Sub(got.Now), t.margin-t.grace)
	if rest.at.Before(s.believe.at) {
		s.believe = rest
	}
	s.stopBy = deadlineFrom(sent, 0, 0)
	for _, it := range s.hand {
		if s.claims == nil || it.until.at.After(s.believe.at) {
			it.until = s.believe
		}
	}
}

// lostLocked stops believing in the whole run. Called under mu.
func (s *shift) lostLocked() {
	if s.lost {
		return
	}
	s.lost, s.reason = true, dibs.ReasonLeaseLost
	for _, it := range s.hand {
		if it.stage != settling { // its own write, proved by token and fence, decides
			s.loseLocked(it)
		}
	}
	s.queue = nil
}

func (s *shift) announceLost() {
	s.r.observe(Event{Kind: EventLost, Job: s.job.Name, Run: s.run})
	poke(s.wake)
	poke(s.moved)
}

// watchdog stops believing before the database does: it fires at the earliest
// local deadline, and looks at the wall clock in between, since the monotonic
// one stands still while the host sleeps.
func (s *shift) watchdog(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.moved:
		case <-timer.C:
		}
		timer.Reset(s.watch(time.Now()))
	}
}

// watchEvery is how often the wall clock is compared.
const watchEvery = time.Second

// watch acts on passed deadlines and says when to look again.
func (s *shift) watch(now time.Time) time.Duration {
	s.mu.Lock()
	if s.lost {
		s.mu.Unlock()
		return watchEvery
	}
	if s.believe.monotonic(now) <= 0 {
		s.lostLocked()
		s.mu.Unlock()
		s.announceLost()
		return watchEvery
	}
	next := min(watchEvery, s.believe.monotonic(now))
	suspicious := s.believe.wall(now) <= 0
	var lost []*inHand
	for _, it := range s.hand {
		if it.until.isZero() || it.stage == gone || it.stage == settling {
			continue
		}
		left := it.until.monotonic(now)
		if left <= 0 {
			s.loseLocked(it)
			lost = append(lost, it)
			continue
		}
		next = min(next, left)
		suspicious = suspicious || it.until.wall(now) <= 0
	}
	if !s.stopBy.isZero() {
		if left := s.stopBy.monotonic(now); left > 0 {
			next = min(next, left)
		} else {
			for _, it := range s.hand {
				if it.stage == running {
					it.cancel(dibs.ErrStopping)
				}
			}
		}
	}
	s.mu.Unlock()
	for _, it := range lost {
		s.r.observe(Event{Kind: EventLost, Job: s.job.Name, Run: s.run, Batch: it.batch, Key: it.held.Key})
	}
	if len(lost) > 0 {
		poke(s.wake)
	}
	if suspicious { // the host slept or the clock was stepped: re-prove before anything else
		poke(s.nudge)
	}
	return max(next, time.Millisecond)
}

// askUnanswered looks for the rows of claims whose answer was lost, until their
// leases must have passed. Found rows are adopted; they start once a renewal
// has proved them ours.
func (s *shift) askUnanswered(ctx context.Context) {
	s.mu.Lock()
	asked := make(map[dibs.Token]pendingClaim, len(s.unanswered))
	for token, p := range s.unanswered {
		asked[token] = p
	}
	s.mu.Unlock()
	for token, p := range asked {
		callCtx, cancel := context.WithTimeout(ctx, s.job.timing.beat)
		held, err := s.claims.Find(callCtx, token)
		cancel()
		if err != nil {
			s.r.log.WarnContext(ctx, "could not ask for an unanswered claim", "token", token, "err", err)
			continue
		}
		if len(held) == 0 && time.Now().Before(p.until) {
			continue
		}
		s.adopt(token, p, held)
	}
}

func (s *shift) adopt(token dibs.Token, p pendingClaim, held []dibs.Held) {
	s.mu.Lock()
	delete(s.unanswered, token)
	if len(held) > 0 && !s.lost {
		s.batches[p.batch] = &batch{left: len(held), since: time.Now(), counts: dibs.Counts{Selected: int64(len(held))}}
		s.counts.Selected += int64(len(held))
		for _, h := range held {
			it := &inHand{held: h, batch: p.batch, stage: queued}
			s.hand[handKey(h)] = it
			s.queue = append(s.queue, it)
		}
	}
	s.mu.Unlock()
	if len(held) > 0 {
		s.r.observe(Event{Kind: EventClaimed, Job: s.job.Name, Run: s.run, Batch: p.batch, N: len(held)})
	}
	poke(s.wake)
}
