package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

// reportFlags are the choices of report.
type reportFlags struct {
	windowFlags
	html, csv string
	json      bool
}

func (a *app) reportCommand() *cobra.Command {
	var f reportFlags
	c := &cobra.Command{
		Use:   "report JOB",
		Short: "Write the evidence of a window of time",
		Long: "Writes what happened to a job in a window: its triggers and what was decided about\n" +
			"each, the runs, what became of every action, the sum that must balance, what\n" +
			"lookups found, what people did since and why, and the definitions in force.\n" +
			"The window is half-open, over the slot or, without one, over when the trigger came.\n\n" +
			"--html writes one file with a timeline that needs nothing else to be read; --csv one\n" +
			"line for each trigger and outcome. A file named - is standard output.",
		Example: "  dibs report crm-sync --from 2026-11-29 --to 2026-11-30\n" +
			"  dibs report crm-sync --from 2026-11-29 --to 2026-11-30 --html evidence.html",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringVar(&f.from, "from", "", "slots, or triggers without one, at or after this time")
	c.Flags().StringVar(&f.to, "to", "", "and before this time")
	c.Flags().StringVar(&f.html, "html", "", "write a page into this file")
	c.Flags().StringVar(&f.csv, "csv", "", "write a table into this file")
	c.Flags().BoolVar(&f.json, "json", false, "write JSON")
	return command(groupSee, c, func(cmd *cobra.Command, args []string) error {
		return a.report(cmd.Context(), args[0], f)
	})
}

func (a *app) report(ctx context.Context, job string, f reportFlags) error {
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	if err := l.knows(ctx, job); err != nil {
		return err
	}
	from, to, err := f.window(l.zone(job))
	if err != nil {
		return err
	}
	if from.IsZero() || to.IsZero() {
		return usageError("which window? give both --from and --to")
	}
	e, err := l.evidence(ctx, job, from, to)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{f.html, func(w io.Writer) error { return e.html(w, l.zone(job)) }},
		{f.csv, e.csv},
	} {
		if file.name == "" {
			continue
		}
		if err := a.writeFile(file.name, file.write); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		return a.out.json(e)
	case f.html == "-" || f.csv == "-":
		return nil
	}
	l.writeReport(e)
	return nil
}

// writeFile writes a whole file or none of it, readable by its owner alone: it
// may hold what the job's users would not show.
func (a *app) writeFile(name string, write func(io.Writer) error) error {
	if name == "-" {
		return write(a.out.w)
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".dibs-report-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = write(file)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // it is worth nothing
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// writeReport says the gist.
func (l *look) writeReport(e evidence) {
	o := l.app.out
	o.line("%s  %s to %s", o.paint(bold, visible(e.Job)), stamp(e.From, l.zone(e.Job)), stamp(e.To, l.zone(e.Job)))
	f := fields{out: o}
	f.add("triggers", "%d%s", len(e.Triggers), e.decisionText())
	f.add("runs", "%d", len(e.Runs))
	f.add("items", "%s%s", e.Sum, e.balanceText())
	f.add("effects", "%d%s", len(e.Effects), effectText(e.Effects))
	f.add("findings", "%d", len(e.Findings))
	f.add("acts", "%d", len(e.Acts))
	f.write()
	for _, act := range e.Acts {
		o.line("  %s  %s  %s %s  %s → %s  %s", l.at(act.At, e.Job), oneLine(act.By, 60), visible(act.What), oneLine(act.Object, 80), oneLine(act.Before, 60), oneLine(act.After, 80), oneLine(act.Why, 120))
	}
	for _, what := range e.Cut {
		o.line("%s", o.paint(warn, "too many "+what+": the report has only some; narrow the window"))
	}
}

func (e evidence) balanceText() string {
	switch {
	case e.Balanced && e.Running == 0:
		return "; balances"
	case e.Balanced:
		return fmt.Sprintf("; %s still going on", plural(int64(e.Running), "run"))
	}
	return "; DOES NOT BALANCE: a run was lost with items in hand"
}

func (e evidence) decisionText() string {
	text := ""
	for _, d := range []dibs.Decision{dibs.DecisionStarted, dibs.DecisionSkipped, dibs.DecisionWaiting, dibs.DecisionCoalesced, dibs.DecisionReplaced, dibs.DecisionDuplicate, dibs.DecisionMissed} {
		if n := e.Decisions[d]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, d)
		}
	}
	return text
}

func effectText(list []dibs.Effect) string {
	counts := map[dibs.EffectState]int{}
	for _, e := range list {
		counts[e.State]++
	}
	text := ""
	for _, s := range []dibs.EffectState{dibs.EffectConfirmed, dibs.EffectRejected, dibs.EffectNotApplied, dibs.EffectIntended, dibs.EffectUncertain, dibs.EffectHeld} {
		if counts[s] > 0 {
			text += fmt.Sprintf(", %d %s", counts[s], s)
		}
	}
	return text
}
