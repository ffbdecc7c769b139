package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

func (a *app) runsCommand() *cobra.Command {
	var f listFlags
	var state string
	var incomplete bool
	c := &cobra.Command{
		Use:   "runs [JOB]",
		Short: "List runs, newest first",
		Long: "Lists the runs of a job, or of all: when each started, how it ended, how long it\n" +
			"took and what became of its items. A run that is still \"running\" although its\n" +
			"lease has ended is shown so: the next trigger takes over from it.\n\n" +
			"With --incomplete: only runs that left something undone or unknown which is not done\n" +
			"since, each with the command that repairs it.",
		Example:           "  dibs runs\n  dibs runs crm-sync --state failed\n  dibs runs crm-sync --limit 5 --json\n  dibs runs --incomplete",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringVar(&state, "state", "", "only runs in this state: running, succeeded, partial, failed, cancelled or lost")
	c.Flags().BoolVar(&incomplete, "incomplete", false, "only runs that left something, with the command that repairs it")
	f.add(c, 20, "runs")
	return command(groupSee, c, func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if state != "" {
			if err := oneOf("--state", state, dibs.RunRunning, dibs.RunSucceeded, dibs.RunPartial, dibs.RunFailed, dibs.RunCancelled, dibs.RunLost); err != nil {
				return err
			}
		}
		if incomplete {
			if state != "" {
				return usageError("--incomplete goes without --state")
			}
			return a.incompleteRuns(cmd.Context(), optional(args), f)
		}
		return a.runs(cmd.Context(), dibs.RunFilter{Job: optional(args), State: dibs.RunState(state), Limit: f.limit}, f)
	})
}

func (a *app) runs(ctx context.Context, filter dibs.RunFilter, f listFlags) error {
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	list, err := l.store.ListRuns(ctx, filter)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if err := l.knows(ctx, filter.Job); err != nil {
			return err
		}
		list = []dibs.Run{}
	}
	if f.json {
		return a.out.json(struct {
			Now  time.Time  `json:"now"`
			Runs []dibs.Run `json:"runs"`
		}{l.now, list})
	}
	if len(list) == 0 {
		a.out.line("no runs")
		return nil
	}
	t := table{right: map[int]bool{4: true}}
	t.head("STARTED "+l.offset(), "RUN", "JOB", "STATE", "TOOK", "ITEMS")
	for _, r := range list {
		state, tone := l.state(r)
		t.add(text("%s", l.at(r.StartedAt, r.Job)), text("%s", dibs.ShortID(r.ID)), text("%s", visible(r.Job)),
			cell{state, tone}, text("%s", span(l.took(r))), text("%s", itemsText(r)))
	}
	t.print(a.out, "")
	a.out.more(len(list), f.limit, "runs")
	return nil
}

// incompleteRuns lists what needs a repair.
func (a *app) incompleteRuns(ctx context.Context, job string, f listFlags) error {
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	list, err := l.incomplete(ctx, job, f.limit)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if err := l.knows(ctx, job); err != nil {
			return err
		}
	}
	if f.json {
		return a.out.json(struct {
			Now  time.Time       `json:"now"`
			Runs []incompleteRun `json:"runs"`
		}{l.now, list})
	}
	if len(list) == 0 {
		a.out.line("no run left anything that is not done since")
		return nil
	}
	for _, r := range list {
		state, tone := l.state(r.Run)
		a.out.line("%s  %s  %s  %s  %s", l.at(r.StartedAt, r.Job), dibs.ShortID(r.ID), visible(r.Job), a.out.paint(tone, state), itemsText(r.Run))
		a.out.line("  → %s", r.Command)
	}
	return nil
}

// state is a run's state for people.
func (l *look) state(r dibs.Run) (string, tone) {
	switch r.State {
	case dibs.RunRunning:
		if !l.live(r) {
			return "lease ended", bad
		}
		return "running", good
	case dibs.RunSucceeded:
		return string(r.State), plain
	case dibs.RunPartial, dibs.RunCancelled:
		return string(r.State), warn
	}
	return visible(string(r.State)), bad
}

// itemsText is what became of a run's items, in few words.
func itemsText(r dibs.Run) string {
	var parts []string
	if r.Kind == dibs.KindItems || r.Counts.Selected > 0 {
		c := r.Counts
		parts = append(parts, fmt.Sprintf("%d/%d", c.Completed+c.AlreadyDone, c.Selected))
		for _, p := range []struct {
			n    int64
			word string
		}{
			{c.Failed, "failed"}, {c.Rejected, "rejected"}, {c.Uncertain, "uncertain"}, {c.Held, "held"},
			{c.Released, "released"}, {c.Lost, "lost"}, {c.Remaining, "remaining"},
		} {
			if p.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
			}
		}
	}
	if r.Key != "" {
		parts = append(parts, "key "+visible(r.Key))
	}
	if r.ExitCode != nil && *r.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("exit %d", *r.ExitCode))
	}
	if r.Reason != "" {
		parts = append(parts, visible(string(r.Reason)))
	}
	if r.Error != "" {
		parts = append(parts, oneLine(r.Error, 60))
	}
	return strings.Join(parts, ", ")
}
