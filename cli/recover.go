package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// recoverFlags are the choices of recover.
type recoverFlags struct {
	act
	windowFlags
	after, until, run, key string
	confirm                int
	large, pause, json     bool
	wait                   time.Duration
}

func (a *app) recoverCommand() *cobra.Command {
	var f recoverFlags
	c := &cobra.Command{
		Use:   "recover JOB",
		Short: "Replay a bounded range on purpose, in two steps",
		Long: "Without --confirm: selects the items that the runs of the range attempted, says what\n" +
			"became of each, stores the plan, and prints the command that carries it out.\n" +
			"With --confirm N, the plan's number: replays what remains, under the job's lock.\n\n" +
			"What is done is never done again; unknown outcomes are looked up first. A range is\n" +
			"half-open, over the slot or, without one, over when the trigger came. The set may\n" +
			"only shrink. It is refused while any run of the job is live. After a crash, repeat\n" +
			"the same command. There is no \"run everything again\".",
		Example: "  dibs recover crm-sync --from 2026-11-29T08:00 --to 2026-11-29T10:00\n" +
			"  dibs recover crm-sync --run k3v9\n  dibs recover crm-sync --run k3v9 --confirm 14 --wait 5m",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringVar(&f.from, "from", "", "slots, or triggers without one, at or after this time")
	c.Flags().StringVar(&f.to, "to", "", "and before this time")
	c.Flags().StringVar(&f.after, "after", "", "keys greater than this one")
	c.Flags().StringVar(&f.until, "until", "", "and up to this one")
	c.Flags().StringVar(&f.run, "run", "", "what this run attempted: an id or its end")
	c.Flags().StringVar(&f.key, "key", "", "only the row with this key")
	c.Flags().IntVar(&f.confirm, "confirm", 0, "carry out the plan with this number")
	c.Flags().BoolVar(&f.large, "yes-large", false, "also a plan of more items than the job's recover_limit")
	c.Flags().BoolVar(&f.pause, "pause", false, "hold the job's schedule while the recovery runs")
	c.Flags().DurationVar(&f.wait, "wait", 0, "stand by so long for live runs of the job to end")
	c.Flags().BoolVar(&f.json, "json", false, "write JSON")
	f.flags(c)
	return command(groupAct, c, func(cmd *cobra.Command, args []string) error {
		if f.wait < 0 {
			return usageError("--wait %s: use a positive duration", f.wait)
		}
		return a.recover(cmd.Context(), args[0], f, cmd.Flags().Changed("confirm"))
	})
}

func (a *app) recover(ctx context.Context, job string, f recoverFlags, confirmed bool) error {
	store, r, works, err := a.repairer(ctx, job, f.by)
	if err != nil {
		return err
	}
	g := runner.Range{After: f.after, Until: f.until, Key: f.key}
	if g.From, g.To, err = f.window(works[0].zone()); err != nil {
		return err
	}
	if f.run != "" {
		run, err := findRun(ctx, store, f.run)
		if err != nil {
			return err
		}
		g.Run = run.ID
	}
	if g.IsZero() {
		return a.noRange(ctx, job)
	}
	if !confirmed {
		p, err := r.PlanRecovery(ctx, job, g, f.actor(), f.why)
		if err != nil {
			return err
		}
		return a.writePlan(job, g, p, f.json)
	}
	got, err := r.Recover(ctx, runner.Recover{
		Job: job, Range: g, Confirm: f.confirm, Large: f.large, Wait: f.wait, Pause: f.pause, By: f.actor(), Why: f.why,
	})
	if err != nil && got.Run.ID == "" {
		return err
	}
	return a.writeRecovered(job, g, got, err, f.json)
}

// noRange refuses a recovery without a range, and says which would make sense.
func (a *app) noRange(ctx context.Context, job string) error {
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	list, err := l.incomplete(ctx, job, 5)
	if err != nil {
		return err
	}
	text := "no range, no recovery: say which part to replay, by --from and --to, --after and --until, --run, or --key"
	if len(list) == 0 {
		return usageError("%s. Nothing of %s is incomplete", text, visible(job))
	}
	from, to := list[0].StartedAt, list[0].StartedAt
	text += ". These would make sense:"
	for _, r := range list {
		at := r.StartedAt
		if !r.Slot.IsZero() {
			at = r.Slot
		}
		if at.Before(from) {
			from = at
		}
		if at.After(to) {
			to = at
		}
		text += fmt.Sprintf("\n  %s   # %s, %s", r.Command, visible(string(r.State)), itemsText(r.Run))
	}
	// A run's trigger may have come a little before the run began.
	text += fmt.Sprintf("\n  %s recover %s --from %s --to %s   # all of these", a.program.Name, word(job),
		utc(from.Add(-time.Second).Truncate(time.Second)), utc(to.Add(time.Second).Truncate(time.Second)))
	return usageError("%s", text)
}

// flagsOf writes a range as flags.
func flagsOf(g runner.Range) string {
	var b strings.Builder
	for _, p := range []struct{ flag, value string }{
		{"after", g.After}, {"until", g.Until}, {"run", g.Run}, {"key", g.Key},
	} {
		if p.value != "" {
			b.WriteString(" --" + p.flag + " " + word(p.value))
		}
	}
	if !g.From.IsZero() {
		b.WriteString(" --from " + utc(g.From) + " --to " + utc(g.To))
	}
	return b.String()
}

// mostKeys is how many keys a plan shows.
const mostKeys = 20

func (a *app) writePlan(job string, g runner.Range, p runner.Planned, asJSON bool) error {
	next := fmt.Sprintf("%s recover %s%s --confirm %d", a.program.Name, word(job), flagsOf(g), p.Plan.Count)
	if p.Plan.Count > p.Limit {
		next += " --yes-large"
	}
	if asJSON {
		p.Plan.Items = nil
		return a.out.json(struct {
			Job string `json:"job"`
			runner.Planned
			Next string `json:"next"`
		}{job, p, next})
	}
	o := a.out
	o.line("%s  plan %s: %s", o.paint(bold, visible(job)), dibs.ShortID(p.Plan.ID), visible(p.Plan.Span))
	o.line("  %s", p.Sum)
	keys := p.Send
	more := ""
	if len(keys) > mostKeys {
		keys, more = keys[:mostKeys], fmt.Sprintf(", and %d more", len(p.Send)-mostKeys)
	}
	if len(p.Send) == 0 {
		o.line("  nothing is left to replay")
		return nil
	}
	o.line("  could send %d: %s%s", p.Plan.Count, visible(strings.Join(keys, ", ")), more)
	o.line("Nothing was sent. To carry it out:\n  %s", next)
	return nil
}

func (a *app) writeRecovered(job string, g runner.Range, got runner.Recovered, err error, asJSON bool) error {
	s := got.Sum
	code := exitOK
	if s.Failed+s.Rejected+s.Remaining+s.Busy > 0 {
		code = exitFailed
	}
	if s.Uncertain+s.Held > 0 {
		code = exitUncertain
	}
	if err != nil {
		code = graver(code, codeOf(err))
	}
	if asJSON {
		got.Plan.Items = nil
		if err := a.out.json(struct {
			Job string `json:"job"`
			runner.Recovered
			Balanced bool `json:"balanced"`
			Exit     int  `json:"exit"`
		}{job, got, s.Balanced(), code}); err != nil {
			return err
		}
	} else {
		o := a.out
		o.line("%s  recovered by run %s, plan %s", o.paint(bold, visible(job)), dibs.ShortID(got.Run.ID), dibs.ShortID(got.Plan.ID))
		o.line("  %s", s)
		if got.Plan.State == dibs.PlanOpen {
			o.line("%s", o.paint(warn, fmt.Sprintf("%d left open; again: %s recover %s%s --confirm %d", got.Open, a.program.Name, word(job), flagsOf(g), got.Plan.Count)))
		}
	}
	if err != nil {
		a.complain(err)
	}
	return exitWith(code)
}
