package storetest

import (
	"errors"
	"time"

	"github.com/dibs-run/dibs"
)

func renewChecks() []check {
	return []check{
		{"a renewal extends run and rows", renewExtends},
		{"not past the time to stop by", renewStopBy},
		{"a stop cuts the leases of rows too", stopCuts},
		{"a lapsed claim that nobody took is renewed", renewLapsed},
		{"a lost run renews nothing", renewLostRun},
		{"items are answered in order", renewMixed},
		{"a run without rows", renewRunAlone},
		{"a reserved connection nests", reserveNests},
	}
}

func renewExtends(b *bundle) {
	b.full(2)
	r := b.start()
	got := b.take(r, "1 2").Items
	b.set("claimable_at = "+b.sql.Shift("claimable_at", -lease/2), "id > 0")
	b.exec("UPDATE dibs_runs SET lease_end = " + b.sql.Shift("lease_end", -lease/2) + " WHERE id = " + literals(r.ID))
	renewed := b.renew(r, got...)
	b.near("the run's lease", renewed.Run.Sub(renewed.Now), lease)
	for i, it := range renewed.Items {
		row := b.look(got[i].Key...)
		b.near("the row's lease", it.EndsAt.Sub(renewed.Now), lease)
		if !row.ClaimableAt.Equal(it.EndsAt) || row.Token != got[i].Token || row.Fence != got[i].Fence || !row.StartedAt.Equal(got[i].Stamp) {
			b.Errorf("renewed %+v, stored %+v", it, row)
		}
	}
	run, err := b.store.Run(b.Context(), r.ID)
	if err != nil || !run.Lease.Equal(renewed.Run) || run.State != dibs.RunRunning {
		b.Errorf("the run is %+v, %v", run, err)
	}
	b.settled(r, completed(r, got...)...)
	if again := b.renew(r, got...); !again.Items[0].EndsAt.IsZero() || !again.Items[1].EndsAt.IsZero() {
		b.Errorf("settled items were renewed: %+v", again)
	}
}

func renewStopBy(b *bundle) {
	b.full(1)
	r := b.start()
	got := b.take(r, "1").Items
	b.expireRun(r.ID)
	b.set("claimable_at = "+b.sql.Shift(b.sql.Now, time.Second), "id = 1")
	b.stopBy(r, 5*time.Minute)
	renewed := b.renew(r, got...)
	if renewed.StopBy.IsZero() || renewed.Run.After(renewed.StopBy) || renewed.Items[0].EndsAt.After(renewed.StopBy.Add(time.Millisecond)) {
		b.Errorf("renewed past the time to stop by: %+v", renewed)
	}
	b.near("lease left", renewed.Run.Sub(renewed.Now), 5*time.Minute)
	b.stopBy(r, -time.Second)
	renewed = b.renew(r, got...)
	if !renewed.Run.IsZero() || renewed.StopBy.IsZero() {
		b.Errorf("renewed after the time to stop by: %+v", renewed)
	}
}

func renewLapsed(b *bundle) {
	b.full(1)
	r := b.start()
	got := b.take(r, "1").Items
	b.expire("id = 1")
	b.expireRun(r.ID)
	renewed := b.renew(r, got...)
	if !renewed.Run.After(renewed.Now) || !renewed.Items[0].EndsAt.After(renewed.Now) {
		b.Errorf("a lapsed claim that nobody took was refused: %+v", renewed)
	}
	if more := b.claim(b.start(), 1); len(more.Items) != 0 {
		b.Error("somebody claimed a renewed row")
	}
	b.settled(r, completed(r, got...)...)
}

func renewLostRun(b *bundle) {
	b.full(1)
	r := b.start()
	got := b.take(r, "1").Items
	b.set("claimable_at = "+b.sql.Shift(b.sql.Now, time.Minute), "id = 1")
	b.lose(r)
	before := b.look("1").ClaimableAt
	renewed := b.renew(r, got...)
	if !renewed.Run.IsZero() {
		b.Errorf("a lost run was renewed: %+v", renewed)
	}
	if after := b.look("1").ClaimableAt; !after.Equal(before) {
		b.Errorf("a lost run extended a row from %s to %s", before, after)
	}
	other := b.start()
	if refused := b.renewAlone(dibs.RunRef{ID: other.ID, Token: "run_other/1"}); !refused.Run.IsZero() {
		b.Errorf("another token renewed a run: %+v", refused)
	}
}

func renewMixed(b *bundle) {
	b.full(5)
	r, thief := b.start(), b.start()
	got := b.take(r, "1 2 3 4 5").Items
	b.expire("id = 2")
	b.claimOne(thief, 2)
	b.settled(r, completedIn(lease, r, got[3])...)
	renewed := b.renew(r, got[4], got[1], got[0], got[3], got[2])
	for i, ours := range []bool{true, false, true, false, true} {
		if renewed.Items[i].EndsAt.IsZero() == ours {
			b.Errorf("answer %d is %+v", i, renewed.Items[i])
		}
	}
	if !renewed.Items[0].EndsAt.Equal(b.look("5").ClaimableAt) || !renewed.Items[4].EndsAt.Equal(b.look("3").ClaimableAt) {
		b.Errorf("answered %+v", renewed.Items)
	}
}

func renewRunAlone(b *bundle) {
	r := b.start()
	b.expireRun(r.ID)
	got, err := b.store.RenewRun(b.Context(), r.Ref(), lease)
	b.must("renew", err)
	b.near("the run's lease", got.Run.Sub(got.Now), lease)
	shorter, err := b.store.RenewRun(b.Context(), r.Ref(), time.Minute)
	if err != nil || shorter.Run.Before(got.Run) {
		b.Errorf("a renewal took back what was granted: %+v after %+v, %v", shorter, got, err)
	}
	b.end(r)
	if got, err := b.store.RenewRun(b.Context(), r.Ref(), lease); err != nil || !got.Run.IsZero() {
		b.Errorf("a run that ended was renewed: %+v, %v", got, err)
	}
}

func reserveNests(b *bundle) {
	r := b.start()
	one, err := b.store.Reserve(b.Context())
	b.must("reserve", err)
	two, err := b.store.Reserve(b.Context())
	b.must("reserve again", err)
	one()
	one() // once more does nothing
	if in := b.f.DB.Stats().InUse; in < 1 {
		b.Error("the reserved connection went back while somebody needs it")
	}
	b.renewAlone(r.Ref())
	two()
	limit := b.f.DB.Stats().MaxOpenConnections
	b.f.DB.SetMaxOpenConns(1)
	defer b.f.DB.SetMaxOpenConns(limit)
	if release, err := b.store.Reserve(b.Context()); !errors.Is(err, dibs.ErrPoolTooSmall) {
		b.Errorf("a pool of one was taken: %v", err)
		release()
	}
}

func (b *bundle) renewAlone(r dibs.RunRef) dibs.Renewed {
	b.Helper()
	got, err := b.store.RenewRun(b.Context(), r, lease)
	b.must("renew", err)
	return got
}
