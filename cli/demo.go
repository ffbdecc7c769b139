package cli

import (
	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	var dir string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch five invocations of one job start at the same instant",
		Long: "Starts a small CRM server and five ticks of one job at the same instant, kills one\n" +
			"of them, and at the end compares both sides: the rows here and the notes there.\n" +
			"Real parts, about a quarter of a minute, no server needed. Nothing of yours is touched.",
		Example: "  dibs demo\n  dibs demo --keep",
		Args:    cobra.NoArgs,
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep its files, in ./demo-…")
	c.Flags().StringVar(&dir, "dir", "", "keep its files in this folder, which must not exist")
	c.AddCommand(a.demoPart("crm"), a.demoPart("gate"))
	return command(groupProve, c, func(cmd *cobra.Command, _ []string) error {
		var args []string
		if keep {
			args = append(args, "--keep")
		}
		if dir != "" {
			args = append(args, "--dir", dir)
		}
		return a.demo(cmd, args)
	})
}

// demoPart is a command that the demo starts as a process of its own. It reads
// its own arguments.
func (a *app) demoPart(name string) *cobra.Command {
	c := &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.demo(cmd, append([]string{name}, args...)); err != nil {
			return &bodyError{err}
		}
		return nil
	}
	return c
}

func (a *app) demo(cmd *cobra.Command, args []string) error {
	if a.program.OpenSQLite == nil {
		return usageError("this program brings no demo: use dibs demo")
	}
	return exitWith(demo.Main(cmd.Context(), demo.Config{
		Args: args, Stdin: a.in, Stdout: a.out.w, Stderr: a.log, Open: a.program.OpenSQLite,
	}))
}
