package runner

import (
	"time"

	"github.com/dibs-run/dibs"
)

// beginStop stops taking: the queue is given back, running handlers get the
// grace to finish by themselves.
func (s *shift) beginStop(why dibs.Reason) {
	if s.stopping {
		return
	}
	s.stopping = true
	s.mu.Lock()
	if s.reason == "" {
		s.reason = why
	}
	queue := s.queue
	s.queue = nil
	s.mu.Unlock()
	s.r.observe(Event{Kind: EventStopping, Job: s.job.Name, Run: s.run, Reason: why, N: s.slots})
	for _, it := range queue {
		s.giveBack(it, why)
	}
	s.drain = time.After(s.job.timing.grace)
}

// drainStep is called when the grace has passed: the first time it cancels the
// handlers that still run, the second time it gives up on them. What cannot be
// waited for keeps its lease until that ends and is reported as lost; the next
// attempt is marked as possibly concurrent.
func (s *shift) drainStep() bool {
	s.drained++
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range s.hand {
		if it.stage != running {
			continue
		}
		if s.drained == 1 {
			it.cancel(dibs.ErrStopping)
			continue
		}
		it.stage = gone
		s.counts.Lost++
	}
	if s.drained == 1 {
		s.drain = time.After(s.job.timing.grace)
		return false
	}
	s.slots = 0
	return true
}

// checkStop looks at what the renewals and the watchdog have found.
func (s *shift) checkStop() {
	s.mu.Lock()
	lost, asked := s.lost, !s.stopBy.isZero()
	s.mu.Unlock()
	switch {
	case lost:
		s.beginStop(dibs.ReasonLeaseLost)
	case asked:
		s.beginStop(dibs.ReasonStopBy)
	}
	if s.stopping { // rows adopted since the stop began, once they are proved ours
		for _, it := range s.takeProved() {
			s.giveBack(it, s.reason)
		}
	}
}

// takeProved empties the queue of what a renewal has proved.
func (s *shift) takeProved() []*inHand {
	s.mu.Lock()
	defer s.mu.Unlock()
	var proved, rest []*inHand
	for _, it := range s.queue {
		if it.until.isZero() {
			rest = append(rest, it)
		} else {
			proved = append(proved, it)
		}
	}
	s.queue = rest
	return proved
}
