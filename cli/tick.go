package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// tickFlags are the choices of tick.
type tickFlags struct {
	act
	key, triggerID string
	limit          int
	dryRun         bool
	failOnSkip     bool
	json           bool
	slot, fromName string
	wait           string
}

func (a *app) tickCommand() *cobra.Command {
	var f tickFlags
	c := &cobra.Command{
		Use:   "tick [JOB…]",
		Short: "Say that a timer fired: run what is due",
		Long: "Without a name: runs everything that is due since it was registered, for all jobs:\n" +
			"slots, retries, and triggers that wait. Safe as the one line of a crontab. With\n" +
			"names: \"my scheduler says now\", for the latest slot of each job, which runs once\n" +
			"however often and from wherever it is asked for.\n\n" +
			"Whether a run starts is decided by the job's overlap policy; a trigger that is\n" +
			"skipped leaves a record that says why, and is fine (exit 0) unless --fail-on-skip\n" +
			"is given. Returns when the runs have ended. SIGTERM stops gracefully.",
		Example: "  dibs tick                     # all jobs, as the one line of a crontab\n" +
			"  dibs tick crm-sync --slot 2027-03-01T09:00:00Z\n  dibs tick crm-sync --dry-run",
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().StringVar(&f.key, "key", "", "only the row with this key")
	c.Flags().StringVar(&f.triggerID, "trigger-id", "", "the caller's own identity of this trigger")
	c.Flags().StringVar(&f.slot, "slot", "", "the slot that this is for, RFC 3339 (default: $DIBS_SLOT, else the latest)")
	c.Flags().StringVar(&f.fromName, "slot-from-job-name", "", "take the slot from the name of a Kubernetes job or pod (default: this host's)")
	c.Flags().Lookup("slot-from-job-name").NoOptDefVal = "-"
	c.Flags().StringVar(&f.wait, "wait", "", "stand by while another process runs it, and take over if that dies (a duration; default: without limit)")
	c.Flags().Lookup("wait").NoOptDefVal = "-"
	c.Flags().IntVar(&f.limit, "limit", 0, "the most items to take (0: the job's own limit)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "list the rows that would be taken; take and send nothing")
	c.Flags().BoolVar(&f.failOnSkip, "fail-on-skip", false, "exit with 75 when a trigger was skipped")
	c.Flags().BoolVar(&f.json, "json", false, "write JSON")
	f.flags(c)
	return command(groupRun, c, func(cmd *cobra.Command, args []string) error {
		switch {
		case f.limit < 0:
			return usageError("--limit %d: use a positive number", f.limit)
		case f.key != "" && len(args) != 1:
			return usageError("--key goes with exactly one job")
		case f.triggerID != "" && len(args) != 1:
			return usageError("--trigger-id goes with exactly one job")
		case (f.slot != "" || f.fromName != "" || f.wait != "") && len(args) != 1:
			return usageError("--slot, --slot-from-job-name and --wait go with exactly one job")
		}
		return a.tick(cmd.Context(), args, f)
	})
}

// tick brings one trigger for each job and works them side by side.
func (a *app) tick(ctx context.Context, names []string, f tickFlags) error {
	works, err := a.choose(ctx, names)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(ctx, works, f)
	}
	ask, err := a.tickAsk(names, f)
	if err != nil {
		return err
	}
	store, err := a.openToWork(ctx)
	if err != nil {
		return err
	}
	p := a.newPrinter(works, f.json)
	r, err := a.runner(store, works, p, f.by)
	if err != nil {
		return err
	}
	p.begin(r.Holder())
	if f.key == "" {
		p.countDue(ctx, store, works)
	}
	results := make([]result, len(works))
	var group errgroup.Group
	group.SetLimit(sideBySide)
	for i, w := range works {
		group.Go(func() error {
			one := ask
			one.Job = w.Name
			report, err := r.Do(ctx, one)
			results[i] = judge(w, report, err, f.failOnSkip || f.key != "")
			p.ended(ctx, store, results[i])
			return nil
		})
	}
	_ = group.Wait() // errors are in results: one job's must not end another's
	return a.conclude(p, results)
}

// sideBySide is how many jobs one tick works at a time.
const sideBySide = 16

// runner makes the runner of one command.
func (a *app) runner(store Store, works []*work, p *printer, by string) (*runner.Runner, error) {
	jobs := make([]dibs.Job, len(works))
	for i, w := range works {
		jobs[i] = w.Job
	}
	return runner.New(runner.Config{
		Store: store, Jobs: jobs, By: by, Instance: a.env("DIBS_INSTANCE"), Log: p.logger(), Observe: p.observe,
	})
}

// result is how one job's trigger ended.
type result struct {
	work   *work
	report dibs.Report
	err    error
	code   int
}

// judge finds the exit code that a report stands for. A strict caller wants to
// know of a skip.
func judge(w *work, report dibs.Report, err error, strict bool) result {
	r := result{work: w, report: report, err: err}
	run := report.Run
	switch {
	case run == nil && err != nil:
		r.code = codeOf(err)
		if r.code == exitRefused && !strict {
			r.code = exitOK
		}
	case run == nil && report.Spent != nil && report.Spent.State != dibs.RunRunning:
		r.code = spentCode(w, *report.Spent)
	case run == nil:
		switch report.Trigger.Decision {
		case dibs.DecisionSkipped, dibs.DecisionDuplicate, dibs.DecisionMissed, dibs.DecisionReplaced:
			if strict {
				r.code = exitRefused
			}
		}
	case run.State == dibs.RunLost:
		r.code = exitLost
	case run.State == dibs.RunCancelled && run.Reason == dibs.ReasonReplaced:
		r.code = exitRefused
	case run.Counts.Uncertain+run.Counts.Held > 0:
		r.code = exitUncertain
	case err != nil:
		r.code = graver(exitFailed, codeOf(err))
	case w.failed(run.Counts):
		r.code = exitFailed
	case run.State == dibs.RunCancelled && askedToStop(run.Reason):
		r.code = exitRefused
	}
	return r
}

// conclude ends a command with the gravest of its results.
func (a *app) conclude(p *printer, results []result) error {
	code := exitOK
	for _, r := range results {
		code = graver(code, r.code)
	}
	if err := p.finish(results, code); err != nil {
		return err
	}
	for _, r := range results {
		if r.err != nil && r.code != exitRefused && r.code != exitOK {
			a.complain(r.err)
		}
	}
	return exitWith(code)
}

// dryRun lists what a tick would take, claims nothing and sends nothing.
func (a *app) dryRun(ctx context.Context, works []*work, f tickFlags) error {
	store, err := a.open(ctx)
	if err != nil {
		return err
	}
	var all []dryJob
	for _, w := range works {
		d, err := dryRunOf(ctx, store, w, f)
		if err != nil {
			return fmt.Errorf("job %s: %w", w.Name, err)
		}
		all = append(all, d)
	}
	if f.json {
		return a.out.json(struct {
			DryRun bool     `json:"dry_run"`
			Jobs   []dryJob `json:"jobs"`
		}{true, all})
	}
	for i, d := range all {
		if i > 0 {
			a.out.line("")
		}
		d.write(a.out, works[i])
	}
	return nil
}
