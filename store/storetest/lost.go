package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dibs-run/dibs"
)

// CaseB12 loses the answer to a COMMIT that was carried out, at each operation,
// and then does what a caller has to do: ask, and go on.
func CaseB12(t *testing.T, c Config) {
	b := c.bundle(t)
	for _, one := range []check{
		{"claim", lostClaim}, {"claim with settling", lostFused}, {"renew", lostRenewal},
		{"settle", lostSettle}, {"decide", lostStart}, {"end", lostEnd},
	} {
		t.Run(one.name, func(t *testing.T) {
			one.test(&bundle{T: t, f: b.f, sql: b.sql, store: b.store, tables: b.tables})
		})
	}
}

// unanswered carries out an operation whose COMMIT is carried out and not
// answered. A store may also find out by itself and answer rightly.
func (b *bundle) unanswered(what string, faults *Faults, do func() error) {
	b.Helper()
	faults.CutAtText(isCommit, After)
	if err := do(); err != nil && (!errors.Is(err, dibs.ErrUnanswered) || dibs.Retryable(err)) {
		b.Errorf("%s: %v, want %v, which is not retryable", what, err, dibs.ErrUnanswered)
	}
	faults.Reset()
}

func lostClaim(b *bundle) {
	b.full(5)
	p, faults := b.faulty()
	r := b.start()
	q := b.request(r, 3)
	b.unanswered("claim", faults, func() error { _, err := p.claims.Claim(b.Context(), q); return err })
	found, err := p.claims.Find(b.Context(), q.Token)
	b.must("find", err)
	if names(found) != "1 2 3" {
		b.Fatalf("found %q by the token", names(found))
	}
	for _, h := range found {
		row := b.look(h.Key...)
		if h.Token != q.Token || h.Fence != row.Fence || !h.EndsAt.Equal(row.ClaimableAt) || !h.Stamp.Equal(row.StartedAt) || h.Cycle != row.Cycle {
			b.Errorf("found %+v of the row %+v", h, row)
		}
		if h.Prior.Expired() {
			b.Errorf("found with the prior %+v: it could never be given back", h.Prior)
		}
	}
	if got := b.renew(r, found...); got.Items[0].EndsAt.IsZero() {
		b.Errorf("an adopted claim was not renewed: %+v", got)
	}
	b.settled(r, append(completedIn(lease, r, found[0]), released(r, found[1])...)...)
	if row := b.look("2"); row.Status != dibs.StatusIdle || row.Token != "" || row.ClaimableAt.IsZero() || row.ClaimableAt.After(row.Now) {
		b.Errorf("an adopted claim was given back as %+v", row)
	}
	(&scene{bundle: b, runs: []dibs.Run{r}}).whole("adopted")
}

func lostFused(b *bundle) {
	b.full(4)
	p, faults := b.faulty()
	r := b.start()
	items := completedIn(lease, r, b.take(r, "1 2").Items...)
	q := b.request(r, 2, func(q *dibs.ClaimRequest) { q.Settle = items })
	b.unanswered("claim", faults, func() error { _, err := p.claims.Claim(b.Context(), q); return err })
	b.settled(r, items...)
	if found, err := p.claims.Find(b.Context(), q.Token); err != nil || names(found) != "3 4" {
		b.Errorf("found %q, %v", names(found), err)
	}
	(&scene{bundle: b, runs: []dibs.Run{r}}).whole("adopted")
}

func lostRenewal(b *bundle) {
	b.full(2)
	p, faults := b.faulty()
	r := b.start()
	q := dibs.RenewRequest{Run: r.Ref(), Lease: lease, Items: b.take(r, "1 2").Items}
	b.set("claimable_at = "+b.sql.Shift("claimable_at", -lease/2), "id > 0")
	b.unanswered("renew", faults, func() error { _, err := p.claims.Renew(b.Context(), q); return err })
	row := b.look("1")
	b.near("the lease after the lost answer", row.ClaimableAt.Sub(row.Now), lease)
	again, err := p.claims.Renew(b.Context(), q)
	if err != nil || again.Run.IsZero() || again.Items[0].EndsAt.IsZero() || again.Items[1].EndsAt.IsZero() {
		b.Errorf("renewed again: %+v, %v", again, err)
	}
}

func lostSettle(b *bundle) {
	b.full(3)
	p, faults := b.faulty()
	r := b.start()
	got := b.take(r, "1 2 3").Items
	q := dibs.SettleRequest{Run: r.Ref(), Items: append(completed(r, got[0]), failed(r, got[1], lease, "no"), released(r, got[2])[0])}
	b.unanswered("settle", faults, func() error { _, err := p.claims.Settle(b.Context(), q); return err })
	state := b.state()
	for range 2 {
		again, err := p.claims.Settle(b.Context(), q)
		b.must("settle again", err)
		for i, s := range again {
			if !s.OK || s.Late || s.Err != nil {
				b.Errorf("item %s: %+v", got[i].Key, s)
			}
		}
	}
	if diff := cmp.Diff(state, b.state()); diff != "" {
		b.Errorf("settling again changed rows:\n%s", diff)
	}
	if n := len(b.outcomes(r.ID)); n != 3 {
		b.Errorf("%d outcomes", n)
	}
}

func lostStart(b *bundle) {
	b.full(0)
	p, faults := b.faulty()
	r := b.newRun("lost start")
	b.unanswered("start", faults, func() error {
		return p.store.Decide(b.Context(), r.Job, func(ctx context.Context, d dibs.Desk) error { again := r; return startOn(ctx, d, &again) })
	})
	run, err := p.store.Run(b.Context(), r.ID)
	if err != nil || run.State != dibs.RunRunning || run.Token != r.Token {
		b.Fatalf("the run is %+v, %v", run, err)
	}
	if got := b.renewAlone(r.Ref()); got.Run.IsZero() {
		b.Errorf("the run is not ours: %+v", got)
	}
	b.end(r)
}

func lostEnd(b *bundle) {
	b.full(0)
	p, faults := b.faulty()
	r := b.start()
	end := func() error {
		return p.store.Decide(b.Context(), r.Job, func(ctx context.Context, d dibs.Desk) error {
			return d.EndRun(ctx, dibs.RunEnd{Run: r.Ref(), State: dibs.RunPartial, Counts: dibs.Counts{Selected: 1, Failed: 1}})
		})
	}
	b.unanswered("end", faults, end)
	run, err := p.store.Run(b.Context(), r.ID)
	if err != nil || run.State != dibs.RunPartial || run.Counts.Failed != 1 {
		b.Errorf("the run is %+v, %v", run, err)
	}
	if err := end(); !errors.Is(err, dibs.ErrStaleFence) {
		b.Errorf("ended twice: %v", err)
	}
	b.decide(r.Job, func(_ context.Context, d dibs.Desk) error {
		if d.Holder() != nil {
			b.Errorf("the lock is held by %+v", d.Holder())
		}
		return nil
	})
}
