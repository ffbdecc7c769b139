package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/policy"
)

// repair is a run beside all others that says of actions what became of them:
// a reconcile, or a person's decision. It is safe for concurrent use.
type repair struct {
	r      *Runner
	job    *job
	claims dibs.Claims
	run    dibs.Run
	fired  dispatch.Fired
	tokens atomic.Int64

	mu     sync.Mutex
	counts dibs.Counts
}

// beginRepair starts such a run and keeps it alive until its end: the context
// ends when the run's lease is lost or somebody asked it to stop.
func (r *Runner) beginRepair(ctx context.Context, j *job, claims dibs.Claims, q dispatch.Repair) (*repair, context.Context, func(), error) {
	q.Job, q.Hash, q.Kind, q.Lease = &j.Job, j.hash, dibs.KindReconcile, j.timing.lease
	if q.By == "" {
		q.By = r.by
	}
	release, err := r.store.Reserve(ctx)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("job %s: %w", j.Name, err)
	}
	fired, err := r.dispatch.Repair(ctx, q)
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	p := &repair{r: r, job: j, claims: claims, run: *fired.Run, fired: fired}
	alive, stop := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	group.Go(func() { p.keep(alive, stop) })
	return p, alive, func() {
		stop(nil)
		group.Wait()
		release()
	}, nil
}

// keep renews the run's lease until ctx ends. It ends ctx itself when the lease
// is no longer believed in.
func (p *repair) keep(ctx context.Context, stop context.CancelCauseFunc) {
	lease, margin := p.job.timing.lease, p.job.timing.margin
	beat := p.job.timing.beat
	if beat == 0 {
		beat = lease / 3
	}
	until := deadlineFrom(p.fired.Sent, min(lease, p.run.Lease.Sub(p.fired.Now)), margin)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		left := until.left(time.Now())
		if left <= 0 {
			stop(dibs.ErrLeaseLost)
			return
		}
		end := time.NewTimer(left)
		select {
		case <-ctx.Done():
			end.Stop()
			return
		case <-end.C:
			continue
		case <-tick.C:
			end.Stop()
		}
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, min(beat, left))
		got, err := p.r.store.RenewRun(call, p.run.Ref(), lease)
		cancel()
		switch {
		case err != nil: // asked again at the next beat, while lease is left
		case !got.StopBy.IsZero():
			stop(dibs.ErrStopping)
			return
		case got.Run.IsZero():
			stop(dibs.ErrLeaseLost)
			return
		default:
			until = deadlineFrom(sent, min(lease, got.Run.Sub(got.Now)), margin)
		}
	}
}

// token is a new name for a claim.
func (p *repair) token() dibs.Token { return dibs.ClaimToken(p.run.ID, int(p.tokens.Add(1))) }

// claimEffect takes one effect so that nobody else works on the action.
func (p *repair) claimEffect(ctx context.Context, workID string, lease time.Duration) (dibs.Effect, error) {
	c := dibs.EffectClaim{WorkID: workID, RunID: p.run.ID, Token: p.token(), Lease: lease}
	e, err := p.r.store.ClaimEffect(ctx, c)
	if errors.Is(err, dibs.ErrUnanswered) { // to ask twice is harmless
		e, err = p.r.store.ClaimEffect(ctx, c)
	}
	return e, err
}

// booking is what is now known of an action.
type booking struct {
	change  dibs.EffectChange
	outcome dibs.Outcome
	reason  dibs.Reason
	text    string
	// row says what the action's row becomes; nil: it is left alone.
	row      func(dibs.Held) dibs.RowChange
	findings []dibs.Finding
}

// book writes what is known: the effect and what was found, and, in the same
// transaction, the row, if it is still at this very action and nobody has it.
func (p *repair) book(ctx context.Context, e dibs.Effect, b booking) error {
	held, err := p.claimRow(ctx, e, b.row != nil)
	if err != nil {
		return err
	}
	if held == nil {
		return p.r.store.SettleEffect(ctx, b.change, b.findings...)
	}
	st := dibs.Settlement{Held: *held, Outcome: b.outcome, Effect: &b.change, Findings: b.findings}
	st.Record = dibs.OutcomeRecord{
		Token: held.Token, Key: held.Key.String(), RunID: p.run.ID, Job: p.job.Name, WorkID: e.WorkID, Fence: held.Fence,
		Attempt: held.Attempts, Reason: b.reason, ReceiptID: b.change.ReceiptID, Evidence: b.change.Evidence, Error: b.text,
	}
	st.Change = b.row(*held)
	if !p.same(*held, e) {
		st.Outcome, st.Record.Reason, st.Change = dibs.OutcomeReleased, dibs.ReasonMovedOn, dibs.RowChange{Restore: true}
		st.Record.WorkID, st.Record.ReceiptID, st.Record.Evidence = "", "", nil
	}
	st.Record.Outcome = st.Outcome
	req := dibs.SettleRequest{Run: p.run.Ref(), Progress: p.progress(e.Key), Items: []dibs.Settlement{st}}
	got, err := p.claims.Settle(ctx, req)
	if errors.Is(err, dibs.ErrUnanswered) { // settling twice is success
		got, err = p.claims.Settle(ctx, req)
	}
	switch {
	case err != nil:
		return err
	case got[0].Err != nil:
		return got[0].Err
	case got[0].EffectLost:
		return fmt.Errorf("effect %s: %w", e.WorkID, dibs.ErrStaleFence)
	}
	return nil
}

// claimRow takes the action's row, whenever it is due; nil when it is gone, done,
// set aside, or in somebody's hands.
func (p *repair) claimRow(ctx context.Context, e dibs.Effect, wanted bool) (*dibs.Held, error) {
	if !wanted {
		return nil, nil
	}
	key, err := dibs.ParseKey(e.Key, len(p.job.table.KeyColumns()))
	if err != nil {
		return nil, nil //nolint:nilerr // of a table with another key, once
	}
	got, err := p.claims.Claim(ctx, dibs.ClaimRequest{
		Run: p.run.Ref(), Token: p.token(), Limit: 1, Lease: p.job.timing.lease, Progress: p.progress(e.Key),
		Scope: dibs.Scope{Key: key, Lease: p.job.timing.lease},
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("claim %s: %w", e.Key, err)
	case got.Over:
		return nil, fmt.Errorf("run %s: %w", p.run.ID, dibs.ErrLeaseLost)
	case len(got.Items) == 0 || got.Items[0].Problem != "":
		return nil, nil
	}
	return &got.Items[0], nil
}

// same tells whether a row is still at an effect's action.
func (p *repair) same(h dibs.Held, e dibs.Effect) bool {
	if h.Cycle != e.Cycle {
		return false
	}
	if !p.job.fixed() {
		return true
	}
	id, err := p.job.identity.WorkID(dibs.Subject{
		Job: p.job.Name, Operation: p.job.Operation, Key: h.Key, Cycle: h.Cycle, Payload: h.Payload,
	})
	return err == nil && id == e.WorkID
}

// fixed tells whether a row alone says which action it is at.
func (j *job) fixed() bool {
	return !j.identity.Has("slot") && !j.identity.Has("trigger") && !j.identity.Has("slot or trigger")
}

// rowOf is what the outcome table needs to know of a row.
func (p *repair) rowOf(h dibs.Held) policy.Row {
	return policy.Row{
		OneShot: p.job.table.OneShot, Every: p.job.table.Every, HasQuarantine: p.claims.Table().Labels.Quarantined != "",
		Attempts: h.Attempts, Expirations: h.Expirations, Retry: p.job.Retry,
	}
}

// confirmed books an action that the destination has.
func (p *repair) confirmed(e dibs.Effect, why dibs.Reason, id string, evidence []byte) booking {
	return booking{
		change:  dibs.EffectChange{EffectRef: e.Ref(), State: dibs.EffectConfirmed, Reason: why, ReceiptID: id, Evidence: evidence},
		outcome: dibs.OutcomeAlreadyDone, reason: why,
		row: func(h dibs.Held) dibs.RowChange {
			return policy.Change(dibs.OutcomeAlreadyDone, dibs.Verdict{Outcome: dibs.OutcomeAlreadyDone}, p.rowOf(h), roll(), "")
		},
	}
}

// absent books an action that the destination certainly does not have: its row
// is due at once.
func (p *repair) absent(e dibs.Effect, why dibs.Reason, text string) booking {
	return booking{
		change:  dibs.EffectChange{EffectRef: e.Ref(), State: dibs.EffectNotApplied, Reason: why, Error: text},
		outcome: dibs.OutcomeReleased, reason: why, text: text,
		row: func(h dibs.Held) dibs.RowChange {
			due := time.Duration(0)
			return dibs.RowChange{Status: dibs.StatusFailed, DueIn: &due, Attempts: h.Attempts, Error: text}
		},
	}
}

// leave gives an effect back as it was, with what was found.
func (p *repair) leave(ctx context.Context, e dibs.Effect, found ...dibs.Finding) error {
	return p.r.store.SettleEffect(ctx, dibs.EffectChange{
		EffectRef: e.Ref(), State: e.State, Reason: e.Reason, Error: e.Error, Lookups: e.Lookups,
	}, found...)
}

func (p *repair) count(o dibs.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Selected++
	p.counts.Add(o, 1)
}

func (p *repair) progress(key string) dibs.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return dibs.Progress{Counts: p.counts, Position: key}
}

// end writes how the run ended.
func (p *repair) end(ctx context.Context, state dibs.RunState, why dibs.Reason, fault error) (dibs.Run, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.job.timing.lease)
	defer cancel()
	end := dibs.RunEnd{Run: p.run.Ref(), State: state, Reason: why, Counts: p.progress("").Counts}
	if fault != nil {
		end.State, end.Reason, end.Error = dibs.RunFailed, dibs.ReasonError, fault.Error()
		if errors.Is(fault, dibs.ErrStopping) || errors.Is(fault, context.Canceled) {
			end.State, end.Reason = dibs.RunCancelled, dibs.ReasonStopped
		}
	}
	_, err := p.r.dispatch.End(ctx, dispatch.Finish{Run: p.run, End: end, Lock: dispatch.LockOf(&p.job.Job)})
	run := p.run
	run.State, run.Reason, run.Counts, run.Error = end.State, end.Reason, end.Counts, end.Error
	if errors.Is(err, dibs.ErrStaleFence) {
		run.State, run.Reason = dibs.RunLost, dibs.ReasonLeaseLost
		err = fmt.Errorf("run %s of %s: %w", run.ID, run.Job, dibs.ErrLeaseLost)
	}
	return run, errors.Join(fault, err)
}
