package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// Ask is a request to run a job now.
type Ask struct {
	Job string
	// Key narrows the run to one row.
	Key string
	// Origin: default [dibs.OriginExternal], or [dibs.OriginManual] for Run.
	Origin dibs.Origin
	// ExternalID is the caller's own identity of the request.
	ExternalID string
	// Limit is the most items to take; 0: the job's own.
	Limit int
	// By and Why are kept with the trigger.
	By, Why string
}

// Tick says "my scheduler fired" for a job: it sweeps up what dead processes
// left, brings a trigger, and, if that starts a run, works until nothing is
// due. It returns when the run has ended and its last handler has returned.
// Cancelling ctx stops gracefully: nothing new is started, running handlers get
// the job's grace, and what was not started is given back untouched.
func (r *Runner) Tick(ctx context.Context, name string) (dibs.Report, error) {
	return r.Do(ctx, Ask{Job: name, Origin: dibs.OriginExternal})
}

// Run is a person's "run now", optionally for one row. It obeys the overlap
// policy like every other trigger.
func (r *Runner) Run(ctx context.Context, name, key string) (dibs.Report, error) {
	return r.Do(ctx, Ask{Job: name, Key: key, Origin: dibs.OriginManual})
}

// Do brings a trigger and works it. See [Runner.Tick].
func (r *Runner) Do(ctx context.Context, a Ask) (dibs.Report, error) {
	j, err := r.lookup(a.Job)
	if err != nil {
		return dibs.Report{}, err
	}
	if a.Key != "" && j.table == nil {
		return dibs.Report{}, &dibs.ConfigError{Subject: "job " + j.Name, Field: "key", Problem: "the job has no rows to choose from", Fix: "leave the key out"}
	}
	claims, err := r.open(ctx, j)
	if err != nil {
		return dibs.Report{}, err
	}
	if err := r.prepare(ctx, j, claims); err != nil {
		return dibs.Report{}, err
	}
	release, err := r.store.Reserve(ctx)
	if err != nil {
		return dibs.Report{}, fmt.Errorf("job %s: %w", j.Name, err)
	}
	defer release()

	sent := time.Now()
	fired, err := r.dispatch.Fire(ctx, r.request(j, a))
	if err != nil {
		return dibs.Report{}, err
	}
	r.observe(Event{Kind: EventDecided, Job: j.Name, Trigger: fired.Trigger, Run: runOrZero(fired.Run), Reason: fired.Trigger.Reason})
	if fired.Run == nil {
		return dibs.Report{Trigger: fired.Trigger}, nil
	}
	return r.work(ctx, j, claims, fired, a, sent)
}

// prepare registers the job and sweeps before claiming.
func (r *Runner) prepare(ctx context.Context, j *job, claims dibs.Claims) error {
	if err := r.store.Register(ctx, []dibs.JobRecord{{Name: j.Name, Hash: j.hash, Text: j.text}}); err != nil {
		return fmt.Errorf("register %s: %w", j.Name, err)
	}
	if _, err := r.dispatch.Sweep(ctx); err != nil {
		return err
	}
	if claims == nil {
		return nil
	}
	swept, err := claims.Sweep(ctx, j.timing.lease)
	if err != nil {
		return fmt.Errorf("sweep %s: %w", j.table, err)
	}
	if n := swept.InProgressWithoutLease; n > 0 {
		r.log.WarnContext(ctx, "rows in progress without a lease: each got one lease from now", "job", j.Name, "rows", n)
	}
	if n := swept.IdleWithoutDue; n > 0 {
		r.log.InfoContext(ctx, "idle rows without a due time are due now", "job", j.Name, "rows", n)
	}
	return nil
}

func (r *Runner) request(j *job, a Ask) dispatch.Request {
	origin := a.Origin
	if origin == "" {
		origin = dibs.OriginExternal
	}
	by := a.By
	if by == "" {
		by = r.by
	}
	kind := dibs.KindItems
	if j.table == nil {
		kind = dibs.KindCommand
	}
	return dispatch.Request{
		Job: &j.Job, Hash: j.hash, Origin: origin, Key: a.Key, ExternalID: a.ExternalID,
		Kind: kind, Lease: j.timing.lease, By: by, Why: a.Why,
	}
}

func runOrZero(r *dibs.Run) dibs.Run {
	if r == nil {
		return dibs.Run{}
	}
	return *r
}

// work runs the shift of a started run and writes its end.
func (r *Runner) work(ctx context.Context, j *job, claims dibs.Claims, fired dispatch.Fired, a Ask, sent time.Time) (dibs.Report, error) {
	s, err := newShift(r, j, claims, fired, a, sent)
	if err != nil {
		return dibs.Report{}, err
	}
	workErr := s.work(ctx)
	report, err := s.end(ctx, workErr)
	r.observe(Event{Kind: EventEnded, Job: j.Name, Trigger: report.Trigger, Run: runOrZero(report.Run), Counts: s.counts, Reason: s.reason})
	return report, err
}

// end writes how the run ended. Losing the race against a successor is not an
// error of the caller's: the report then says lost.
func (s *shift) end(ctx context.Context, workErr error) (dibs.Report, error) {
	ctx, cancel := s.dbContext(ctx)
	defer cancel()
	end := s.verdict(workErr)
	report := dibs.Report{Trigger: s.trigger}
	var err error
	if s.refused != nil {
		report.Trigger = s.refusedTrigger()
		err = s.r.dispatch.FinishRefused(ctx, s.run, end, report.Trigger)
	} else {
		err = s.r.dispatch.Finish(ctx, s.run, end)
	}
	run := s.run
	run.State, run.Reason, run.Counts, run.Error = end.State, end.Reason, end.Counts, end.Error
	switch {
	case errors.Is(err, dibs.ErrStaleFence), err != nil && s.isLost():
		run.State, run.Reason = dibs.RunLost, dibs.ReasonLeaseLost
		err = nil
	case err == nil && end.State == dibs.RunLost:
		run.Reason = dibs.ReasonLeaseLost
	}
	report.Run = &run
	if s.refused != nil {
		report.Run = nil
		return report, errors.Join(s.refused, err)
	}
	if run.State == dibs.RunLost {
		return report, errors.Join(fmt.Errorf("run %s of %s: %w", run.ID, run.Job, dibs.ErrLeaseLost), workErr)
	}
	return report, errors.Join(workErr, err)
}

// verdict is how the run ended, as far as this process knows.
func (s *shift) verdict(workErr error) dibs.RunEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := dibs.RunEnd{Run: s.run.Ref(), Counts: s.counts, Reason: s.reason, Error: s.unitErr}
	c := s.counts
	bad := c.Failed + c.Rejected + c.Uncertain + c.Held + c.Lost
	switch {
	case s.lost:
		end.State, end.Reason = dibs.RunLost, dibs.ReasonLeaseLost
	case s.refused != nil:
		end.State, end.Reason = dibs.RunCancelled, s.refused.reason()
	case workErr != nil:
		end.State, end.Reason, end.Error = dibs.RunFailed, dibs.ReasonError, workErr.Error()
	case s.reason == dibs.ReasonStopped, s.reason == dibs.ReasonStopBy:
		end.State = dibs.RunCancelled
	case bad == 0:
		end.State = dibs.RunSucceeded
	case c.Completed+c.AlreadyDone > 0:
		end.State = dibs.RunPartial
	default:
		end.State = dibs.RunFailed
	}
	return end
}
