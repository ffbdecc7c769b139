package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dibs-run/dibs"
	wrapped "github.com/dibs-run/dibs/command"
	"github.com/dibs-run/dibs/dispatch"
)

// wrap runs a command under the name of a job: trigger, decision, run, command,
// outcome.
func (a *app) wrap(ctx context.Context, name string, argv []string, f runFlags) error {
	signals, rest, stop := receive(ctx)
	defer stop()
	w, err := a.resolve(ctx, name, argv, f)
	if err != nil {
		return err
	}
	s := &session{app: a, w: w, signals: signals}
	go rest()
	switch err := s.fire(); {
	case signals.which() != nil && s.run == nil:
		a.say("%s: stopped before the command was started", w.job.Name)
		return exitWith(codeOfSignal(signals.which()))
	case err != nil && w.f.ifNoDatabase == "run" && errors.Is(err, dibs.ErrUnavailable):
		return s.unprotected(ctx, err)
	case err != nil:
		return err
	case s.run == nil:
		return s.skipped(ctx)
	}
	return s.work(ctx)
}

// say writes one line that begins with "dibs:".
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.log, "dibs: %s\n", a.opened.redact(fmt.Sprintf(format, args...)))
}

// session is one invocation of the wrapper.
type session struct {
	app     *app
	w       *wrapping
	signals *relay

	store    Store
	dispatch *dispatch.Dispatcher
	holder   dibs.Holder
	ping     *pinger

	trigger dibs.Trigger
	run     *dibs.Run
	sent    time.Time // before the run was asked for
	keeper  *keeper
}

// fire opens the database and brings the trigger, as long as --db-wait allows.
func (s *session) fire() error {
	ctx, cancel := context.WithTimeout(s.signals.stopped, max(s.w.f.dbWait, shortestWait))
	defer cancel()
	var err error
	if s.store, err = s.app.openToWrap(ctx, s.w.f.dbWait); err != nil {
		return err
	}
	if s.holder, err = dibs.NewHolder(wrapped.Self().String()); err != nil {
		return err
	}
	s.dispatch = dispatch.New(dispatch.Config{Runs: s.store, Holder: s.holder, Gone: gone})
	return s.decide(ctx)
}

// shortestWait leaves time to be answered even where nothing shall be waited
// for.
const shortestWait = 5 * time.Second

func (s *session) decide(ctx context.Context) error {
	for {
		s.sent = time.Now()
		fired, err := s.dispatch.Fire(ctx, s.request())
		if errors.Is(err, dibs.ErrUnanswered) {
			fired, err = s.ask(ctx, err)
			if err == nil && fired.Run == nil {
				continue // it was not written
			}
		}
		if err != nil {
			return err
		}
		s.trigger, s.run = fired.Trigger, fired.Run
		return nil
	}
}

// ask finds out whether a run whose start was never answered was written: this
// process's holder is on it.
func (s *session) ask(ctx context.Context, unanswered error) (dispatch.Fired, error) {
	runs, err := s.store.ListRuns(ctx, dibs.RunFilter{Job: s.w.job.Name, State: dibs.RunRunning, Limit: 20})
	if err != nil {
		return dispatch.Fired{}, errors.Join(unanswered, err)
	}
	for _, r := range runs {
		if r.Holder == s.holder {
			return dispatch.Fired{Trigger: dibs.Trigger{ID: r.Trigger, Job: r.Job, Decision: dibs.DecisionStarted, RunID: r.ID}, Run: &r}, nil
		}
	}
	return dispatch.Fired{}, nil
}

func (s *session) request() dispatch.Request {
	origin := dibs.OriginExternal
	if s.w.f.manual {
		origin = dibs.OriginManual
	}
	return dispatch.Request{
		Job: &s.w.job, Hash: s.w.hash, Origin: origin, Kind: dibs.KindCommand, Lease: s.w.timing.lease,
		By: s.w.act.actor(), Why: s.w.act.why,
	}
}

// gone tells whether a wrapper on this host has ended and left nothing that
// still works for its run.
func gone(r dibs.Run) bool {
	id, err := wrapped.ParseProcessID(r.Holder.Instance)
	if err != nil {
		return false
	}
	if ended, known := id.Gone(); !ended || !known {
		return false
	}
	left, known := wrapped.Survivors("DIBS_RUN_ID", r.ID)
	return known && len(left) == 0
}

// work runs the command and records how it ended.
func (s *session) work(ctx context.Context) error {
	s.ping = newPinger(s.w.f.ping)
	child, stopChild := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopChild(nil)
	s.keeper = newKeeper(&keeper{
		runs: s.store, run: s.run.Ref(), timing: s.w.timing, stop: stopChild,
		carry: s.w.f.onLostWhat == "continue", say: s.app.say,
	}, s.sent, s.run.Lease.Sub(s.run.StartedAt))
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{}, 2)
	go func() { s.keeper.keep(background); done <- struct{}{} }()
	go func() { s.tidy(background); done <- struct{}{} }()
	go s.stopWith(child, stopChild)
	s.ping.send("/start")

	e := s.command(child)

	stopBackground()
	<-done
	<-done
	return s.end(ctx, e)
}

// stopWith stops the command when the caller asks for an end without a signal:
// signals reach the command themselves.
func (s *session) stopWith(child context.Context, stop context.CancelCauseFunc) {
	select {
	case <-child.Done():
	case <-s.signals.stopped.Done():
		if s.signals.which() == nil && context.Cause(s.signals.stopped) != nil {
			stop(context.Cause(s.signals.stopped))
		}
	}
}

// ended is how the command came to its end.
type ended struct {
	wrapped.Result
	err   error // of starting it, or of stopping it
	cause error // why it was stopped, if we did
}

// command runs the child.
func (s *session) command(ctx context.Context) ended {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if t := s.w.f.timeout; t > 0 {
		limited, cancel = context.WithTimeoutCause(ctx, t, dibs.ErrTimeout)
	}
	defer cancel()
	res, err := wrapped.Run(limited, wrapped.Config{
		Argv: s.w.argv, Env: s.environment(), Stdin: s.app.in,
		Stdout: s.stream(s.app.out.w), Stderr: s.stream(s.app.log), TailBytes: s.tailBytes(),
		Grace: s.w.timing.grace, KillBy: s.killBy, Signals: s.signals.out, Wrapper: true,
	})
	e := ended{Result: res, err: err}
	if res.Stopped && res.Interrupted == nil {
		e.cause = context.Cause(limited)
	}
	return e
}

// killBy is the keeper's, or none for a run without protection.
func (s *session) killBy() time.Time {
	if s.keeper == nil {
		return time.Time{}
	}
	return s.keeper.killBy()
}

// environment is ours and the DIBS_ variables.
func (s *session) environment() []string {
	return append(os.Environ(), s.variables()...)
}
