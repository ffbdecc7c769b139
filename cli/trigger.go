package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// triggerFlags are the choices of trigger.
type triggerFlags struct {
	runFlags
	enqueue bool
	wait    string
}

func (a *app) triggerCommand() *cobra.Command {
	var f triggerFlags
	c := &cobra.Command{
		Use:   "trigger JOB",
		Short: "Ask for a run, wherever the job can run",
		Long: "Asks for one run of a job, or with --key of one of its rows. A job that this\n" +
			"program can run runs here, as with run. A job of another program (one that has\n" +
			"its jobs in Go) is left a waiting trigger, and the answer says who takes it.",
		Example:           "  dibs trigger crm-sync --key acct-0007\n  dibs trigger billing --why 'month end'",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringVar(&f.key, "key", "", "only the row with this key")
	c.Flags().BoolVar(&f.json, "json", false, "write JSON")
	c.Flags().BoolVar(&f.enqueue, "enqueue", false, "leave it waiting for whoever has the job, even if it could run here")
	c.Flags().StringVar(&f.wait, "wait", "", "wait until its run has ended, whoever runs it (a duration; default: without limit)")
	c.Flags().Lookup("wait").NoOptDefVal = "-"
	f.flags(c)
	return command(groupRun, c, func(cmd *cobra.Command, args []string) error {
		return a.trigger(cmd.Context(), args[0], f)
	})
}

// trigger runs the job here if it can, and else leaves a waiting trigger.
func (a *app) trigger(ctx context.Context, name string, f triggerFlags) error {
	wait, err := waitFlag(f.wait)
	if err != nil {
		return err
	}
	works, err := a.works(ctx)
	if err != nil {
		return err
	}
	store, err := a.openToWork(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(works, func(w *work) bool { return w.Name == name })
	if i >= 0 {
		switch {
		case f.json:
		case f.enqueue:
			a.out.line("where     wherever the job runs next")
		default:
			a.out.line("where     here: this program has the job")
		}
		return a.runHere(ctx, store, works[i], f.runFlags, runner.Ask{Enqueue: f.enqueue, Wait: wait})
	}
	state, err := store.Job(ctx, name)
	if errors.Is(err, dibs.ErrNotFound) {
		return a.unknownJob(name)
	}
	if err != nil {
		return err
	}
	return a.leaveTrigger(ctx, store, state, f.runFlags)
}

// leaveTrigger writes a waiting trigger that anybody who has the job may take.
func (a *app) leaveTrigger(ctx context.Context, store Store, state dibs.JobState, f runFlags) error {
	if state.Paused {
		a.out.line("refused   %s is paused by %s: %s   exit %d", state.Name, state.PausedBy, state.PausedWhy, exitRefused)
		return exitWith(exitRefused)
	}
	id, err := dibs.NewTriggerID()
	if err != nil {
		return err
	}
	t := dibs.Trigger{
		ID: id, Job: state.Name, Origin: dibs.OriginManual, Key: f.key, Decision: dibs.DecisionWaiting,
		Reason: dibs.ReasonNobody, Executor: "any", By: f.actor(), Why: f.why,
	}
	if err := store.AddTrigger(ctx, t); err != nil {
		return err
	}
	last, err := store.ListRuns(ctx, dibs.RunFilter{Job: state.Name, Limit: 1})
	if err != nil {
		return err
	}
	if f.json {
		return a.out.json(struct {
			Trigger dibs.Trigger `json:"trigger"`
			Takes   string       `json:"takes"`
			LastRun *dibs.Run    `json:"last_run,omitempty"`
		}{t, "the next program that has the job", firstOf(last)})
	}
	a.out.line("%s  waiting %s   this program does not have the job: its own program takes it, at its next tick", a.out.paint(bold, state.Name), dibs.ShortID(id))
	if len(last) > 0 {
		a.out.line("          it last ran on %s, %s", last[0].Holder, stamp(last[0].StartedAt, zoneOf(nil)))
	}
	return nil
}

func firstOf(runs []dibs.Run) *dibs.Run {
	if len(runs) == 0 {
		return nil
	}
	return &runs[0]
}
