package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dibs-run/dibs"
)

// evidence is what happened to a job in a window: triggers, what was decided,
// what ran, and what became of every action.
type evidence struct {
	Now  time.Time `json:"now"`
	Job  string    `json:"job"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Decisions counts the triggers by what was decided.
	Decisions map[dibs.Decision]int64 `json:"decisions"`
	// Sum adds up the runs' counts; Balanced tells whether every item that an ended
	// run took has an outcome.
	Sum      dibs.Counts `json:"sum"`
	Balanced bool        `json:"balanced"`
	Running  int         `json:"running"`
	// Triggers and Runs are oldest first.
	Triggers []dibs.Trigger       `json:"triggers"`
	Runs     []dibs.Run           `json:"runs"`
	Outcomes []dibs.OutcomeRecord `json:"outcomes"`
	Effects  []dibs.Effect        `json:"effects"`
	Findings []dibs.Finding       `json:"findings"`
	// Acts are what people did to the job since the window began.
	Acts        []dibs.AuditRecord  `json:"acts"`
	Definitions []evidentDefinition `json:"definitions"`
	// Cut says which lists were cut, since they were too long.
	Cut []string `json:"cut,omitempty"`
}

// evidentDefinition is a definition that was in force.
type evidentDefinition struct {
	Hash string `json:"hash"`
	Text string `json:"text"`
	Runs int    `json:"runs"`
}

// Bounds of a report's lists.
const (
	reportTriggers = 10_000
	reportOutcomes = 50_000
)

// evidence collects the report of a window.
func (l *look) evidence(ctx context.Context, job string, from, to time.Time) (evidence, error) {
	e := evidence{
		Now: l.now, Job: job, From: from, To: to, Balanced: true, Decisions: map[dibs.Decision]int64{},
		Triggers: []dibs.Trigger{}, Runs: []dibs.Run{}, Outcomes: []dibs.OutcomeRecord{}, Effects: []dibs.Effect{},
		Findings: []dibs.Finding{}, Acts: []dibs.AuditRecord{}, Definitions: []evidentDefinition{},
	}
	list, err := l.store.ListTriggers(ctx, dibs.TriggerFilter{Job: job, From: from, To: to, Limit: reportTriggers})
	if err != nil {
		return e, err
	}
	e.cut(len(list), reportTriggers, "triggers")
	slices.Reverse(list)
	e.Triggers = append(e.Triggers, list...)
	for _, step := range []func(context.Context, *evidence) error{l.evidentRuns, l.evidentEffects, l.evidentFindings, l.evidentDefinitions} {
		if err := step(ctx, &e); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (e *evidence) cut(n, limit int, what string) {
	if n >= limit && !slices.Contains(e.Cut, what) {
		e.Cut = append(e.Cut, what)
	}
}

// evidentRuns reads the runs of the triggers and their outcomes.
func (l *look) evidentRuns(ctx context.Context, e *evidence) error {
	seen := map[string]bool{"": true}
	for _, t := range e.Triggers {
		e.Decisions[t.Decision]++
		if seen[t.RunID] {
			continue
		}
		seen[t.RunID] = true
		r, err := l.store.Run(ctx, t.RunID)
		if errors.Is(err, dibs.ErrNotFound) {
			continue // pruned
		}
		if err != nil {
			return err
		}
		e.Runs = append(e.Runs, r)
		e.add(r)
		left := reportOutcomes - len(e.Outcomes)
		if left <= 0 {
			e.cut(1, 1, "outcomes")
			continue
		}
		list, err := l.store.ListOutcomes(ctx, dibs.OutcomeFilter{Run: r.ID, Limit: left})
		if err != nil {
			return err
		}
		e.cut(len(list), left, "outcomes")
		slices.Reverse(list)
		e.Outcomes = append(e.Outcomes, list...)
	}
	slices.SortStableFunc(e.Runs, func(a, b dibs.Run) int { return a.StartedAt.Compare(b.StartedAt) })
	return nil
}

// add adds a run to the sum.
func (e *evidence) add(r dibs.Run) {
	if r.State == dibs.RunRunning {
		e.Running++
	} else if !r.Counts.Balanced() {
		e.Balanced = false
	}
	c := r.Counts
	e.Sum.Selected += c.Selected
	for _, p := range []struct {
		o dibs.Outcome
		n int64
	}{
		{dibs.OutcomeCompleted, c.Completed}, {dibs.OutcomeAlreadyDone, c.AlreadyDone}, {dibs.OutcomeFailed, c.Failed}, {dibs.OutcomeRejected, c.Rejected},
		{dibs.OutcomeUncertain, c.Uncertain}, {dibs.OutcomeHeld, c.Held}, {dibs.OutcomeReleased, c.Released}, {dibs.OutcomeLost, c.Lost},
	} {
		e.Sum.Add(p.o, p.n)
	}
}

// evidentEffects reads where the actions stand that the window's runs attempted.
func (l *look) evidentEffects(ctx context.Context, e *evidence) error {
	seen := map[string]bool{"": true}
	for _, o := range e.Outcomes {
		if seen[o.WorkID] {
			continue
		}
		seen[o.WorkID] = true
		effect, err := l.store.Effect(ctx, o.WorkID)
		if errors.Is(err, dibs.ErrNotFound) {
			continue // none is kept, or it was pruned
		}
		if err != nil {
			return err
		}
		e.Effects = append(e.Effects, effect)
	}
	rest, err := l.store.ListEffects(ctx, dibs.EffectFilter{Job: e.Job, From: e.From, To: e.To, Limit: reportOutcomes})
	if err != nil {
		return err
	}
	e.cut(len(rest), reportOutcomes, "effects")
	for _, effect := range rest { // intended then, and without any outcome
		if !seen[effect.WorkID] {
			e.Effects = append(e.Effects, effect)
		}
	}
	return nil
}

// evidentFindings reads what lookups found and what people did since the window
// began: an unknown outcome is usually resolved later.
func (l *look) evidentFindings(ctx context.Context, e *evidence) error {
	works := map[string]bool{}
	for _, effect := range e.Effects {
		works[effect.WorkID] = true
	}
	found, err := l.store.ListFindings(ctx, dibs.FindingFilter{Job: e.Job, Limit: reportOutcomes})
	if err != nil {
		return err
	}
	e.cut(len(found), reportOutcomes, "findings")
	for _, f := range slices.Backward(found) {
		if works[f.WorkID] || !f.FoundAt.Before(e.From) && f.FoundAt.Before(e.To) {
			e.Findings = append(e.Findings, f)
		}
	}
	acts, err := l.store.ListAudit(ctx, readActs)
	if err != nil {
		return err
	}
	e.cut(len(acts), readActs, "acts")
	for _, a := range slices.Backward(acts) {
		if a.Job == e.Job && !a.At.Before(e.From) {
			e.Acts = append(e.Acts, a)
		}
	}
	return nil
}

// evidentDefinitions reads the definitions that the runs were of.
func (l *look) evidentDefinitions(ctx context.Context, e *evidence) error {
	d, ok := l.store.(definer)
	if !ok {
		return nil
	}
	for _, r := range e.Runs {
		i := slices.IndexFunc(e.Definitions, func(d evidentDefinition) bool { return d.Hash == r.Definition })
		if i >= 0 {
			e.Definitions[i].Runs++
			continue
		}
		if r.Definition == "" {
			continue
		}
		said, err := d.Definition(ctx, r.Job, r.Definition)
		if err != nil && !errors.Is(err, dibs.ErrNotFound) {
			return err
		}
		e.Definitions = append(e.Definitions, evidentDefinition{Hash: r.Definition, Text: said, Runs: 1})
	}
	return nil
}
