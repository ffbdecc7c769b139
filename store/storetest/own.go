package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dibs-run/dibs"
)

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

func ownChecks() []check {
	return []check{
		{"nothing is written without proof", proofs},
		{"a taken over claim is lost once", lostOnce},
		{"expirations are counted", expirations},
		{"a release gives back everything but the fence", releases},
		{"a release after a take-over keeps the former claim lost", releasedTakeover},
	}
}

// proofs: a claim that is no longer its own changes nothing, in every way in
// which it can have ended.
func proofs(b *bundle) {
	b.full(0)
	for id, spoil := range []struct {
		what string
		do   func(id int, h *dibs.Held)
	}{
		{"another token", func(_ int, h *dibs.Held) { h.Token = "run_other/1" }},
		{"an older fence", func(_ int, h *dibs.Held) { h.Fence-- }},
		{"a later fence", func(_ int, h *dibs.Held) { h.Fence++ }},
		{"set free by hand", func(id int, _ *dibs.Held) { b.set("status = 'IDLE'", where(id)) }},
		{"deleted", func(id int, _ *dibs.Held) { b.exec("DELETE FROM " + b.table + " WHERE " + where(id)) }},
		{"inserted again", func(id int, _ *dibs.Held) { b.reinsert(id) }},
		{"inserted again and claimed", func(id int, _ *dibs.Held) { b.reinsert(id); b.claimOne(b.start(), id) }},
		{"taken over", func(id int, _ *dibs.Held) { b.expire(where(id)); b.claimOne(b.start(), id) }},
		{"taken over and settled", func(id int, _ *dibs.Held) {
			b.expire(where(id))
			next := b.start()
			b.settled(next, completedIn(lease, next, b.claimOne(next, id))...)
		}},
	} {
		b.insert(id, id)
		r := b.start()
		h := b.claimOne(r, id)
		spoil.do(id, &h)
		b.unowned(spoil.what, r, h)
		b.exec("DELETE FROM " + b.table)
	}
}

// unowned fails if any write with this claim changes anything.
func (b *bundle) unowned(what string, r dibs.Run, h dibs.Held) {
	b.Helper()
	before := b.state()
	if got := b.renew(r, h); !got.Items[0].EndsAt.IsZero() || got.Run.IsZero() {
		b.Errorf("%s: renewed %+v", what, got)
	}
	late := 0
	for _, s := range []dibs.Settlement{
		completed(r, h)[0], completed(r, h)[0], failed(r, h, 0, "no"), released(r, h)[0],
	} {
		if got := b.settle(r, s); got[0].OK || !got[0].Late || got[0].Err != nil {
			b.Errorf("%s: settled as %s: %+v", what, s.Outcome, got[0])
		}
		late = 1
	}
	if diff := cmp.Diff(before, b.state()); diff != "" {
		b.Errorf("%s: the rows changed:\n%s", what, diff)
	}
	outcomes, err := b.store.ListOutcomes(b.Context(), dibs.OutcomeFilter{Run: h.Token.Run(), Limit: 100})
	b.must("list outcomes", err)
	for _, o := range outcomes {
		if o.Late {
			late--
		}
	}
	if late != 0 {
		b.Errorf("%s: late outcomes %+v, want one", what, outcomes)
	}
}

// state is all rows as they are, the time of the look aside.
func (b *bundle) state() []dibs.Row {
	b.Helper()
	rows, err := b.claims.Rows(b.Context(), dibs.RowFilter{Limit: 10_000})
	b.must("list rows", err)
	for i := range rows {
		rows[i].Now = time.Time{}
	}
	return rows
}

func (b *bundle) reinsert(id int) {
	b.Helper()
	b.exec("DELETE FROM " + b.table + " WHERE " + where(id))
	b.insert(id, id)
}

// claimOne claims a row by its key.
func (b *bundle) claimOne(r dibs.Run, id int) dibs.Held {
	b.Helper()
	key := keyOf(id)
	return b.take(r, key[0], byKey(key...)).Items[0]
}

func lostOnce(b *bundle) {
	b.full(2)
	first, second, third := b.start(), b.start(), b.start()
	got := b.take(first, "1 2")
	b.expire("id > 0")
	taken := b.take(second, "1 2")
	b.wantRecorded(2, first.ID, dibs.OutcomeLost, false)
	for _, o := range b.outcomes(first.ID) {
		if o.Job != first.Job || o.RunID != first.ID || o.Fence != 1 || o.Token != got.Items[0].Token {
			b.Errorf("lost is recorded as %+v", o)
		}
	}
	b.settled(second, completed(second, taken.Items...)...)
	b.take(third, "1 2")
	b.wantRecorded(2, first.ID, dibs.OutcomeLost, false)
	b.wantRecorded(0, second.ID, dibs.OutcomeLost, false)
	if late := b.settle(first, completed(first, got.Items...)...); !late[0].Late || !late[1].Late {
		b.Errorf("the lost run settled %+v", late)
	}
	b.wantRecorded(2, first.ID, dibs.OutcomeCompleted, true)
	counts, err := b.store.FoldOutcomes(b.Context(), first.ID)
	if err != nil || counts.Lost != 2 || counts.Completed != 0 {
		b.Errorf("the lost run adds up to %+v, %v", counts, err)
	}
}

func expirations(b *bundle) {
	b.full(1)
	r := b.start()
	for n := range 3 {
		h := b.claimOne(r, 1)
		if h.Expirations != n || h.Prior.Expirations != max(0, n-1) {
			b.Errorf("after %d expirations: %+v", n, h)
		}
		b.expire(where(1))
	}
	h := b.claimOne(r, 1)
	b.settled(r, failed(r, h, 0, "no"))
	if row := b.look("1"); row.Expirations != 3 {
		b.Errorf("a failure that keeps the count left %+v", row)
	}
	h = b.claimOne(r, 1)
	if h.Expirations != 3 {
		b.Errorf("a settled claim was counted as expired: %+v", h)
	}
	b.settled(r, completed(r, h)...)
	if row := b.look("1"); row.Expirations != 0 {
		b.Errorf("success left %+v", row)
	}
}

func releases(b *bundle) {
	b.full(4)
	r := b.start()
	got := b.take(r, "1 2 3")
	b.settled(r, completed(r, got.Items[0])...)
	b.settled(r, failed(r, got.Items[1], -time.Minute, "it failed"))
	b.expire(where(3))
	before := b.state()
	second := b.start()
	claimed := b.claim(second, 4)
	b.settled(second, released(second, claimed.Items...)...)
	for i, row := range b.state() {
		was := before[i]
		if row.Key.String() == "4" {
			was.Cycle = row.Cycle // began with the claim, and does no harm
		}
		if row.Fence != was.Fence+1 {
			b.Errorf("row %s has fence %d after %d: a fence never comes back", row.Key, row.Fence, was.Fence)
		}
		row.Fence = was.Fence
		if diff := cmp.Diff(was, row); diff != "" {
			b.Errorf("row %s was not given back as it was:\n%s", row.Key, diff)
		}
	}
	b.wantRecorded(4, second.ID, dibs.OutcomeReleased, false)
	again := b.claim(second, 4)
	if names(again.Items) != names(claimed.Items) {
		b.Errorf("given back in another order: %s, was %s", names(again.Items), names(claimed.Items))
	}
}

func releasedTakeover(b *bundle) {
	b.full(1)
	first, second, third := b.start(), b.start(), b.start()
	h := b.claimOne(first, 1)
	b.expire(where(1))
	taken := b.claimOne(second, 1)
	b.settled(second, released(second, taken)...)
	if late := b.settle(first, completed(first, h)...); !late[0].Late {
		b.Errorf("a lost claim settled a row that its successor gave back: %+v", late)
	}
	if got := b.renew(first, h); !got.Items[0].EndsAt.IsZero() {
		b.Errorf("a lost claim renewed a row that its successor gave back: %+v", got)
	}
	b.claimOne(third, 1)
	b.wantRecorded(1, first.ID, dibs.OutcomeLost, false)
	b.wantRecorded(0, second.ID, dibs.OutcomeLost, false)
}
