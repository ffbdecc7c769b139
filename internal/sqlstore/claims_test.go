package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

// columns of a full table, as each database declares them.
func fullColumns(kind string) string {
	return map[string]string{
		"sqlite": `status TEXT NOT NULL DEFAULT 'IDLE', started_at INTEGER, claimable_at INTEGER DEFAULT 0, claim_token TEXT,
			fence INTEGER, attempts INTEGER, expirations INTEGER, cycle INTEGER, last_success_at INTEGER, last_error TEXT`,
		"postgres": `status text NOT NULL DEFAULT 'IDLE', started_at timestamptz, claimable_at timestamptz DEFAULT 'epoch',
			claim_token text, fence bigint, attempts int, expirations int, cycle bigint, last_success_at timestamptz, last_error varchar(40)`,
		"mysql": `status VARCHAR(20) NOT NULL DEFAULT 'IDLE', started_at DATETIME(6), claimable_at DATETIME(6) DEFAULT '1970-01-01',
			claim_token VARCHAR(96), fence BIGINT, attempts INT, expirations INT, cycle BIGINT, last_success_at DATETIME(6), last_error VARCHAR(40)`,
	}[kind]
}

// makeItems makes a full table "items" with n rows and opens it.
func makeItems(t testing.TB, s *sqlstore.Store, n int) dibs.Claims {
	t.Helper()
	execute(t, s, "CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(50), "+fullColumns(s.Dialect().Name)+")")
	execute(t, s, "CREATE INDEX items_due ON items (claimable_at, id)")
	insertItems(t, s, 1, n)
	return claimsOn(t, s, dibs.Table{Name: "items", Key: "id", Select: []string{"name"},
		Columns: dibs.Columns{LastSuccessAt: "last_success_at", LastError: "last_error"}})
}

func insertItems(t testing.TB, s *sqlstore.Store, from, to int) {
	t.Helper()
	for from <= to {
		var values []string
		for ; from <= to && len(values) < 1000; from++ {
			values = append(values, fmt.Sprintf("(%d, 'n%d')", from, from))
		}
		execute(t, s, "INSERT INTO items (id, name) VALUES "+strings.Join(values, ", "))
	}
}

func claimsOn(t testing.TB, s *sqlstore.Store, table dibs.Table) dibs.Claims {
	t.Helper()
	c, err := s.Claims(t.Context(), table)
	if err != nil {
		t.Fatalf("open table %s: %v", table, err)
	}
	return c
}

// claim takes rows for a run; it must not fail.
func claim(t testing.TB, c dibs.Claims, r dibs.Run, limit int, change ...func(*dibs.ClaimRequest)) dibs.Claimed {
	t.Helper()

	request := dibs.ClaimRequest{
		Run: r.Ref(), Token: dibs.ClaimToken(r.ID, int(time.Now().UnixNano())), Limit: limit, Lease: time.Minute,
		Scope: dibs.Scope{Lease: time.Minute},
	}
	for _, f := range change {
		f(&request)
	}
	got, err := c.Claim(t.Context(), request)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return got
}

// settlement ends a held item.
func settlement(r dibs.Run, h dibs.Held, o dibs.Outcome, change dibs.RowChange) dibs.Settlement {
	return dibs.Settlement{Held: h, Outcome: o, Change: change, Record: dibs.OutcomeRecord{
		RunID: r.ID, Job: r.Job, WorkID: r.Job + "/run/" + h.Key.String(), Attempt: h.Attempts + 1,
	}}
}

func completed(r dibs.Run, items []dibs.Held) []dibs.Settlement {
	out := make([]dibs.Settlement, len(items))
	for i, h := range items {
		out[i] = settlement(r, h, dibs.OutcomeCompleted, dibs.RowChange{Status: dibs.StatusIdle, DueIn: new(time.Duration), Succeeded: true})
	}
	return out
}

func settle(t testing.TB, c dibs.Claims, r dibs.Run, items []dibs.Settlement) []dibs.Settled {
	t.Helper()
	got, err := c.Settle(t.Context(), dibs.SettleRequest{Run: r.Ref(), Items: items})
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	return got
}

func keys(items []dibs.Held) string {
	out := make([]string, len(items))
	for i, h := range items {
		out[i] = h.Key.String()
	}
	return strings.Join(out, " ")
}

func look(t testing.TB, c dibs.Claims, key ...string) dibs.Row {
	t.Helper()
	row, err := c.Look(t.Context(), key)
	if err != nil {
		t.Fatalf("look at %v: %v", key, err)
	}
	return row
}

func TestClaimSettleRound(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 5)
		r := start(t, s, "job", time.Minute, true)
		got := claim(t, c, r, 3)
		if keys(got.Items) != "1 2 3" {
			t.Fatalf("claimed %s, want 1 2 3", keys(got.Items))
		}
		for _, h := range got.Items {
			if h.Fence != 1 || h.Problem != "" || h.Cycle == 0 || h.Prior.Status != dibs.StatusIdle {
				t.Errorf("claimed %+v", h)
			}
			if left := h.EndsAt.Sub(got.Now); left < 59*time.Second || left > 61*time.Second {
				t.Errorf("lease of %s ends %s after now", h.Key, left)
			}
			if want := fmt.Sprintf(`{"name":"n%s"}`, h.Key); string(h.Payload) != want {
				t.Errorf("payload %s, want %s", h.Payload, want)
			}
		}
		if row := look(t, c, "2"); row.Status != dibs.StatusInProgress || row.Run != r.ID || row.Fence != 1 || !row.ClaimableAt.Equal(got.Items[1].EndsAt) {
			t.Errorf("row 2 is %+v", row)
		}
		found, err := c.Find(t.Context(), got.Items[0].Token)
		if err != nil || keys(found) != "1 2 3" || found[0].Fence != 1 || !found[0].EndsAt.Equal(got.Items[0].EndsAt) {
			t.Errorf("found %+v, %v", found, err)
		}
		renewed, err := c.Renew(t.Context(), dibs.RenewRequest{Run: r.Ref(), Lease: 2 * time.Minute, Items: got.Items})
		if err != nil {
			t.Fatalf("renew: %v", err)
		}
		for i, it := range renewed.Items {
			if !it.EndsAt.After(got.Items[i].EndsAt) {
				t.Errorf("renewal of %s ends %s, was %s", got.Items[i].Key, it.EndsAt, got.Items[i].EndsAt)
			}
		}
		for range 2 { // settled twice is success
			for i, st := range settle(t, c, r, completed(r, got.Items)) {
				if !st.OK || st.Late || st.Err != nil {
					t.Errorf("settled %s: %+v", got.Items[i].Key, st)
				}
			}
		}
		row := look(t, c, "1")
		if row.Status != dibs.StatusIdle || row.Token != "" || row.Cycle != got.Items[0].Cycle+1 || row.LastSuccess.IsZero() {
			t.Errorf("row 1 after success is %+v", row)
		}
		if n := single[int](t, s, "SELECT count(*) FROM dibs_outcomes"); n != 3 {
			t.Errorf("%d outcome rows, want 3", n)
		}
	})
}

func TestFailuresReleaseAndLateResults(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 3)
		r := start(t, s, "job", time.Minute, true)
		got := claim(t, c, r, 3)
		wait := time.Hour
		failed := settlement(r, got.Items[0], dibs.OutcomeFailed, dibs.RowChange{
			Status: dibs.StatusFailed, DueIn: &wait, Attempts: 1, Error: "bad \x00 \xff " + strings.Repeat("é", 100)})
		released := settlement(r, got.Items[1], dibs.OutcomeReleased, dibs.RowChange{Restore: true})
		held := settlement(r, got.Items[2], dibs.OutcomeHeld, dibs.RowChange{Status: dibs.StatusFailed, Attempts: 1})
		for i, st := range settle(t, c, r, []dibs.Settlement{failed, released, held}) {
			if !st.OK {
				t.Errorf("settlement %d: %+v", i, st)
			}
		}
		if row := look(t, c, "1"); row.Status != dibs.StatusFailed || row.Attempts != 1 || row.ClaimableAt.Sub(row.Now) < 59*time.Minute || !strings.HasPrefix(row.LastError, "bad ") {
			t.Errorf("failed row is %+v", row)
		}
		if row := look(t, c, "2"); row.Status != dibs.StatusIdle || !row.StartedAt.IsZero() || row.ClaimableAt.UnixMicro() != 0 || row.Token != "" || row.Fence != 1 {
			t.Errorf("released row is %+v", row)
		}
		if row := look(t, c, "3"); row.Status != dibs.StatusFailed || !row.ClaimableAt.IsZero() {
			t.Errorf("held row is %+v", row)
		}
		// The row is taken again: what the first claim still says is late.
		again := claim(t, c, r, 3)
		if keys(again.Items) != "2" || again.Items[0].Fence != 2 {
			t.Fatalf("claimed %s again, want 2: %+v", keys(again.Items), again.Items)
		}
		for range 2 {
			late := settle(t, c, r, completed(r, got.Items[1:2]))
			if late[0].OK || !late[0].Late {
				t.Errorf("settled with an old fence: %+v", late[0])
			}
		}
		if row := look(t, c, "2"); row.Status != dibs.StatusInProgress || row.Fence != 2 {
			t.Errorf("row 2 is %+v", row)
		}
	})
}

func TestExpiredClaimIsTakenOverAndRecordedLost(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 1)
		r1, r2 := start(t, s, "one", time.Minute, true), start(t, s, "two", time.Minute, true)
		first := claim(t, c, r1, 1, func(q *dibs.ClaimRequest) { q.Lease = 50 * time.Millisecond })
		var second dibs.Claimed
		eventually(t, "the row is taken over", func() bool { second = claim(t, c, r2, 1); return len(second.Items) == 1 })
		h := second.Items[0]
		if !h.Prior.Expired() || h.Prior.Token != first.Items[0].Token || h.Fence != 2 || h.Expirations != 1 || h.Prior.Expirations != 0 {
			t.Errorf("taken over as %+v", h)
		}
		if second.Now.Before(first.EndsAt) {
			t.Errorf("taken over at %s, before the lease's end %s", second.Now, first.EndsAt)
		}
		lost, err := s.ListOutcomes(t.Context(), dibs.OutcomeFilter{Run: r1.ID})
		if err != nil || len(lost) != 1 || lost[0].Outcome != dibs.OutcomeLost || lost[0].Job != "one" || lost[0].Key != "1" {
			t.Errorf("outcomes of the first run: %+v, %v", lost, err)
		}
		renewed, err := c.Renew(t.Context(), dibs.RenewRequest{Run: r1.Ref(), Lease: time.Minute, Items: first.Items})
		if err != nil || !renewed.Items[0].EndsAt.IsZero() {
			t.Errorf("the first claim was renewed: %+v, %v", renewed, err)
		}
		if late := settle(t, c, r1, completed(r1, first.Items)); !late[0].Late || late[0].OK {
			t.Errorf("the first claim was settled: %+v", late)
		}
	})
}

func TestClaimOfARunThatIsOver(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 4)
		r := start(t, s, "job", time.Minute, true)
		got := claim(t, c, r, 2)
		execute(t, s, "UPDATE dibs_runs SET state = 'cancelled' WHERE id = "+quoted(r.ID))
		next := claim(t, c, r, 2, func(q *dibs.ClaimRequest) { q.Settle = completed(r, got.Items) })
		if !next.Over || len(next.Items) != 0 || len(next.Settled) != 2 || !next.Settled[0].OK || !next.Settled[1].OK {
			t.Errorf("claim of a run that is over: %+v", next)
		}
	})
}

func TestKeyedClaim(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 3)
		r := start(t, s, "job", time.Minute, true)
		byKey := func(key string) dibs.Claimed {
			return claim(t, c, r, 1, func(q *dibs.ClaimRequest) { q.Scope.Key = dibs.Key{key} })
		}
		got := byKey("2")
		if keys(got.Items) != "2" {
			t.Fatalf("claimed %q", keys(got.Items))
		}
		if again := byKey("2"); len(again.Items) != 0 {
			t.Error("a row in progress was claimed by key")
		}
		day := 24 * time.Hour
		settle(t, c, r, []dibs.Settlement{settlement(r, got.Items[0], dibs.OutcomeFailed, dibs.RowChange{Status: dibs.StatusFailed, DueIn: &day})})
		if again := byKey("2"); keys(again.Items) != "2" {
			t.Error("a row that is not due was not claimed by key")
		}
		for _, wrong := range []string{"abc", "", "99", "2 ", "1e0"} {
			if got := byKey(wrong); len(got.Items) != 0 {
				t.Errorf("key %q claimed %s", wrong, keys(got.Items))
			}
			if _, err := c.Look(t.Context(), dibs.Key{wrong}); !errors.Is(err, dibs.ErrNotFound) {
				t.Errorf("look at %q: %v", wrong, err)
			}
		}
	})
}

func TestScopeRemainingRowsAndStats(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 6)
		r := start(t, s, "job", time.Minute, true)
		scope := dibs.Scope{StartedBefore: r.StartedAt}
		in := func(q *dibs.ClaimRequest) { q.Scope = scope }
		got := claim(t, c, r, 4, in)
		settle(t, c, r, completed(r, got.Items))
		if n, err := c.Remaining(t.Context(), scope, 100); err != nil || n != 2 {
			t.Errorf("%d remain, %v; want 2", n, err)
		}
		if n, err := c.Remaining(t.Context(), scope, 1); err != nil || n != 1 {
			t.Errorf("%d remain up to 1, %v", n, err)
		}
		rest := claim(t, c, r, 10, in, func(q *dibs.ClaimRequest) { q.Mark = got.Mark })
		if keys(rest.Items) != "5 6" {
			t.Errorf("then claimed %q, want 5 6", keys(rest.Items))
		}
		stats, err := c.Stats(t.Context())
		if err != nil || stats.Idle != 4 || stats.InProgress != 2 || stats.Due != 4 || stats.OldestDue.IsZero() {
			t.Errorf("stats %+v, %v", stats, err)
		}
		rows, err := c.Rows(t.Context(), dibs.RowFilter{Status: dibs.StatusInProgress})
		if err != nil || len(rows) != 2 || rows[0].Key.String() != "5" {
			t.Errorf("rows in progress %+v, %v", rows, err)
		}
		due, err := c.Rows(t.Context(), dibs.RowFilter{Due: true, Limit: 3})
		if err != nil || len(due) != 3 || due[0].Key.String() != "1" {
			t.Errorf("due rows %+v, %v", due, err)
		}
	})
}

func TestSweepAndForeignClaims(t *testing.T) { // B24
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 5)
		r := start(t, s, "job", time.Minute, true)
		execute(t, s, "UPDATE items SET status = 'IN_PROGRESS', claimable_at = NULL WHERE id = 1")
		execute(t, s, "UPDATE items SET status = 'IN_PROGRESS', started_at = claimable_at WHERE id = 2") // foreign code
		execute(t, s, "UPDATE items SET claimable_at = NULL WHERE id = 3")
		execute(t, s, "UPDATE items SET status = 'IN_PROGRESS' WHERE id = 4") // a lease that ended, never started
		orphaned, err := c.Rows(t.Context(), dibs.RowFilter{Orphaned: true})
		if err != nil || len(orphaned) != 3 {
			t.Errorf("orphaned rows %+v, %v", orphaned, err)
		}
		if got := claim(t, c, r, 10); keys(got.Items) != "4 5" {
			t.Errorf("claimed %q, want 4 5", keys(got.Items))
		}
		swept, err := c.Sweep(t.Context(), time.Minute)
		if err != nil || swept != (dibs.Swept{InProgressWithoutLease: 2, IdleWithoutDue: 1}) {
			t.Errorf("swept %+v, %v", swept, err)
		}
		if again, err := c.Sweep(t.Context(), time.Minute); err != nil || again != (dibs.Swept{}) {
			t.Errorf("swept again %+v, %v", again, err)
		}
		if row := look(t, c, "2"); row.ClaimableAt.Sub(row.Now) < 50*time.Second {
			t.Errorf("row 2 has no lease: %+v", row)
		}
		if got := claim(t, c, r, 10); keys(got.Items) != "3" {
			t.Errorf("then claimed %q, want 3", keys(got.Items))
		}
	})
}
