package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// reconcileFlags are the choices of reconcile.
type reconcileFlags struct {
	act
	windowFlags
	verify string
	rate   int
	json   bool
}

func (a *app) reconcileCommand() *cobra.Command {
	var f reconcileFlags
	c := &cobra.Command{
		Use:   "reconcile JOB",
		Short: "Ask the destination about every unknown outcome",
		Long: "Looks up every action of the job whose outcome is not known, and settles those\n" +
			"about which the destination gives an answer that counts. A lookup that fails\n" +
			"settles nothing; \"absent\" is believed only once no attempt could still arrive\n" +
			"(lookup_after). Runs beside everything else and takes no lock.\n\n" +
			"Exits with 4 while uncertain or held actions remain in the range.",
		Example:           "  dibs reconcile crm-sync\n  dibs reconcile crm-sync --from 2026-11-29T08:00 --to 2026-11-29T10:00\n  dibs reconcile crm-sync --verify 5% --json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringVar(&f.from, "from", "", "only actions first attempted at or after this time")
	c.Flags().StringVar(&f.to, "to", "", "only actions first attempted before this time")
	c.Flags().StringVar(&f.verify, "verify", "", "also look up this share of the confirmed actions, such as 5%")
	c.Flags().IntVar(&f.rate, "rate", runner.DefaultLookupRate, "the most lookups to begin in a second")
	c.Flags().BoolVar(&f.json, "json", false, "write JSON")
	f.flags(c)
	return command(groupAct, c, func(cmd *cobra.Command, args []string) error {
		if f.rate <= 0 {
			return usageError("--rate %d: use a positive number", f.rate)
		}
		return a.reconcile(cmd.Context(), args[0], f)
	})
}

// share reads a percentage.
func share(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || !(n > 0 && n <= 100) {
		return 0, usageError("--verify %s: want a share, from 0%% up to 100%%", visible(text))
	}
	return n / 100, nil
}

func (a *app) reconcile(ctx context.Context, job string, f reconcileFlags) error {
	q := runner.Reconcile{Job: job, Rate: f.rate, By: f.actor(), Why: f.why}
	var err error
	if q.Verify, err = share(f.verify); err != nil {
		return err
	}
	_, r, works, err := a.repairer(ctx, job, f.by)
	if err != nil {
		return err
	}
	if q.From, q.To, err = f.window(works[0].zone()); err != nil {
		return err
	}
	got, err := r.Reconcile(ctx, q)
	if err != nil {
		return err
	}
	code := exitOK
	if got.Uncertain+got.Held > 0 {
		code = exitUncertain
	}
	if f.json {
		if err := a.out.json(struct {
			Job string `json:"job"`
			runner.Reconciled
			Exit int `json:"exit"`
		}{job, got, code}); err != nil {
			return err
		}
		return exitWith(code)
	}
	a.writeReconciled(job, got)
	return exitWith(code)
}

func (a *app) writeReconciled(job string, got runner.Reconciled) {
	o := a.out
	o.line("%s  reconciled by run %s", o.paint(bold, visible(job)), dibs.ShortID(got.Run.ID))
	t := table{right: map[int]bool{0: true}}
	for _, k := range []struct {
		kind dibs.FindingKind
		text string
		tone tone
	}{
		{dibs.FindingConfirmedLate, "confirmed_late   the destination has it: settled as done", good},
		{dibs.FindingAbsent, "absent           the destination does not have it", plain},
		{dibs.FindingDuplicate, "duplicate        the destination has it more than once", bad},
		{dibs.FindingMismatch, "mismatch         recorded as done, but not so at the destination", bad},
		{dibs.FindingUnreachable, "unreachable      no answer: nothing was settled", warn},
	} {
		if n := got.Findings[k.kind]; n > 0 {
			t.add(text("%d", n), cell{k.text, k.tone})
		}
	}
	t.write(o, "  ")
	if got.Verified > 0 {
		o.line("  %d confirmed looked up as a sample", got.Verified)
	}
	if got.Busy > 0 {
		o.line("  %d in somebody else's hands", got.Busy)
	}
	switch left := got.Uncertain + got.Held; {
	case got.Looked == 0 && got.Verified == 0 && left == 0:
		o.line("  nothing is uncertain")
	case left > 0:
		o.line("%s", o.paint(warn, "exit 4    "+plural(got.Uncertain, "action")+" uncertain, "+strconv.FormatInt(got.Held, 10)+" held   → "+
			a.program.Name+" items "+word(job)+", "+a.program.Name+" resolve WORK_ID"))
	}
}
