package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// newRun is a run that was not started yet.
func (b *bundle) newRun(job string) dibs.Run {
	b.Helper()
	id, err := dibs.NewRunID()
	b.must("name a run", err)
	trigger, err := dibs.NewTriggerID()
	b.must("name a trigger", err)
	return dibs.Run{
		ID: id, Job: job, Trigger: trigger, Origin: dibs.OriginManual, Kind: dibs.KindItems,
		Holder: dibs.Holder{Host: "web", PID: 7, Process: "7c2e"}, Token: dibs.ClaimToken(id, 0), LeaseFor: lease,
	}
}

// start starts a run with a lock of its own.
func (b *bundle) start() dibs.Run {
	b.Helper()
	r := b.newRun("")
	r.Job = "job " + r.ID
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error { return startOn(ctx, d, &r) })
	return r
}

// startOn records a trigger and starts its run.
func startOn(ctx context.Context, d dibs.Desk, r *dibs.Run) error {
	err := d.PutTrigger(ctx, dibs.Trigger{ID: r.Trigger, Job: r.Job, Origin: r.Origin, Slot: r.Slot,
		Decision: dibs.DecisionStarted, Reason: dibs.ReasonFree, RunID: r.ID, OwnsSlot: !r.Slot.IsZero()})
	if err != nil {
		return err
	}
	return d.StartRun(ctx, r, true)
}

func (b *bundle) decide(lock string, fn func(context.Context, dibs.Desk) error) {
	b.Helper()
	b.must("decide", b.store.Decide(b.Context(), lock, fn))
}

func (b *bundle) end(r dibs.Run) {
	b.Helper()
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
		return d.EndRun(ctx, dibs.RunEnd{Run: r.Ref(), State: dibs.RunSucceeded})
	})
}

// lose ends a run whose process is gone, as its successor does.
func (b *bundle) lose(r dibs.Run) {
	b.Helper()
	b.expireRun(r.ID)
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
		lost, err := d.MarkLost(ctx, r.Ref(), dibs.ReasonLeaseEnded)
		if err == nil && !lost {
			err = errors.New("it is not lost")
		}
		return err
	})
}

// request is a claim of a run; the scope's Lease, which only two-column tables
// look at, is the same.
func (b *bundle) request(r dibs.Run, limit int, change ...func(*dibs.ClaimRequest)) dibs.ClaimRequest {
	q := dibs.ClaimRequest{Run: r.Ref(), Token: dibs.ClaimToken(r.ID, int(b.tokens.Add(1))), Limit: limit, Lease: lease,
		Scope: dibs.Scope{Lease: lease}}
	for _, f := range change {
		f(&q)
	}
	return q
}

// claim takes rows; it must not fail, nor give more than the limit.
func (b *bundle) claim(r dibs.Run, limit int, change ...func(*dibs.ClaimRequest)) dibs.Claimed {
	b.Helper()
	got, err := b.claims.Claim(b.Context(), b.request(r, limit, change...))
	b.must("claim", err)
	if len(got.Items) > limit {
		b.Fatalf("claimed %d rows with the limit %d", len(got.Items), limit)
	}
	return got
}

// take claims exactly these rows.
func (b *bundle) take(r dibs.Run, want string, change ...func(*dibs.ClaimRequest)) dibs.Claimed {
	b.Helper()
	got := b.claim(r, max(1, len(strings.Fields(want))), change...)
	if have := names(got.Items); have != want {
		b.Fatalf("claimed %q, want %q", have, want)
	}
	return got
}

func byKey(key ...string) func(*dibs.ClaimRequest) {
	return func(q *dibs.ClaimRequest) { q.Scope.Key = key }
}

func names(items []dibs.Held) string {
	all := make([]string, len(items))
	for i, h := range items {
		all[i] = h.Key.String()
	}
	return strings.Join(all, " ")
}

// outcome is one item's settlement with what belongs to it.
func outcome(r dibs.Run, h dibs.Held, o dibs.Outcome, change dibs.RowChange) dibs.Settlement {
	return dibs.Settlement{Held: h, Outcome: o, Change: change, Record: dibs.OutcomeRecord{
		RunID: r.ID, Job: r.Job, WorkID: r.Job + "/run/" + h.Key.String(), Attempt: h.Attempts + 1, Outcome: o,
	}}
}

// completed settles with success, due again at once; later is when.
func completed(r dibs.Run, items ...dibs.Held) []dibs.Settlement { return completedIn(0, r, items...) }

func completedIn(later time.Duration, r dibs.Run, items ...dibs.Held) []dibs.Settlement {
	all := make([]dibs.Settlement, len(items))
	for i, h := range items {
		all[i] = outcome(r, h, dibs.OutcomeCompleted, dibs.RowChange{Status: dibs.StatusIdle, DueIn: &later, Succeeded: true})
	}
	return all
}

// failed settles with a failure that is due again after a while.
func failed(r dibs.Run, h dibs.Held, later time.Duration, text string) dibs.Settlement {
	return outcome(r, h, dibs.OutcomeFailed, dibs.RowChange{Status: dibs.StatusFailed, DueIn: &later,
		Attempts: h.Attempts + 1, Expirations: h.Expirations, Error: text})
}

func released(r dibs.Run, items ...dibs.Held) []dibs.Settlement {
	all := make([]dibs.Settlement, len(items))
	for i, h := range items {
		all[i] = outcome(r, h, dibs.OutcomeReleased, dibs.RowChange{Restore: true})
	}
	return all
}

func (b *bundle) settle(r dibs.Run, items ...dibs.Settlement) []dibs.Settled {
	b.Helper()
	got, err := b.claims.Settle(b.Context(), dibs.SettleRequest{Run: r.Ref(), Items: items})
	b.must("settle", err)
	if len(got) != len(items) {
		b.Fatalf("%d answers for %d settlements", len(got), len(items))
	}
	return got
}

// settled settles what must succeed.
func (b *bundle) settled(r dibs.Run, items ...dibs.Settlement) {
	b.Helper()
	for i, s := range b.settle(r, items...) {
		if !s.OK || s.Late || s.Err != nil {
			b.Fatalf("settle %s: %+v", items[i].Held.Key, s)
		}
	}
}

func (b *bundle) renew(r dibs.Run, items ...dibs.Held) dibs.Renewed {
	b.Helper()
	got, err := b.claims.Renew(b.Context(), dibs.RenewRequest{Run: r.Ref(), Lease: lease, Items: items})
	b.must("renew", err)
	if len(got.Items) != len(items) {
		b.Fatalf("%d answers for %d items", len(got.Items), len(items))
	}
	return got
}

func (b *bundle) look(key ...string) dibs.Row {
	b.Helper()
	row, err := b.claims.Look(b.Context(), key)
	b.must("look at "+dibs.Key(key).String(), err)
	return row
}

// outcomes of a run, "key outcome" in any order, late ones marked.
func (b *bundle) outcomes(run string) []dibs.OutcomeRecord {
	b.Helper()
	list, err := b.store.ListOutcomes(b.Context(), dibs.OutcomeFilter{Run: run, Limit: 10_000})
	b.must("list outcomes", err)
	return list
}

// recorded counts the outcomes of a run that say so.
func (b *bundle) recorded(run string, o dibs.Outcome, late bool) (n int) {
	b.Helper()
	for _, r := range b.outcomes(run) {
		if r.Outcome == o && r.Late == late {
			n++
		}
	}
	return n
}

// wantRecorded fails unless exactly n outcomes of a run say so.
func (b *bundle) wantRecorded(n int, run string, o dibs.Outcome, late bool) {
	b.Helper()
	if have := b.recorded(run, o, late); have != n {
		b.Errorf("run %s has %d outcomes %s (late: %t), want %d", dibs.ShortID(run), have, o, late, n)
	}
}

// eventually asks until something holds.
func (b *bundle) eventually(what string, holds func() bool) {
	b.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(wait)
	defer end.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			b.Fatalf("never: %s", what)
		}
	}
}

// near fails unless a span is about what it should be.
func (b *bundle) near(what string, have, want time.Duration) {
	b.Helper()
	if off := have - want; off < -wait || off > wait {
		b.Errorf("%s: %s, want %s", what, have, want)
	}
}

// where names one row.
func where(key any) string { return fmt.Sprintf("id = %v", key) }
