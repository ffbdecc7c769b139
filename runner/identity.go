package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// validateEffects checks what says which action an item is and what happens when
// its outcome is unknown, and works out the defaults.
func (j *job) validateEffects() []error {
	var faults []error
	fault := func(field, problem, fix string) {
		faults = append(faults, &dibs.ConfigError{Subject: "job " + j.Name, Field: field, Problem: problem, Fix: fix})
	}
	const choices = "choose replay if running an item again is harmless, lookup if the destination can be asked, or hold if a person decides"
	switch j.OnUncertain {
	case "":
		if j.table != nil {
			fault("on_uncertain", "not chosen", choices)
		}
	case dibs.Replay:
	case dibs.Lookup, dibs.Hold:
		if j.table == nil {
			fault("on_uncertain", fmt.Sprintf("%q needs a source: a job without one is tried again as a whole", j.OnUncertain), "choose replay, or give the job a source")
		}
	default:
		fault("on_uncertain", fmt.Sprintf("%q is no choice", j.OnUncertain), choices)
	}
	if j.OnUncertain == dibs.Lookup && j.Lookup == nil {
		fault("lookup", "on_uncertain: lookup, but nothing says how to ask the destination", "add a lookup, or choose hold")
	}
	if j.LookupAfter < 0 || j.Idempotency.ValidFor < 0 {
		fault("lookup_after", "a duration is negative", "use a positive one, or leave it out")
	}
	if j.Idempotency.ValidFor > 0 && j.OnUncertain != dibs.Replay {
		fault("idempotency", "valid_for bounds replay, which the job does not choose", "leave it out, or choose on_uncertain: replay")
	}
	j.ledger = j.table != nil && (j.OnUncertain == dibs.Lookup || j.OnUncertain == dibs.Hold || j.Idempotency.ValidFor > 0)
	j.lookupAfter = j.LookupAfter
	if j.lookupAfter == 0 {
		j.lookupAfter = 2 * j.Timeout
	}
	if j.lookupAfter == 0 {
		j.lookupAfter = 2 * j.timing.lease
	}
	if j.table == nil {
		if j.Identity != "" {
			fault("identity", "a job without a source is its slot or its trigger", "leave it out, or give the job a source")
		}
		return faults
	}
	if err := j.settleIdentity(j.table.TwoColumn); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// settleIdentity reads the identity for a table of that kind. What lookup and
// hold promise rests on a work ID that is the same in every attempt.
func (j *job) settleIdentity(twoColumn bool) error {
	id, err := dibs.IdentityOf(&j.Job, twoColumn)
	fault := func(field, problem, fix string) error {
		return &dibs.ConfigError{Subject: "job " + j.Name, Field: field, Problem: problem, Fix: fix}
	}
	switch {
	case err != nil:
		return fault("identity", err.Error(), "the fields are {job}, {operation}, {key}, {cycle}, {slot}, {trigger} and the selected columns")
	case !id.Scoped():
		return fault("identity", "begins with a value of the row: two jobs could mean the same action by it", "begin with {job}, or with a fixed text of your own")
	case twoColumn && id.Has("cycle"):
		return fault("identity", "a two-column table has no cycle", "use a version column, {slot} or {trigger}, or run dibs adopt")
	case twoColumn && j.ledger && !id.Versioned() && !j.table.OneShot:
		return fault("on_uncertain", fmt.Sprintf("%s needs a work ID that is the same in every attempt, and a two-column table counts no actions: a later trigger would be another action", j.OnUncertain),
			"name a version column in identity (and in select), or run dibs adopt to make the table a full one")
	}
	j.identity = id
	return nil
}

// sweepEffects makes uncertain what a dead process has left intended.
func (r *Runner) sweepEffects(ctx context.Context, j *job) error {
	if !j.ledger {
		return nil
	}
	n, err := r.store.SweepEffects(ctx, j.Name, j.lookupAfter)
	if err != nil {
		return err
	}
	if n > 0 {
		r.log.WarnContext(ctx, "attempts of dead runs left no outcome: their effects are uncertain", "job", j.Name, "effects", n, "lookup_after", j.lookupAfter.Round(time.Millisecond))
	}
	return nil
}

// warnIdentity says what an identity allows but hardly anybody means.
func (r *Runner) warnIdentity(j *job) {
	if j.table != nil && !j.table.OneShot && j.identity.Has("slot") {
		r.log.Warn("identity has {slot}: an action left unknown in one slot is another action in the next, and is never looked up again", "job", j.Name)
	}
}
