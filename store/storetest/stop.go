package storetest

import (
	"context"
	"time"

	"github.com/dibs-run/dibs"
)

// stopCuts: asked to stop, a run that is dead does not keep its rows for a whole
// lease; nobody else's rows are touched, and what ends sooner is not extended.
func stopCuts(b *bundle) {
	b.full(5)
	r, other := b.start(), b.start()
	got := b.take(r, "1 2 3").Items
	theirs := b.claimOne(other, 4)
	b.set("claimable_at = "+b.sql.Shift(b.sql.Now, time.Minute), "id = 3")
	sooner := b.look("3").ClaimableAt
	b.clip(r, 5*time.Minute, 2)
	for _, id := range []string{"1", "2"} {
		row := b.look(id)
		b.near("the lease of row "+id, row.ClaimableAt.Sub(row.Now), 5*time.Minute)
		if row.Status != dibs.StatusInProgress || row.Token != got[0].Token {
			b.Errorf("cut to %+v", row)
		}
	}
	if now := b.look("3").ClaimableAt; !now.Equal(sooner) {
		b.Errorf("a lease that ended sooner moved from %s to %s", sooner, now)
	}
	if now := b.look("4").ClaimableAt; !now.Equal(theirs.EndsAt) {
		b.Errorf("another run's lease moved from %s to %s", theirs.EndsAt, now)
	}
	run, err := b.store.Run(b.Context(), r.ID)
	b.must("read the run", err)
	b.near("the run's lease", run.Lease.Sub(b.look("1").Now), 5*time.Minute)
	renewed := b.renew(r, got...)
	for i, it := range renewed.Items {
		if it.EndsAt.IsZero() || it.EndsAt.After(run.StopBy.Add(time.Second)) {
			b.Errorf("row %d is renewed to %s, past %s", i+1, it.EndsAt, run.StopBy)
		}
	}
	b.clip(r, -time.Hour, 3) // never before its start: it would look like foreign code's
	for _, id := range []string{"1", "2", "3"} {
		if row := b.look(id); !row.ClaimableAt.After(row.StartedAt) {
			b.Errorf("cut to before its start: %+v", row)
		}
	}
	b.two(2)
	r = b.start()
	b.take(r, "1")
	b.clip(r, time.Minute, 0)
}

// clip asks a run to stop and cuts its leases, as a replacement does.
func (b *bundle) clip(r dibs.Run, in time.Duration, want int64) {
	b.Helper()
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
		until := d.Now().Add(in)
		if _, err := d.StopRun(ctx, r.Ref(), until, until, dibs.ReasonReplaced); err != nil {
			return err
		}
		n, err := b.claims.Clip(ctx, d, r.Ref(), until)
		if n != want {
			b.Errorf("cut %d leases, want %d", n, want)
		}
		return err
	})
}
