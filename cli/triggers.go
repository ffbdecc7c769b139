package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

func (a *app) triggersCommand() *cobra.Command {
	var f listFlags
	var decision string
	c := &cobra.Command{
		Use:   "triggers [JOB]",
		Short: "List triggers and what was decided about each",
		Long: "Lists every request that a job run, newest first, with the decision and its\n" +
			"reason: which run it started, or which run it stood back for, who held that and\n" +
			"until when.",
		Example:           "  dibs triggers crm-sync\n  dibs triggers --decision skipped\n  dibs triggers crm-sync --json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringVar(&decision, "decision", "", "only triggers with this decision: started, skipped, waiting, coalesced, replaced, duplicate or missed")
	f.add(c, 20, "triggers")
	return command(groupSee, c, func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if decision != "" {
			if err := oneOf("--decision", decision, dibs.DecisionStarted, dibs.DecisionSkipped, dibs.DecisionWaiting,
				dibs.DecisionCoalesced, dibs.DecisionReplaced, dibs.DecisionDuplicate, dibs.DecisionMissed); err != nil {
				return err
			}
		}
		return a.triggers(cmd.Context(), dibs.TriggerFilter{Job: optional(args), Decision: dibs.Decision(decision), Limit: f.limit}, f)
	})
}

func (a *app) triggers(ctx context.Context, filter dibs.TriggerFilter, f listFlags) error {
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	list, err := l.store.ListTriggers(ctx, filter)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if err := l.knows(ctx, filter.Job); err != nil {
			return err
		}
		list = []dibs.Trigger{}
	}
	if f.json {
		return a.out.json(struct {
			Now      time.Time      `json:"now"`
			Triggers []dibs.Trigger `json:"triggers"`
		}{l.now, list})
	}
	if len(list) == 0 {
		a.out.line("no triggers")
		return nil
	}
	var t table
	t.head("AT "+l.offset(), "TRIGGER", "JOB", "ORIGIN", "DECISION", "WHY")
	for _, g := range list {
		t.add(text("%s", l.at(g.CreatedAt, g.Job)), text("%s", dibs.ShortID(g.ID)), text("%s", visible(g.Job)),
			text("%s", visible(string(g.Origin))), cell{visible(string(g.Decision)), toneOfDecision(g.Decision)}, text("%s", l.why(g)))
	}
	t.print(a.out, "")
	a.out.more(len(list), f.limit, "triggers")
	return nil
}

func toneOfDecision(d dibs.Decision) tone {
	switch d {
	case dibs.DecisionStarted:
		return good
	case dibs.DecisionSkipped, dibs.DecisionWaiting, dibs.DecisionCoalesced:
		return warn
	case dibs.DecisionMissed, dibs.DecisionReplaced:
		return bad
	}
	return plain
}

// why puts a decision's reason into words.
func (l *look) why(g dibs.Trigger) string {
	text := visible(string(g.Reason))
	switch {
	case g.RunID != "":
		text = "run " + dibs.ShortID(g.RunID) + " (" + text + ")"
	case g.BlockingRun != "":
		text += fmt.Sprintf(": held by %s on %s", dibs.ShortID(g.BlockingRun), visible(g.BlockingHolder))
		if verb := "ended"; !g.BlockingUntil.IsZero() {
			if g.BlockingUntil.After(l.now) {
				verb = "ends"
			}
			text += ", lease " + verb + " " + l.at(g.BlockingUntil, g.Job)
		}
	case g.Decision == dibs.DecisionWaiting && g.Executor != "" && g.Executor != "any":
		text += " for " + visible(g.Executor)
	}
	if g.Key != "" {
		text += ", key " + visible(g.Key)
	}
	if !g.Slot.IsZero() {
		text += ", slot " + l.at(g.Slot, g.Job)
	}
	if g.By != "" && (g.Why != "" || g.Origin == dibs.OriginManual || g.Origin == dibs.OriginAPI || g.Origin == dibs.OriginRecovery) {
		text += ", by " + visible(g.By)
	}
	if g.Why != "" {
		text += ": " + oneLine(g.Why, 60)
	}
	return text
}
