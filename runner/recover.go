package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// DefaultRecoverLimit is how many items a recovery may replay without being told
// that it is a large one.
const DefaultRecoverLimit = 1000

// Recover orders the replay that a plan describes.
type Recover struct {
	Job   string
	Range Range
	// Confirm is the number that the plan printed.
	Confirm int
	// Large allows more items than the job's limit.
	Large bool
	// Wait is how long to stand by for the runs of the job to end. 0: not at all.
	Wait time.Duration
	// Pause holds the job's schedule while the recovery runs.
	Pause   bool
	By, Why string
}

// Recovered is how a recovery ended.
type Recovered struct {
	Plan dibs.Plan `json:"plan"`
	Run  dibs.Run  `json:"run"`
	// Sum says what became of every selected item.
	Sum RecoverySum `json:"sum"`
	// Open is how many items the same plan could still do something about. What was
	// in somebody's hands when the plan was made needs a new one.
	Open int `json:"open"`
}

// Recover replays what remains of a plan, under the job's lock, whatever the
// job's policy. Nothing is changed when the number is not the plan's; a
// [dibs.HeldError] names the live run that it is refused for. It may be repeated
// after a crash: what is done is not done again.
func (r *Runner) Recover(ctx context.Context, q Recover) (Recovered, error) {
	j, claims, err := r.recoverable(ctx, q.Job)
	if err != nil {
		return Recovered{}, err
	}
	plan, items, err := r.confirmed(ctx, j, q)
	out := Recovered{Plan: plan}
	if err != nil {
		return out, err
	}
	release, err := r.store.Reserve(ctx)
	if err != nil {
		return out, fmt.Errorf("job %s: %w", j.Name, err)
	}
	defer release()
	if q.Pause {
		resume, err := r.holdSchedule(ctx, j, q)
		if err != nil {
			return out, err
		}
		defer resume()
	}
	fired, err := r.fireRecovery(ctx, j, plan, q)
	if err != nil {
		return out, err
	}
	out.Run = *fired.Run
	return r.replay(ctx, j, claims, fired, plan, items)
}

// recoverable opens a job that has rows to recover.
func (r *Runner) recoverable(ctx context.Context, name string) (*job, dibs.Claims, error) {
	j, err := r.lookup(name)
	if err != nil {
		return nil, nil, err
	}
	if j.table == nil {
		return nil, nil, &dibs.ConfigError{Subject: "job " + j.Name, Problem: "has no rows: its run is its only item", Fix: "run a slot again by tick --slot"}
	}
	claims, err := r.open(ctx, j)
	if err != nil {
		return nil, nil, err
	}
	return j, claims, r.prepare(ctx, j, claims)
}

// confirmed checks a person's number against the newest plan of the range.
func (r *Runner) confirmed(ctx context.Context, j *job, q Recover) (dibs.Plan, []planned, error) {
	span, err := q.Range.span()
	if err != nil {
		return dibs.Plan{}, nil, err
	}
	fault := func(problem, fix string) error {
		return &dibs.ConfigError{Subject: "job " + j.Name, Field: "confirm", Problem: problem, Fix: fix}
	}
	plan, err := r.store.LatestPlan(ctx, j.Name, span)
	limit := j.RecoverLimit
	if limit <= 0 {
		limit = DefaultRecoverLimit
	}
	switch {
	case errors.Is(err, dibs.ErrNotFound):
		return plan, nil, fault("there is no plan for "+span, "make one first: the same command without --confirm")
	case err != nil:
		return plan, nil, err
	case plan.State == dibs.PlanDone:
		return plan, nil, fault(fmt.Sprintf("plan %s was carried out by run %s", plan.ID, last(plan.Runs)), "make a new one: the same command without --confirm")
	case plan.Count != q.Confirm:
		return plan, nil, fault(fmt.Sprintf("%d is not the plan's number: the newest plan for this range could send %d", q.Confirm, plan.Count), "read the plan again: the same command without --confirm")
	case plan.Count > limit && !q.Large:
		return plan, nil, fault(fmt.Sprintf("%d items are more than this job's recover_limit of %d", plan.Count, limit), "narrow the range, or add --yes-large")
	}
	items, err := readPlan(plan)
	return plan, items, err
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// fireRecovery takes the job's lock for a recovery run, waiting as long as it
// was told to for the runs of the job to end.
func (r *Runner) fireRecovery(ctx context.Context, j *job, plan dibs.Plan, q Recover) (dispatch.Fired, error) {
	by := orElse(q.By, r.by)
	ask := dispatch.Repair{
		Job: &j.Job, Hash: j.hash, Kind: dibs.KindRecovery, Lease: j.timing.lease, Recovers: orElse(q.Range.Run, plan.ID), By: by, Why: q.Why,
		Act: dibs.AuditRecord{By: by, What: "recover", Job: j.Name, Before: plan.Span, After: fmt.Sprintf("plan %s, confirmed %d", plan.ID, plan.Count), Why: q.Why},
	}
	until := time.Now().Add(q.Wait)
	for {
		fired, err := r.dispatch.Repair(ctx, ask)
		if err != nil || fired.Run != nil {
			return fired, err
		}
		t := fired.Trigger
		if !time.Now().Add(lookEvery).Before(until) {
			held := &dibs.HeldError{What: "job " + j.Name, Run: t.BlockingRun, ExpiresAt: t.BlockingUntil, Now: fired.Now}
			if held.Holder, err = dibs.ParseHolder(t.BlockingHolder); err != nil { // nobody has it, but others wait
				return fired, &dibs.RefusedError{Reason: t.Reason, Detail: "triggers of the job wait for its lock"}
			}
			return fired, held
		}
		if err := pauseFor(ctx, lookEvery); err != nil {
			return fired, err
		}
		if _, err := r.dispatch.Sweep(ctx); err != nil {
			return fired, err
		}
	}
}

// replay works what remains of the plan and says what became of all of it.
func (r *Runner) replay(ctx context.Context, j *job, claims dibs.Claims, fired dispatch.Fired, plan dibs.Plan, items []planned) (Recovered, error) {
	out := Recovered{Plan: plan, Run: *fired.Run}
	s, err := newShift(r, j, claims, fired, Ask{Job: j.Name})
	if err != nil {
		return out, err
	}
	s.limit = 0
	out.Plan.Runs = append(slices.Clone(plan.Runs), fired.Run.ID)
	c := &census{r: r, job: j, claims: claims, runs: out.Plan.Runs}
	workErr := r.store.PutPlan(ctx, out.Plan)
	if workErr == nil {
		s.rec = &recovery{by: map[dibs.Token]planned{}}
		workErr = s.prepareReplay(ctx, c, items)
	}
	report, next, err := s.end(ctx, workErr)
	if report.Run != nil {
		out.Run = *report.Run
	}
	rest := context.WithoutCancel(ctx)
	var sumErr error
	out.Sum, out.Open, sumErr = c.sum(rest, items)
	if sumErr == nil && out.Open == 0 {
		out.Plan.State = dibs.PlanDone
		sumErr = r.store.PutPlan(rest, out.Plan)
	}
	for next != nil && next.Run != nil && ctx.Err() == nil {
		var nextErr error
		if _, next, nextErr = r.workFired(ctx, *next, Ask{Job: j.Name}); nextErr != nil {
			r.log.WarnContext(ctx, "a run that was continued with ended badly", "job", j.Name, "err", nextErr)
		}
	}
	return out, errors.Join(err, sumErr)
}

// prepareReplay finds what of the plan still has to be done, and does it, while
// the run's lease is kept.
func (s *shift) prepareReplay(ctx context.Context, c *census, items []planned) error {
	var states []ending
	s.rec.prepare = func(ctx context.Context) (err error) {
		states, err = c.take(ctx, items)
		for i, p := range items {
			if err == nil && p.send() && (states[i] == endRemaining || states[i] == endUncertain) {
				s.rec.todo = append(s.rec.todo, p)
			}
		}
		return err
	}
	return s.work(ctx)
}

// pausedFor is how far ahead a recovery's pause reaches: it ends by itself when
// the recovery's process dies.
const pausedFor = time.Hour

// holdSchedule pauses the job until the answer is called, unless a person has.
func (r *Runner) holdSchedule(ctx context.Context, j *job, q Recover) (func(), error) {
	state, err := r.store.Job(ctx, j.Name)
	if err != nil || state.Paused {
		return func() {}, err
	}
	act := dibs.AuditRecord{By: orElse(q.By, r.by), What: "pause", Job: j.Name, Why: "while a recovery runs"}
	now, err := r.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.store.SetPaused(ctx, j.Name, now.Add(pausedFor), act); err != nil {
		return nil, fmt.Errorf("pause %s: %w", j.Name, err)
	}
	return func() {
		act.What = "resume"
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.timing.lease)
		defer cancel()
		if err := r.store.SetPaused(ctx, j.Name, time.Time{}, act); err != nil {
			r.log.ErrorContext(ctx, "could not resume the job after its recovery", "job", j.Name, "err", err)
		}
	}, nil
}
