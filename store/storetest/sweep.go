package storetest

import (
	"github.com/google/go-cmp/cmp"

	"github.com/dibs-run/dibs"
)

func sweepChecks() []check {
	return []check{
		{"a sweep repairs what nobody can claim", sweepRepairs},
		{"a sweep ignores where", sweepIgnoresWhere},
		{"a sweep leaves good rows alone", sweepLeavesGood},
		{"a sweep of many", sweepMany},
	}
}

// orphans makes one row of each kind that no claim can pick up.
func (b *bundle) orphans() {
	b.Helper()
	b.set("status = 'IN_PROGRESS', claimable_at = NULL", where(1))
	b.set("status = 'IN_PROGRESS', started_at = "+b.sql.Now+", claimable_at = NULL, claim_token = 'old/1', fence = 4", where(2))
	b.set("status = 'IN_PROGRESS', started_at = "+b.sql.Now, where(3)) // foreign code took it
	b.set("claimable_at = NULL", where(4))
}

func sweepRepairs(b *bundle) {
	b.full(5)
	b.orphans()
	r := b.start()
	b.take(r, "5")
	if more := b.claim(r, 10); len(more.Items) != 0 {
		b.Errorf("claimed %s, which only a sweep may give", names(more.Items))
	}
	swept, err := b.claims.Sweep(b.Context(), lease)
	b.must("sweep", err)
	if want := (dibs.Swept{InProgressWithoutLease: 3, IdleWithoutDue: 1}); swept != want {
		b.Errorf("swept %+v, want %+v", swept, want)
	}
	for id := 1; id <= 3; id++ {
		row := b.look(keyOf(id)...)
		b.near("the grace", row.ClaimableAt.Sub(row.Now), lease)
		if row.Status != dibs.StatusInProgress {
			b.Errorf("swept to %+v", row)
		}
	}
	b.take(r, "4")
	b.expire("id <= 3")
	got := b.claim(r, 10)
	if len(got.Items) != 3 {
		b.Errorf("after the grace, claimed %s", names(got.Items))
	}
	for _, h := range got.Items {
		if h.Expirations != 1 || h.Fence != max(1, h.Prior.Fence+1) {
			b.Errorf("claimed %+v", h)
		}
	}
	b.wantRecorded(1, "old", dibs.OutcomeLost, false)
}

func sweepIgnoresWhere(b *bundle) {
	b.full(5, func(t *dibs.Table) { t.Where = "id > 100" })
	b.orphans()
	swept, err := b.claims.Sweep(b.Context(), lease)
	if want := (dibs.Swept{InProgressWithoutLease: 3, IdleWithoutDue: 1}); err != nil || swept != want {
		b.Errorf("swept %+v, %v", swept, err)
	}
}

func sweepLeavesGood(b *bundle) {
	b.full(6)
	r := b.start()
	got := b.take(r, "1 2 3").Items
	b.expire(where(1))
	b.settled(r, failed(r, got[1], lease, "no"))
	b.settled(r, outcome(r, got[2], dibs.OutcomeHeld, dibs.RowChange{Status: dibs.StatusFailed})) // for a person to free
	b.set("status = 'DONE', claimable_at = NULL", where(4))
	before := b.state()
	for range 2 {
		if swept, err := b.claims.Sweep(b.Context(), lease); err != nil || swept != (dibs.Swept{}) {
			b.Errorf("swept %+v, %v", swept, err)
		}
	}
	if diff := cmp.Diff(before, b.state()); diff != "" {
		b.Errorf("the sweep changed good rows:\n%s", diff)
	}
}

func sweepMany(b *bundle) {
	const n = 2500
	b.full(n)
	b.exec("UPDATE " + b.table + " SET claimable_at = NULL, status = CASE WHEN id <= 1200 THEN 'IN_PROGRESS' ELSE 'IDLE' END")
	swept, err := b.claims.Sweep(b.Context(), lease)
	if want := (dibs.Swept{InProgressWithoutLease: 1200, IdleWithoutDue: 1300}); err != nil || swept != want {
		b.Errorf("swept %+v, %v", swept, err)
	}
}
