package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/policy"
)

// Bounds of a reconcile.
const (
	reconcilePage = 100
	// DefaultLookupRate is how many lookups a reconcile begins in a second.
	DefaultLookupRate = 50
)

// Reconcile asks for a comparison of what is not known with what the destination
// says.
type Reconcile struct {
	Job string
	// From and To bound when the action was first intended, half-open. Zero: no
	// bound.
	From, To time.Time
	// Verify is the share of confirmed actions that are looked up too, 0 to 1.
	Verify float64
	// Rate is the most lookups begun in a second. Default [DefaultLookupRate].
	Rate    int
	By, Why string
}

// Reconciled is what a reconcile found.
type Reconciled struct {
	Run dibs.Run `json:"run"`
	// Looked counts lookups of unknown actions, Busy those that somebody else had
	// in hand.
	Looked int64 `json:"looked_up"`
	Busy   int64 `json:"busy"`
	// Verified counts lookups of confirmed actions.
	Verified int64 `json:"verified"`
	// Findings counts what was found, by kind.
	Findings map[dibs.FindingKind]int64 `json:"findings"`
	// Uncertain and Held are what remains of the range.
	Uncertain int64 `json:"uncertain"`
	Held      int64 `json:"held"`
}

// Reconcile looks up every action of a job whose outcome is not known, under a
// run of its own that takes no lock. A lookup that fails settles nothing, and an
// absent answer is believed only once no attempt could still arrive.
func (r *Runner) Reconcile(ctx context.Context, q Reconcile) (Reconciled, error) {
	j, claims, err := r.repairable(ctx, q.Job)
	if err != nil {
		return Reconciled{}, err
	}
	if j.Lookup == nil {
		return Reconciled{}, &dibs.ConfigError{Subject: "job " + j.Name, Field: "lookup", Problem: "nothing says how to ask the destination", Fix: "add a lookup, or decide by hand with resolve"}
	}
	p, alive, done, err := r.beginRepair(ctx, j, claims, dispatch.Repair{
		By: q.By, Why: q.Why, Act: dibs.AuditRecord{By: orElse(q.By, r.by), What: "reconcile", Job: j.Name, Why: q.Why},
	})
	if err != nil {
		return Reconciled{}, err
	}
	defer done()
	rate := q.Rate
	if rate <= 0 {
		rate = DefaultLookupRate
	}
	c := &reconcile{repair: p, q: q, pace: time.NewTicker(time.Second / time.Duration(rate))}
	defer c.pace.Stop()
	c.out.Findings = map[dibs.FindingKind]int64{}
	fault := c.walk(alive)
	state, why := dibs.RunSucceeded, dibs.Reason("")
	if fault == nil {
		if c.out.Uncertain, fault = c.left(alive, dibs.EffectUncertain); fault == nil {
			c.out.Held, fault = c.left(alive, dibs.EffectHeld)
		}
	}
	if c.out.Uncertain+c.out.Held > 0 {
		state, why = dibs.RunPartial, dibs.ReasonRemain
	}
	c.out.Run, err = p.end(ctx, state, why, fault)
	return c.out, err
}

// repairable opens a job whose effects are kept.
func (r *Runner) repairable(ctx context.Context, name string) (*job, dibs.Claims, error) {
	j, err := r.lookup(name)
	if err != nil {
		return nil, nil, err
	}
	claims, err := r.open(ctx, j)
	if err != nil {
		return nil, nil, err
	}
	if !j.ledger {
		return nil, nil, &dibs.ConfigError{Subject: "job " + j.Name, Field: "on_uncertain", Problem: fmt.Sprintf("%s keeps no record of effects, so there is nothing to compare or to decide", orElse(string(j.OnUncertain), "replay")), Fix: "choose on_uncertain: lookup or hold"}
	}
	return j, claims, r.prepare(ctx, j, claims)
}

func orElse(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// reconcile is one walk.
type reconcile struct {
	*repair
	q    Reconcile
	pace *time.Ticker

	mu  sync.Mutex
	out Reconciled
}

// walk looks at all uncertain effects, then at the held ones that a lookup may
// free, then at a sample of the confirmed ones.
func (c *reconcile) walk(ctx context.Context) error {
	if err := c.pages(ctx, dibs.EffectUncertain, c.settle); err != nil {
		return err
	}
	if err := c.pages(ctx, dibs.EffectHeld, c.settle); err != nil || c.q.Verify <= 0 {
		return err
	}
	return c.pages(ctx, dibs.EffectConfirmed, c.verify)
}

// pages walks effects of one state by their work IDs, so many at once as the job
// handles items.
func (c *reconcile) pages(ctx context.Context, state dibs.EffectState, do func(context.Context, dibs.Effect) error) error {
	f := dibs.EffectFilter{Job: c.job.Name, State: state, Free: true, From: c.q.From, To: c.q.To, Limit: reconcilePage}
	for {
		list, err := c.r.store.ListEffects(ctx, f)
		if err != nil || len(list) == 0 {
			return err
		}
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(c.job.Concurrency)
		for _, e := range list {
			group.Go(func() error { return do(groupCtx, e) })
		}
		if err := group.Wait(); err != nil {
			return withCause(ctx, err)
		}
		if err := c.r.store.SetProgress(ctx, c.run.Ref(), c.progress(list[len(list)-1].Key)); err != nil {
			return err
		}
		if len(list) < reconcilePage {
			return nil
		}
		f.After = list[len(list)-1].WorkID
	}
}

// left counts what remains of the range in a state.
func (c *reconcile) left(ctx context.Context, state dibs.EffectState) (n int64, err error) {
	f := dibs.EffectFilter{Job: c.job.Name, State: state, From: c.q.From, To: c.q.To, Limit: 1000}
	for {
		list, err := c.r.store.ListEffects(ctx, f)
		if n += int64(len(list)); err != nil || len(list) < f.Limit {
			return n, err
		}
		f.After = list[len(list)-1].WorkID
	}
}

// lookable tells whether a lookup may say more about an effect. Content that
// changed is no question of what arrived.
func lookable(e dibs.Effect) bool {
	return e.State == dibs.EffectUncertain || e.State == dibs.EffectHeld && e.Reason != dibs.ReasonContent
}

// settle claims one effect, asks, and books the answer.
func (c *reconcile) settle(ctx context.Context, listed dibs.Effect) error {
	if !lookable(listed) {
		return nil
	}
	if err := c.wait(ctx); err != nil {
		return err
	}
	e, err := c.claimEffect(ctx, listed.WorkID, c.job.askLimit()+c.job.timing.lease)
	var held *dibs.HeldError
	switch {
	case errors.As(err, &held):
		c.mu.Lock()
		c.out.Busy++
		c.mu.Unlock()
		return nil
	case errors.Is(err, dibs.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !lookable(e):
		return c.leave(ctx, e) // settled meanwhile
	}
	l := c.lookUp(ctx, e)
	if ctx.Err() != nil { // asked too late to be written
		return errors.Join(context.Cause(ctx), c.leave(context.WithoutCancel(ctx), e))
	}
	if err := c.bookAnswer(ctx, e, l); err != nil && !errors.Is(err, dibs.ErrStaleFence) {
		return err
	}
	return nil
}

// bookAnswer writes what an answer means.
func (c *reconcile) bookAnswer(ctx context.Context, e dibs.Effect, l looked) error {
	step, reason := policy.Looked(e, l.result.Presence)
	if l.err != nil {
		step, reason = policy.StepLookup, dibs.ReasonLookupSilent
	}
	f := c.found(e, l, reason)
	switch {
	case step == policy.StepDone:
		id, evidence := receiptFields(l.result.Receipt)
		b := c.confirmed(e, reason, id, evidence)
		b.findings = []dibs.Finding{f}
		c.tell(f, dibs.OutcomeAlreadyDone)
		return c.book(ctx, e, b)
	case step == policy.StepRun && c.job.OnUncertain != dibs.Hold:
		b := c.absent(e, dibs.ReasonLookedUp, "the destination does not have it: to be run again")
		b.findings = []dibs.Finding{f}
		c.tell(f, dibs.OutcomeReleased)
		return c.book(ctx, e, b)
	}
	o := dibs.OutcomeUncertain
	if e.State == dibs.EffectHeld {
		o = dibs.OutcomeHeld
	}
	c.tell(f, o)
	return c.leave(ctx, e, f)
}

// verify looks a confirmed action up, now and then. It changes nothing: what
// does not fit is a finding.
func (c *reconcile) verify(ctx context.Context, e dibs.Effect) error {
	if rand.Float64() >= c.q.Verify {
		return nil
	}
	if err := c.wait(ctx); err != nil {
		return err
	}
	l := c.lookUp(ctx, e)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := c.found(e, l, "")
	c.mu.Lock()
	c.out.Verified++
	c.mu.Unlock()
	switch {
	case f.Kind == dibs.FindingAbsent:
		f.Kind, f.Detail = dibs.FindingMismatch, fmt.Sprintf("recorded as done (destination id %q), but the destination does not have it", e.DestinationID)
	case f.Kind == dibs.FindingConfirmedLate && e.DestinationID != "" && f.DestinationID != "" && e.DestinationID != f.DestinationID:
		f.Kind, f.Detail = dibs.FindingMismatch, fmt.Sprintf("recorded as %q, but the destination calls it %q", e.DestinationID, f.DestinationID)
	case f.Kind == dibs.FindingConfirmedLate:
		return nil // as recorded
	}
	c.tell(f, "")
	return c.r.store.AddFindings(ctx, []dibs.Finding{f})
}

// wait keeps to the rate.
func (c *reconcile) wait(ctx context.Context) error {
	select {
	case <-c.pace.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lookUp asks the destination about an effect's action.
func (c *reconcile) lookUp(ctx context.Context, e dibs.Effect) looked {
	item := dibs.Item{Job: c.job.Name, RunID: c.run.ID, WorkID: e.WorkID, Fence: e.Fence, Cycle: e.Cycle, Origin: dibs.OriginManual}
	key, err := dibs.ParseKey(e.Key, len(c.job.table.KeyColumns()))
	if err != nil {
		return looked{err: err}
	}
	item.Key = key
	row, err := c.claims.Look(ctx, key)
	switch {
	case err == nil:
		item.Payload, item.Attempt = row.Payload, row.Attempts
	case !errors.Is(err, dibs.ErrNotFound):
		return looked{err: fmt.Errorf("look at row %s: %w", key, err)}
	}
	var l looked
	l.result, l.err = c.job.ask(ctx, item)
	return l
}

// tell counts what was found; an outcome, if there is one, enters the run's sum.
func (c *reconcile) tell(f dibs.Finding, o dibs.Outcome) {
	c.mu.Lock()
	c.out.Findings[f.Kind]++
	if o != "" {
		c.out.Looked++
	}
	c.mu.Unlock()
	if o != "" {
		c.count(o)
	}
}

// found is the record of one lookup.
func (c *reconcile) found(e dibs.Effect, l looked, why dibs.Reason) dibs.Finding {
	f := dibs.Finding{RunID: c.run.ID, Job: c.job.Name, WorkID: e.WorkID, Key: e.Key, DestinationID: l.result.Receipt.ID}
	switch {
	case l.err != nil:
		f.Kind, f.Detail = dibs.FindingUnreachable, l.err.Error()
	case l.result.Presence == dibs.PresenceFound:
		f.Kind = dibs.FindingConfirmedLate
	case l.result.Presence == dibs.PresenceDuplicate:
		f.Kind, f.Detail = dibs.FindingDuplicate, "the destination has it more than once: "+strings.Join(l.result.IDs, ", ")
	default:
		f.Kind = dibs.FindingAbsent
		if why == dibs.ReasonTooEarly {
			f.Detail = fmt.Sprintf("not yet believed: an attempt could still arrive until %s", e.LookAt.UTC().Format(time.RFC3339))
		}
	}
	if len(l.result.Receipt.Evidence) > 0 {
		if evidence, err := json.Marshal(l.result.Receipt.Evidence); err == nil { // a map of strings always marshals
			f.Evidence = evidence
		}
	}
	return f
}
