package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Main runs one command and returns the process's exit code. Args lack the
// program's name. Cancelling ctx asks running work to stop gracefully; its
// cause should then be [dibs.ErrStopping].
func Main(ctx context.Context, p Program, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{program: p.withDefaults(), in: stdin, log: stderr}
	a.out = newOutput(stdout, a.env)
	defer a.close()
	root := a.root(args)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return a.finish(cmd, err)
}

// The five groups of the help text.
const (
	groupRun   = "run"
	groupSee   = "see"
	groupAct   = "act"
	groupProve = "prove"
	groupSetup = "setup"
)

// root builds the tree of commands. Nothing is opened or read here, so that
// help, completion and version cost nothing.
func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   a.program.Name,
		Short: "Give each piece of scheduled work to exactly one run",
		Long: "dibs gives each piece of scheduled work to exactly one run. Whoever asks (timer,\n" +
			"second timer, retry, \"run now\") must win one atomic claim in the database that\n" +
			"holds your data: PostgreSQL, MariaDB/MySQL, or a SQLite file.",
		Example:       "  dibs init\n  dibs adopt account_config --key account_id --apply\n  dibs tick crm-sync\n  dibs status",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	for _, g := range []cobra.Group{
		{ID: groupRun, Title: "Run:"}, {ID: groupSee, Title: "See:"}, {ID: groupAct, Title: "Act:"},
		{ID: groupProve, Title: "Prove:"}, {ID: groupSetup, Title: "Set up:"},
	} {
		root.AddGroup(&g)
	}
	f := root.PersistentFlags()
	f.StringVar(&a.flags.db, "db", "", "database: sqlite:PATH, postgres://… or mysql://… (default: $DIBS_DATABASE_URL, the file, …)")
	f.StringVar(&a.flags.config, "config", "", "configuration file (default: ./dibs.yaml, $DIBS_CONFIG, …)")
	f.BoolVar(&a.flags.allowLocal, "allow-local-db", false, "accept a SQLite file on a network file system or in a container's own layer")
	a.add(root, args)
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Hidden: true, GroupID: groupSetup,
		RunE: func(_ *cobra.Command, args []string) error {
			asked, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usageError("there is no command %q", strings.Join(args, " "))
			}
			return asked.Help()
		},
	})
	root.SetCompletionCommandGroupID(groupSetup)
	return root
}

// maker makes one command, known by its name before it is made.
type maker struct {
	name string
	make func() *cobra.Command
}

// commands lists every command, in the order of the groups.
func (a *app) commands() []maker {
	return []maker{
		{"run", a.runCommand}, {"tick", a.tickCommand}, {"trigger", a.triggerCommand}, {"serve", a.serveCommand},
		{"status", a.statusCommand}, {"runs", a.runsCommand}, {"show", a.showCommand}, {"items", a.itemsCommand}, {"triggers", a.triggersCommand}, {"next", a.nextCommand}, {"report", a.reportCommand},
		{"pause", a.pauseCommand}, {"resume", a.resumeCommand}, {"cancel", a.cancelCommand}, {"requeue", a.requeueCommand},
		{"reconcile", a.reconcileCommand}, {"recover", a.recoverCommand}, {"resolve", a.resolveCommand},
		{"check", a.checkCommand}, {"demo", a.demoCommand},
		{"init", a.initCommand}, {"adopt", a.adoptCommand}, {"migrate", a.migrateCommand}, {"import", a.importCommand}, {"print", a.printCommand}, {"version", a.versionCommand},
	}
}

// add adds the command that is called, or all where it takes all to answer: a
// wrapper that runs every minute on every host pays for its own command alone.
func (a *app) add(root *cobra.Command, args []string) {
	all := a.commands()
	if len(args) > 0 {
		for _, m := range all {
			if m.name == args[0] {
				root.CompletionOptions.DisableDefaultCmd = true
				root.AddCommand(m.make())
				return
			}
		}
	}
	for _, m := range all {
		root.AddCommand(m.make())
	}
}

// command completes c with what every command has: its group, and a body whose
// errors are told apart from cobra's own, which are all faults of usage.
func command(group string, c *cobra.Command, body func(cmd *cobra.Command, args []string) error) *cobra.Command {
	c.GroupID = group
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := body(cmd, args); err != nil {
			return &bodyError{err}
		}
		return nil
	}
	return c
}
