package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

func (a *app) resolveCommand() *cobra.Command {
	var f act
	var q runner.Resolution
	var asJSON bool
	c := &cobra.Command{
		Use:   "resolve WORK_ID",
		Short: "Say what became of an action that nobody can tell",
		Long: "Records a person's decision about one uncertain or held action, and settles it and\n" +
			"its row by it: --confirmed ID says that the destination has it under that name;\n" +
			"--absent says that it certainly does not, so that it runs again. Look first: a\n" +
			"wrong --absent does the action twice.",
		Example: "  dibs resolve crm-sync/sync-note/acct-0113/1795959600 --confirmed note-000042\n" +
			"  dibs resolve crm-sync/sync-note/acct-0113/1795959600 --absent --why searched",
		Args: cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&q.Confirmed, "confirmed", "", "the destination has it, under this ID")
	c.Flags().BoolVar(&q.Absent, "absent", false, "the destination does not have it; needs --why")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	f.flags(c)
	return command(groupAct, c, func(cmd *cobra.Command, args []string) error {
		switch {
		case (q.Confirmed != "") == q.Absent:
			return usageError("want one of --confirmed ID and --absent")
		case q.Absent && f.why == "":
			return usageError("--absent needs --why TEXT: how do you know?")
		}
		q.WorkID, q.By, q.Why = args[0], f.actor(), f.why
		return a.resolveWork(cmd.Context(), q, asJSON)
	})
}

func (a *app) resolveWork(ctx context.Context, q runner.Resolution, asJSON bool) error {
	_, r, _, err := a.repairer(ctx, "", q.By)
	if err != nil {
		return err
	}
	got, err := r.Resolve(ctx, q)
	switch {
	case errors.Is(err, dibs.ErrNotFound) && got.Before == "":
		return &dibs.ConfigError{Subject: visible(q.WorkID), Problem: "is no work ID with an effect on record", Fix: "list what is uncertain or held: " + a.program.Name + " items JOB"}
	case err != nil:
		return err
	case asJSON:
		return a.out.json(got)
	}
	a.out.line("%s  %s → %s, recorded as decided by %s", visible(q.WorkID), got.Before, got.After, visible(q.By))
	return nil
}
