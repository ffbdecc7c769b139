package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// Decide runs fn in one transaction whose first statement writes the lock's row
// and so waits for every other decision about it; the holding run is then read
// and locked, and only then the time.
func (s *Store) Decide(ctx context.Context, lock string, fn func(context.Context, dibs.Desk) error) error {
	if lock == "" {
		return errors.New("decide: the lock has no name")
	}
	if err := fit(mostName, "the lock's name", lock); err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	return s.InTx(ctx, fmt.Sprintf("decide about lock %q", lock), func(ctx context.Context, tx *Tx) error {
		d := &desk{store: s, tx: tx, lock: lock}
		if err := d.open(ctx); err != nil {
			return err
		}
		return fn(ctx, d)
	})
}

// desk is one decision. It is used by one goroutine.
type desk struct {
	store  *Store
	tx     *Tx
	lock   string
	holder *dibs.Run
	now    time.Time
	// locked is the lock's run as it was read and locked, until a run is written.
	locked *dibs.Run
	// waiting is the line as it was read together with the time, and lined that
	// no trigger was written since.
	waiting []dibs.Trigger
	lined   bool
}

func (d *desk) open(ctx context.Context) error {
	if _, err := d.exec(ctx, "lock_decide", Binds{"lock": d.lock}); err != nil {
		return err
	}
	read, err := d.store.own("lock_holder")
	if err != nil {
		return err
	}
	runs, err := d.store.runs(ctx, d.tx.q(), read, Binds{"lock": d.lock})
	if err != nil {
		return err
	}
	if len(runs) > 0 {
		held := runs[0]
		d.holder, d.locked = &runs[0], &held
	}
	return d.line(ctx)
}

// line reads the time and, in the same round trip, the waiting triggers. It is a
// statement of its own: the time must be read after the run was locked, and
// what a statement selects is not read after it has locked.
func (d *desk) line(ctx context.Context) error {
	st, err := d.store.own("lock_line")
	if err != nil {
		return err
	}
	d.waiting, err = d.store.timedTriggers(ctx, d.tx.q(), st, Binds{"lock": d.lock}, &d.now)
	d.lined = err == nil
	return err
}

// exec runs one of our own statements.
func (d *desk) exec(ctx context.Context, name string, b Binds) (int64, error) {
	st, err := d.store.own(name)
	if err != nil {
		return 0, err
	}
	if strings.HasPrefix(name, "run_") {
		d.locked = nil
	}
	return d.tx.Exec(ctx, st, b)
}

// Now is the database's time of this decision.
func (d *desk) Now() time.Time { return d.now }

// Holder is the run that has the lock, or nil.
func (d *desk) Holder() *dibs.Run { return d.holder }

// Job reads the job's state.
func (d *desk) Job(ctx context.Context, name string) (dibs.JobState, error) {
	state, err := d.store.job(ctx, d.tx.q(), name)
	if err != nil {
		return state, fmt.Errorf("read job %q: %w", name, err)
	}
	return state, nil
}

// Waiting lists the lock's waiting triggers, oldest first.
func (d *desk) Waiting(ctx context.Context) ([]dibs.Trigger, error) {
	if d.lined {
		return slices.Clone(d.waiting), nil
	}
	now := d.now // a decision has one time
	err := d.line(ctx)
	d.now = now
	return slices.Clone(d.waiting), err
}

// Owner is the trigger that decided a slot of a job or, when slot is zero, the
// caller's own identity; nil when nobody has.
func (d *desk) Owner(ctx context.Context, job string, slot time.Time, externalID string) (*dibs.Trigger, error) {
	owned := "owned_slot"
	if slot.IsZero() {
		owned = "owned_external"
	}
	st, err := d.store.own("trigger_list", "job", owned)
	if err != nil {
		return nil, err
	}
	list, err := d.store.triggers(ctx, d.tx.q(), st, Binds{
		"job": job, "owned_slot": micros(slot), "owned_external": name(externalID), "limit": 1,
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Live lists the running runs of a job whose lease has not ended, oldest first.
func (d *desk) Live(ctx context.Context, job string) ([]dibs.Run, error) {
	st, err := d.store.own("run_live")
	if err != nil {
		return nil, err
	}
	return d.store.runs(ctx, d.tx.q(), st, Binds{"job": job, "now": micros(d.now)})
}

// PutTrigger inserts the trigger or updates it. [dibs.ErrSlotTaken]: another
// trigger owns the slot; the decision may go on.
func (d *desk) PutTrigger(ctx context.Context, t dibs.Trigger) error {
	if t.Lock == "" {
		t.Lock = d.lock
	}
	if t.CreatedAt.IsZero() {
		t.CreatedAt = d.now
	}
	if t.DecidedAt.IsZero() && t.Decision != dibs.DecisionWaiting {
		t.DecidedAt = d.now
	}
	d.lined = false
	if err := d.store.putTrigger(ctx, d.tx, t); err != nil {
		return fmt.Errorf("write trigger %s: %w", t.ID, err)
	}
	return nil
}

// StartRun inserts a running run and fills its times. With takeLock it becomes
// the lock's, which fails with [dibs.ErrLockTaken] while a running run has it:
// that one has to be ended or marked lost first.
func (d *desk) StartRun(ctx context.Context, r *dibs.Run, takeLock bool) error {
	if takeLock {
		r.Lock = d.lock
	}
	if err := runFits(*r); err != nil {
		return fmt.Errorf("start run %s: %w", r.ID, err)
	}
	r.State, r.StartedAt, r.Heartbeat = dibs.RunRunning, d.now, d.now
	r.Lease = d.now.Add(r.LeaseFor + d.store.skew).Truncate(time.Microsecond)
	if !r.StopBy.IsZero() && r.StopBy.Before(r.Lease) {
		r.Lease = r.StopBy
	}
	if takeLock {
		n, err := d.exec(ctx, "lock_take", Binds{"lock": d.lock, "run": r.ID})
		if err == nil && n == 0 {
			err = dibs.ErrLockTaken
		}
		if err != nil {
			return fmt.Errorf("start run %s: %w", r.ID, err)
		}
	}
	_, err := d.exec(ctx, "run_insert", Binds{
		"id": r.ID, "job": r.Job, "lock": name(r.Lock), "trigger": r.Trigger, "origin": string(r.Origin),
		"kind": string(r.Kind), "slot": micros(r.Slot), "key": name(r.Key), "definition": name(r.Definition),
		"holder": r.Holder.String(), "token": string(r.Token), "lease_end": micros(r.Lease),
		"lease_us": r.LeaseFor.Microseconds(), "now": micros(d.now), "stop_by": micros(r.StopBy),
		"recovers": name(r.Recovers), "previous": name(r.Previous),
	})
	if err != nil {
		return fmt.Errorf("start run %s: %w", r.ID, err)
	}
	if takeLock {
		started := *r
		d.holder = &started
	}
	return nil
}

func runFits(r dibs.Run) error {
	if r.LeaseFor < time.Microsecond {
		return fmt.Errorf("its lease is %s", r.LeaseFor)
	}
	return firstError(
		fit(mostID, "the run's ID", r.ID, "its trigger", r.Trigger, "what it recovers", r.Recovers),
		fit(mostToken, "its token", string(r.Token), "what was before it", r.Previous),
		fit(mostName, "the job's name", r.Job, "the definition's hash", r.Definition),
		fit(mostKey, "its key", r.Key, "its holder", r.Holder.String()),
	)
}

// EndRun ends a running run that carries this token and frees its lock.
func (d *desk) EndRun(ctx context.Context, e dibs.RunEnd) error {
	b := Binds{
		"id": e.Run.ID, "token": string(e.Run.Token), "state": string(e.State), "reason": name(string(e.Reason)),
		"now": micros(d.now), "exit_code": e.ExitCode,
		"error": text(tail(e.Error, mostText)), "output": text(tail(e.Output, mostText)),
	}
	b.counts(e.Counts)
	b["lock"] = d.lock // where one statement ends the run and frees its lock
	n, err := d.exec(ctx, "run_end", b)
	if err == nil && n == 0 {
		err = dibs.ErrStaleFence
	}
	switch {
	case err != nil:
	case d.store.dialect.OneStatementEnd:
		d.freed(e.Run.ID)
	default:
		err = d.free(ctx, e.Run.ID)
	}
	if err != nil {
		return fmt.Errorf("end run %s: %w", e.Run.ID, err)
	}
	return nil
}

// MarkLost ends a running run whose lease has ended and frees its lock. False: a
// renewal or an end came first.
func (d *desk) MarkLost(ctx context.Context, r dibs.RunRef, reason dibs.Reason) (bool, error) {
	n, err := d.exec(ctx, "run_lost", Binds{
		"id": r.ID, "token": string(r.Token), "reason": name(string(reason)), "now": micros(d.now),
	})
	if err == nil && n > 0 {
		err = d.free(ctx, r.ID)
	}
	if err != nil {
		return false, fmt.Errorf("mark run %s lost: %w", r.ID, err)
	}
	return n > 0, nil
}

// free takes the lock from a run, if it has it.
func (d *desk) free(ctx context.Context, run string) error {
	_, err := d.exec(ctx, "lock_free", Binds{"lock": d.lock, "run": run})
	if err == nil {
		d.freed(run)
	}
	return err
}

// freed notes that a run does not have the lock any more.
func (d *desk) freed(run string) {
	if d.holder != nil && d.holder.ID == run {
		d.holder = nil
	}
}

// Audit records a human act in the same transaction.
func (d *desk) Audit(ctx context.Context, a dibs.AuditRecord) error {
	if err := d.store.audit(ctx, d.tx.q(), a); err != nil {
		return fmt.Errorf("record %s: %w", a.What, err)
	}
	return nil
}

// firstError is the first error.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
