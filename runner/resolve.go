package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// Resolution is a person's word about an action whose outcome is not known.
type Resolution struct {
	WorkID string
	// Confirmed is the destination's ID of what it has. Otherwise the action is
	// Absent: certainly not there, so that it runs again.
	Confirmed string
	Absent    bool
	By, Why   string
}

// Resolved is what a decision changed.
type Resolved struct {
	Run    dibs.Run         `json:"run"`
	WorkID string           `json:"work_id"`
	Before dibs.EffectState `json:"before"`
	After  dibs.EffectState `json:"after"`
}

// Resolve records a person's decision about an uncertain or held action, and
// settles it and its row by it. A [dibs.HeldError] says who works on it.
func (r *Runner) Resolve(ctx context.Context, q Resolution) (Resolved, error) {
	out := Resolved{WorkID: q.WorkID, After: dibs.EffectNotApplied}
	if q.Confirmed != "" {
		out.After = dibs.EffectConfirmed
	}
	if (q.Confirmed != "") == q.Absent {
		return out, &dibs.ConfigError{Subject: q.WorkID, Problem: "want exactly one of confirmed and absent", Fix: "say what the destination has"}
	}
	e, err := r.store.Effect(ctx, q.WorkID)
	if err != nil {
		return out, err
	}
	out.Before = e.State
	if err := open(e); err != nil {
		return out, err
	}
	j, claims, err := r.repairable(ctx, e.Job)
	if err != nil {
		return out, err
	}
	by := orElse(q.By, r.by)
	after := string(out.After)
	if q.Confirmed != "" {
		after += " " + q.Confirmed
	}
	p, alive, done, err := r.beginRepair(ctx, j, claims, dispatch.Repair{By: by, Why: q.Why, Act: dibs.AuditRecord{
		By: by, What: "resolve", Job: j.Name, Object: e.WorkID, Before: string(e.State), After: after, Why: q.Why,
	}})
	if err != nil {
		return out, err
	}
	defer done()
	out.Run, err = p.end(ctx, dibs.RunSucceeded, "", p.resolve(alive, q))
	return out, err
}

// open tells whether a person may still decide.
func open(e dibs.Effect) error {
	switch {
	case e.Live():
		return &dibs.HeldError{What: e.WorkID, Run: e.RunID, ExpiresAt: e.LeaseEnd, Now: e.Now}
	case e.State == dibs.EffectUncertain, e.State == dibs.EffectHeld, e.State == dibs.EffectIntended:
		return nil
	}
	text := string(e.State)
	if e.DestinationID != "" {
		text += fmt.Sprintf(" (destination id %q)", e.DestinationID)
	}
	return &dibs.ConfigError{Subject: e.WorkID, Problem: "is " + text + ": there is nothing to resolve", Fix: "look at its history: show " + e.WorkID}
}

func (p *repair) resolve(ctx context.Context, q Resolution) error {
	e, err := p.claimEffect(ctx, q.WorkID, p.job.timing.lease)
	if err != nil {
		return err
	}
	e.LeaseEnd = e.Now // its claim is ours
	if err := open(e); err != nil {
		return errors.Join(err, p.leave(ctx, e))
	}
	b := p.absent(e, dibs.ReasonResolved, "a person says that the destination does not have it: to be run again")
	o := dibs.OutcomeReleased
	if q.Confirmed != "" {
		b, o = p.confirmed(e, dibs.ReasonResolved, q.Confirmed, nil), dibs.OutcomeAlreadyDone
	}
	p.count(o)
	return p.book(ctx, e, b)
}
