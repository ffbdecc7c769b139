package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/dibs-run/dibs"
)

// suffixOf takes an id as people write it: whole, its end, or with the ellipsis
// that short ids are shown with.
func suffixOf(ref string) string {
	return strings.ToLower(strings.TrimLeft(strings.TrimSpace(ref), "….")) // both ways to write an ellipsis
}

// findRun finds the run that a person means: @JOB is the job's last one, and
// anything else the end of an id.
func findRun(ctx context.Context, store Store, ref string) (dibs.Run, error) {
	if job, ok := strings.CutPrefix(ref, "@"); ok {
		runs, err := store.ListRuns(ctx, dibs.RunFilter{Job: job, Limit: 1})
		switch {
		case err != nil:
			return dibs.Run{}, err
		case len(runs) == 0:
			return dibs.Run{}, &dibs.ConfigError{Subject: ref, Problem: "the job has never run here", Fix: "list the runs: dibs runs"}
		}
		return store.Run(ctx, runs[0].ID) // a list leaves long texts out
	}
	suffix := suffixOf(ref)
	if suffix == "" {
		return dibs.Run{}, usageError("%q is not the end of a run's id", ref)
	}
	runs, err := store.ListRuns(ctx, dibs.RunFilter{Suffix: suffix, Limit: 5})
	switch {
	case err != nil:
		return dibs.Run{}, err
	case len(runs) == 0:
		return dibs.Run{}, &dibs.ConfigError{Subject: ref, Problem: "no run's id ends so", Fix: "list the runs: dibs runs"}
	case len(runs) > 1:
		return dibs.Run{}, &dibs.ConfigError{Subject: ref, Problem: "several runs' ids end so: " + list(runs), Fix: "write more of the id"}
	}
	return store.Run(ctx, runs[0].ID)
}

func list(runs []dibs.Run) string {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = fmt.Sprintf("%s (%s)", r.ID, r.Job)
	}
	return strings.Join(ids, ", ")
}

// findTrigger finds the trigger whose id ends so.
func findTrigger(ctx context.Context, store Store, ref string) (dibs.Trigger, error) {
	suffix := suffixOf(ref)
	if suffix == "" {
		return dibs.Trigger{}, usageError("%q is not the end of a trigger's id", ref)
	}
	found, err := store.ListTriggers(ctx, dibs.TriggerFilter{Suffix: suffix, Limit: 2})
	switch {
	case err != nil:
		return dibs.Trigger{}, err
	case len(found) == 0:
		return dibs.Trigger{}, &dibs.ConfigError{Subject: ref, Problem: "no trigger's id ends so", Fix: "list the triggers: dibs triggers"}
	case len(found) > 1:
		return dibs.Trigger{}, &dibs.ConfigError{Subject: ref, Problem: "several triggers' ids end so", Fix: "write more of the id"}
	}
	return found[0], nil
}
