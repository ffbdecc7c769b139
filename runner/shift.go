package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/policy"
)

// stage is where an item in hand stands.
type stage int

const (
	queued   stage = iota // claimed, not started
	running               // its handler runs
	finished              // its outcome waits to be settled
	settling              // its outcome is on its way to the database
	gone                  // lost: nothing may be written but a late record
)

// inHand is a row that this run owns. Guarded by shift.mu, except held and
// batch, which never change after the claim but for what renewals write under
// mu.
type inHand struct {
	held   dibs.Held
	batch  int
	stage  stage
	until  deadline // when we stop believing; zero: not yet proved
	cancel context.CancelCauseFunc
	intent *intent          // its effect at the destination, once claimed
	done   *dibs.Settlement // how its handler has completed it in a transaction
}

// shift is the work of one run in this process: one coordinator (the goroutine
// that calls work) claims, hands out and settles; one goroutine renews; one
// watches the local deadlines; and each running handler has its own.
type shift struct {
	r       *Runner
	job     *job
	claims  dibs.Claims // nil for a unit job
	run     dibs.Run
	trigger dibs.Trigger
	scope   dibs.Scope
	limit   int

	results chan answer   // from handlers; never blocks: room for all slots
	wake    chan struct{} // something that the coordinator waits for has changed
	nudge   chan struct{} // asks for a renewal now
	moved   chan struct{} // tells the watchdog that deadlines have changed

	mu         sync.Mutex
	counts     dibs.Counts
	hand       map[string]*inHand
	queue      []*inHand
	batches    map[int]*batch
	believe    deadline // for the run itself
	stopBy     deadline // somebody asked the run to stop; zero: no
	lost       bool
	reason     dibs.Reason
	unanswered map[dibs.Token]pendingClaim

	// confined to the coordinator
	pending   []dibs.Settlement
	flushAt   time.Time
	flushing  bool       // a settle runs beside; its answer comes on flushed
	flushed   chan flush // room for one
	waiting   []*inHand  // of pending, in order
	slots     int        // running handlers
	token     int
	mark      dibs.Mark
	markSince time.Time
	exhausted bool
	stopping  bool
	refused   *refusal
	rec       *recovery // of a recovery run
	// unclaimable rows are refused by the database itself; not asked for again.
	unclaimable []dibs.Key
	asked       time.Time // when this shift began, for bounded waits
	down        int       // consecutive answers that the destination is down
	probing     bool      // the destination was down when the last run ended
	position    string
	unitErr     string
	deadlineC   <-chan time.Time // max_duration or the context's own deadline
	drain       <-chan time.Time // end of the grace for running handlers
	drained     int
}

// batch counts a claim's items until each has an outcome.
type batch struct {
	left   int
	counts dibs.Counts
	since  time.Time
}

// pendingClaim is a claim whose answer was lost.
type pendingClaim struct {
	batch int
	until time.Time // its lease must have passed by then
}

// answer is what a handler said.
type answer struct {
	items   []*inHand
	results []dibs.Result
	work    []string // work IDs
	looked  []looked // instead of results, of lookups
	took    time.Duration
}

func newShift(r *Runner, j *job, claims dibs.Claims, fired dispatch.Fired, a Ask) (*shift, error) {
	run := *fired.Run
	s := &shift{
		r: r, job: j, claims: claims, run: run, trigger: fired.For, limit: j.MaxItems, asked: time.Now(),
		results: make(chan answer, j.Concurrency), flushed: make(chan flush, 1),
		wake: make(chan struct{}, 1), nudge: make(chan struct{}, 1), moved: make(chan struct{}, 1),
		hand: map[string]*inHand{}, batches: map[int]*batch{}, unanswered: map[dibs.Token]pendingClaim{},
		believe: deadlineFrom(fired.Sent, min(j.timing.lease, run.Lease.Sub(fired.Now)), j.timing.margin),
	}
	if a.Limit > 0 && (s.limit == 0 || a.Limit < s.limit) {
		s.limit = a.Limit
	}
	if claims == nil {
		s.takeUnit()
		return s, nil
	}
	s.scope = dibs.Scope{
		StartedBefore: run.StartedAt, IdleStartedBefore: fired.First, Backoff: minBackoff(j), Every: max(j.table.Every, 0), Lease: j.timing.lease,
	}
	if a.Key != "" {
		key, err := dibs.ParseKey(a.Key, len(j.table.KeyColumns()))
		if err != nil {
			return nil, &dibs.ConfigError{Subject: "job " + j.Name, Field: "key", Problem: err.Error(), Fix: "give one value per key column"}
		}
		s.scope.Key = key
		s.scope.StartedBefore = time.Time{} // the run ends with this row: it cannot meet it twice
	}
	return s, nil
}

// takeUnit puts the run itself into hand as its only item.
func (s *shift) takeUnit() {
	it := &inHand{held: dibs.Held{Token: s.run.Token, Fence: 1}, batch: 1, until: s.believe}
	s.hand[""] = it
	s.queue = append(s.queue, it)
	s.batches[1] = &batch{left: 1, since: time.Now(), counts: dibs.Counts{Selected: 1}}
	s.counts.Selected = 1
	s.exhausted = true
}

// dbContext is for calls that must go on although the caller wants to stop; they
// end with the run's own deadline, after which nothing may be written anyway.
func (s *shift) dbContext(ctx context.Context) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	left := s.believe.left(time.Now())
	s.mu.Unlock()
	// The margin was kept for exactly this: one last write.
	left = max(left+s.job.timing.margin-s.job.timing.grace, time.Second)
	return context.WithTimeout(context.WithoutCancel(ctx), left)
}

// work runs the shift to its end. When it returns, every handler has returned
// (or was given up on: see drainStep), and renewal has stopped last.
func (s *shift) work(ctx context.Context) error {
	handlers, cancelHandlers := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelHandlers(nil)
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()

	group, background := errgroup.WithContext(background)
	if s.job.timing.beat > 0 {
		group.Go(func() error { return s.heartbeat(background) })
	}
	group.Go(func() error { return s.watchdog(background) })

	err := s.begin(ctx)
	if err == nil {
		err = s.coordinate(ctx, handlers)
	}

	stopBackground()
	if werr := group.Wait(); werr != nil && !errors.Is(werr, context.Canceled) {
		err = errors.Join(err, werr)
	}
	s.forget()
	if s.claims != nil && !s.isLost() && s.refused == nil {
		s.countRemaining(ctx)
	}
	return err
}

// coordinate is the loop that claims, hands out, and settles.
func (s *shift) coordinate(ctx, handlers context.Context) error {
	stop := ctx.Done()
	timer := s.stopTimer(ctx)
	defer timer.Stop()
	s.deadlineC = timer.C
	flush := time.NewTimer(time.Hour)
	defer flush.Stop()
	defer s.joinFlush(ctx)
	for {
		if !s.stopping {
			if err := s.handOut(handlers); err != nil {
				return s.giveUp(ctx, err)
			}
		}
		if s.mayClaim() {
			s.flushBeside(ctx)
			if err := s.claim(ctx); err != nil {
				return s.giveUp(ctx, err)
			}
			continue
		}
		if s.done() {
			return nil
		}
		if len(s.pending) >= s.job.Batch || (s.slots == 0 && len(s.pending) > 0 && s.queueEmpty()) {
			s.settle(ctx)
			continue
		}
		if len(s.pending) > 0 {
			flush.Reset(time.Until(s.flushAt))
		}
		select {
		case a := <-s.results:
			s.take(a)
		case f := <-s.flushed:
			s.takeFlush(ctx, f)
		case <-flush.C:
			s.settle(ctx)
		case <-s.wake:
			s.checkStop()
		case <-stop:
			stop = nil
			s.beginStop(dibs.ReasonStopped)
		case <-s.deadlineC:
			s.deadlineC = nil
			s.beginStop(dibs.ReasonMaxDuration)
		case <-s.drain:
			if s.drainStep() {
				s.settle(ctx)
				return nil
			}
		}
	}
}

// flushAfter is the longest that an outcome waits for company.
const flushAfter = 250 * time.Millisecond

// stopTimer fires when max_duration, or the caller's own deadline less what an
// orderly stop needs, has come.
func (s *shift) stopTimer(ctx context.Context) *time.Timer {
	const never time.Duration = 365 * 24 * time.Hour
	in := never
	if s.job.MaxDuration > 0 {
		in = s.job.MaxDuration
	}
	if end, ok := ctx.Deadline(); ok {
		in = min(in, time.Until(end)-2*s.job.timing.grace-time.Second)
	}
	return time.NewTimer(max(in, 0))
}

// done is true when nothing is left to do or to wait for.
func (s *shift) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0 && s.slots == 0 && len(s.pending) == 0 && !s.flushing && (len(s.unanswered) == 0 || s.lost)
}

// giveUp ends the shift after an error that no repetition cures: what was not
// started goes back, what runs is cancelled and waited for.
func (s *shift) giveUp(ctx context.Context, err error) error {
	s.beginStop(dibs.ReasonError)
	for s.slots > 0 {
		select {
		case a := <-s.results:
			s.take(a)
		case <-s.drain:
			if s.drainStep() {
				s.settle(ctx)
				return err
			}
		}
	}
	s.settle(ctx)
	return err
}

func (s *shift) queueEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0
}

func (s *shift) isLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// poke sends on a channel of capacity one unless a signal is already there.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// forget takes what is still in flight out of the process's register only once
// its handler has returned; see attempt.
func (s *shift) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.hand)
}

func minBackoff(j *job) time.Duration {
	if j.Retry.Min > 0 {
		return j.Retry.Min
	}
	return policy.DefaultMinBackoff
}

func (s *shift) countRemaining(ctx context.Context) {
	if s.rec != nil {
		s.mu.Lock()
		s.counts.Remaining = int64(len(s.rec.todo))
		s.mu.Unlock()
		return
	}
	ctx, cancel := s.dbContext(ctx)
	defer cancel()
	n, err := s.claims.Remaining(ctx, s.scope, remainingLimit)
	if err != nil {
		s.r.log.WarnContext(ctx, "could not count what remains", "job", s.job.Name, "run", s.run.ID, "err", err)
		return
	}
	s.mu.Lock()
	s.counts.Remaining = n
	s.mu.Unlock()
}

// remainingLimit bounds the final look: beyond it, "many" is answer enough.
const remainingLimit = 100_000
