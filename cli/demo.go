package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch five invocations of one job start at the same instant",
		Long: "Starts a small CRM server and five ticks of one job at the same instant, kills one\n" +
			"of them, and at the end compares both sides: the rows here and the notes there.\n" +
			"Real parts, about half a minute, no server needed. Nothing of yours is touched.",
		Example: "  dibs demo",
		Args:    cobra.NoArgs,
	}
	return command(groupProve, c, func(cmd *cobra.Command, _ []string) error {
		if a.program.Demo == nil {
			return usageError("this program brings no demo: use dibs demo")
		}
		return exitWith(a.program.Demo(cmd.Context(), a.out.w, a.log))
	})
}
