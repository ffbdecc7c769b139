package runner

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// notYet is how long a job that could not be decided waits for the next try,
// when the database answers and the fault is the job's own.
const notYet = 15 * time.Second

// decide brings triggers for jobs that are due, one after another. Several work
// side by side.
func (s *Server) decide(ctx context.Context, jobs <-chan string) error {
	for {
		var name string
		select {
		case <-ctx.Done():
			return nil
		case name = <-jobs:
		}
		at, err := s.decideOne(ctx, name)
		if final(err) {
			return err
		}
		if at.IsZero() {
			continue
		}
		select {
		case s.again <- due{name, at}:
		case <-ctx.Done():
			return nil
		}
	}
}

// decideOne decides what is due of one job and says when to look again; zero:
// never.
func (s *Server) decideOne(ctx context.Context, name string) (time.Time, error) {
	r := s.runner.Load()
	j, ok := r.jobs[name]
	if !ok || j.Schedule == nil || ctx.Err() != nil {
		return time.Time{}, nil //nolint:nilerr // stopping is no fault
	}
	fired, err := s.start(ctx, r, "decide "+j.Name, func(ctx context.Context, able dispatch.Able) (dispatch.Fired, error) {
		claims, err := r.open(ctx, j)
		if err != nil {
			return dispatch.Fired{}, err
		}
		req, err := r.request(ctx, j, claims, Ask{Job: name, Due: true})
		if err != nil {
			return dispatch.Fired{}, err
		}
		req.Able, req.NotHere = able, req.NotHere || able == nil
		return r.dispatch.Fire(ctx, req)
	})
	if err != nil {
		if away(err) {
			return time.Now().Add(pace(time.Second)), err
		}
		return time.Now().Add(pace(notYet)), err
	}
	s.heard(fired.Sent, fired.Now)
	now := time.Now()
	at, ok := s.next(j, now)
	if !ok {
		return time.Time{}, nil
	}
	if fired.Trigger.Decision == "" && at.Before(now.Add(tooSoon)) {
		at = now.Add(tooSoon)
	}
	return at, nil
}

// away tells whether an error says that the database is away for now.
func away(err error) bool {
	return errors.Is(err, dibs.ErrUnavailable) || errors.Is(err, dibs.ErrUnanswered) ||
		errors.Is(err, context.DeadlineExceeded) || dibs.Retryable(err)
}

// starter asks the database for a run. A nil able says that this process has no
// room for one.
type starter func(ctx context.Context, able dispatch.Able) (dispatch.Fired, error)

// start asks for a run while holding a slot for it, and sets it to work.
func (s *Server) start(ctx context.Context, r *Runner, what string, ask starter) (dispatch.Fired, error) {
	var able dispatch.Able
	if s.take() {
		able = r.able(ctx)
	}
	sent := time.Now()
	s.starting.RLock()
	var fired dispatch.Fired
	err := s.once(ctx, what, func(ctx context.Context) (err error) {
		fired, err = ask(ctx, able)
		return err
	})
	if t := fired.Trigger; err == nil && t.Decision != "" {
		r.observe(Event{Kind: EventDecided, Job: t.Job, Trigger: t, Run: runOrZero(fired.Run), Reason: t.Reason})
	}
	begun := err == nil && fired.Run != nil
	if begun {
		s.launch(ctx, r, fired)
	}
	s.starting.RUnlock()
	if errors.Is(err, dibs.ErrUnanswered) && able != nil {
		begun = s.adopt(ctx, r, sent)
	}
	if able != nil && !begun {
		s.give()
	}
	return fired, err
}

// take takes a slot for a run, if there is one.
func (s *Server) take() bool {
	if s.only == OnlySchedule {
		return false
	}
	select {
	case s.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// give returns a slot, and lets whoever looks after waiting triggers know.
func (s *Server) give() { <-s.slots }

// launch works a run, and what this process continues with, in the slot that
// the caller took.
func (s *Server) launch(ctx context.Context, r *Runner, fired dispatch.Fired) {
	s.know(fired.Run.ID, true)
	s.work.Go(func() {
		for next := &fired; next != nil && next.Run != nil; {
			then, err := s.workOne(ctx, r, *next)
			if err != nil {
				s.log.WarnContext(ctx, "a run ended badly", "job", next.For.Job, "run", next.Run.ID, "err", err)
			}
			if then != nil && then.Run != nil {
				s.know(then.Run.ID, true)
			}
			s.know(next.Run.ID, false)
			next = then
		}
		s.give()
		poke(s.freed)
	})
}

// workOne works one run. A run that was started while the server was told to
// stop has done nothing yet: it is given up at once, so that another server
// takes its slot over.
func (s *Server) workOne(ctx context.Context, r *Runner, fired dispatch.Fired) (*dispatch.Fired, error) {
	if ctx.Err() != nil {
		bounded, cancel := linger(ctx, lastWords, lastWords)
		defer cancel()
		return nil, r.dispatch.Finish(bounded, *fired.Run, dibs.RunEnd{
			Run: fired.Run.Ref(), State: dibs.RunLost, Reason: dibs.ReasonStopped, Error: "its process was told to stop before it began",
		})
	}
	_, then, err := r.workFired(ctx, fired, Ask{Job: fired.For.Job})
	return then, err
}

func (s *Server) know(run string, here bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if here {
		s.known[run] = true
	} else {
		delete(s.known, run)
	}
}

// adoptLimit is how many running runs are looked through for those of ours.
const adoptLimit = 500

// adopt finds a run of this process whose start was never answered, and works
// it; true: one now has the caller's slot. Nobody else would before its lease
// ends. A lease counts from before it was asked for.
func (s *Server) adopt(ctx context.Context, r *Runner, sent time.Time) bool {
	var found []dispatch.Fired
	s.starting.Lock()
	defer s.starting.Unlock()
	err := s.until(ctx, "look for runs without an answer", func(ctx context.Context) error {
		found = found[:0]
		runs, err := s.store.ListRuns(ctx, dibs.RunFilter{State: dibs.RunRunning, Limit: adoptLimit})
		if err != nil {
			return err
		}
		for _, run := range runs {
			s.mu.Lock()
			here := s.known[run.ID]
			s.mu.Unlock()
			if run.Holder != r.holder || here {
				continue
			}
			t, err := s.store.Trigger(ctx, run.Trigger)
			if err != nil {
				return err
			}
			found = append(found, dispatch.Fired{Trigger: t, For: t, Run: &run, Sent: sent, Now: run.StartedAt})
		}
		return nil
	})
	if err != nil {
		return false
	}
	for i, fired := range found {
		if i > 0 && !s.take() {
			break // its lease ends by itself
		}
		s.log.InfoContext(ctx, "a run whose start was not answered was found", "job", fired.For.Job, "run", fired.Run.ID)
		s.launch(ctx, r, fired)
	}
	return len(found) > 0
}
