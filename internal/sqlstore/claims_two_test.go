package sqlstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

func makeTwo(t *testing.T, s *sqlstore.Store, rows ...string) dibs.Claims {
	t.Helper()
	execute(t, s, "CREATE TABLE two (id INT NOT NULL PRIMARY KEY, status VARCHAR(20) NOT NULL, started_at "+words(s, "INTEGER", "timestamp", "DATETIME(6)")+")")
	execute(t, s, "CREATE INDEX two_status ON two (status, started_at)")
	ago := words(s, "CAST(unixepoch('subsec')*1000 AS INTEGER)*1000 - 1000000 * ", "statement_timestamp() AT TIME ZONE 'UTC' - interval '1 second' * ", "UTC_TIMESTAMP(6) - INTERVAL 1 SECOND * ")
	if len(rows) > 0 {
		values := "(" + strings.Join(rows, "), (") + ")"
		if s.Dialect().Name == "mysql" {
			ago = "UTC_TIMESTAMP(6) - INTERVAL "
			values = strings.ReplaceAll(values, ":", ago)
			values = strings.ReplaceAll(values, "s)", " SECOND)")
		} else {
			values = strings.ReplaceAll(strings.ReplaceAll(values, "s)", ")"), ":", ago)
		}
		execute(t, s, "INSERT INTO two (id, status, started_at) VALUES "+values)
	}
	c := claimsOn(t, s, dibs.Table{Name: "two", Key: "id"})
	if !c.TwoColumn() {
		t.Fatal("not taken for a two-column table")
	}
	return c
}

func TestTwoColumnOrder(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeTwo(t, s,
			"1, 'IDLE', NULL", "2, 'IDLE', :900s", "3, 'IDLE', :10s", // 3 is not due again yet
			"4, 'FAILED', :500s", "5, 'FAILED', :5s", // 5 is still in its backoff
			"6, 'IN_PROGRESS', :70s", "7, 'IN_PROGRESS', :10s", // 7 is live
			"8, 'OTHER', :900s", "9, 'FAILED', :400s", "10, 'IDLE', NULL")
		r := start(t, s, "job", time.Minute, true)
		scope := dibs.Scope{Lease: time.Minute, Backoff: 30 * time.Second, Every: time.Minute}
		in := func(q *dibs.ClaimRequest) { q.Scope = scope }
		if n, err := c.Remaining(t.Context(), scope, 100); err != nil || n != 6 {
			t.Errorf("%d remain, %v; want 6", n, err)
		}
		got := claim(t, c, r, 4, in)
		if keys(got.Items) != "6 4 1 10" {
			t.Errorf("claimed %q, want 6 4 1 10", keys(got.Items))
		}
		if !got.Items[0].Prior.Expired() || got.Items[1].Prior.Status != dibs.StatusFailed {
			t.Errorf("claimed %+v", got.Items)
		}
		if rest := claim(t, c, r, 10, in); keys(rest.Items) != "9 2" && keys(rest.Items) != "2 9" {
			t.Errorf("then claimed %q, want 2 and 9", keys(rest.Items))
		}
		if rest := claim(t, c, r, 10, in); len(rest.Items) != 0 {
			t.Errorf("and then %q", keys(rest.Items))
		}
	})
}

func TestTwoColumnStampIsTheFence(t *testing.T) { // B10
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeTwo(t, s, "1, 'IDLE', NULL", "2, 'IDLE', NULL")
		r := start(t, s, "job", time.Minute, true)
		got := claim(t, c, r, 2)
		first := got.Items[0]
		if first.Fence != dibs.Fence(first.Stamp.UnixMicro()) || !first.EndsAt.Equal(first.Stamp.Add(time.Minute)) {
			t.Errorf("claimed %+v", first)
		}
		renew := func(items []dibs.Held) dibs.Renewed {
			renewed, err := c.Renew(t.Context(), dibs.RenewRequest{Run: r.Ref(), Lease: time.Minute, Items: items})
			if err != nil {
				t.Fatal(err)
			}
			return renewed
		}
		one := renew(got.Items)
		if !one.Items[0].Stamp.After(first.Stamp) {
			t.Errorf("the stamp did not move: %+v", one.Items[0])
		}
		// The old stamp proves nothing any more, but it can still be renewed: the
		// answer to the first renewal may have been lost.
		if out := settle(t, c, r, completed(r, got.Items[:1])); !out[0].Late {
			t.Errorf("settled with the old stamp: %+v", out)
		}
		two := renew(got.Items)
		if !two.Items[0].Stamp.After(one.Items[0].Stamp) || two.Items[0].EndsAt.IsZero() {
			t.Errorf("renewed again %+v, before %+v", two.Items[0], one.Items[0])
		}
		held := got.Items
		held[0].Stamp, held[1].Stamp = two.Items[0].Stamp, two.Items[1].Stamp
		out := settle(t, c, r, []dibs.Settlement{
			settlement(r, held[0], dibs.OutcomeCompleted, dibs.RowChange{Status: dibs.StatusIdle}),
			settlement(r, held[1], dibs.OutcomeReleased, dibs.RowChange{Restore: true}),
		})
		if !out[0].OK || !out[1].OK {
			t.Errorf("settled %+v", out)
		}
		if row := look(t, c, "2"); row.Status != dibs.StatusIdle || !row.StartedAt.Equal(two.Items[1].Stamp) {
			t.Errorf("released row %+v: the stamp never moves back", row)
		}
		if gone := renew(held); !gone.Items[0].EndsAt.IsZero() {
			t.Errorf("renewed what was settled: %+v", gone)
		}
	})
}

func TestTwoColumnStampsGrow(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeTwo(t, s, "1, 'IDLE', :-3600s") // a stamp an hour ahead, by a clock that was wrong
		r := start(t, s, "job", time.Minute, true)
		var last time.Time
		for range 5 {
			got := claim(t, c, r, 1, func(q *dibs.ClaimRequest) { q.Scope.Key = dibs.Key{"1"} })
			if len(got.Items) != 1 || !got.Items[0].Stamp.After(last) {
				t.Fatalf("claimed %+v, last stamp %s", got.Items, last)
			}
			last = got.Items[0].Stamp
			if out := settle(t, c, r, completed(r, got.Items)); !out[0].OK {
				t.Fatalf("settled %+v", out)
			}
		}
		if last.Sub(now(t, s)) < 50*time.Minute {
			t.Errorf("the stamp moved back to %s", last)
		}
	})
}

// TestFailingRowsDoNotStarveOthers has as many rows that always fail as a batch
// holds, and many good ones. (B30)
func TestFailingRowsDoNotStarveOthers(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		two := makeTwo(t, s)
		for i := 1; i <= 60; i++ {
			execute(t, s, "INSERT INTO two (id, status) VALUES ("+strconv.Itoa(i)+", 'IDLE')")
		}
		full := makeItems(t, s, 60)
		for _, c := range []dibs.Claims{two, full} {
			r := start(t, s, "job", time.Hour, false)
			done := map[string]bool{}
			rounds := 0
			for ; len(done) < 52 && rounds < 60; rounds++ {
				got := claim(t, c, r, 8, func(q *dibs.ClaimRequest) { q.Scope.Every = time.Hour })
				var out []dibs.Settlement
				for _, h := range got.Items {
					if len(h.Key[0]) == 1 && h.Key[0] < "9" {
						out = append(out, settlement(r, h, dibs.OutcomeFailed, dibs.RowChange{Status: dibs.StatusFailed, DueIn: new(time.Duration), Attempts: 1}))
						continue
					}
					done[h.Key.String()] = true
					hour := time.Hour
					out = append(out, settlement(r, h, dibs.OutcomeCompleted, dibs.RowChange{Status: dibs.StatusIdle, DueIn: &hour, Succeeded: true}))
				}
				settle(t, c, r, out)
			}
			if len(done) < 52 {
				t.Errorf("only %d of 52 good rows done after %d claims", len(done), rounds)
			}
		}
	})
}
