package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// Repair asks for a run that repairs: a reconcile, which stands beside every
// other run and takes no lock, or a recovery, which behaves as skip whatever the
// job's policy, and stands back for any live run of the job. A paused job may be
// repaired.
type Repair struct {
	Job  *dibs.Job
	Hash string
	// Kind is [dibs.KindReconcile] or [dibs.KindRecovery].
	Kind  dibs.RunKind
	Lease time.Duration
	// Recovers is what the run repairs.
	Recovers string
	By, Why  string
	// Act, if it says what, is recorded with a run that starts.
	Act dibs.AuditRecord
}

// Repair decides such a request. Without a Run in the answer the trigger names
// the run that it stood back for.
func (d *Dispatcher) Repair(ctx context.Context, r Repair) (Fired, error) {
	var out Fired
	lock := LockOf(r.Job)
	sent := time.Now()
	err := d.runs.Decide(ctx, lock, func(ctx context.Context, desk dibs.Desk) error {
		s, err := d.sit(ctx, desk, lock, "")
		if err != nil {
			return err
		}
		out, err = s.repair(ctx, r)
		return err
	})
	if err != nil {
		return Fired{}, fmt.Errorf("repair %s: %w", r.Job.Name, err)
	}
	out.Sent = sent
	t := out.Trigger
	d.log.InfoContext(ctx, "decided", "job", t.Job, "trigger", t.ID, "origin", t.Origin,
		"decision", t.Decision, "reason", t.Reason, "run", t.RunID)
	return out, nil
}

func (s *sitting) repair(ctx context.Context, r Repair) (Fired, error) {
	id, err := dibs.NewTriggerID()
	if err != nil {
		return Fired{}, err
	}
	t := dibs.Trigger{
		ID: id, Job: r.Job.Name, Lock: s.lock, Origin: dibs.OriginManual, Reason: dibs.ReasonRepair,
		By: r.By, Why: r.Why, CreatedAt: s.now,
	}
	w := worker{Worker{Hash: r.Hash, Kind: r.Kind, Lease: r.Lease, Beside: true, Recovers: r.Recovers}, s.holder}
	if r.Kind == dibs.KindRecovery {
		t.Origin, w.Beside = dibs.OriginRecovery, false
		free, err := s.freeFor(ctx, &t)
		if err != nil || !free {
			return Fired{Trigger: t, Now: s.now}, err
		}
	}
	run, err := s.start(ctx, &t, w)
	if err != nil {
		return Fired{}, err
	}
	if r.Act.What != "" {
		if r.Act.Object == "" {
			r.Act.Object = run.ID
		}
		if err := s.desk.Audit(ctx, r.Act); err != nil {
			return Fired{}, err
		}
	}
	return Fired{Trigger: t, Run: run, For: t, Now: s.now}, nil
}

// freeFor tells whether a recovery may start: nobody has the lock, nobody waits
// for it, and no run of the job is live. Otherwise the skip is written.
func (s *sitting) freeFor(ctx context.Context, t *dibs.Trigger) (bool, error) {
	live, err := s.desk.Live(ctx, t.Job)
	if err != nil {
		return false, err
	}
	waiters := policy.None
	if len(s.waiting) > 0 {
		waiters = policy.Others
	}
	lock := lockState(s.desk.Holder(), s.now)
	if lock == policy.Free && s.found == policy.Expired {
		lock = policy.Expired
	}
	v := policy.Decide(policy.Situation{Overlap: dibs.Skip, Lock: lock, Waiters: waiters})
	t.Decision, t.Reason = v.Decision, v.Reason
	blocking := s.desk.Holder()
	if len(live) > 0 {
		t.Decision, t.Reason = dibs.DecisionSkipped, dibs.ReasonRunning
		if blocking == nil || blocking.State != dibs.RunRunning {
			blocking = &live[0]
		}
		if blocking.Kind == dibs.KindRecovery {
			t.Reason = dibs.ReasonRecovery
		}
	}
	if t.Decision == dibs.DecisionStarted {
		return true, nil
	}
	t.Decision = dibs.DecisionSkipped
	if blocking != nil {
		t.BlockingRun, t.BlockingHolder, t.BlockingUntil = blocking.ID, blocking.Holder.String(), blocking.Lease
	}
	return false, s.desk.PutTrigger(ctx, *t)
}
