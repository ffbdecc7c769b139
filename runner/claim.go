package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// mayClaim is true when the hand-out queue has run dry, a slot is free, and
// nothing speaks against taking more.
func (s *shift) mayClaim() bool {
	if s.claims == nil || s.stopping || s.exhausted || s.slots >= s.job.Concurrency || s.room() <= 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec != nil && s.target() < 0 {
		return false
	}
	return len(s.queue) == 0 && !s.lost && s.stopBy.isZero()
}

// room is how many more items this run may take at once.
func (s *shift) room() int {
	n := s.job.Batch
	if s.probing {
		n = 1
	}
	if s.limit <= 0 {
		return n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.limit-int(s.counts.Selected))
	if n <= 0 && s.reason == "" {
		s.reason = dibs.ReasonMaxItems
	}
	return n
}

// claim takes the next batch; what waits to be settled goes along in the same
// transaction.
func (s *shift) claim(ctx context.Context) error {
	s.token++
	token := dibs.ClaimToken(s.run.ID, s.token)
	if ok, err := s.aim(token); err != nil || !ok {
		return err
	}
	if time.Since(s.markSince) > markFor {
		s.mark, s.markSince = dibs.Mark{}, time.Now()
	}
	settlements, settling := s.settleNow()
	req := dibs.ClaimRequest{
		Run: s.run.Ref(), Token: token, Scope: s.scope, Limit: s.room(), Lease: s.job.timing.lease,
		Mark: s.mark, Progress: s.progress(), Settle: settlements, Skip: s.unclaimable,
	}
	dbCtx, cancel := s.dbContext(ctx)
	defer cancel()
	sent := time.Now()
	got, err := s.claims.Claim(dbCtx, req)
	switch {
	case errors.Is(err, dibs.ErrUnanswered):
		s.r.log.WarnContext(ctx, "a claim was not answered: asking for its rows at every beat", "job", s.job.Name, "token", token, "err", err)
		if s.job.timing.beat > 0 { // without a heartbeat nobody asks: the lease frees them
			s.mu.Lock()
			s.unanswered[token] = pendingClaim{batch: s.token, until: sent.Add(s.job.timing.lease)}
			s.mu.Unlock()
			poke(s.nudge)
		}
		s.settleAgain(ctx, settling, settlements)
		return nil
	case err != nil:
		s.unsettled(settling)
		if s.isLost() {
			s.beginStop(dibs.ReasonLeaseLost)
			return nil
		}
		return fmt.Errorf("claim items of %s: %w", s.job.Name, err)
	}
	s.settled(settling, settlements, got.Settled)
	if got.Over {
		s.exhausted = true
		poke(s.nudge) // the renewal tells why
		return nil
	}
	s.accept(got, s.token, sent)
	if err := s.refuseRows(ctx, got.Refused, s.token); err != nil {
		return err
	}
	return s.look(ctx, got, req)
}

// mostRefused bounds how many rows of a run the database may refuse to let be
// claimed, each of them alone, before the table itself is to blame.
const mostRefused = 1000

// refuseRows books rows that the database would not let be claimed: each fails
// alone, and this run does not ask for it again.
func (s *shift) refuseRows(ctx context.Context, refused []dibs.RefusedClaim, n int) error {
	if len(refused) == 0 {
		return nil
	}
	s.mu.Lock()
	for _, f := range refused {
		s.unclaimable = append(s.unclaimable, f.Key)
		s.counts.Selected++
		s.counts.Add(dibs.OutcomeFailed, 1)
	}
	total := s.counts
	s.mu.Unlock()
	now := time.Duration(0)
	for _, f := range refused {
		s.r.log.InfoContext(ctx, "the database refuses to let a row be claimed", "job", s.job.Name, "run", s.run.ID, "key", f.Key.String(), "err", f.Err)
		s.r.observe(Event{Kind: EventItem, Job: s.job.Name, Run: s.run, Batch: n, Key: f.Key, Outcome: dibs.OutcomeFailed, DueIn: &now, Err: f.Err.Error(), Counts: total})
	}
	if len(s.unclaimable) > mostRefused {
		return fmt.Errorf("claim items of %s: the database refuses to let %d rows be claimed, such as: %w", s.job.Name, len(s.unclaimable), refused[0].Err)
	}
	return nil
}

// markFor is how long a low-water mark is trusted: rows that became due behind
// it wait no longer than this.
const markFor = time.Second

// accept takes won rows into hand. What came back with too little lease left is
// not started: a clock that stood still must not make us believe.
func (s *shift) accept(got dibs.Claimed, n int, sent time.Time) {
	if len(got.Items) == 0 {
		return
	}
	var poison, twice, strayed []*inHand
	s.mu.Lock()
	b := &batch{left: len(got.Items), since: sent}
	b.counts.Selected = int64(len(got.Items))
	s.batches[n] = b
	s.counts.Selected += int64(len(got.Items))
	for _, h := range got.Items {
		left := min(s.job.timing.lease, h.EndsAt.Sub(got.Now))
		it := &inHand{held: h, batch: n, stage: queued, until: deadlineFrom(sent, left, s.job.timing.margin)}
		s.hand[handKey(h)] = it
		_, flying := s.r.flying.Load(s.flyingKey(h.Key))
		switch {
		case s.strayed(h):
			strayed = append(strayed, it)
		case policy.Poisoned(h.Expirations, s.job.Retry):
			poison = append(poison, it)
		case flying:
			twice = append(twice, it)
		default:
			s.queue = append(s.queue, it)
		}
	}
	s.mu.Unlock()
	poke(s.moved)
	s.r.observe(Event{Kind: EventClaimed, Job: s.job.Name, Run: s.run, Batch: n, N: len(got.Items), Now: got.Now, LeaseLeft: got.EndsAt.Sub(got.Now)})
	s.reportTakeOvers(got, n)
	for _, it := range strayed {
		s.giveBack(it, dibs.ReasonMovedOn)
	}
	for _, it := range poison {
		s.quarantine(it)
	}
	for _, it := range twice {
		err := fmt.Errorf("an earlier attempt at this row still runs in this process")
		s.conclude(it, dibs.Result{Err: errors.Join(dibs.Later(s.job.timing.lease), err)}, "", 0)
	}
}

// reportTakeOvers says which rows came from dead runs.
func (s *shift) reportTakeOvers(got dibs.Claimed, n int) {
	from := map[string]*Event{}
	for _, h := range got.Items {
		if !h.Prior.Expired() {
			continue
		}
		run := h.Prior.Token.Run()
		e := from[run]
		if e == nil {
			e = &Event{Kind: EventTookOver, Job: s.job.Name, Run: s.run, Batch: n, From: run, Until: h.Prior.ClaimableAt, Now: got.Now}
			from[run] = e
		}
		e.N++
		if h.Prior.ClaimableAt.After(e.Until) {
			e.Until = h.Prior.ClaimableAt
		}
	}
	for _, e := range from {
		s.r.observe(*e)
	}
}

// look decides whether there is more to claim.
func (s *shift) look(ctx context.Context, got dibs.Claimed, req dibs.ClaimRequest) error {
	s.mark = got.Mark
	if s.rec != nil {
		return nil // what was not won is told apart at the end
	}
	if s.scope.Key != nil && len(got.Refused) == 0 {
		return s.concludeKey(ctx, got)
	}
	if s.scope.Key != nil {
		s.exhausted = true
		return nil
	}
	if len(got.Items)+len(got.Refused) > 0 {
		return nil
	}
	if req.Mark.ClaimableAt.IsZero() {
		s.exhausted = true
		return nil
	}
	s.mark, s.markSince = dibs.Mark{}, time.Now() // nothing ahead of the mark: look from the start
	return nil
}

func handKey(h dibs.Held) string { return string(h.Token) + "\x00" + h.Key.String() }
