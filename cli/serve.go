package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// serveFlags are the choices of serve.
type serveFlags struct {
	only    string
	maxRuns int
	listen  string
	log     string
}

// nowhere as --listen means no HTTP at all.
const nowhere = "off"

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Be the scheduler: run every job when it is due",
		Long: "Sleeps until the next slot of any job, decides it in the database, and runs it\n" +
			"here. Any number of servers may work on one database, beside any number of ticks\n" +
			"and crontabs: each slot has one decision, whoever makes it.\n\n" +
			"TERM or INT stops in order: nothing more is taken, running handlers get their\n" +
			"grace, the rest is given back. HUP reads the file again; with a fault in it the\n" +
			"old definitions stay.",
		Example: "  dibs serve\n  dibs serve --only run --max-runs 4 --listen off",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&f.only, "only", "", "one half of the work: schedule decides and leaves the runs to others, run does those")
	c.Flags().IntVar(&f.maxRuns, "max-runs", 16, "the most runs at work at once")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7077", "where /healthz and /readyz answer; off: nowhere")
	c.Flags().StringVar(&f.log, "log", "text", "form of the log on standard error: text or json")
	return command(groupRun, c, func(cmd *cobra.Command, _ []string) error {
		if f.maxRuns < 1 || f.maxRuns > mostRuns {
			return usageError("--max-runs %d: use 1 to %d", f.maxRuns, mostRuns)
		}
		if f.only != "" {
			if err := oneOf("--only", f.only, string(runner.OnlySchedule), string(runner.OnlyRun)); err != nil {
				return err
			}
		}
		if err := oneOf("--log", f.log, "text", "json"); err != nil {
			return err
		}
		return a.serve(cmd.Context(), f)
	})
}

// mostRuns bounds --max-runs: each run may need a connection.
const mostRuns = 1000

// spareConns is room beside the runs: decisions, the duties, readiness, and the
// connection that renewals use.
const spareConns = 8

// daemon is one invocation of serve.
type daemon struct {
	app    *app
	log    *slog.Logger
	secret *redactor
	notify *notifier
	health *probe
	server *runner.Server
	hups   chan os.Signal
	began  chan struct{} // closed when the server is at work
}

// serve opens everything, works until ctx ends, and closes in order.
func (a *app) serve(ctx context.Context, f serveFlags) error {
	d := &daemon{app: a, secret: &redactor{}, hups: make(chan os.Signal, 1), began: make(chan struct{})}
	signal.Notify(d.hups, syscall.SIGHUP) // from now on: a reload before the start is one after it
	defer signal.Stop(d.hups)
	works, err := a.choose(ctx, nil)
	if err != nil {
		return err
	}
	d.secret.add(a.opened.file)
	a.opened.hide = d.secret.redact
	d.log = slog.New(d.secret.handler(a.log, f.log))
	a.conns = f.maxRuns + spareConns
	store, err := a.openToWork(ctx)
	if err != nil {
		return err
	}
	d.notify = newNotifier(a.env)
	d.health = newProbe(store, d.log)
	d.server, err = runner.NewServer(runner.ServeConfig{
		Config: runner.Config{Store: store, Jobs: jobsOf(works), Instance: a.env("DIBS_INSTANCE"), Log: d.log},
		Only:   runner.Only(f.only), MaxRuns: f.maxRuns,
		Pulse: d.notify.pulse(), Alive: d.notify.alive, Ready: d.ready,
	})
	if err != nil {
		return err
	}
	a.opened.file = nil // ten thousand jobs' worth of syntax is not needed any more
	return d.run(ctx, f.listen, len(works))
}

// run serves, with everything beside it.
func (d *daemon) run(ctx context.Context, address string, jobs int) (err error) {
	where := nowhere
	if address != nowhere {
		site, err := listen(ctx, address, d.health.handler())
		if err != nil {
			return err
		}
		where = site.addr.String()
		defer func() {
			if cerr := site.close(ctx); cerr != nil {
				d.log.WarnContext(ctx, "closing HTTP", "err", cerr)
			}
		}()
	}
	d.log.InfoContext(ctx, "serving", "holder", d.server.Holder().String(), "database", d.app.opened.url.String(),
		"jobs", jobs, "listen", where)
	unhook := context.AfterFunc(ctx, func() {
		d.health.say("stopping")
		d.log.InfoContext(ctx, "stopping: nothing more is taken", "why", context.Cause(ctx))
		d.tell(ctx, d.notify.stopping())
	})
	defer unhook()
	reloads, endReloads := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.reloads(reloads)
	}()
	defer func() { endReloads(); <-done }()
	if err := d.server.Serve(ctx); err != nil {
		return err
	}
	d.log.InfoContext(ctx, "stopped")
	return nil
}

// ready is called when the server is at work.
func (d *daemon) ready() {
	d.health.say("")
	close(d.began)
	d.tell(context.Background(), d.notify.serving("serving")) //nolint:contextcheck // only for the log
}

// tell logs what could not be told.
func (d *daemon) tell(ctx context.Context, err error) {
	if err != nil {
		d.log.WarnContext(ctx, "systemd does not hear", "err", err)
	}
}

// reloads reads the file again at each HUP.
func (d *daemon) reloads(ctx context.Context) {
	select {
	case <-d.began:
	case <-ctx.Done():
		return
	}
	for {
		debug.FreeOSMemory() // reading a file takes much more than keeping its jobs
		select {
		case <-ctx.Done():
			return
		case <-d.hups:
		}
		d.tell(ctx, d.notify.reloading())
		changes, err := d.reload(ctx)
		switch {
		case err != nil:
			for _, fault := range faultsOf(err) {
				d.log.ErrorContext(ctx, "reload: the old definitions stay", "fault", fault)
			}
		case changes.None():
			d.log.InfoContext(ctx, "reload: no job changed")
		default:
			d.log.InfoContext(ctx, "reload", "added", changes.Added, "removed", changes.Removed, "changed", changes.Changed)
		}
		d.tell(ctx, d.notify.serving("serving"))
	}
}

// reload reads the file as a new invocation would.
func (d *daemon) reload(ctx context.Context) (runner.Changes, error) {
	fresh := &app{program: d.app.program, flags: d.app.flags}
	works, err := fresh.choose(ctx, nil)
	d.secret.add(fresh.opened.file)
	if err != nil {
		return runner.Changes{}, err
	}
	url, _, err := fresh.database(ctx)
	if err != nil {
		return runner.Changes{}, err
	}
	if url.String() != d.app.opened.url.String() {
		return runner.Changes{}, &dibs.ConfigError{Subject: "database", Problem: fmt.Sprintf("it is now %s", url), Fix: "start anew to use another database"}
	}
	changes, err := d.server.Reload(ctx, jobsOf(works))
	if errors.Is(err, context.Canceled) {
		return changes, dibs.ErrStopping
	}
	return changes, err
}

func jobsOf(works []*work) []dibs.Job {
	list := make([]dibs.Job, len(works))
	for i, w := range works {
		list[i] = w.Job
	}
	return list
}
