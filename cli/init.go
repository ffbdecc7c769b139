package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

// systemDatabase is what init --system makes.
const systemDatabase = "sqlite:/var/lib/dibs/dibs.db"

func (a *app) initCommand() *cobra.Command {
	var system, adopt bool
	var who act
	c := &cobra.Command{
		Use:   "init",
		Short: "Make the tables that dibs keeps its records in",
		Long: "Makes our own tables (dibs_…) in the database, and a SQLite file first if there\n" +
			"is none. Your own tables are not touched. Doing it twice changes nothing, and\n" +
			"many may do it at once.\n\n" +
			"With --adopt a database that was copied or restored from another installation\n" +
			"becomes one of its own.",
		Example: "  dibs init\n  dibs init --db postgres://ops@db/app\n  sudo dibs init --system",
		Args:    cobra.NoArgs,
	}
	c.Flags().BoolVar(&system, "system", false, "make /var/lib/dibs/dibs.db, which every user's dibs then finds")
	c.Flags().BoolVar(&adopt, "adopt", false, "take over a database that was copied from another installation")
	who.flags(c)
	return command(groupSetup, c, func(cmd *cobra.Command, _ []string) error {
		if system {
			if a.flags.db != "" {
				return usageError("--system names the database itself: leave --db out")
			}
			a.flags.db = systemDatabase
		}
		return a.initialise(cmd.Context(), adopt, who)
	})
}

// initialise makes our tables, or takes over somebody else's.
func (a *app) initialise(ctx context.Context, adopt bool, who act) error {
	url, _, err := a.database(ctx)
	if err != nil {
		return err
	}
	if err := makeFolder(url.DSN, string(url.Kind)); err != nil {
		return err
	}
	store, err := a.connect(ctx, true)
	if err != nil {
		return err
	}
	if adopt {
		name, err := store.Adopt(ctx, who.actor(), who.why)
		if err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
		a.out.line("adopted  %s is now installation %s", url, name)
	}
	applied, err := store.Migrate(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	name, err := store.Installation(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if len(applied) == 0 {
		a.out.line("ready    %s was set up already, installation %s", url, name)
		return nil
	}
	a.out.line("ready    %s, installation %s", url, name)
	return nil
}

// makeFolder makes the folder of a SQLite file for its owner alone.
func makeFolder(path, kind string) error {
	if kind != "sqlite" {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: make the folder for %s: %w; run it as a user who may, or choose another place with --db", dibs.ErrUnavailable, path, err)
	}
	if err != nil {
		return fmt.Errorf("%w: make the folder for %s: %w", dibs.ErrUnavailable, path, err)
	}
	return nil
}
