package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) migrateCommand() *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring dibs's own tables up to this version",
		Long: "Applies the numbered schema changes that the database lacks. Running work is not\n" +
			"disturbed: changes only add, and older programs go on working within a major\n" +
			"version. With --print the script is written instead, for those who apply schema\n" +
			"changes with a tool of their own.",
		Example: "  dibs migrate\n  dibs migrate --print >dibs.sql",
		Args:    cobra.NoArgs,
	}
	c.Flags().BoolVar(&show, "print", false, "write the script and change nothing")
	return command(groupSetup, c, func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		store, err := a.connect(ctx, false)
		if err != nil {
			return err
		}
		if show {
			return store.PrintMigrations(a.out.w)
		}
		applied, err := store.Migrate(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", a.opened.url, err)
		}
		if len(applied) == 0 {
			a.out.line("nothing to do: %s is up to date", a.opened.url)
			return nil
		}
		for _, name := range applied {
			a.out.line("applied  %s", name)
		}
		return nil
	})
}
