package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

// TestCaseB04TimeShapes: every shape of time that a SQLite application writes is
// understood, and the shape found is the one written. (B04)
func TestCaseB04TimeShapes(t *testing.T) {
	s := open(t, "sqlite", testdb.OpenSQLite(t), "")
	migrate(t, s)
	r := start(t, s, "job", time.Hour, true)
	for name, shape := range map[string]struct{ declared, past, future, like string }{
		"seconds":   {"INTEGER", "unixepoch() - 60", "unixepoch() + 600", "??????????"},
		"millis":    {"INTEGER", "(unixepoch() - 60) * 1000", "(unixepoch() + 600) * 1000", "?????????????"},
		"micros":    {"INTEGER", "(unixepoch() - 60) * 1000000", "(unixepoch() + 600) * 1000000", "????????????????"},
		"sql":       {"TEXT", "datetime('now', '-1 minute')", "datetime('now', '+10 minutes')", "????-??-?? ??:??:??"},
		"iso":       {"TEXT", "strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-1 minute')", "strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+10 minutes')", "????-??-??T??:??:??Z"},
		"python":    {"DATETIME", "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 minute')", "strftime('%Y-%m-%d %H:%M:%f000', 'now', '+10 minutes')", "????-??-?? ??:??:??.??????"},
		"offset":    {"TIMESTAMP", "strftime('%Y-%m-%dT%H:%M:%f-05:00', 'now', '-1 minute', '-5 hours')", "strftime('%Y-%m-%dT%H:%M:%f+14:00', 'now', '+10 minutes', '+14 hours')", "????-??-??T??:??:??.???+00:00"},
		"unixtimes": {"TIMESTAMP", "unixepoch() - 60", "unixepoch() + 600", "??????????"},
	} {
		t.Run(name, func(t *testing.T) {
			execute(t, s, strings.ReplaceAll("CREATE TABLE "+name+" (id INT NOT NULL PRIMARY KEY, status TEXT DEFAULT 'IDLE', started_at T, claimable_at T, claim_token TEXT, fence INT, attempts INT, expirations INT, cycle INT)", "_at T", "_at "+shape.declared))
			execute(t, s, "INSERT INTO "+name+" (id, claimable_at) VALUES (1, "+shape.past+"), (2, "+shape.future+")")
			execute(t, s, "INSERT INTO "+name+" (id, status, started_at, claimable_at) VALUES (3, 'IN_PROGRESS', "+shape.past+", "+shape.future+")")
			c := claimsOn(t, s, dibs.Table{Name: name, Key: "id"})
			got := claim(t, c, r, 10)
			if keys(got.Items) != "1" {
				t.Fatalf("claimed %q, want 1", keys(got.Items))
			}
			if age := got.Now.Sub(got.Items[0].Prior.ClaimableAt); age < 58*time.Second || age > 90*time.Second {
				t.Errorf("row 1 was due %s ago", age)
			}
			if row := look(t, c, "3"); row.ClaimableAt.Sub(row.Now) < 9*time.Minute || row.ClaimableAt.Sub(row.Now) > 11*time.Minute {
				t.Errorf("row 3's lease ends in %s", row.ClaimableAt.Sub(row.Now))
			}
			for _, column := range []string{"started_at", "claimable_at"} {
				if n := single[int](t, s, "SELECT count(*) FROM "+name+" WHERE id = 1 AND "+column+" GLOB '"+shape.like+"'"); n != 1 {
					t.Errorf("%s was written as %q, want %s", column, single[string](t, s, "SELECT CAST("+column+" AS TEXT) FROM "+name+" WHERE id = 1"), shape.like)
				}
			}
			if again := claim(t, c, r, 10); len(again.Items) != 0 {
				t.Errorf("claimed %q again", keys(again.Items))
			}
		})
	}
}

// TestCaseB04MixedTextTimes holds two shapes in one column: both are read for what they
// mean. (B04)
func TestCaseB04MixedTextTimes(t *testing.T) {
	s := open(t, "sqlite", testdb.OpenSQLite(t), "")
	migrate(t, s)
	execute(t, s, "CREATE TABLE m (id INT NOT NULL PRIMARY KEY, status TEXT DEFAULT 'IDLE', started_at TEXT, claimable_at TEXT, claim_token TEXT, fence INT, attempts INT, expirations INT, cycle INT)")
	execute(t, s, `INSERT INTO m (id, claimable_at) VALUES (1, strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-1 second')),
		(2, datetime('now', '+1 hour')), (3, datetime('now', '-1 hour')), (4, strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+1 hour')),
		(5, CAST(unixepoch() - 5 AS TEXT)), (6, CAST((unixepoch() + 50) * 1000 AS TEXT)), (7, '')`)
	execute(t, s, "INSERT INTO m (id, status, started_at, claimable_at) VALUES (8, 'IN_PROGRESS', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), datetime('now', '+1 day'))")
	c := claimsOn(t, s, dibs.Table{Name: "m", Key: "id"})
	got := claim(t, c, start(t, s, "job", time.Hour, true), 10)
	claimed := map[string]bool{}
	for _, h := range got.Items {
		claimed[h.Key.String()] = true
	}
	if len(claimed) != 3 || !claimed["1"] || !claimed["3"] || !claimed["5"] {
		t.Errorf("claimed %q, want 1, 3 and 5", keys(got.Items))
	}
}

func TestCaseB26UnreadableValueIsTheRowsOwnProblem(t *testing.T) {
	s := open(t, "sqlite", testdb.OpenSQLite(t), "")
	migrate(t, s)
	c := makeItems(t, s, 3)
	execute(t, s, "UPDATE items SET name = CAST(x'ff00fe' AS TEXT) WHERE id = 1")
	execute(t, s, "UPDATE items SET attempts = 'many' WHERE id = 2")
	r := start(t, s, "job", time.Hour, true)
	got := claim(t, c, r, 10)
	if keys(got.Items) != "1 2 3" {
		t.Fatalf("claimed %q", keys(got.Items))
	}
	if !strings.Contains(got.Items[0].Problem, "name") || !strings.Contains(got.Items[1].Problem, "attempts") || got.Items[2].Problem != "" {
		t.Errorf("problems %q, %q, %q", got.Items[0].Problem, got.Items[1].Problem, got.Items[2].Problem)
	}
	for i, out := range settle(t, c, r, completed(r, got.Items)) {
		if !out.OK {
			t.Errorf("settled %s: %+v", got.Items[i].Key, out)
		}
	}
}

// TestCaseB12ClaimWithoutAnswer drops the answer to a claim's COMMIT: asking by token
// finds the rows, and they can be settled. (B12)
func TestCaseB12ClaimWithoutAnswer(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, address string) {
		if kind == "sqlite" {
			return // a file has no answers to lose
		}
		straight := open(t, kind, testdb.Open(t, address), "")
		migrate(t, straight)
		sure := makeItems(t, straight, 3)
		r := start(t, straight, "job", time.Hour, true)
		proxy, through := testdb.NewProxy(t, address)
		c := claimsOn(t, open(t, kind, testdb.Open(t, through), ""), dibs.Table{Name: "items", Key: "id"})
		dropped := proxy.DropAnswerTo(map[string]string{"postgres": "commit\x00", "mysql": "\x03COMMIT"}[kind]) // not "read committed"
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		token := dibs.ClaimToken(r.ID, 1)
		_, err := c.Claim(ctx, dibs.ClaimRequest{Run: r.Ref(), Token: token, Limit: 2, Lease: time.Minute})
		if !errors.Is(err, dibs.ErrUnanswered) {
			t.Fatalf("claim: %v, want ErrUnanswered", err)
		}
		<-dropped
		found, err := c.Find(ctx, token)
		if err != nil || keys(found) != "1 2" {
			t.Fatalf("found %q, %v", keys(found), err)
		}
		if out := settle(t, sure, r, completed(r, found[:1])); !out[0].OK {
			t.Errorf("settled %+v", out)
		}
		if out := settle(t, sure, r, []dibs.Settlement{settlement(r, found[1], dibs.OutcomeReleased, dibs.RowChange{Restore: true})}); !out[0].OK {
			t.Errorf("released %+v", out)
		}
		if again := claim(t, sure, r, 2); keys(again.Items) != "2 3" && keys(again.Items) != "3 2" && keys(again.Items) != "3 1" {
			t.Errorf("claimed %q again", keys(again.Items))
		}
	})
}

// TestCaseB66PollingAnEmptyTable polls with eight workers while rows are inserted. (B66)
func TestCaseB66PollingAnEmptyTable(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for w := range 8 {
			r := start(t, s, fmt.Sprintf("job%d", w), time.Hour, true)
			wg.Go(func() {
				for n := 1; ctx.Err() == nil; n++ {
					_, err := c.Claim(ctx, dibs.ClaimRequest{Run: r.Ref(), Token: dibs.ClaimToken(r.ID, n), Limit: 5, Lease: time.Minute,
						Scope: dibs.Scope{Key: dibs.Key{"0"}}})
					if err == nil {
						_, err = c.Claim(ctx, dibs.ClaimRequest{Run: r.Ref(), Token: dibs.ClaimToken(r.ID, n), Limit: 5, Lease: time.Minute})
					}
					if err != nil && ctx.Err() == nil {
						t.Errorf("poll: %v", err)
						return
					}
				}
			})
		}
		worst := time.Duration(0)
		for id := 1; id <= 50; id++ {
			begun := time.Now()
			if _, err := s.DB().ExecContext(t.Context(), fmt.Sprintf("INSERT INTO items (id, name) VALUES (%d, 'x')", id)); err != nil {
				t.Errorf("insert beside polling workers: %v", err)
			}
			worst = max(worst, time.Since(begun))
		}
		cancel()
		wg.Wait()
		if worst > 3*time.Second {
			t.Errorf("an insert waited %s", worst)
		}
	})
}

// TestCaseB26UnreadableColumnsStopNobody puts what cannot be read into one column
// of one expired row at a time: its neighbours are recovered and swept all the
// same, and what is in it stays.
func TestCaseB26UnreadableColumnsStopNobody(t *testing.T) {
	for column, value := range map[string]string{
		"name": "CAST(x'ff00fe' AS TEXT)", "attempts": "'many'", "expirations": "x'00ff'", "fence": "'?'", "cycle": "'spring'",
		"claim_token": "x'ff'", "started_at": "'yesterday'", "claimable_at": "'soon'", "last_success_at": "'never'", "status": "x'ff00'",
	} {
		t.Run(column, func(t *testing.T) {
			s := open(t, "sqlite", testdb.OpenSQLite(t), "")
			migrate(t, s)
			c := makeItems(t, s, 4)
			claim(t, c, start(t, s, "dead", time.Hour, false), 4)
			execute(t, s, "UPDATE items SET started_at = started_at - 7200000000, claimable_at = claimable_at - 7200000000 WHERE id < 4")
			execute(t, s, "UPDATE items SET claimable_at = NULL WHERE id = 4")
			execute(t, s, "UPDATE items SET "+column+" = "+value+" WHERE id = 1")
			if swept, err := c.Sweep(t.Context(), time.Minute); err != nil || swept.InProgressWithoutLease < 1 {
				t.Errorf("swept %+v, %v", swept, err)
			}
			r := start(t, s, "job", time.Hour, true)
			got := claim(t, c, r, 10)
			for _, id := range []string{"2", "3"} {
				if !strings.Contains(" "+keys(got.Items)+" ", " "+id+" ") {
					t.Errorf("recovered %q, without %s", keys(got.Items), id)
				}
			}
			if n := single[int](t, s, "SELECT count(*) FROM items WHERE id = 1 AND name IS "+words(s, map[bool]string{true: value, false: "'n1'"}[column == "name"], "", "")); n != 1 {
				t.Error("the unreadable row lost its name")
			}
			for i, out := range settle(t, c, r, completed(r, got.Items)) {
				if !out.OK {
					t.Errorf("settled %s: %+v", got.Items[i].Key, out)
				}
			}
		})
	}
}
