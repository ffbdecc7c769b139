package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// runFlags are the choices of run.
type runFlags struct {
	act
	key  string
	json bool
	wrap wrapFlags
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run NAME -- COMMAND [ARG…] | run JOB",
		Short: "Run a command as the only one of its name, or a job now",
		Long: "With a command after --: runs it unless another run of that name is alive, on any\n" +
			"host that uses the same database, and keeps the outcome. No server and no file are\n" +
			"needed. Its exit code is passed on; when it was not run because another one is,\n" +
			"that is recorded and the exit code is 0.\n\n" +
			"Without a command: runs a configured job here and now, or with --key one of its\n" +
			"rows, which then need not be due. The overlap policy holds for you as for\n" +
			"everybody: when another run has what you ask for, the answer is who has it and\n" +
			"until when (exit 75).",
		Example: "  dibs run export --schedule '*/5 * * * *' --time-zone UTC -- /srv/export.sh\n" +
			"  dibs run crm-sync --key acct-0007 --why 'customer called'",
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().SetInterspersed(false)
	c.Flags().StringVar(&f.key, "key", "", "only the row with this key")
	c.Flags().BoolVar(&f.json, "json", false, "write JSON")
	f.act.flags(c)
	f.wrap.flags(c)
	return command(groupRun, c, func(cmd *cobra.Command, args []string) error {
		name, argv, err := splitRun(cmd, args)
		switch {
		case errors.Is(err, pflag.ErrHelp):
			return cmd.Help()
		case err != nil:
			return err
		case argv != nil:
			return a.wrap(cmd.Context(), name, argv, f)
		}
		if err := f.wrap.refuseWithout(); err != nil {
			return err
		}
		return a.run(cmd.Context(), name, f)
	})
}

// splitRun takes the name, then flags, then, after "--", the command to wrap.
// Flags stop at the first argument, so that those of the command are its own.
func splitRun(cmd *cobra.Command, args []string) (name string, argv []string, err error) {
	if len(args) == 0 || cmd.Flags().ArgsLenAtDash() == 0 {
		return "", nil, usageError("name the job first")
	}
	name = args[0]
	if err := cmd.Flags().Parse(args[1:]); err != nil {
		return "", nil, usageError("%v", err)
	}
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return "", nil, pflag.ErrHelp
	}
	rest := cmd.Flags().Args()
	switch {
	case cmd.Flags().ArgsLenAtDash() == 0 && len(rest) == 0:
		return "", nil, usageError("there is no command after --")
	case cmd.Flags().ArgsLenAtDash() == 0:
		return name, rest, nil
	case len(rest) > 0:
		return "", nil, usageError("%q: run takes one job; a command goes after --", rest[0])
	}
	return name, nil, nil
}

// run brings a person's trigger and works it.
func (a *app) run(ctx context.Context, name string, f runFlags) error {
	works, err := a.choose(ctx, []string{name})
	if err != nil {
		return err
	}
	store, err := a.openToWork(ctx)
	if err != nil {
		return err
	}
	return a.runHere(ctx, store, works[0], f, runner.Ask{})
}

// runHere runs one job in this process. A refusal is not fine: a person waits
// for the answer. The ask says what is special about it.
func (a *app) runHere(ctx context.Context, store Store, w *work, f runFlags, ask runner.Ask) error {
	p := a.newPrinter([]*work{w}, f.json)
	r, err := a.runner(store, []*work{w}, p, f.actor())
	if err != nil {
		return err
	}
	p.begin(r.Holder())
	ask.Job, ask.Key, ask.Origin, ask.By, ask.Why = w.Name, f.key, dibs.OriginManual, f.actor(), f.why
	report, err := r.Do(ctx, ask)
	res := judge(w, report, err, true)
	p.ended(ctx, store, res)
	return a.conclude(p, []result{res})
}
