package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// cancelFlags are the choices of cancel.
type cancelFlags struct {
	act
	dead  bool
	grace time.Duration
}

func (a *app) cancelCommand() *cobra.Command {
	var f cancelFlags
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Ask a run to stop, or say that its process is dead",
		Long: "Asks a running run to stop: it claims nothing more, has the grace to finish what\n" +
			"it does, and ends cancelled. Its holder learns of it at its next heartbeat.\n\n" +
			"With --dead: the process is known to be gone, so that nobody needs to wait for\n" +
			"its lease. If it is not gone after all, it can still be at work on its items\n" +
			"while the next run starts, until their leases end; nothing it writes about the\n" +
			"run is accepted any more.",
		Example: "  dibs cancel @crm-sync --why 'wrong file'\n  dibs cancel k3m2 --dead --why 'node lost power'",
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().BoolVar(&f.dead, "dead", false, "the run's process is gone: free its lock at once")
	c.Flags().DurationVar(&f.grace, "grace", 0, "how long it may take to stop (default: the smaller of 10s and a quarter of its lease)")
	f.flags(c)
	return command(groupAct, c, func(cmd *cobra.Command, args []string) error {
		switch {
		case f.dead && f.why == "":
			return usageError("--dead needs --why TEXT: how do you know?")
		case f.grace < 0:
			return usageError("--grace %s: use a positive duration", f.grace)
		}
		return a.cancel(cmd.Context(), args[0], f)
	})
}

func (a *app) cancel(ctx context.Context, ref string, f cancelFlags) error {
	store, err := a.openToWork(ctx)
	if err != nil {
		return err
	}
	run, err := findRun(ctx, store, ref)
	if err != nil {
		return err
	}
	holder, err := dibs.NewHolder("")
	if err != nil {
		return err
	}
	what, after := "cancel", "asked to stop"
	if f.dead {
		what, after = "cancel --dead", string(dibs.RunLost)
	}
	d := dispatch.New(dispatch.Config{Runs: store, Holder: holder})
	_, err = d.Cancel(ctx, dispatch.Cancel{Run: run.ID, Dead: f.dead, Grace: f.grace, Act: dibs.AuditRecord{
		By: f.actor(), What: what, Job: run.Job, Object: run.ID, Before: string(run.State), After: after, Why: f.why,
	}})
	if errors.Is(err, dispatch.ErrEnded) {
		a.out.line("%s  has ended already   look: dibs show %s", dibs.ShortID(run.ID), dibs.ShortID(run.ID))
		return exitWith(exitRefused)
	}
	if err != nil {
		return err
	}
	if f.dead {
		a.out.line("%s of %s is lost: its lock is free or handed on", dibs.ShortID(run.ID), run.Job)
		return nil
	}
	now, err := store.Run(ctx, run.ID)
	if err != nil {
		return err
	}
	a.out.line("%s of %s is asked to stop by %s   its holder %s learns of it at its next heartbeat",
		dibs.ShortID(run.ID), run.Job, stamp(now.StopBy, zoneOf(nil)), run.Holder)
	return nil
}
