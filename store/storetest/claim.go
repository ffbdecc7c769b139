package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs"
)

func claimChecks() []check {
	return []check{
		{"never more than the limit", limitHolds},
		{"each row goes to one worker", oneWorkerPerRow},
		{"answers with what was there before", priorValues},
		{"the lease end is ahead and is what is stored", leaseEnds},
		{"a cycle begins with the clock and grows with success", cycles},
		{"only mapped states are taken", otherStates},
		{"a label that the database takes for ours", similarLabels},
		{"a run that is over claims nothing and settles", overRuns},
		{"a row is attempted once in a run", startedBefore},
		{"a retry leaves idle rows alone", idleStartedBefore},
		{"due rows come in order", ordering},
		{"a mark changes nothing but the start", marks},
		{"one row by its key", keyedClaims},
		{"where and the key cannot be widened", whereHolds},
		{"a locked row delays nobody and remains", lockedRows},
		{"lists and counts agree with claims", listsAgree},
		{"what cannot be is refused", refusedClaims},
	}
}

func limitHolds(b *bundle) {
	b.full(20)
	r := b.start()
	seen := map[string]bool{}
	for _, limit := range []int{1, 7, 3, 100} {
		for _, h := range b.claim(r, limit).Items {
			if seen[h.Key.String()] {
				b.Errorf("row %s was given twice", h.Key)
			}
			seen[h.Key.String()] = true
		}
	}
	if len(seen) != 20 {
		b.Errorf("%d rows of 20", len(seen))
	}
	if more := b.claim(r, 100); len(more.Items) != 0 || more.Over {
		b.Errorf("an empty table gave %+v", more)
	}
}

func oneWorkerPerRow(b *bundle) {
	const rows, workers = 300, 6
	b.full(rows)
	var mu sync.Mutex
	owners := map[string]string{}
	var all sync.WaitGroup
	for range workers {
		r := b.start()
		all.Go(func() {
			for {
				q := b.request(r, 7)
				got, err := b.claims.Claim(b.Context(), q)
				if err != nil || len(got.Items) > q.Limit {
					b.Errorf("claimed %d rows, %v", len(got.Items), err)
					return
				}
				mu.Lock()
				for _, h := range got.Items {
					if other := owners[h.Key.String()]; other != "" {
						b.Errorf("row %s went to two runs", h.Key)
					}
					owners[h.Key.String()] = r.ID
				}
				done := len(owners) == rows
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	all.Wait()
}

func priorValues(b *bundle) {
	b.full(3)
	first, second := b.start(), b.start()
	for _, h := range b.take(first, "1 2 3").Items {
		p := h.Prior
		if p.Status != dibs.StatusIdle || p.Token != "" || p.Fence != 0 || !p.StartedAt.IsZero() || p.Expirations != 0 ||
			p.ClaimableAt.Unix() != 0 || p.Expired() || h.Fence != 1 || h.Attempts != 0 || h.Expirations != 0 || !h.LastSuccess.IsZero() {
			b.Errorf("a fresh row was given as %+v", h)
		}
		if want := fmt.Sprintf(`{"name":"n%s"}`, h.Key); strings.ReplaceAll(string(h.Payload), " ", "") != want || h.Problem != "" {
			b.Errorf("payload %s (%s), want %s", h.Payload, h.Problem, want)
		}
		switch h.Key.String() {
		case "1":
			b.settled(first, completed(first, h)...)
		case "2":
			b.settled(first, failed(first, h, -time.Minute, "no"))
		}
	}
	b.expire(where(3))
	before := map[string]dibs.Row{}
	for _, key := range []string{"1", "2", "3"} {
		before[key] = b.look(key)
	}
	for _, h := range b.claim(second, 3).Items {
		was, p := before[h.Key.String()], h.Prior
		if p.Status != was.Status || p.Token != was.Token || p.Fence != was.Fence || p.Expirations != was.Expirations ||
			!p.StartedAt.Equal(was.StartedAt) || !p.ClaimableAt.Equal(was.ClaimableAt) {
			b.Errorf("row %s was %+v, the claim says %+v", h.Key, was, p)
		}
		if h.Attempts != was.Attempts || h.Cycle != was.Cycle || !h.LastSuccess.Equal(was.LastSuccess) || h.Fence != was.Fence+1 {
			b.Errorf("row %s was %+v, given as %+v", h.Key, was, h)
		}
		if p.Expired() != (h.Key.String() == "3") || (p.Token != "") != p.Expired() {
			b.Errorf("row %s has the prior %+v", h.Key, p)
		}
	}
}

func leaseEnds(b *bundle) {
	b.full(2)
	r := b.start()
	got := b.take(r, "1 2")
	if got.Now.IsZero() || !got.EndsAt.After(got.Now) {
		b.Fatalf("the claim ends at %s, now is %s", got.EndsAt, got.Now)
	}
	for _, h := range got.Items {
		row := b.look(h.Key...)
		if !row.ClaimableAt.Equal(h.EndsAt) || !row.StartedAt.Equal(h.Stamp) || row.Token != h.Token || row.Run != r.ID || row.Fence != h.Fence {
			b.Errorf("given as %+v, stored as %+v", h, row)
		}
		b.near("lease", h.EndsAt.Sub(got.Now), lease)
		if h.EndsAt.Sub(h.Stamp) < lease {
			b.Errorf("the lease lasts %s, shorter than was asked", h.EndsAt.Sub(h.Stamp))
		}
	}
	found, err := b.claims.Find(b.Context(), got.Items[0].Token)
	b.must("find", err)
	if names(found) != "1 2" || found[0].Fence != got.Items[0].Fence || !found[0].EndsAt.Equal(got.Items[0].EndsAt) {
		b.Errorf("found %+v", found)
	}
	if none, err := b.claims.Find(b.Context(), "run_nobody/1"); err != nil || len(none) != 0 {
		b.Errorf("found %+v, %v for a token that nobody has", none, err)
	}
}

func cycles(b *bundle) {
	b.full(1)
	r := b.start()
	now, err := b.store.Now(b.Context())
	b.must("now", err)
	h := b.take(r, "1").Items[0]
	b.near("the first cycle", time.Duration(h.Cycle-now.Unix())*time.Second, 0)
	b.settled(r, failed(r, h, 0, "no"))
	again := b.take(r, "1").Items[0]
	if again.Cycle != h.Cycle || again.Attempts != 1 {
		b.Errorf("after a failure: cycle %d after %d, %d attempts", again.Cycle, h.Cycle, again.Attempts)
	}
	b.settled(r, completed(r, again)...)
	row := b.look("1")
	if row.Cycle != h.Cycle+1 || row.Attempts != 0 || row.LastSuccess.IsZero() || row.LastError != "" {
		b.Errorf("after success: %+v", row)
	}
	b.near("the last success", row.Now.Sub(row.LastSuccess), 0)
}

func otherStates(b *bundle) {
	b.full(6)
	b.set("status = 'paused by hand'", where(1))
	b.set("status = 'DONE'", where(2)) // not mapped here
	b.set("claimable_at = NULL", where(4))
	b.set("claimable_at = "+b.sql.Shift(b.sql.Now, lease), where(5))
	r := b.start()
	b.take(r, "3 6")
	if more := b.claim(r, 10); len(more.Items) != 0 {
		b.Errorf("claimed %s", names(more.Items))
	}
}

// similarLabels: a collation may take "idle" for "IDLE". Such a row is claimed or
// is not; if it is, then it can also be given back and settled.
func similarLabels(b *bundle) {
	b.full(2)
	b.set("status = 'idle'", where(1))
	r := b.start()
	got := b.claim(r, 10).Items
	for _, h := range got {
		if h.Prior.Status != dibs.StatusIdle {
			b.Errorf("before it was %+v", h.Prior)
		}
	}
	b.settled(r, released(r, got...)...)
	got = b.claim(r, 10).Items
	b.settled(r, completed(r, got...)...)
	if row := b.look("2"); row.Status != dibs.StatusIdle || row.LastSuccess.IsZero() {
		b.Errorf("the row beside it is %+v", row)
	}
}

// overRuns: the checkpoint is a claim's first statement.
func overRuns(b *bundle) {
	b.full(30)
	for what, spoil := range map[string]func(dibs.Run) dibs.Run{
		"ended":         func(r dibs.Run) dibs.Run { b.end(r); return r },
		"lost":          func(r dibs.Run) dibs.Run { b.lose(r); return r },
		"past stop_by":  func(r dibs.Run) dibs.Run { b.stopBy(r, -time.Minute); return r },
		"other token":   func(r dibs.Run) dibs.Run { r.Token = dibs.ClaimToken(r.ID, 99); return r },
		"never existed": func(r dibs.Run) dibs.Run { r.ID = "run_nobody"; return r },
	} {
		r := b.start()
		held := b.claim(r, 2).Items
		r = spoil(r)
		got := b.claim(r, 5, func(q *dibs.ClaimRequest) { q.Settle = completedIn(lease, r, held...) })
		if !got.Over || len(got.Items) != 0 {
			b.Errorf("%s: over is %t, claimed %s", what, got.Over, names(got.Items))
		}
		if len(got.Settled) != 2 || !got.Settled[0].OK || !got.Settled[1].OK {
			b.Errorf("%s: settled %+v", what, got.Settled)
		}
	}
	r := b.start()
	b.stopBy(r, time.Minute)
	if got := b.claim(r, 1); got.Over || len(got.Items) != 1 {
		b.Errorf("asked to stop later: %+v", got)
	}
}

func (b *bundle) stopBy(r dibs.Run, in time.Duration) {
	b.Helper()
	b.exec("UPDATE dibs_runs SET stop_by = " + b.sql.Shift(b.sql.Now, in) + " WHERE id = " + literals(r.ID))
}

func startedBefore(b *bundle) {
	b.full(4)
	r := b.start()
	scope := func(q *dibs.ClaimRequest) { q.Scope.StartedBefore = r.StartedAt }
	got := b.take(r, "1 2", scope)
	b.settled(r, completed(r, got.Items[0])...)
	b.settled(r, failed(r, got.Items[1], 0, "no"))
	b.take(r, "3 4", scope)
	if more := b.claim(r, 10, scope); len(more.Items) != 0 {
		b.Errorf("attempted %s again in the same run", names(more.Items))
	}
	// The next run may.
	b.set("started_at = "+b.sql.Shift("started_at", -time.Minute)+", claimable_at = "+b.sql.Shift("claimable_at", -time.Minute), "status <> 'IN_PROGRESS'")
	b.take(r, "1 2", scope)
}

func idleStartedBefore(b *bundle) {
	b.full(4)
	first := b.start()
	got := b.take(first, "1 2 3")
	b.settled(first, completed(first, got.Items[0])...)
	b.settled(first, failed(first, got.Items[1], 0, "no"))
	b.expire(where(3))
	// All three were started after the slot's first run, and before the retry.
	retry := b.start()
	now, err := b.store.Now(b.Context())
	b.must("now", err)
	scope := func(q *dibs.ClaimRequest) {
		q.Scope.StartedBefore, q.Scope.IdleStartedBefore = now.Add(time.Minute), first.StartedAt
	}
	b.set("started_at = "+b.sql.Shift(b.sql.Now, time.Microsecond), where(1))
	have := strings.Fields(names(b.claim(retry, 10, scope).Items))
	if got := strings.Join(sorted(have), " "); got != "2 3 4" {
		b.Errorf("a retry run claimed %q, want 2 3 4", got)
	}
}

func ordering(b *bundle) {
	b.full(6)
	for key, age := range map[int]time.Duration{1: 1, 2: 3, 3: 5, 4: 5, 5: 4, 6: 2} {
		b.set("claimable_at = "+b.sql.Shift(b.sql.Now, -age*time.Minute), where(key))
	}
	b.set("claimable_at = (SELECT at FROM (SELECT claimable_at AS at FROM "+b.table+" WHERE id = 3) AS x)", where(4)) // equal: by key
	r := b.start()
	var order []string
	for range 3 {
		order = append(order, names(b.claim(r, 2).Items))
	}
	if got := strings.Join(order, " "); got != "3 4 5 2 6 1" {
		b.Errorf("claimed in the order %s", got)
	}
}

func marks(b *bundle) {
	b.full(6)
	r := b.start()
	got := b.take(r, "1 2")
	if got.Mark.ClaimableAt.IsZero() {
		return // a store may do without
	}
	next := b.take(r, "3 4", func(q *dibs.ClaimRequest) { q.Mark = got.Mark })
	// What fell due before the mark is found by a claim from the start.
	b.settled(r, completedIn(-24*time.Hour, r, got.Items...)...)
	b.set("claimable_at = "+b.sql.Shift(b.sql.Epoch, -time.Hour), "id <= 2")
	b.take(r, "5 6", func(q *dibs.ClaimRequest) { q.Mark = next.Mark })
	b.take(r, "1 2")
}

func keyedClaims(b *bundle) {
	b.full(3)
	r := b.start()
	h := b.take(r, "2", byKey("2")).Items[0]
	if again := b.claim(r, 1, byKey("2")); len(again.Items) != 0 {
		b.Error("a row in progress was claimed by key")
	}
	b.settled(r, failed(r, h, lease, "no"))
	h = b.take(r, "2", byKey("2")).Items[0] // not due, and yet
	b.settled(r, outcome(r, h, dibs.OutcomeHeld, dibs.RowChange{Status: dibs.StatusFailed}))
	b.take(r, "2", byKey("2")) // never due
	b.expire(where(2))
	b.take(r, "2", byKey("2")) // expired
	for _, wrong := range []string{"", "99", "2 ", "02", "two", "2.0", "1e0", "9223372036854775808"} {
		if got := b.claim(r, 1, byKey(wrong)); len(got.Items) != 0 {
			b.Errorf("the key %q claimed %s", wrong, names(got.Items))
		}
	}
}

func whereHolds(b *bundle) {
	b.full(6, func(t *dibs.Table) { t.Where = "name = 'n1' OR name = 'n2' OR id > 4" })
	b.set("claimable_at = "+b.sql.Shift(b.sql.Now, lease), where(2))
	b.set("status = 'other'", where(5))
	r := b.start()
	b.take(r, "1 6")
	if more := b.claim(r, 10); len(more.Items) != 0 {
		b.Errorf("also claimed %s", names(more.Items))
	}
	if got := b.claim(r, 1, byKey("3")); len(got.Items) != 0 {
		b.Error("a filtered row was claimed by key")
	}
	if row := b.look("3"); !row.Filtered {
		b.Error("a filtered row does not say so")
	}
	if row := b.look("2"); row.Filtered {
		b.Error("a row says that it is filtered")
	}
}

func lockedRows(b *bundle) {
	b.full(4)
	r := b.start()
	if !b.sql.RowLocks {
		b.take(r, "1 2 3 4")
		return // there is one writer at a time, so nobody locks a row for long
	}
	tx, err := b.f.DB.BeginTx(b.Context(), nil)
	b.must("begin", err)
	if _, err := tx.ExecContext(b.Context(), "UPDATE "+b.table+" SET name = 'mine' WHERE id = 2"); err != nil {
		b.Fatal(err)
	}
	scope := dibs.Scope{StartedBefore: r.StartedAt}
	b.take(r, "1 3 4", func(q *dibs.ClaimRequest) { q.Scope = scope })
	if got := b.claim(r, 1, byKey("2")); len(got.Items) != 0 {
		b.Error("a locked row was claimed by key")
	}
	n, err := b.claims.Remaining(b.Context(), scope, 10)
	b.must("count what remains", err)
	if row := b.look("2"); n != 1 || row.Status != dibs.StatusIdle || row.ClaimableAt.After(row.Now) {
		b.Errorf("%d remain, want the locked one: %+v", n, row)
	}
	b.must("commit", tx.Commit())
	b.take(r, "2", func(q *dibs.ClaimRequest) { q.Scope = scope })
}

func listsAgree(b *bundle) {
	b.full(6)
	r := b.start()
	scope := dibs.Scope{StartedBefore: r.StartedAt}
	b.set("claimable_at = "+b.sql.Shift(b.sql.Now, -time.Minute), where(1))
	b.set("claimable_at = "+b.sql.Shift(b.sql.Now, time.Hour), where(2))
	b.set("status = 'IN_PROGRESS', claimable_at = NULL", where(3))
	b.set("status = 'odd'", where(4))
	due, err := b.claims.Rows(b.Context(), dibs.RowFilter{Due: true, Scope: scope})
	b.must("list due rows", err)
	var listed []string
	for _, row := range due {
		listed = append(listed, row.Key.String())
	}
	n, err := b.claims.Remaining(b.Context(), scope, 100)
	b.must("count what remains", err)
	if want := "5 6 1"; strings.Join(listed, " ") != want || n != 3 {
		b.Errorf("due: %v (%d), want %s", listed, n, want)
	}
	if n, err := b.claims.Remaining(b.Context(), scope, 2); err != nil || n != 2 {
		b.Errorf("%d remain up to 2, %v", n, err)
	}
	st, err := b.claims.Stats(b.Context())
	b.must("count rows", err)
	if st.Idle != 4 || st.InProgress != 1 || st.Other != 1 || st.Due != 3 || st.OldestDue.Unix() != 0 || st.Now.IsZero() {
		b.Errorf("counted %+v", st)
	}
	b.take(r, "5 6 1", func(q *dibs.ClaimRequest) { q.Scope = scope })
	orphans, err := b.claims.Rows(b.Context(), dibs.RowFilter{Orphaned: true})
	if err != nil || len(orphans) != 1 || orphans[0].Key.String() != "3" {
		b.Errorf("orphaned: %+v, %v", orphans, err)
	}
	busy, err := b.claims.Rows(b.Context(), dibs.RowFilter{Status: dibs.StatusInProgress, Limit: 2})
	if err != nil || len(busy) != 2 {
		b.Errorf("in progress up to 2: %+v, %v", busy, err)
	}
}

func refusedClaims(b *bundle) {
	b.full(1)
	r := b.start()
	for what, spoil := range map[string]func(*dibs.ClaimRequest){
		"limit 0":      func(q *dibs.ClaimRequest) { q.Limit = 0 },
		"no lease":     func(q *dibs.ClaimRequest) { q.Lease = 0 },
		"no token":     func(q *dibs.ClaimRequest) { q.Token = "" },
		"two part key": func(q *dibs.ClaimRequest) { q.Scope.Key = dibs.Key{"1", "2"} },
	} {
		if got, err := b.claims.Claim(b.Context(), b.request(r, 1, spoil)); err == nil {
			b.Errorf("%s: claimed %s", what, names(got.Items))
		}
	}
	if row := b.look("1"); row.Fence != 0 {
		b.Errorf("a refused claim changed the row: %+v", row)
	}
}
