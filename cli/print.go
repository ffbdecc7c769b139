package cli

import (
	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/config"
)

func (a *app) printCommand() *cobra.Command {
	return command(groupSetup, &cobra.Command{
		Use:   "print schema",
		Short: "Write the JSON Schema of dibs.yaml",
		Long: "schema  the JSON Schema of dibs.yaml, for editors: put this line on top of the file\n" +
			"        # yaml-language-server: $schema=dibs.schema.json",
		Example:   "  dibs print schema >dibs.schema.json",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"schema"},
	}, func(*cobra.Command, []string) error {
		_, err := a.out.w.Write(config.Schema())
		return err
	})
}
