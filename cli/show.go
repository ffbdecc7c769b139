package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

// definer knows the texts of old definitions; the stores of this module do.
type definer interface {
	Definition(ctx context.Context, job, hash string) (string, error)
}

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ID|@JOB|WORK_ID",
		Short: "Show a run, a trigger, or a work ID's history",
		Long: "Shows everything on record about one thing. An id may be whole or its end, as the\n" +
			"lists show it; @JOB is the job's last run; a work ID shows every attempt at that\n" +
			"action, in all runs.",
		Example: "  dibs show k3v9\n  dibs show @crm-sync\n  dibs show crm-sync/sync-note/acct-0113/1795959600",
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command(groupSee, c, func(cmd *cobra.Command, args []string) error {
		return a.show(cmd.Context(), args[0], asJSON)
	})
}

// show finds what a person means: what looks like a work ID is one, and an end
// is a run's before it is a trigger's.
func (a *app) show(ctx context.Context, ref string, asJSON bool) error {
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(ref, "@") {
		h, err := l.history(ctx, ref)
		if err != nil {
			return err
		}
		if h.Job != "" {
			return l.showWork(h, asJSON)
		}
	}
	if !strings.HasPrefix(suffixOf(ref), "trg_") {
		r, err := findRun(ctx, l.store, ref)
		if err == nil {
			return l.showRun(ctx, r, asJSON)
		}
		var none *dibs.ConfigError
		if !errors.As(err, &none) || strings.HasPrefix(ref, "@") || strings.HasPrefix(none.Problem, "several") {
			return err
		}
	}
	g, err := findTrigger(ctx, l.store, ref)
	var none *dibs.ConfigError
	if errors.As(err, &none) && !strings.HasPrefix(none.Problem, "several") {
		return &dibs.ConfigError{Subject: visible(ref), Problem: "is no work ID and no end of a run's or trigger's id",
			Fix: fmt.Sprintf("list them: %s runs, %s triggers", a.program.Name, a.program.Name)}
	}
	if err != nil {
		return err
	}
	return l.showTrigger(g, asJSON)
}

// Bounds of what is shown of one thing.
const (
	shownOutcomes = 100
	shownOfKind   = 20
)

// runReport is a run with what belongs to it.
type runReport struct {
	Now      time.Time     `json:"now"`
	Run      dibs.Run      `json:"run"`
	Balanced bool          `json:"balanced"`
	Trigger  *dibs.Trigger `json:"trigger,omitempty"`
	// Recorded counts the outcomes on record, Outcomes lists those that did not
	// complete.
	Recorded   dibs.Counts          `json:"recorded"`
	Outcomes   []dibs.OutcomeRecord `json:"outcomes"`
	Skipped    int                  `json:"skipped_behind"`
	Definition string               `json:"definition_text,omitempty"`
}

func (l *look) report(ctx context.Context, r dibs.Run) (runReport, error) {
	out := runReport{Now: l.now, Run: r, Balanced: r.Counts.Balanced(), Outcomes: []dibs.OutcomeRecord{}}
	if list, err := l.store.ListTriggers(ctx, dibs.TriggerFilter{Run: r.ID, Limit: 1}); err != nil {
		return out, err
	} else if len(list) > 0 {
		out.Trigger = &list[0]
	}
	behind, err := l.store.ListTriggers(ctx, dibs.TriggerFilter{Blocking: r.ID, Limit: countedTriggers})
	if err != nil {
		return out, err
	}
	out.Skipped = len(behind)
	if out.Recorded, err = l.store.FoldOutcomes(ctx, r.ID); err != nil {
		return out, err
	}
	for _, kind := range []struct {
		o dibs.Outcome
		n int64
	}{
		{dibs.OutcomeFailed, out.Recorded.Failed}, {dibs.OutcomeRejected, out.Recorded.Rejected}, {dibs.OutcomeUncertain, out.Recorded.Uncertain},
		{dibs.OutcomeHeld, out.Recorded.Held}, {dibs.OutcomeLost, out.Recorded.Lost},
	} {
		if kind.n == 0 {
			continue
		}
		list, err := l.store.ListOutcomes(ctx, dibs.OutcomeFilter{Run: r.ID, Outcome: kind.o, Limit: shownOfKind})
		if err != nil {
			return out, err
		}
		out.Outcomes = append(out.Outcomes, list...)
	}
	if d, ok := l.store.(definer); ok && r.Definition != "" {
		said, err := d.Definition(ctx, r.Job, r.Definition)
		if err != nil && !errors.Is(err, dibs.ErrNotFound) {
			return out, err
		}
		out.Definition = said
	}
	return out, nil
}

// showRun writes one run.
func (l *look) showRun(ctx context.Context, r dibs.Run, asJSON bool) error {
	report, err := l.report(ctx, r)
	if err != nil {
		return err
	}
	o := l.app.out
	if asJSON {
		return o.json(report)
	}
	state, tone := l.state(r)
	o.line("%s  %s  %s", o.paint(bold, visible(r.Job)), o.paint(tone, state), r.ID)
	f := fields{out: o}
	f.runTimes(l, r)
	if g := report.Trigger; g != nil {
		f.add("trigger", "%s %s: %s", dibs.ShortID(g.ID), visible(string(g.Origin)), l.why(*g))
	}
	f.add("holder", "%s", holderName(r.Holder))
	f.lease(l, r)
	if r.Key != "" {
		f.add("key", "%s", visible(r.Key))
	}
	if r.Kind == dibs.KindItems {
		f.add("items", "%s%s", r.Counts, balance(report))
	} else {
		f.add("kind", "%s", visible(string(r.Kind)))
	}
	f.text("position", r.Position)
	if r.ExitCode != nil {
		f.add("exit code", "%d", *r.ExitCode)
	}
	f.text("reason", string(r.Reason))
	f.text("error", r.Error)
	f.text("previous", r.Previous)
	f.text("recovers", r.Recovers)
	if report.Skipped > 0 {
		f.add("behind it", "%s stood back", atLeast(report.Skipped, countedTriggers, "trigger"))
	}
	f.text("definition", r.Definition)
	f.write()
	l.writeAttempts(report.Outcomes, r.Job, false)
	o.block("output", r.Output)
	o.block("definition", report.Definition)
	return nil
}

// balance says whether every item that was taken has an outcome.
func balance(r runReport) string {
	c := r.Run.Counts
	switch open := c.Selected - c.Ended(); {
	case r.Balanced:
		return ""
	case r.Run.State == dibs.RunRunning:
		return fmt.Sprintf("; %d in hand", open)
	default:
		return fmt.Sprintf("; %d without an outcome", open)
	}
}

// fields are named lines, aligned.
type fields struct {
	out *output
	t   table
}

func (f *fields) add(name, format string, args ...any) {
	f.t.add(cell{name, faint}, text(format, args...))
}

// text adds a field of one line unless it is empty.
func (f *fields) text(name, value string) {
	if value != "" {
		f.add(name, "%s", oneLine(value, 400))
	}
}

func (f *fields) write() { f.t.write(f.out, "  ") }

func (f *fields) runTimes(l *look, r dibs.Run) {
	zone := l.zone(r.Job)
	if r.EndedAt.IsZero() {
		f.add("started", "%s, %s ago", stamp(r.StartedAt, zone), span(l.took(r)))
	} else {
		f.add("started", "%s", stamp(r.StartedAt, zone))
		f.add("ended", "%s, took %s", stamp(r.EndedAt, zone), span(l.took(r)))
	}
	if !r.Slot.IsZero() {
		f.add("slot", "%s", stamp(r.Slot, zone))
	}
}

func (f *fields) lease(l *look, r dibs.Run) {
	if r.State != dibs.RunRunning {
		return
	}
	left := r.Lease.Sub(l.now)
	beat := "last beat " + span(l.now.Sub(r.Heartbeat)) + " ago"
	if left > 0 {
		f.add("lease", "%s left, ends %s, %s", span(left), l.at(r.Lease, r.Job), beat)
	} else {
		f.add("lease", "ended %s ago at %s, %s; the next trigger takes over", span(-left), l.at(r.Lease, r.Job), beat)
	}
	if !r.StopBy.IsZero() {
		f.add("stop by", "%s", stamp(r.StopBy, l.zone(r.Job)))
	}
}

// writeAttempts lists outcomes; across runs each names its run.
func (l *look) writeAttempts(list []dibs.OutcomeRecord, job string, across bool) {
	if len(list) == 0 {
		return
	}
	o := l.app.out
	t := table{right: map[int]bool{3: true, 4: true}}
	last := "KEY"
	if across {
		last = "RUN"
	}
	t.head("AT "+l.offset(), last, "OUTCOME", "TRY", "TOOK", "WHAT WAS SAID")
	for _, r := range list {
		name := visible(r.Key)
		if across {
			name = dibs.ShortID(r.RunID)
		}
		outcome := string(r.Outcome)
		if r.Late {
			outcome += " (late)"
		}
		t.add(text("%s", l.at(r.RecordedAt, job)), text("%s", name), cell{visible(outcome), toneOfOutcome(r.Outcome)},
			text("%d", r.Attempt), text("%s", span(r.Took)), text("%s", saidOf(r)))
	}
	o.line("")
	t.print(o, "  ")
}

func toneOfOutcome(o dibs.Outcome) tone {
	switch o {
	case dibs.OutcomeCompleted, dibs.OutcomeAlreadyDone:
		return good
	case dibs.OutcomeReleased:
		return plain
	case dibs.OutcomeFailed:
		return warn
	}
	return bad
}

// saidOf is a receipt, a reason and an error on one line.
func saidOf(r dibs.OutcomeRecord) string {
	var parts []string
	if r.ReceiptID != "" {
		parts = append(parts, "receipt "+oneLine(r.ReceiptID, 80))
	}
	if r.Reason != "" {
		parts = append(parts, visible(string(r.Reason)))
	}
	if r.Error != "" {
		parts = append(parts, oneLine(r.Error, 200))
	}
	return strings.Join(parts, ", ")
}

// showTrigger writes one trigger.
func (l *look) showTrigger(g dibs.Trigger, asJSON bool) error {
	o := l.app.out
	if asJSON {
		return o.json(struct {
			Now     time.Time    `json:"now"`
			Trigger dibs.Trigger `json:"trigger"`
		}{l.now, g})
	}
	zone := l.zone(g.Job)
	o.line("%s  %s  %s", o.paint(bold, visible(g.Job)), o.paint(toneOfDecision(g.Decision), visible(string(g.Decision))), g.ID)
	f := fields{out: o}
	f.add("why", "%s", l.why(g))
	f.text("detail", g.Detail)
	f.add("origin", "%s", visible(string(g.Origin)))
	f.add("came", "%s", stamp(g.CreatedAt, zone))
	if !g.DecidedAt.IsZero() {
		f.add("decided", "%s", stamp(g.DecidedAt, zone))
	}
	if !g.Slot.IsZero() {
		f.add("slot", "%s", stamp(g.Slot, zone))
	}
	f.text("trigger id", g.ExternalID)
	f.text("lock", g.Lock)
	f.text("run", g.RunID)
	f.text("blocked by", g.BlockingRun)
	f.text("held on", g.BlockingHolder)
	f.text("by", g.By)
	f.text("executor", g.Executor)
	for i, s := range g.Covered {
		if i == 20 {
			f.add("covers", "%d more", len(g.Covered)-i)
			break
		}
		f.add("covers", "%s", stamp(s, zone))
	}
	f.write()
	return nil
}

// countedTriggers is the most that are counted.
const countedTriggers = 100

// atLeast writes a count that was bounded.
func atLeast(n, bound int, word string) string {
	if n >= bound {
		return fmt.Sprintf("%d or more %ss", n, word)
	}
	return plural(int64(n), word)
}
