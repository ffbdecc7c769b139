package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs"
)

// Run reads one run, locked for this decision.
func (d *desk) Run(ctx context.Context, id string) (dibs.Run, error) {
	if d.locked != nil && d.locked.ID == id {
		return *d.locked, nil
	}
	list, err := d.list(ctx, Binds{"id": id, "limit": 1}, "id", "locked")
	switch {
	case err != nil:
		return dibs.Run{}, fmt.Errorf("read run %s: %w", id, err)
	case len(list) == 0:
		return dibs.Run{}, fmt.Errorf("read run %s: %w", id, dibs.ErrNotFound)
	}
	return list[0], nil
}

// list reads runs, newest first.
func (d *desk) list(ctx context.Context, b Binds, conditions ...string) ([]dibs.Run, error) {
	st, err := d.store.own("run_list", conditions...)
	if err != nil {
		return nil, err
	}
	return d.store.runs(ctx, d.tx.q(), st, b)
}

// Trigger reads one trigger.
func (d *desk) Trigger(ctx context.Context, id string) (dibs.Trigger, error) {
	st, err := d.store.own("trigger_list", "id")
	if err != nil {
		return dibs.Trigger{}, err
	}
	list, err := d.store.triggers(ctx, d.tx.q(), st, Binds{"id": id, "limit": 1})
	switch {
	case err != nil:
		return dibs.Trigger{}, fmt.Errorf("read trigger %s: %w", id, err)
	case len(list) == 0:
		return dibs.Trigger{}, fmt.Errorf("read trigger %s: %w", id, dibs.ErrNotFound)
	}
	return list[0], nil
}

// mostSlotRuns bounds what is read of one slot; retries beyond it do not change
// any decision.
const mostSlotRuns = 200

// SlotRuns lists the runs for a slot, oldest first. See [dibs.Desk].
func (d *desk) SlotRuns(ctx context.Context, job string, slot time.Time) ([]dibs.Run, error) {
	if slot.IsZero() {
		list, err := d.list(ctx, Binds{"job": job, "limit": 1}, "job", "slotted")
		if err != nil || len(list) == 0 {
			return nil, err
		}
		slot = list[0].Slot
	}
	list, err := d.list(ctx, Binds{"job": job, "slot": micros(slot), "limit": mostSlotRuns}, "job", "slot")
	slices.Reverse(list)
	return list, err
}

// Requests lists the triggers of an identity. See [dibs.Desk].
func (d *desk) Requests(ctx context.Context, job, externalID string) ([]dibs.Trigger, error) {
	st, err := d.store.own("trigger_list", "job", "external_id")
	if err != nil {
		return nil, err
	}
	return d.store.triggers(ctx, d.tx.q(), st, Binds{"job": job, "external_id": externalID, "limit": mostSlotRuns})
}

// LastRun is the newest run of a job in a state. See [dibs.Desk].
func (d *desk) LastRun(ctx context.Context, job string, state dibs.RunState) (*dibs.Run, error) {
	conditions := []string{"job", "state"}
	if state == "" {
		conditions[1] = "not_retry"
	}
	list, err := d.list(ctx, Binds{"job": job, "state": string(state), "limit": 1}, conditions...)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// MoveSlot moves the job's gate forward. See [dibs.Desk].
func (d *desk) MoveSlot(ctx context.Context, job string, slot time.Time) (bool, error) {
	n, err := d.exec(ctx, "job_slot", Binds{"name": job, "slot": micros(slot)})
	if err != nil {
		return false, fmt.Errorf("move the gate of job %q to %s: %w", job, slot, err)
	}
	return n > 0, nil
}

// ClampSlot puts back stamps that lie in the future. See [dibs.Desk].
func (d *desk) ClampSlot(ctx context.Context, job string, lastSlot, reference time.Time) error {
	_, err := d.exec(ctx, "job_clamp", Binds{"name": job, "last_slot": micros(lastSlot), "reference": micros(reference)})
	if err != nil {
		return fmt.Errorf("put back the gate of job %q: %w", job, err)
	}
	return nil
}

// StopRun asks a running run to stop. See [dibs.Desk].
func (d *desk) StopRun(ctx context.Context, r dibs.RunRef, stopBy, until time.Time, why dibs.Reason) (bool, error) {
	run, err := d.Run(ctx, r.ID)
	if err != nil {
		return false, err
	}
	if run.State != dibs.RunRunning || run.Token != r.Token {
		return false, nil
	}
	_, err = d.exec(ctx, "run_stop", Binds{
		"id": r.ID, "token": string(r.Token), "stop_by": micros(stopBy), "until": micros(until), "reason": name(string(why)),
	})
	if err != nil {
		return false, fmt.Errorf("stop run %s: %w", r.ID, err)
	}
	return true, d.reread(ctx, r.ID)
}

// reread refreshes the holder after a write to its row.
func (d *desk) reread(ctx context.Context, id string) error {
	if d.holder == nil || d.holder.ID != id {
		return nil
	}
	run, err := d.Run(ctx, id)
	if err == nil {
		d.holder = &run
	}
	return err
}

// MarkDead ends a running run as lost by a person's word. See [dibs.Desk].
func (d *desk) MarkDead(ctx context.Context, r dibs.RunRef) (bool, error) {
	n, err := d.exec(ctx, "run_dead", Binds{
		"id": r.ID, "token": string(r.Token), "reason": string(dibs.ReasonDead), "now": micros(d.now),
	})
	if err == nil && n > 0 {
		err = d.free(ctx, r.ID)
	}
	if err != nil {
		return false, fmt.Errorf("mark run %s dead: %w", r.ID, err)
	}
	return n > 0, nil
}
