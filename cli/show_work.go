package cli

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs"
)

// workHistory is everything on record about one action.
type workHistory struct {
	Now    time.Time `json:"now"`
	WorkID string    `json:"work_id"`
	Job    string    `json:"job"`
	Key    string    `json:"key"`
	// Effect is where it stands at the destination; nil: none is kept.
	Effect *dibs.Effect `json:"effect,omitempty"`
	// Outcomes are of all runs that attempted it, newest first, with the receipts.
	Outcomes []dibs.OutcomeRecord `json:"outcomes"`
	// Lookups are what asking the destination found, and Decisions what people
	// said, both newest first.
	Lookups   []dibs.Finding     `json:"lookups"`
	Decisions []dibs.AuditRecord `json:"decisions"`
}

// readActs is how many human acts back decisions are looked for.
const readActs = 10_000

// history collects what is on record about a work ID. An empty Job: nothing is.
func (l *look) history(ctx context.Context, id string) (h workHistory, err error) {
	h = workHistory{Now: l.now, WorkID: id, Decisions: []dibs.AuditRecord{}}
	if h.Outcomes, err = l.store.ListOutcomes(ctx, dibs.OutcomeFilter{WorkID: id, Limit: shownOutcomes}); err != nil {
		return h, err
	}
	e, err := l.store.Effect(ctx, id)
	switch {
	case err == nil:
		h.Effect, h.Job, h.Key = &e, e.Job, e.Key
	case !errors.Is(err, dibs.ErrNotFound):
		return h, err
	}
	if len(h.Outcomes) > 0 {
		h.Job, h.Key = h.Outcomes[0].Job, h.Outcomes[0].Key
	}
	if h.Job == "" {
		return h, nil
	}
	if h.Lookups, err = l.store.ListFindings(ctx, dibs.FindingFilter{WorkID: id, Limit: shownOutcomes}); err != nil {
		return h, err
	}
	if h.Lookups == nil {
		h.Lookups = []dibs.Finding{}
	}
	if h.Outcomes == nil {
		h.Outcomes = []dibs.OutcomeRecord{}
	}
	acts, err := l.store.ListAudit(ctx, readActs)
	for _, act := range acts {
		if act.Object == id {
			h.Decisions = append(h.Decisions, act)
		}
	}
	return h, err
}

// showWork writes one action's whole history.
func (l *look) showWork(h workHistory, asJSON bool) error {
	o := l.app.out
	if asJSON {
		return o.json(h)
	}
	o.line("%s", o.paint(bold, visible(h.WorkID)))
	f := fields{out: o}
	f.text("job", h.Job)
	f.text("key", h.Key)
	if e := h.Effect; e != nil {
		l.effectFields(&f, *e)
	}
	f.write()
	l.writeAttempts(h.Outcomes, h.Job, true)
	o.more(len(h.Outcomes), shownOutcomes, "outcomes")
	if len(h.Lookups) > 0 {
		t := table{}
		t.head("AT "+l.offset(), "RUN", "LOOKUP", "DESTINATION ID", "DETAIL")
		for _, one := range h.Lookups {
			t.add(text("%s", l.at(one.FoundAt, h.Job)), text("%s", dibs.ShortID(one.RunID)), cell{string(one.Kind), toneOfFinding(one.Kind)},
				text("%s", oneLine(one.DestinationID, 60)), text("%s", oneLine(one.Detail, 200)))
		}
		o.line("")
		t.print(o, "  ")
	}
	if len(h.Decisions) > 0 {
		t := table{}
		t.head("AT "+l.offset(), "WHO", "DECIDED", "WHY")
		for _, d := range h.Decisions {
			t.add(text("%s", l.at(d.At, h.Job)), text("%s", oneLine(d.By, 60)), text("%s: %s → %s", visible(d.What), oneLine(d.Before, 60), oneLine(d.After, 100)), text("%s", oneLine(d.Why, 200)))
		}
		o.line("")
		t.print(o, "  ")
	}
	return nil
}

func (l *look) effectFields(f *fields, e dibs.Effect) {
	state := string(e.State)
	if e.Reason != "" {
		state += " (" + string(e.Reason) + ")"
	}
	f.add("effect", "%s", visible(state))
	f.text("receipt", e.DestinationID)
	if len(e.Evidence) > 0 {
		f.text("evidence", string(e.Evidence))
	}
	zone := l.zone(e.Job)
	f.add("first try", "%s", stamp(e.IntendedAt, zone))
	if !e.SettledAt.IsZero() {
		f.add("settled", "%s", stamp(e.SettledAt, zone))
	}
	if e.State == dibs.EffectUncertain && !e.LookAt.IsZero() {
		f.add("look", "absent is believed from %s", stamp(e.LookAt, zone))
	}
	if !e.LeaseEnd.IsZero() && e.LeaseEnd.After(l.now) {
		f.add("in hand", "of run %s until %s", dibs.ShortID(e.RunID), stamp(e.LeaseEnd, zone))
	}
	f.text("error", e.Error)
}

// toneOfFinding is how worrying a finding is.
func toneOfFinding(k dibs.FindingKind) tone {
	switch k {
	case dibs.FindingConfirmedLate:
		return good
	case dibs.FindingDuplicate, dibs.FindingMismatch:
		return bad
	case dibs.FindingUnreachable:
		return warn
	}
	return plain
}
