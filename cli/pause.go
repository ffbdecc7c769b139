package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

func (a *app) pauseCommand() *cobra.Command {
	var f act
	var until string
	c := &cobra.Command{
		Use:   "pause JOB",
		Short: "Start no more runs of a job until it is resumed",
		Long: "Every trigger of a paused job is skipped, whichever way it comes, and its record\n" +
			"gives your reason. A run that goes on is left alone: see cancel. What passes\n" +
			"meanwhile is not caught up.",
		Example:           "  dibs pause crm-sync --why 'CRM maintenance' --until 18:00\n  dibs pause crm-sync --until 2h --why deploy",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringVar(&until, "until", "", "resume by itself: a duration (2h), a time of day (18:00) or RFC 3339")
	f.flags(c)
	return command(groupAct, c, func(cmd *cobra.Command, args []string) error {
		if f.why == "" {
			return usageError("say why: everybody whose trigger is skipped will read it: --why TEXT")
		}
		return a.pause(cmd.Context(), args[0], until, f)
	})
}

func (a *app) resumeCommand() *cobra.Command {
	var f act
	c := &cobra.Command{
		Use:               "resume JOB",
		Short:             "End a pause",
		Long:              "Ends a pause. Slots that passed meanwhile are not caught up; the next one is the\nfirst to run.",
		Example:           "  dibs resume crm-sync",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	f.flags(c)
	return command(groupAct, c, func(cmd *cobra.Command, args []string) error {
		return a.resume(cmd.Context(), args[0], f)
	})
}

// forever is the end of a pause without an end.
func forever() time.Time { return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) }

func (a *app) pause(ctx context.Context, job, until string, f act) error {
	store, state, err := a.stateToAct(ctx, job)
	if err != nil {
		return err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return err
	}
	zone := zoneOf(nil)
	end, err := pauseEnd(until, now, zone)
	if err != nil {
		return err
	}
	audit := dibs.AuditRecord{By: f.actor(), What: "pause", Job: job, Before: pausedText(state), After: "paused until " + end.UTC().Format(time.RFC3339), Why: f.why}
	if end.Equal(forever()) {
		audit.After = "paused"
	}
	if err := store.SetPaused(ctx, job, end, audit); err != nil {
		return err
	}
	if end.Equal(forever()) {
		a.out.line("%s  paused   until: dibs resume %s", a.out.paint(bold, job), job)
	} else {
		a.out.line("%s  paused   until %s", a.out.paint(bold, job), stamp(end, zone))
	}
	return a.tellLive(ctx, store, job)
}

func (a *app) resume(ctx context.Context, job string, f act) error {
	store, state, err := a.stateToAct(ctx, job)
	if err != nil {
		return err
	}
	if !state.Paused {
		a.out.line("%s  is not paused", a.out.paint(bold, job))
		return nil
	}
	audit := dibs.AuditRecord{By: f.actor(), What: "resume", Job: job, Before: pausedText(state), After: "not paused", Why: f.why}
	if err := store.SetPaused(ctx, job, time.Time{}, audit); err != nil {
		return err
	}
	a.out.line("%s  resumed   slots that passed meanwhile are not caught up", a.out.paint(bold, job))
	return nil
}

// stateToAct opens the database and reads a job's state. A job of the file that
// never ran is registered first, so that it can be paused before it ever does.
func (a *app) stateToAct(ctx context.Context, job string) (Store, dibs.JobState, error) {
	store, err := a.openToWork(ctx)
	if err != nil {
		return nil, dibs.JobState{}, err
	}
	state, err := store.Job(ctx, job)
	if !errors.Is(err, dibs.ErrNotFound) {
		return store, state, err
	}
	works, err := a.works(ctx)
	if err != nil {
		return nil, dibs.JobState{}, err
	}
	if !slices.ContainsFunc(works, func(w *work) bool { return w.Name == job }) {
		return nil, dibs.JobState{}, a.unknownJob(job)
	}
	r, err := a.runner(store, works, a.newPrinter(works, false), "")
	if err != nil {
		return nil, dibs.JobState{}, err
	}
	if err := r.Register(ctx, job); err != nil {
		return nil, dibs.JobState{}, err
	}
	state, err = store.Job(ctx, job)
	return store, state, err
}

// tellLive says which runs a pause does not stop.
func (a *app) tellLive(ctx context.Context, store Store, job string) error {
	live, err := store.ListRuns(ctx, dibs.RunFilter{Job: job, State: dibs.RunRunning, Limit: 20})
	if err != nil {
		return err
	}
	for _, run := range live {
		a.out.line("  still running: %s on %s   stop it: dibs cancel %s", dibs.ShortID(run.ID), run.Holder, dibs.ShortID(run.ID))
	}
	return nil
}

func pausedText(s dibs.JobState) string {
	switch {
	case !s.Paused:
		return "not paused"
	case s.PausedUntil.Equal(forever()):
		return "paused"
	}
	return "paused until " + s.PausedUntil.UTC().Format(time.RFC3339)
}

// pauseEnd reads --until: a duration from now, a time of day, or an instant.
func pauseEnd(text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "" {
		return forever(), nil
	}
	var end time.Time
	if d, err := time.ParseDuration(text); err == nil {
		end = now.Add(d)
	} else if clock, err := time.Parse("15:04", text); err == nil {
		local := now.In(zone)
		end = time.Date(local.Year(), local.Month(), local.Day(), clock.Hour(), clock.Minute(), 0, 0, zone)
		if !end.After(now) {
			end = time.Date(local.Year(), local.Month(), local.Day()+1, clock.Hour(), clock.Minute(), 0, 0, zone)
		}
	} else if end, err = time.Parse(time.RFC3339, text); err != nil {
		return end, usageError("--until %q: write a duration (2h), a time of day (18:00) or RFC 3339", text)
	}
	if !end.After(now) {
		return end, usageError("--until %s lies in the past: it is %s", text, now.UTC().Format(time.RFC3339))
	}
	return end, nil
}
