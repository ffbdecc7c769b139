package policy

import (
	"time"

	"github.com/dibs-run/dibs"
)

// Step is what an intention's answer allows.
type Step string

// The steps.
const (
	StepRun       Step = "run"       // call the handler
	StepAgain     Step = "again"     // call it again: the destination recognises a replay
	StepLookup    Step = "lookup"    // ask the destination first
	StepDone      Step = "done"      // confirmed before: do not call
	StepHold      Step = "hold"      // a person decides
	StepElsewhere Step = "elsewhere" // another claim has the effect: give the item back
	StepReject    Step = "reject"    // this item alone cannot have an effect
)

// Doubt is what a job says about unknown outcomes.
type Doubt struct {
	OnUncertain dibs.OnUncertain
	// ValidFor bounds replay; 0: no bound.
	ValidFor time.Duration
	OneShot  bool
}

// Intended reads the state table: what an intention found decides. hash names
// the item's content now.
func Intended(in dibs.Intent, d Doubt, hash string) (Step, dibs.Reason) {
	e := in.Effect
	switch {
	case in.Refused != nil && e.WorkID != "":
		return StepReject, dibs.ReasonOtherJob
	case in.Refused != nil:
		return StepReject, ""
	case in.Claimed && e.State == dibs.EffectIntended:
		return StepRun, ""
	case in.Claimed:
		return doubtful(e, d)
	case e.Live():
		return StepElsewhere, dibs.ReasonElsewhere
	case e.State == dibs.EffectConfirmed && d.OneShot && e.RequestHash != "" && e.RequestHash != hash:
		return StepHold, dibs.ReasonContent
	case e.State == dibs.EffectConfirmed:
		return StepDone, ""
	case e.State == dibs.EffectHeld:
		return StepHold, e.Reason
	}
	return StepElsewhere, dibs.ReasonElsewhere // it changed hands meanwhile
}

func doubtful(e dibs.Effect, d Doubt) (Step, dibs.Reason) {
	switch d.OnUncertain {
	case dibs.Lookup:
		return StepLookup, ""
	case dibs.Replay:
		if d.ValidFor == 0 || e.Now.Sub(e.IntendedAt) < d.ValidFor {
			return StepAgain, ""
		}
		return StepHold, dibs.ReasonValidFor
	}
	return StepHold, dibs.ReasonHold
}

// MaxLookups is how many lookups in a row may give no answer before a person is
// asked.
const MaxLookups = 8

// Looked is what a lookup's answer means: found (and duplicate) is always
// believed; absent only from the effect's LookAt on, by the database's time at
// which the effect was claimed, which is before the lookup was sent.
func Looked(e dibs.Effect, p dibs.Presence) (Step, dibs.Reason) {
	switch p {
	case dibs.PresenceFound, dibs.PresenceDuplicate:
		return StepDone, dibs.ReasonFoundLate
	case dibs.PresenceAbsent:
		if e.Now.Before(e.LookAt) {
			return StepLookup, dibs.ReasonTooEarly
		}
		return StepRun, ""
	}
	if e.Lookups+1 >= MaxLookups {
		return StepHold, dibs.ReasonLookupSilent
	}
	return StepLookup, dibs.ReasonLookupSilent
}

// EffectOf is the state that an outcome gives an effect. A released item's
// effect is not applied when it was intended, and as unknown as before when not.
func EffectOf(o dibs.Outcome, was dibs.EffectState) dibs.EffectState {
	switch o {
	case dibs.OutcomeCompleted, dibs.OutcomeAlreadyDone:
		return dibs.EffectConfirmed
	case dibs.OutcomeRejected:
		return dibs.EffectRejected
	case dibs.OutcomeHeld:
		return dibs.EffectHeld
	case dibs.OutcomeUncertain:
		return dibs.EffectUncertain
	case dibs.OutcomeFailed:
		return dibs.EffectNotApplied
	}
	if was == dibs.EffectUncertain {
		return dibs.EffectUncertain
	}
	return dibs.EffectNotApplied
}

// Uncertain is the outcome table's line for an unknown outcome: FAILED, due when
// an absent answer is believed. spent says whether it was an attempt.
func Uncertain(r Row, due time.Duration, spent bool, text string) dibs.RowChange {
	attempts := r.Attempts
	if spent {
		attempts++
	}
	due = max(due, 0)
	return dibs.RowChange{Status: dibs.StatusFailed, DueIn: &due, Attempts: attempts, Error: text}
}
