package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dibs-run/dibs"
)

func settleChecks() []check {
	return []check{
		{"each outcome leaves its row", outcomesLeaveRows},
		{"the outcome row says everything", outcomeRows},
		{"settled twice is success", settledTwice},
		{"another outcome after the first is late", secondOutcome},
		{"late only leaves the row alone", lateOnly},
		{"each claim of one row is answered for itself", twoClaimsOfOneRow},
		{"one refused item fails alone", refusedAlone},
		{"hostile texts are kept or tamed", hostileTexts},
		{"settling rides on the next claim", fusedSettle},
		{"progress is written with it", progressIsWritten},
		{"done rows do not come again", oneShotRows},
	}
}

func outcomesLeaveRows(b *bundle) {
	b.full(5, func(t *dibs.Table) { t.Labels.Quarantined = "BAD" })
	r := b.start()
	got := b.take(r, "1 2 3 4 5").Items
	b.settled(r,
		completedIn(lease, r, got[0])[0],
		failed(r, got[1], time.Minute, "no"),
		outcome(r, got[2], dibs.OutcomeHeld, dibs.RowChange{Status: dibs.StatusFailed, Attempts: 4}),
		outcome(r, got[3], dibs.OutcomeRejected, dibs.RowChange{Status: dibs.StatusQuarantined, Error: "never"}),
		outcome(r, got[4], dibs.OutcomeUncertain, dibs.RowChange{Status: dibs.StatusFailed, DueIn: new(time.Duration), Attempts: 1, Expirations: 2}),
	)
	for i, want := range []dibs.Row{
		{Status: dibs.StatusIdle},
		{Status: dibs.StatusFailed, Attempts: 1, LastError: "no"},
		{Status: dibs.StatusFailed, Attempts: 4},
		{Status: dibs.StatusQuarantined, LastError: "never"},
		{Status: dibs.StatusFailed, Attempts: 1, Expirations: 2},
	} {
		row := b.look(keyOf(i + 1)...)
		if row.Status != want.Status || row.Attempts != want.Attempts || row.Expirations != want.Expirations ||
			row.LastError != want.LastError || row.Token != "" || row.Fence != 1 || row.StartedAt.IsZero() {
			b.Errorf("row %d is %+v, want %+v", i+1, row, want)
		}
		if due := !row.ClaimableAt.IsZero(); due != (i != 2 && i != 3) {
			b.Errorf("row %d is due at %s", i+1, row.ClaimableAt)
		}
		if row.LastSuccess.IsZero() != (i != 0) {
			b.Errorf("row %d last succeeded at %s", i+1, row.LastSuccess)
		}
	}
	row := b.look("2")
	b.near("backoff", row.ClaimableAt.Sub(row.Now), time.Minute)
	b.take(r, "5") // due at once
}

func outcomeRows(b *bundle) {
	b.full(1)
	r := b.start()
	h := b.take(r, "1").Items[0]
	s := completed(r, h)[0]
	s.Record.Attempt, s.Record.ReceiptID, s.Record.Reason = 3, "crm-7", "because"
	s.Record.Evidence, s.Record.Took, s.Record.Error = json.RawMessage(`{"etag":"é\"x"}`), 1500*time.Microsecond, "almost"
	b.settled(r, s)
	list := b.outcomes(r.ID)
	if len(list) != 1 {
		b.Fatalf("%d outcomes", len(list))
	}
	have := list[0]
	b.near("recorded at", b.look("1").Now.Sub(have.RecordedAt), 0)
	var evidence map[string]string
	b.must("read the evidence", json.Unmarshal(have.Evidence, &evidence))
	if evidence["etag"] != `é"x` {
		b.Errorf("evidence %s", have.Evidence)
	}
	have.Evidence, have.RecordedAt = nil, time.Time{}
	want := dibs.OutcomeRecord{Token: h.Token, Key: "1", RunID: r.ID, Job: r.Job, WorkID: r.Job + "/run/1", Fence: 1, Attempt: 3,
		Outcome: dibs.OutcomeCompleted, Reason: "because", ReceiptID: "crm-7", Error: "almost", Took: 1500 * time.Microsecond}
	if diff := cmp.Diff(want, have); diff != "" {
		b.Errorf("the outcome reads back differently:\n%s", diff)
	}
	for what, f := range map[string]dibs.OutcomeFilter{
		"key": {Job: r.Job, Key: "1"}, "work id": {WorkID: want.WorkID}, "outcome": {Run: r.ID, Outcome: dibs.OutcomeCompleted},
	} {
		if list, err := b.store.ListOutcomes(b.Context(), f); err != nil || len(list) != 1 {
			b.Errorf("by %s: %d outcomes, %v", what, len(list), err)
		}
	}
}

func settledTwice(b *bundle) {
	b.full(4)
	r := b.start()
	got := b.take(r, "1 2 3 4").Items
	all := []dibs.Settlement{
		completedIn(lease, r, got[0])[0], failed(r, got[1], lease, "no"), released(r, got[2])[0],
		outcome(r, got[3], dibs.OutcomeRejected, dibs.RowChange{Status: dibs.StatusFailed, DueIn: new(time.Duration)}),
	}
	b.settled(r, all...)
	state := b.state()
	b.settled(r, all...)
	b.settled(r, all[0])
	b.settled(r, append(all[1:2:2], all[3])...)
	if diff := cmp.Diff(state, b.state()); diff != "" {
		b.Errorf("settling again changed rows:\n%s", diff)
	}
	if n := len(b.outcomes(r.ID)); n != 4 {
		b.Errorf("%d outcomes, want 4", n)
	}
	// Also when the row has gone on meanwhile.
	next := b.start()
	b.take(next, "3 4")
	b.settled(r, all...)
}

func secondOutcome(b *bundle) {
	b.full(1)
	r := b.start()
	h := b.take(r, "1").Items[0]
	b.settled(r, failed(r, h, lease, "no"))
	state := b.state()
	if got := b.settle(r, completed(r, h)...); got[0].OK || !got[0].Late {
		b.Errorf("settled with another outcome: %+v", got)
	}
	if diff := cmp.Diff(state, b.state()); diff != "" {
		b.Errorf("a second outcome changed the row:\n%s", diff)
	}
	b.wantRecorded(1, r.ID, dibs.OutcomeFailed, false)
	b.wantRecorded(1, r.ID, dibs.OutcomeCompleted, true)
}

func lateOnly(b *bundle) {
	b.full(2)
	r := b.start()
	got := b.take(r, "1 2").Items
	state := b.state()
	late := completed(r, got[0])[0]
	late.LateOnly = true
	both := []dibs.Settlement{late, completedIn(lease, r, got[1])[0]}
	for range 2 {
		answers := b.settle(r, both...)
		if answers[0].OK || !answers[0].Late || !answers[1].OK || answers[1].Late {
			b.Errorf("answered %+v", answers)
		}
	}
	if diff := cmp.Diff(state[0], b.state()[0]); diff != "" {
		b.Errorf("a late result changed the row that the database would still give:\n%s", diff)
	}
	b.wantRecorded(1, r.ID, dibs.OutcomeCompleted, true)
	b.wantRecorded(1, r.ID, dibs.OutcomeCompleted, false)
	b.expire(where(1))
	b.claimOne(b.start(), 1)
	b.wantRecorded(1, r.ID, dibs.OutcomeLost, false)
}

// twoClaimsOfOneRow: a worker that paused settles what it lost together with its
// next claim of the same row, in any order, believed or known to be late.
func twoClaimsOfOneRow(b *bundle) {
	for _, lateOnly := range []bool{false, true} {
		for _, liveAt := range []int{0, 1} {
			b.full(2)
			r := b.start()
			first := b.take(r, "1 2").Items
			b.expire(where(1))
			again := b.claimOne(r, 1)
			stale := failed(r, first[0], lease, "too late")
			stale.LateOnly = lateOnly
			items := []dibs.Settlement{stale, completedIn(lease, r, first[1])[0]}
			items = slices.Insert(items, liveAt, completedIn(lease, r, again)...)
			for range 2 {
				for i, s := range b.settle(r, items...) {
					if late := items[i].Held.Token == stale.Held.Token && items[i].Held.Key.Equal(stale.Held.Key); s.OK == late || s.Late != late {
						b.Errorf("late only %t, live one at %d: item %d: %+v", lateOnly, liveAt, i, s)
					}
				}
			}
			if row := b.look("1"); row.Status != dibs.StatusIdle || row.LastSuccess.IsZero() || row.Fence != again.Fence {
				b.Errorf("late only %t, live one at %d: the row is %+v", lateOnly, liveAt, row)
			}
			b.wantRecorded(2, r.ID, dibs.OutcomeCompleted, false)
			b.wantRecorded(1, r.ID, dibs.OutcomeFailed, true)
		}
	}
}

// refusedAlone: the table refuses the error text "poison" by a CHECK.
func refusedAlone(b *bundle) {
	b.full(5)
	r := b.start()
	got := b.take(r, "1 2 3 4").Items
	items := append(completedIn(lease, r, got[0], got[1]), failed(r, got[2], lease, "poison"), failed(r, got[3], lease, "harmless"))
	claimed := b.take(r, "5", func(q *dibs.ClaimRequest) { q.Settle = items; q.Limit = 5 })
	for range 2 {
		for i, s := range claimed.Settled {
			if bad := i == 2; s.OK == bad || (s.Err != nil) != bad || s.Late {
				b.Errorf("item %s: %+v", items[i].Held.Key, s)
			}
		}
		claimed.Settled = b.settle(r, items...)
	}
	if row := b.look("3"); row.Status != dibs.StatusInProgress || row.Token != got[2].Token {
		b.Errorf("the refused row is %+v: its lease heals it", row)
	}
	if n := len(b.outcomes(r.ID)); n != 3 {
		b.Errorf("%d outcomes, want 3", n)
	}
	b.settled(r, failed(r, got[2], lease, "fit to print"))
}

func hostileTexts(b *bundle) {
	texts := []string{"nul \x00 in it", "bad \xff\xfe bytes", strings.Repeat("é", 5000), "𝄞 and 'quotes\" \\ %s $1 ? :x", "", "\u0000\u2028\n\t\r\b"}
	b.full(len(texts) + 1)
	r := b.start()
	got := b.claim(r, 100).Items
	items := completedIn(lease, r, got[len(texts)])
	for i, text := range texts {
		s := failed(r, got[i], lease, text)
		evidence, err := json.Marshal(map[string]string{"said": text})
		b.must("write evidence", err)
		s.Record.Error, s.Record.ReceiptID, s.Record.Evidence = text, text, evidence
		items = append(items, s)
	}
	b.settled(r, items...)
	for i := range texts {
		row := b.look(keyOf(i + 1)...)
		if row.Status != dibs.StatusFailed || len([]rune(row.LastError)) > 2000 || (texts[i] == "") != (row.LastError == "") {
			b.Errorf("%q left %+v", texts[i], row)
		}
	}
	if n := len(b.outcomes(r.ID)); n != len(items) {
		b.Errorf("%d outcomes, want %d", n, len(items))
	}
	if row := b.look("4"); row.LastError != texts[3] {
		b.Errorf("a harmless text was kept as %q", row.LastError)
	}
}

func fusedSettle(b *bundle) {
	b.full(4)
	r := b.start()
	got := b.take(r, "1 2")
	next := b.take(r, "3 4", func(q *dibs.ClaimRequest) {
		q.Settle = append(completedIn(lease, r, got.Items[0]), failed(r, got.Items[1], lease, "no"))
	})
	if len(next.Settled) != 2 || !next.Settled[0].OK || !next.Settled[1].OK {
		b.Errorf("settled %+v", next.Settled)
	}
	last := b.claim(r, 4, func(q *dibs.ClaimRequest) {
		q.Settle = append(completed(r, next.Items...), completed(r, got.Items[1])...)
	})
	if len(last.Settled) != 3 || !last.Settled[0].OK || !last.Settled[1].OK || last.Settled[2].OK || !last.Settled[2].Late {
		b.Errorf("settled %+v", last.Settled)
	}
}

func progressIsWritten(b *bundle) {
	b.full(2)
	r := b.start()
	p := dibs.Progress{Position: "at 1", Counts: dibs.Counts{Selected: 2, Completed: 1}}
	got := b.take(r, "1", func(q *dibs.ClaimRequest) { q.Progress = p })
	read := func() dibs.Progress {
		run, err := b.store.Run(b.Context(), r.ID)
		b.must("read the run", err)
		return dibs.Progress{Counts: run.Counts, Position: run.Position}
	}
	if have := read(); have != p {
		b.Errorf("the claim wrote %+v, want %+v", have, p)
	}
	p.Counts.Failed, p.Position = 1, "at é"
	if _, err := b.claims.Settle(b.Context(), dibs.SettleRequest{Run: r.Ref(), Progress: p, Items: completed(r, got.Items...)}); err != nil {
		b.Fatal(err)
	}
	if have := read(); have != p {
		b.Errorf("the settle wrote %+v, want %+v", have, p)
	}
	stale := dibs.RunRef{ID: r.ID, Token: "run_other/1"}
	if err := b.store.SetProgress(b.Context(), stale, dibs.Progress{Position: "stolen"}); err == nil || read() != p {
		b.Errorf("progress without proof: %v, %+v", err, read())
	}
}

func oneShotRows(b *bundle) {
	b.full(2, func(t *dibs.Table) { t.OneShot = true; t.Labels.Done = "DONE" })
	r := b.start()
	h := b.take(r, "1").Items[0]
	b.settled(r, outcome(r, h, dibs.OutcomeCompleted, dibs.RowChange{Status: dibs.StatusDone, Succeeded: true}))
	b.take(r, "2")
	if row := b.look("1"); row.Status != dibs.StatusDone || !row.ClaimableAt.IsZero() {
		b.Errorf("a row that is done is %+v", row)
	}
	if got := b.claim(r, 1, byKey("1")); len(got.Items) != 0 {
		b.Error("a row that is done was claimed by key")
	}
	st, err := b.claims.Stats(b.Context())
	if err != nil || st.Done != 1 || st.InProgress != 1 {
		b.Errorf("counted %+v, %v", st, err)
	}
}

// keyOf is the key of a numbered row.
func keyOf(id int) dibs.Key { return dibs.Key{fmt.Sprint(id)} }
