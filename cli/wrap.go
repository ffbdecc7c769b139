package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
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
		return &flat{err}
	case s.run == nil:
		return s.skipped(ctx)
	}
	s.look(ctx)
	return s.work(ctx)
}

// say writes one line that begins with "dibs:".
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.log, "dibs: %s\n", flatten(a.opened.redact(fmt.Sprintf(format, args...))))
}

// flat is an error on one line: cron mails it, and whoever greps for "dibs:"
// must find it whole.
type flat struct{ error }

func (e *flat) Error() string { return flatten(e.error.Error()) }
func (e *flat) Unwrap() error { return e.error }

// flatten puts lines behind one another.
func flatten(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " ")
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
	sent    time.Time     // before the run's lease was asked for
	left    time.Duration // of the lease, as the database said then
	now     time.Time     // the database's, of the decision
	next    time.Time     // slot, when nothing was due
	spent   *dibs.Run     // of a duplicate
	keeper  *keeper

	registered string // the hash of the definition that the database has
}

// fire opens the database and brings the trigger, as long as --db-wait allows.
func (s *session) fire() error {
	var err error
	if s.store, err = s.app.openToWrap(s.signals.stopped, s.w.f.dbWait); err != nil {
		return err
	}
	if s.holder, err = dibs.NewHolder(instance(wrapped.Self())); err != nil {
		return err
	}
	s.dispatch = dispatch.New(dispatch.Config{Runs: s.store, Holder: s.holder, Gone: gone})
	if err := s.decide(); err != nil || s.trigger.Decision != dibs.DecisionWaiting {
		return err
	}
	return s.stand()
}

// shortestWait leaves time to be answered even where nothing shall be waited
// for.
const shortestWait = 5 * time.Second

// decide brings the trigger, waits for a slot that is near, and in line if that
// is the policy.
func (s *session) decide() error {
	for {
		fired, err := s.bring()
		if err != nil {
			return err
		}
		if !fired.WaitUntil.IsZero() {
			if err := sleep(s.signals.stopped, fired.WaitUntil.Sub(fired.Now)); err != nil {
				return err
			}
			continue
		}
		s.take(fired)
		return nil
	}
}

// bring brings the trigger once, as long as --db-wait allows.
func (s *session) bring() (dispatch.Fired, error) {
	ctx, cancel := context.WithTimeout(s.signals.stopped, max(s.w.f.dbWait, shortestWait))
	defer cancel()
	if s.w.slotted() { // the gate of the slots is on the job's row
		if err := s.register(ctx); err != nil {
			return dispatch.Fired{}, err
		}
	}
	for {
		fired, err := s.dispatch.Fire(ctx, s.request())
		if errors.Is(err, dibs.ErrUnanswered) {
			fired, err = s.ask(ctx, err)
			if err == nil && fired.Trigger.ID == "" {
				continue // it was not written
			}
		}
		return fired, err
	}
}

// take keeps what was decided.
func (s *session) take(f dispatch.Fired) {
	s.trigger, s.run, s.next, s.spent = f.Trigger, f.Run, f.Next, f.Spent
	if !f.Now.IsZero() {
		s.now = f.Now
	}
	if f.Registered != "" {
		s.registered = f.Registered
	}
	if f.Run != nil {
		s.trigger, s.sent = f.For, f.Sent
		s.left = f.Run.Lease.Sub(f.Now)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(d, time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stand waits in line until it is this process's turn.
func (s *session) stand() error {
	ctx, cancel := s.signals.stopped, context.CancelFunc(func() {})
	if s.w.f.wait > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, s.w.f.wait, errWaitedEnough)
	}
	defer cancel()
	if isTerminal(s.app.log) {
		s.app.say("%s; waiting for its end", s.skipText())
	}
	fired, err := s.dispatch.Wait(ctx, s.trigger, s.w.timing.lease)
	if fired.Trigger.ID != "" {
		s.take(fired)
	}
	if errors.Is(err, errWaitedEnough) {
		return nil // its trigger says so
	}
	return err
}

// errWaitedEnough ends a wait that --wait bounds.
var errWaitedEnough = errors.New("waited as long as --wait allows")

// ask finds out whether a run whose start was never answered was written: this
// process's holder is on it.
func (s *session) ask(ctx context.Context, unanswered error) (dispatch.Fired, error) {
	sent := time.Now()
	now, err := s.store.Now(ctx)
	if err != nil {
		return dispatch.Fired{}, errors.Join(unanswered, err)
	}
	runs, err := s.store.ListRuns(ctx, dibs.RunFilter{Job: s.w.job.Name, State: dibs.RunRunning, Limit: 20})
	if err != nil {
		return dispatch.Fired{}, errors.Join(unanswered, err)
	}
	for _, r := range runs {
		if r.Holder == s.holder {
			t := dibs.Trigger{ID: r.Trigger, Job: r.Job, Origin: r.Origin, Slot: r.Slot, Decision: dibs.DecisionStarted, RunID: r.ID}
			return dispatch.Fired{Trigger: t, For: t, Run: &r, Sent: sent, Now: now}, nil
		}
	}
	return dispatch.Fired{}, nil
}

func (s *session) request() dispatch.Request {
	job := s.w.job
	r := dispatch.Request{
		Job: &job, Hash: s.w.hash, Origin: dibs.OriginExternal, Kind: dibs.KindCommand, Lease: s.w.timing.lease,
		ExternalID: s.w.keyed(), By: s.w.act.actor(), Why: s.w.act.why, Waiter: true,
	}
	if job.Overlap == dibs.Skip && s.w.f.wait > 0 {
		job.Overlap, job.QueueLimit = dibs.Queue, mostStanding
	}
	switch {
	case s.w.f.manual:
		r.Origin = dibs.OriginManual
	case !s.w.slotted():
	case s.w.slot.IsZero():
		r.Origin, r.Slots = dibs.OriginSchedule, dispatch.LatestSlot
	default:
		r.Origin, r.Slots, r.Slot = dibs.OriginSchedule, dispatch.GivenSlot, s.w.slot
	}
	if s.w.f.oncePer != "" {
		r.Redo = s.w.redo
	}
	return r
}

// mostStanding bounds the line of those who wait with --wait.
const mostStanding = 1000

// work runs the command and records how it ended.
func (s *session) work(ctx context.Context) error {
	s.ping = newPinger(s.w.f.ping)
	child, stopChild := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopChild(nil)
	s.keeper = newKeeper(&keeper{
		runs: s.store, run: s.run.Ref(), timing: s.w.timing, stop: stopChild,
		carry: s.w.f.onLostWhat == "continue", say: s.app.say,
	}, s.sent, s.left)
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{}, 2)
	go func() { s.keeper.keep(background); done <- struct{}{} }()
	go func() { s.tidy(background); done <- struct{}{} }()
	go s.stopWith(child, stopChild)
	settle := func() {
		stopBackground()
		<-done
		<-done
	}
	without, err := s.once(child)
	if err != nil {
		s.app.say("%s: what became of earlier runs could not be read: %v", s.w.job.Name, err)
		without = &dibs.RunEnd{Run: s.run.Ref(), State: dibs.RunFailed, Reason: dibs.ReasonError, Error: err.Error(), Counts: dibs.Counts{Selected: 1, Held: 1}}
	}
	if without != nil {
		settle()
		return s.withoutCommand(ctx, *without)
	}
	s.ping.send("/start")
	e := s.command(child)
	settle()
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
