package storetest

import (
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// Two-column tables have status and started_at and nothing else.
func twoChecks() []check {
	return []check{
		{"the stamp is the fence", twoStamps},
		{"expired, failed, fresh, idle", twoClasses},
		{"neither failed nor idle rows starve", twoShares},
		{"a renewal moves the stamp", twoRenewals},
		{"a lost renewal is recognised", twoLostRenewal},
		{"a release gives the status back and no stamp", twoReleases},
		{"one row by its key", twoKeys},
		{"a sweep stamps what has no stamp", twoSweep},
		{"nothing is found by token", twoFind},
	}
}

func twoStamps(b *bundle) {
	b.two(2)
	if !b.claims.TwoColumn() {
		b.Fatal("not a two-column table")
	}
	r, thief := b.start(), b.start()
	got := b.take(r, "1 2")
	for _, h := range got.Items {
		row := b.look(h.Key...)
		if row.Status != dibs.StatusInProgress || !row.StartedAt.Equal(h.Stamp) || h.Stamp.IsZero() || !h.EndsAt.Equal(h.Stamp.Add(lease)) {
			b.Errorf("claimed as %+v, stored as %+v", h, row)
		}
		if h.Prior.Status != dibs.StatusIdle || !h.Prior.StartedAt.IsZero() {
			b.Errorf("before it was %+v", h.Prior)
		}
	}
	b.settled(r, completed(r, got.Items[0])...)
	b.settled(r, completed(r, got.Items[0])...) // twice is success
	if row := b.look("1"); row.Status != dibs.StatusIdle || !row.StartedAt.Equal(got.Items[0].Stamp) {
		b.Errorf("after success: %+v", row)
	}
	b.expire(where(2))
	old := got.Items[1]
	old.Stamp = b.look("2").StartedAt // it was moved with the lease
	stolen := b.take(thief, "2").Items[0]
	if !stolen.Prior.Expired() || stolen.Fence <= 0 {
		b.Errorf("taken over as %+v", stolen)
	}
	before := b.look("2")
	if late := b.settle(r, completed(r, old)...); !late[0].Late || late[0].OK {
		b.Errorf("an old stamp settled: %+v", late)
	}
	if renewed := b.renew(r, old); !renewed.Items[0].EndsAt.IsZero() {
		b.Errorf("an old stamp renewed: %+v", renewed)
	}
	if after := b.look("2"); !after.StartedAt.Equal(before.StartedAt) || after.Status != before.Status {
		b.Errorf("an old stamp changed the row: %+v", after)
	}
	// The stamp of a new claim is later than any old one, whatever the clock says.
	b.settled(thief, completed(thief, stolen)...)
	b.set("started_at = "+b.sql.Shift(b.sql.Now, time.Minute), where(2))
	ahead := b.look("2").StartedAt
	h := b.take(r, "2", func(q *dibs.ClaimRequest) { q.Scope.Key = keyOf(2) }).Items[0]
	if !h.Stamp.After(ahead) {
		b.Errorf("the stamp went back from %s to %s", ahead, h.Stamp)
	}
}

func twoClasses(b *bundle) {
	b.two(8)
	for id, change := range map[int]string{
		1: "status = 'IDLE', started_at = " + b.sql.Shift(b.sql.Now, -3*time.Minute),
		2: "status = 'FAILED', started_at = " + b.sql.Shift(b.sql.Now, -3*time.Minute),
		3: "status = 'FAILED', started_at = " + b.sql.Shift(b.sql.Now, -time.Second), // backing off
		4: "status = 'IN_PROGRESS', started_at = " + b.sql.Shift(b.sql.Now, past),
		5: "status = 'IN_PROGRESS', started_at = " + b.sql.Shift(b.sql.Now, -time.Minute), // live
		6: "status = 'IDLE', started_at = " + b.sql.Shift(b.sql.Now, -time.Second),        // every
		7: "status = 'DONE'",
	} {
		b.set(change, where(id))
	}
	r := b.start()
	scope := func(q *dibs.ClaimRequest) {
		q.Scope.Backoff, q.Scope.Every, q.Scope.StartedBefore = 2*time.Minute, 2*time.Minute, r.StartedAt
	}
	got := b.claim(r, 20, scope)
	if have := strings.Join(sorted(strings.Fields(names(got.Items))), " "); have != "1 2 4 8" || got.Items[0].Key[0] != "4" {
		b.Errorf("claimed %s, want 4 first, then 1 2 8", names(got.Items))
	}
	if more := b.claim(r, 20, scope); len(more.Items) != 0 {
		b.Errorf("then claimed %s", names(more.Items))
	}
}

func twoShares(b *bundle) {
	b.two(40)
	b.set("status = 'FAILED', started_at = "+b.sql.Shift(b.sql.Now, -time.Minute), "id <= 20")
	r := b.start()
	count := map[bool]int{}
	for _, h := range b.claim(r, 16).Items {
		count[h.Prior.Status == dibs.StatusFailed]++
	}
	if count[true] < 4 || count[false] < 4 {
		b.Errorf("of 16 rows %d had failed and %d had not", count[true], count[false])
	}
	failedOnes := 0
	for range 24 {
		for _, h := range b.claim(r, 1).Items {
			if h.Prior.Status == dibs.StatusFailed {
				failedOnes++
			}
		}
	}
	if count[true]+failedOnes != 20 {
		b.Errorf("%d failed rows of 20 were claimed", count[true]+failedOnes)
	}
}

func twoRenewals(b *bundle) {
	b.two(1)
	r := b.start()
	h := b.take(r, "1").Items[0]
	renewed := b.renew(r, h).Items[0]
	if !renewed.Stamp.After(h.Stamp) || !renewed.EndsAt.Equal(renewed.Stamp.Add(lease)) || !b.look("1").StartedAt.Equal(renewed.Stamp) {
		b.Errorf("renewed %+v from %s", renewed, h.Stamp)
	}
	h.Stamp = renewed.Stamp
	b.settled(r, completed(r, h)...)
}

// twoLostRenewal: the answer to a renewal was lost, so the caller shows the old
// stamp; a stamp between that and its lease's end can only be its own.
func twoLostRenewal(b *bundle) {
	b.two(1)
	r, thief := b.start(), b.start()
	h := b.take(r, "1").Items[0]
	b.renew(r, h)
	again := b.renew(r, h).Items[0]
	if again.EndsAt.IsZero() {
		b.Fatal("a claim whose renewal went unanswered was given up")
	}
	b.expire(where(1))
	if got := b.take(thief, "1"); !got.Items[0].Prior.Expired() {
		b.Errorf("taken over as %+v", got.Items[0])
	}
	b.set("started_at = "+b.sql.Shift("started_at", 2*lease), where(1)) // after my lease's end: not mine
	if lost := b.renew(r, h).Items[0]; !lost.EndsAt.IsZero() {
		b.Errorf("renewed somebody else's claim: %+v", lost)
	}
}

func twoReleases(b *bundle) {
	b.two(3)
	b.set("status = 'FAILED', started_at = "+b.sql.Shift(b.sql.Now, -time.Minute), where(2))
	b.set("status = 'IN_PROGRESS', started_at = "+b.sql.Shift(b.sql.Now, past), where(3))
	r := b.start()
	got := b.claim(r, 10).Items
	b.settled(r, released(r, got...)...)
	for id, want := range []dibs.Status{1: dibs.StatusIdle, 2: dibs.StatusFailed, 3: dibs.StatusFailed} {
		if id == 0 {
			continue
		}
		if row := b.look(keyOf(id)...); row.Status != want || row.StartedAt.IsZero() {
			b.Errorf("row %d was given back as %+v", id, row)
		}
	}
	for _, h := range got {
		if row := b.look(h.Key...); row.StartedAt.Before(h.Stamp) {
			b.Errorf("the stamp of %s went back", h.Key)
		}
	}
}

func twoKeys(b *bundle) {
	b.two(2)
	r := b.start()
	scope := func(key string) func(*dibs.ClaimRequest) {
		return func(q *dibs.ClaimRequest) { q.Scope.Key, q.Scope.Every, q.Scope.Backoff = dibs.Key{key}, lease, lease }
	}
	h := b.take(r, "2", scope("2")).Items[0]
	if again := b.claim(r, 1, scope("2")); len(again.Items) != 0 {
		b.Error("a live row was claimed by key")
	}
	b.settled(r, completed(r, h)...)
	b.take(r, "2", scope("2")) // not due
	b.expire(where(2))
	b.take(r, "2", scope("2")) // expired
}

func twoSweep(b *bundle) {
	b.two(2)
	b.set("status = 'IN_PROGRESS'", where(1))
	r := b.start()
	b.take(r, "2")
	swept, err := b.claims.Sweep(b.Context(), lease)
	if want := (dibs.Swept{InProgressWithoutLease: 1}); err != nil || swept != want {
		b.Errorf("swept %+v, %v", swept, err)
	}
	b.expire(where(1))
	b.take(r, "1")
}

func twoFind(b *bundle) {
	b.two(1)
	got := b.take(b.start(), "1")
	if found, err := b.claims.Find(b.Context(), got.Items[0].Token); err != nil || len(found) != 0 {
		b.Errorf("found %+v, %v in a table that keeps no token", found, err)
	}
}
