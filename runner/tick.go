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
	// Slot is the slot that is asked for. Zero: for a job with a schedule the
	// latest one, and for one without none.
	Slot time.Time
	// Due asks only for what is due since registration: a slot, a retry, or a
	// trigger that waits for anybody.
	Due bool
	// Waiter makes this process wait, beating, when the policy lets the trigger
	// wait. Otherwise it is left for anybody.
	Waiter bool
	// Enqueue leaves the trigger waiting for anybody even if it could start.
	Enqueue bool
	// Wait stands by for this long while another process has the work: until its
	// run has ended, or to take over when its lease does. Negative: without limit.
	Wait time.Duration
	// Limit is the most items to take; 0: the job's own.
	Limit int
	// By and Why are kept with the trigger.
	By, Why string
}

// Tick says "my scheduler fired" for a job: it sweeps up what dead processes
// left, brings a trigger for the schedule's latest slot (or, without a schedule,
// for now), and, if that starts a run, works until nothing is due. It returns
// when the run has ended and its last handler has returned. Cancelling ctx stops
// gracefully: nothing new is started, running handlers get the job's grace, and
// what was not started is given back untouched.
func (r *Runner) Tick(ctx context.Context, name string) (dibs.Report, error) {
	return r.Do(ctx, Ask{Job: name, Origin: dibs.OriginExternal})
}

// Run is a person's "run now", optionally for one row. It obeys the overlap
// policy like every other trigger.
func (r *Runner) Run(ctx context.Context, name, key string) (dibs.Report, error) {
	return r.Do(ctx, Ask{Job: name, Key: key, Origin: dibs.OriginManual})
}

// Do brings a trigger and works it, and then whatever waits for anybody under
// the same lock while ctx lasts. See [Runner.Tick].
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

	if err := r.gather(ctx, j, a); err != nil {
		return dibs.Report{}, err
	}
	fired, err := r.fire(ctx, j, claims, a)
	if err != nil {
		return dibs.Report{}, err
	}
	t := &task{r: r, ask: a, job: j, report: dibs.Report{Trigger: fired.Trigger, Spent: fired.Spent, Next: fired.Next}}
	if fired.Trigger.Decision != "" {
		r.observe(Event{Kind: EventDecided, Job: j.Name, Trigger: fired.Trigger, Run: runOrZero(fired.Run), Reason: fired.Trigger.Reason})
	}
	err = t.follow(ctx, fired)
	return t.report, err
}

// prepare registers the job and sweeps before claiming.
func (r *Runner) prepare(ctx context.Context, j *job, claims dibs.Claims) error {
	if err := r.checkStore(ctx); err != nil {
		return err
	}
	if err := r.store.Register(ctx, []dibs.JobRecord{{Name: j.Name, Hash: j.hash, Text: j.text}}); err != nil {
		return fmt.Errorf("register %s: %w", j.Name, err)
	}
	if _, err := r.dispatch.Sweep(ctx); err != nil {
		return err
	}
	if claims == nil {
		return nil
	}
	return r.sweepTable(ctx, j, claims)
}

// sweepTable repairs the states that no claim can pick up.
func (r *Runner) sweepTable(ctx context.Context, j *job, claims dibs.Claims) error {
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
	return r.sweepEffects(ctx, j)
}

// checkStore refuses a database that this program must not use: one without our
// tables, or a restored copy that nobody has adopted. Asked until it was fine
// once.
func (r *Runner) checkStore(ctx context.Context) error {
	c, ok := r.store.(interface {
		CheckSchema(ctx context.Context) error
	})
	if !ok || r.checked.Load() {
		return nil
	}
	if err := c.CheckSchema(ctx); err != nil {
		return err
	}
	r.checked.Store(true)
	return nil
}

func runOrZero(r *dibs.Run) dibs.Run {
	if r == nil {
		return dibs.Run{}
	}
	return *r
}

// work runs the shift of a started run and writes its end. The answer also has
// the run, if any, with which this process continues.
func (r *Runner) work(ctx context.Context, j *job, claims dibs.Claims, fired dispatch.Fired, a Ask) (dibs.Report, *dispatch.Fired, error) {
	s, err := newShift(r, j, claims, fired, a)
	if err != nil {
		return dibs.Report{}, nil, err
	}
	if err := s.recall(ctx); err != nil {
		return dibs.Report{}, nil, err
	}
	workErr := s.work(ctx)
	report, next, err := s.end(ctx, workErr)
	r.observe(Event{Kind: EventEnded, Job: j.Name, Trigger: report.Trigger, Run: runOrZero(report.Run), Counts: s.counts, Reason: s.reason})
	return report, next, err
}

// end writes how the run ended. Losing the race against a successor is not an
// error of the caller's: the report then says lost.
func (s *shift) end(caller context.Context, workErr error) (dibs.Report, *dispatch.Fired, error) {
	ctx, cancel := s.dbContext(caller)
	defer cancel()
	end := s.verdict(workErr)
	report := dibs.Report{Trigger: s.trigger}
	finish := dispatch.Finish{Run: s.run, End: end, Lock: dispatch.LockOf(&s.job.Job), Able: s.r.able(caller)}
	if s.refused != nil {
		report.Trigger = s.refusedTrigger()
		finish.Trigger = &report.Trigger
	}
	finished, err := s.r.dispatch.End(ctx, finish)
	run := s.run
	run.State, run.Counts, run.Error = end.State, end.Counts, end.Error
	run.Reason = finished.End.Reason
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
		return report, finished.Next, errors.Join(s.refused, err)
	}
	if run.State == dibs.RunLost {
		return report, finished.Next, errors.Join(fmt.Errorf("run %s of %s: %w", run.ID, run.Job, dibs.ErrLeaseLost), workErr)
	}
	return report, finished.Next, errors.Join(workErr, err)
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
	case s.claims == nil && c.Completed+c.AlreadyDone > 0: // the whole run is done, whatever it was told meanwhile
		end.State, end.Reason = dibs.RunSucceeded, ""
	case s.reason == dibs.ReasonStopped, s.reason == dibs.ReasonStopBy:
		end.State = dibs.RunCancelled
	case s.reason == dibs.ReasonDestination:
		end.State = dibs.RunPartial
	case bad == 0:
		end.State = dibs.RunSucceeded
	case c.Completed+c.AlreadyDone > 0:
		end.State = dibs.RunPartial
	default:
		end.State = dibs.RunFailed
	}
	return end
}

// gather moves into the line of the job's lock what others, who did not know that
// lock, have left under the job's own name. It starts nothing.
func (r *Runner) gather(ctx context.Context, j *job, a Ask) error {
	if !a.Due || dispatch.LockOf(&j.Job) == j.Name {
		return nil
	}
	able := r.able(ctx)
	_, err := r.dispatch.Pump(ctx, j.Name, func(t dibs.Trigger) (dispatch.Worker, bool) {
		w, ok := able(t)
		return w, ok && w.Lock != j.Name
	})
	return err
}
