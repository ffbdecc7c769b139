package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// sideBySide is how many jobs one tick works at a time.
const sideBySide = 16

// TickAll runs everything that is due, for all jobs: slots that have come since
// registration, retries, and triggers that wait for anybody; it also sweeps up
// what dead processes left. Safe as the one line of a crontab. It returns one
// report for each job, in the order of the jobs, and all errors joined.
func (r *Runner) TickAll(ctx context.Context) ([]dibs.Report, error) {
	reports := make([]dibs.Report, len(r.order))
	faults := make([]error, len(r.order))
	var group errgroup.Group
	group.SetLimit(sideBySide)
	for i, name := range r.order {
		group.Go(func() error {
			reports[i], faults[i] = r.Do(ctx, Ask{Job: name, Due: true})
			return nil
		})
	}
	_ = group.Wait() // errors are in faults: one job's must not end another's
	return reports, errors.Join(faults...)
}

// Register makes a job known to the database without running it.
func (r *Runner) Register(ctx context.Context, name string) error {
	j, err := r.lookup(name)
	if err != nil {
		return err
	}
	return r.store.Register(ctx, []dibs.JobRecord{{Name: j.Name, Hash: j.hash, Text: j.text}})
}

// fire brings the trigger, or waits first when the slot that it must be meant
// for is about to come.
func (r *Runner) fire(ctx context.Context, j *job, claims dibs.Claims, a Ask) (dispatch.Fired, error) {
	for tries := 0; ; tries++ {
		req, err := r.request(ctx, j, claims, a)
		if err != nil {
			return dispatch.Fired{}, err
		}
		if a.Due && req.Slots == dispatch.NoSlot && req.Origin == "" {
			return dispatch.Fired{}, nil // nothing but an outside scheduler fires this job
		}
		fired, err := r.dispatch.Fire(ctx, req)
		if err != nil {
			return fired, err
		}
		if a.Due && fired.Run == nil && fired.Trigger.Decision == "" {
			return r.fireRetry(ctx, req, fired)
		}
		if fired.WaitUntil.IsZero() || tries >= mostWaits {
			return fired, nil
		}
		if err := pauseFor(ctx, fired.WaitUntil.Sub(fired.Now)+time.Millisecond); err != nil {
			return fired, err
		}
	}
}

// mostWaits bounds the waits for one slot: timers may wake a little early.
const mostWaits = 5

// fireRetry brings the job's one retry when items are due for it.
func (r *Runner) fireRetry(ctx context.Context, req dispatch.Request, nothing dispatch.Fired) (dispatch.Fired, error) {
	if !req.RetryDue {
		return nothing, nil
	}
	req.Slots, req.Origin = dispatch.NoSlot, dibs.OriginRetry
	fired, err := r.dispatch.Fire(ctx, req)
	fired.Next = nothing.Next
	return fired, err
}

// request says what a request is for.
func (r *Runner) request(ctx context.Context, j *job, claims dibs.Claims, a Ask) (dispatch.Request, error) {
	req := dispatch.Request{
		Job: &j.Job, Hash: j.hash, Origin: a.Origin, Key: a.Key, ExternalID: a.ExternalID, Slot: a.Slot,
		Kind: j.kind(), Lease: j.timing.lease, By: a.By, Why: a.Why,
		Waiter: a.Waiter, Enqueue: a.Enqueue, NotHere: !r.mayRun(j),
	}
	if req.By == "" {
		req.By = r.by
	}
	if !a.Waiter && !a.Enqueue {
		req.Able = r.able(ctx)
	}
	if claims != nil {
		req.Clip = func(ctx context.Context, desk dibs.Desk, run dibs.RunRef, until time.Time) error {
			_, err := claims.Clip(ctx, desk, run, until)
			return err
		}
	}
	fromOutside := a.Origin == "" || a.Origin == dibs.OriginExternal || a.Origin == dibs.OriginSchedule
	scheduled := j.Schedule != nil && fromOutside && a.Key == "" && a.ExternalID == ""
	switch {
	case !a.Slot.IsZero():
		req.Slots, req.Origin = dispatch.GivenSlot, dibs.OriginSchedule
	case scheduled && a.Due:
		req.Slots, req.Origin = dispatch.DueSlot, dibs.OriginSchedule
	case scheduled:
		req.Slots, req.Origin = dispatch.LatestSlot, dibs.OriginSchedule
	case a.Due && j.table == nil:
		return req, nil
	case req.Origin == "":
		req.Origin = dibs.OriginExternal
	}
	if claims == nil || req.Slots == dispatch.NoSlot {
		return req, nil
	}
	var err error
	req.RetryDue, err = r.retryDue(ctx, j, claims)
	return req, err
}

// retryDue looks, without locks, for failed or expired items that are due. A job
// whose last runs all ended well has none: its table is not looked at.
func (r *Runner) retryDue(ctx context.Context, j *job, claims dibs.Claims) (bool, error) {
	runs, err := r.store.ListRuns(ctx, dibs.RunFilter{Job: j.Name, Limit: retryRuns})
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(runs, leftSomething) {
		return false, nil
	}
	for _, status := range []dibs.Status{dibs.StatusFailed, dibs.StatusInProgress} {
		rows, err := claims.Rows(ctx, dibs.RowFilter{Status: status, Limit: retryLook})
		if err != nil {
			return false, err
		}
		due := func(row dibs.Row) bool { return !row.Filtered && dueAt(j, claims, row) }
		if slices.ContainsFunc(rows, due) {
			return true, nil
		}
	}
	return false, nil
}

// Bounds of the look for retries: so many runs back, so many rows of a state.
const (
	retryRuns = 20
	retryLook = 1000
)

// leftSomething tells whether a run can have left failed or expired items.
func leftSomething(r dibs.Run) bool {
	c := r.Counts
	return r.State == dibs.RunLost || c.Failed+c.Uncertain+c.Rejected+c.Lost > 0
}

// dueAt tells whether a failed or expired row may be claimed now.
func dueAt(j *job, claims dibs.Claims, row dibs.Row) bool {
	due := row.ClaimableAt
	if claims.TwoColumn() {
		if due = row.StartedAt.Add(minBackoff(j)); row.Status == dibs.StatusInProgress {
			due = row.StartedAt.Add(j.timing.lease)
		}
	}
	return !due.IsZero() && !due.After(row.Now)
}

// kind is the kind of the job's runs.
func (j *job) kind() dibs.RunKind {
	if j.table == nil {
		return dibs.KindCommand
	}
	return dibs.KindItems
}

// mayRun tells whether this host may run the job.
func (r *Runner) mayRun(j *job) bool {
	return len(j.RunOn) == 0 || slices.Contains(j.RunOn, r.holder.Host)
}

// able says which waiting triggers this process may run: those of its own jobs,
// while nobody has asked it to stop and there is time left.
func (r *Runner) able(ctx context.Context) dispatch.Able {
	return func(t dibs.Trigger) (dispatch.Worker, bool) {
		j, ok := r.jobs[t.Job]
		if !ok || ctx.Err() != nil || !r.mayRun(j) {
			return dispatch.Worker{}, false
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*j.timing.grace+time.Second {
			return dispatch.Worker{}, false
		}
		return dispatch.Worker{Hash: j.hash, Lock: dispatch.LockOf(&j.Job), Kind: j.kind(), Lease: j.timing.lease, Beside: j.Overlap == dibs.Allow}, true
	}
}

// pauseFor waits; the context's error when it ends first.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
