package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

// requeueFlags are the choices of requeue.
type requeueFlags struct {
	act
	quarantined bool
	text        string
	confirm     int64
}

func (a *app) requeueCommand() *cobra.Command {
	var f requeueFlags
	c := &cobra.Command{
		Use:   "requeue JOB",
		Short: "Give quarantined rows another chance",
		Long: "Makes quarantined rows failed ones that are due now, with their budgets whole\n" +
			"again; the next run takes them. Without --confirm it only says how many there are,\n" +
			"and with it, it changes nothing unless there are exactly so many.",
		Example: "  dibs requeue crm-sync --quarantined\n" +
			"  dibs requeue crm-sync --quarantined --error 'no such account' --confirm 12 --why fixed",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().BoolVar(&f.quarantined, "quarantined", false, "the rows that were set aside for a person to look at")
	c.Flags().StringVar(&f.text, "error", "", "only rows whose last error holds this text")
	c.Flags().Int64Var(&f.confirm, "confirm", 0, "how many rows there are to be")
	f.flags(c)
	return command(groupAct, c, func(cmd *cobra.Command, args []string) error {
		switch {
		case !f.quarantined:
			return usageError("say which rows: --quarantined")
		case f.confirm < 0:
			return usageError("--confirm %d: use a positive number", f.confirm)
		}
		return a.requeue(cmd.Context(), args[0], f)
	})
}

// requeuer is what requeue needs of a table.
type requeuer interface {
	Quarantined(ctx context.Context, r sqlstore.Requeue) (int64, error)
	Requeue(ctx context.Context, r sqlstore.Requeue) (int64, error)
}

func (a *app) requeue(ctx context.Context, job string, f requeueFlags) error {
	works, err := a.choose(ctx, []string{job})
	if err != nil {
		return err
	}
	table, ok := works[0].Source.(dibs.Table)
	if !ok {
		return usageError("the job %s has no rows", job)
	}
	store, err := a.openToWork(ctx)
	if err != nil {
		return err
	}
	claims, err := store.Claims(ctx, table)
	if err != nil {
		return err
	}
	rows, ok := claims.(requeuer)
	if !ok {
		return fmt.Errorf("requeue %s: this store cannot", job)
	}
	r := sqlstore.Requeue{Error: f.text, Confirm: f.confirm, Act: dibs.AuditRecord{
		By: f.actor(), What: "requeue", Job: job, Object: f.text, Before: "quarantined", After: fmt.Sprintf("%d due now", f.confirm), Why: f.why,
	}}
	n, err := rows.Quarantined(ctx, r)
	if err != nil {
		return err
	}
	switch {
	case n == 0:
		a.out.line("%s  has no such rows", a.out.paint(bold, job))
		return nil
	case f.confirm == 0:
		a.out.line("%s  %s quarantined   look: dibs items %s --quarantined   then: --confirm %d", a.out.paint(bold, job), plural(n, "row"), job, n)
		return nil
	case f.confirm != n:
		a.out.line("refused   %s quarantined, %d confirmed   exit %d", plural(n, "row"), f.confirm, exitRefused)
		return exitWith(exitRefused)
	}
	if n, err = rows.Requeue(ctx, r); err != nil {
		return err
	}
	a.out.line("%s  %s due now, budgets whole again   next: dibs tick %s", a.out.paint(bold, job), plural(n, "row"), job)
	return nil
}
