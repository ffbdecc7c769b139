package runner

import (
	"context"
	"time"

	"github.com/dibs-run/dibs"
)

// recovery is what a recovery run does instead of claiming whatever is due: it
// claims the rows of its plan one by one, in order. Confined to the coordinator.
type recovery struct {
	// prepare finds what has to be done, once, when the run's lease is kept.
	prepare func(ctx context.Context) error
	todo    []planned
	by      map[dibs.Token]planned // what each claim was for
}

// begin prepares a recovery run.
func (s *shift) begin(ctx context.Context) error {
	if s.rec == nil {
		return nil
	}
	err := s.rec.prepare(ctx)
	s.exhausted = len(s.rec.todo) == 0
	return err
}

// target is the place in the plan of the first item whose row is not in hand:
// two actions of one row follow one another. -1: there is none now.
func (s *shift) target() int {
	inHand := map[string]bool{}
	for _, it := range s.hand {
		inHand[it.held.Key.String()] = true
	}
	for i, p := range s.rec.todo {
		if !inHand[p.Key] {
			return i
		}
	}
	return -1
}

// aim narrows the next claim to the plan's next row; false: there is none now.
func (s *shift) aim(token dibs.Token) (bool, error) {
	if s.rec == nil {
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.target()
	if i < 0 {
		return false, nil
	}
	p := s.rec.todo[i]
	key, err := dibs.ParseKey(p.Key, len(s.job.table.KeyColumns()))
	if err != nil {
		return false, err
	}
	s.rec.todo = append(s.rec.todo[:i:i], s.rec.todo[i+1:]...)
	s.rec.by[token] = p
	s.scope.Key = key
	s.scope.StartedBefore = time.Time{} // each action of the plan is claimed once
	s.exhausted = len(s.rec.todo) == 0
	return true, nil
}

// strayed tells whether a claimed row is at another action than the plan's.
func (s *shift) strayed(h dibs.Held) bool {
	if s.rec == nil || !s.job.fixed() || h.Problem != "" {
		return false
	}
	work, err := s.workID(h)
	return err == nil && work != s.rec.by[h.Token].Work
}
