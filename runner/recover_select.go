package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs"
)

// Bounds of a selection.
const (
	mostTriggers = 100_000
	mostSelected = 100_000
)

// selection finds the items that the runs of a range attempted.
type selection struct {
	r      *Runner
	job    *job
	claims dibs.Claims
	bounds Range
	runs   map[string]dibs.Run
	order  []string // of runs
	items  []planned
	seen   map[string]bool
}

func (s *selection) find(ctx context.Context) error {
	if s.bounds.Run == "" && s.bounds.From.IsZero() {
		return s.byKeys(ctx)
	}
	if err := s.findRuns(ctx); err != nil {
		return err
	}
	for _, id := range s.order {
		if err := s.attempted(ctx, s.runs[id]); err != nil {
			return err
		}
	}
	return s.unfinished(ctx)
}

// byKeys selects, of the keys in the range, every action whose effect is known
// and every one that a row has not finished.
func (s *selection) byKeys(ctx context.Context) error {
	if !s.job.fixed() {
		return &dibs.ConfigError{Subject: "job " + s.job.Name, Field: "range", Problem: "a key does not say which action is meant: identity names the slot or the trigger", Fix: "use --from and --to, or --run"}
	}
	f := dibs.EffectFilter{Job: s.job.Name, Key: s.bounds.Key, Limit: 1000}
	for s.job.ledger {
		list, err := s.r.store.ListEffects(ctx, f)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := s.addHeld(e.WorkID, e.Key); err != nil {
				return err
			}
		}
		if len(list) < f.Limit {
			break
		}
		f.After = list[len(list)-1].WorkID
	}
	states := []dibs.Status{dibs.StatusFailed, dibs.StatusInProgress}
	if s.claims.Table().Labels.Quarantined != "" {
		states = append(states, dibs.StatusQuarantined)
	}
	for _, state := range states {
		rows, err := s.claims.Rows(ctx, dibs.RowFilter{Status: state, Limit: mostSelected})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := s.addHeld(s.rowWork(row, dibs.Run{}), row.Key.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// addHeld selects an action whose key the range holds.
func (s *selection) addHeld(work, key string) error {
	if !s.bounds.holds(key) {
		return nil
	}
	return s.add(work, key, dibs.Run{})
}

// findRuns finds the runs of the range, but for those that repair.
func (s *selection) findRuns(ctx context.Context) error {
	s.runs = map[string]dibs.Run{}
	if s.bounds.Run != "" {
		run, err := s.r.store.Run(ctx, s.bounds.Run)
		if err == nil && run.Job != s.job.Name {
			err = &dibs.ConfigError{Subject: "run " + run.ID, Problem: "is of job " + run.Job, Fix: "name that job"}
		}
		if err == nil {
			s.runs[run.ID], s.order = run, []string{run.ID}
		}
		return err
	}
	list, err := s.r.store.ListTriggers(ctx, dibs.TriggerFilter{Job: s.job.Name, From: s.bounds.From, To: s.bounds.To, Limit: mostTriggers})
	if err != nil {
		return err
	}
	if len(list) == mostTriggers {
		return tooMuch("triggers", mostTriggers)
	}
	for _, t := range list {
		if _, known := s.runs[t.RunID]; known || t.RunID == "" {
			continue
		}
		run, err := s.r.store.Run(ctx, t.RunID)
		switch {
		case errors.Is(err, dibs.ErrNotFound): // pruned
		case err != nil:
			return err
		case run.Kind == dibs.KindItems:
			s.runs[run.ID], s.order = run, append(s.order, run.ID)
		}
	}
	return nil
}

func tooMuch(what string, n int) error {
	return &dibs.ConfigError{Subject: "range", Problem: fmt.Sprintf("selects %d %s or more", n, what), Fix: "recover it in smaller parts"}
}

// attempted selects the items with an outcome in a run.
func (s *selection) attempted(ctx context.Context, run dibs.Run) error {
	list, err := s.r.store.ListOutcomes(ctx, dibs.OutcomeFilter{Run: run.ID, Limit: mostSelected})
	if err != nil {
		return err
	}
	if len(list) == mostSelected {
		return tooMuch("outcomes", mostSelected)
	}
	for _, o := range list {
		if !s.bounds.holds(o.Key) {
			continue
		}
		work := o.WorkID
		if work == "" { // it was lost, or given back before it was named
			if work, err = s.name(ctx, o, run); err != nil {
				return err
			}
		}
		if err := s.add(work, o.Key, run); err != nil {
			return err
		}
	}
	return nil
}

// name finds the action of an attempt that left only a key: the one that was
// completed next, or else the one that the row is still at.
func (s *selection) name(ctx context.Context, o dibs.OutcomeRecord, run dibs.Run) (string, error) {
	later, err := s.r.store.ListOutcomes(ctx, dibs.OutcomeFilter{Job: o.Job, Key: o.Key, Limit: lookedOutcomes})
	if err != nil {
		return "", err
	}
	work := ""
	for _, l := range later { // newest first: the last that fits is the first after it
		done := l.Outcome == dibs.OutcomeCompleted || l.Outcome == dibs.OutcomeAlreadyDone
		if done && !l.Late && l.WorkID != "" && !l.RecordedAt.Before(o.RecordedAt) {
			work = l.WorkID
		}
	}
	if work != "" {
		return work, nil
	}
	key, err := dibs.ParseKey(o.Key, len(s.job.table.KeyColumns()))
	if err != nil {
		return "", nil //nolint:nilerr // of a table with another key, once
	}
	row, err := s.claims.Look(ctx, key)
	if errors.Is(err, dibs.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return s.rowWork(row, run), nil
}

// rowWork names the action that a row is at under a run; empty: it has no name.
func (s *selection) rowWork(row dibs.Row, run dibs.Run) string {
	work, err := s.job.workOf(row, run.Slot, run.Trigger)
	if err != nil {
		return ""
	}
	return work
}

// unfinished selects what the range's runs left without any outcome: effects
// that are not settled, and rows that still carry their claims.
func (s *selection) unfinished(ctx context.Context) error {
	for _, state := range []dibs.EffectState{dibs.EffectUncertain, dibs.EffectHeld} {
		f := dibs.EffectFilter{Job: s.job.Name, State: state, Limit: 1000}
		for s.job.ledger {
			list, err := s.r.store.ListEffects(ctx, f)
			if err != nil {
				return err
			}
			for _, e := range list {
				if run, ours := s.runs[e.RunID]; ours && s.bounds.holds(e.Key) {
					if err := s.add(e.WorkID, e.Key, run); err != nil {
						return err
					}
				}
			}
			if len(list) < f.Limit {
				break
			}
			f.After = list[len(list)-1].WorkID
		}
	}
	rows, err := s.claims.Rows(ctx, dibs.RowFilter{Status: dibs.StatusInProgress, Limit: mostSelected})
	if err != nil {
		return err
	}
	for _, row := range rows {
		run, ours := s.runs[row.Run]
		if !ours || !s.bounds.holds(row.Key.String()) {
			continue
		}
		if err := s.add(s.rowWork(row, run), row.Key.String(), run); err != nil {
			return err
		}
	}
	return nil
}

// add selects an action once.
func (s *selection) add(work, key string, run dibs.Run) error {
	if s.seen[work+"\x00"+key] {
		return nil
	}
	s.seen[work+"\x00"+key] = true
	if len(s.items) == mostSelected {
		return tooMuch("items", mostSelected)
	}
	s.items = append(s.items, planned{Work: work, Key: key, Slot: run.Slot})
	return nil
}
