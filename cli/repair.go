package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// repairer opens what a repair of a job needs. An empty name means any job that
// this program has.
func (a *app) repairer(ctx context.Context, job, by string) (Store, *runner.Runner, []*work, error) {
	var names []string
	if job != "" {
		names = []string{job}
	}
	works, err := a.choose(ctx, names)
	if err != nil {
		return nil, nil, nil, err
	}
	store, err := a.openToWork(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	r, err := a.runner(store, works, a.newPrinter(works, true), by) // muted: a repair says at its end what it did
	return store, r, works, err
}

// instantOf reads a time as people write it, in a zone where it has no offset.
func instantOf(flag, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError("%s %s: want a time, such as 2026-11-29T08:00 or 2026-11-29T07:00:00Z", flag, visible(text))
}

// windowFlags bound what a command looks at by time.
type windowFlags struct{ from, to string }

// window reads --from and --to in a zone.
func (f windowFlags) window(zone *time.Location) (from, to time.Time, err error) {
	if from, err = instantOf("--from", f.from, zone); err != nil {
		return from, to, err
	}
	if to, err = instantOf("--to", f.to, zone); err != nil {
		return from, to, err
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return from, to, usageError("--to %s does not come after --from %s", visible(f.to), visible(f.from))
	}
	return from, to, nil
}

// utc writes an instant as a flag's value.
func utc(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// incompleteRun is a run that left something, and what to do about it.
type incompleteRun struct {
	dibs.Run
	Command string `json:"command"`
}

// incomplete lists the newest runs of a job, or of all, that left something
// undone or unknown, as far as the job's rows and effects still say so.
func (l *look) incomplete(ctx context.Context, job string, limit int) ([]incompleteRun, error) {
	list, err := l.store.ListRuns(ctx, dibs.RunFilter{Job: job, Limit: lookedRuns})
	if err != nil {
		return nil, err
	}
	works := map[string]*work{}
	if all, err := l.app.works(ctx); err == nil { // without the file all are told
		for _, w := range all {
			works[w.Name] = w
		}
	}
	recovered, open := map[string]bool{}, map[string]bool{}
	out := []incompleteRun{}
	for _, r := range list { // newest first: a recovery comes before what it recovered
		if r.Kind == dibs.KindRecovery && r.State == dibs.RunSucceeded {
			recovered[r.Recovers] = true
		}
		if len(out) == limit || recovered[r.ID] || !l.leftOpen(r) {
			continue
		}
		still, known := open[r.Job]
		if !known {
			if still, err = l.stillOpen(ctx, works[r.Job]); err != nil {
				return nil, err
			}
			open[r.Job] = still
		}
		if still {
			out = append(out, incompleteRun{r, l.repairCommand(r)})
		}
	}
	return out, nil
}

// lookedRuns is how many runs back incomplete ones are looked for.
const lookedRuns = 1000

// leftOpen tells whether a run can have left something.
func (l *look) leftOpen(r dibs.Run) bool {
	c := r.Counts
	switch {
	case r.Kind == dibs.KindReconcile:
		return false
	case r.State == dibs.RunRunning:
		return !l.live(r)
	case r.Kind == dibs.KindCommand:
		return r.State == dibs.RunLost
	}
	return r.State == dibs.RunLost || !c.Balanced() || c.Failed+c.Rejected+c.Uncertain+c.Held+c.Lost+c.Released > 0
}

// stillOpen tells whether a job still has rows or effects that are not done. A
// job that this program does not have may have.
func (l *look) stillOpen(ctx context.Context, w *work) (bool, error) {
	if w == nil {
		return true, nil
	}
	t, ok := w.Source.(dibs.Table)
	if !ok {
		return true, nil
	}
	for _, state := range []dibs.EffectState{dibs.EffectUncertain, dibs.EffectHeld, dibs.EffectIntended} {
		if list, err := l.store.ListEffects(ctx, dibs.EffectFilter{Job: w.Name, State: state, Limit: 1}); err != nil || len(list) > 0 {
			return true, err
		}
	}
	claims, err := l.store.Claims(ctx, t)
	if err != nil {
		return true, nil //nolint:nilerr // check says what is wrong with it
	}
	for _, s := range []dibs.Status{dibs.StatusFailed, dibs.StatusInProgress, dibs.StatusQuarantined} {
		if s == dibs.StatusQuarantined && claims.Table().Labels.Quarantined == "" {
			continue
		}
		if rows, err := claims.Rows(ctx, dibs.RowFilter{Status: s, Limit: 1}); err != nil || len(rows) > 0 {
			return true, err
		}
	}
	return false, nil
}

// repairCommand is what a person types to repair a run.
func (l *look) repairCommand(r dibs.Run) string {
	name := l.app.program.Name
	if r.Kind == dibs.KindCommand {
		if r.Slot.IsZero() {
			return fmt.Sprintf("%s trigger %s", name, word(r.Job))
		}
		return fmt.Sprintf("%s tick %s --slot %s", name, word(r.Job), utc(r.Slot))
	}
	return fmt.Sprintf("%s recover %s --run %s", name, word(r.Job), r.ID[max(0, len(r.ID)-8):])
}
