package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

// TestCaseB01NeverMoreThanTheLimit claims under planner settings that made naive
// claims take more rows than asked for, with a writer on the candidates. (B01)
func TestCaseB01NeverMoreThanTheLimit(t *testing.T) {
	for _, settings := range []string{
		"", "&enable_hashjoin=off&enable_mergejoin=off&enable_material=off", "&enable_nestloop=off", "&enable_indexscan=off&enable_bitmapscan=off",
		"&enable_hashjoin=off&enable_mergejoin=off&enable_material=off&enable_hashagg=off&enable_sort=off&enable_memoize=off&jit=off",
		"&enable_seqscan=off", "&plan_cache_mode=force_generic_plan", "&default_query_exec_mode=exec", "&default_query_exec_mode=simple_protocol",
	} {
		t.Run(settings, func(t *testing.T) {
			s := open(t, "postgres", testdb.Open(t, testdb.Postgres(t)+settings), "")
			migrate(t, s)
			c := makeItems(t, s, 0)
			execute(t, s, "ALTER TABLE items SET (autovacuum_enabled = off)")
			execute(t, s, "ANALYZE items") // statistics of an empty table
			insertItems(t, s, 1, 200)
			stop := churn(t, s)
			defer stop()
			r := start(t, s, "job", time.Hour, true)
			total := map[string]bool{}
			for range 40 {
				got := claim(t, c, r, 3)
				if len(got.Items) > 3 {
					t.Fatalf("claimed %d rows, limit 3", len(got.Items))
				}
				for _, h := range got.Items {
					if total[h.Key.String()] {
						t.Errorf("row %s claimed twice", h.Key)
					}
					total[h.Key.String()] = true
				}
				if n := single[int](t, s, "SELECT count(*) FROM items WHERE status = 'IN_PROGRESS'"); n != len(total) {
					t.Fatalf("%d rows in progress, %d answered", n, len(total))
				}
			}
			if len(total) < 60 {
				t.Errorf("only %d rows claimed in 40 claims of 3", len(total))
			}
		})
	}
}

// churn updates candidate rows until stopped, so that locks and new row versions
// come between a claim's scan and its lock.
func churn(t *testing.T, s *sqlstore.Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			// Bounded: every update leaves a dead row, and nobody vacuums this table.
			for i := worker; ctx.Err() == nil && i < 2000; i++ {
				if _, err := s.DB().ExecContext(ctx, fmt.Sprintf("UPDATE items SET name = 'x%d' WHERE id = %d", i, i%200+1)); err != nil && ctx.Err() == nil {
					t.Errorf("update a candidate: %v", err)
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// TestConcurrentClaims lets several workers drain a table.
func TestConcurrentClaims(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		const rows, workers = 400, 6
		c := makeItems(t, s, rows)
		var mu sync.Mutex
		seen := map[string]int{}
		var wg sync.WaitGroup
		for w := range workers {
			r := start(t, s, fmt.Sprintf("job%d", w), time.Hour, true)
			wg.Go(func() {
				empty := 0
				for n := 1; empty < 3; n++ {
					got, err := c.Claim(t.Context(), dibs.ClaimRequest{
						Run: r.Ref(), Token: dibs.ClaimToken(r.ID, n), Limit: 7, Lease: time.Minute, Scope: dibs.Scope{StartedBefore: r.StartedAt},
					})
					if err != nil {
						t.Errorf("claim: %v", err)
						return
					}
					if len(got.Items) == 0 {
						empty++
					}
					items := completed(r, got.Items)
					for i := range items {
						hour := time.Hour
						items[i].Change.DueIn = &hour // not for a run that starts later
					}
					out, err := c.Settle(t.Context(), dibs.SettleRequest{Run: r.Ref(), Items: items})
					mu.Lock()
					for i, h := range got.Items {
						seen[h.Key.String()]++
						if err != nil || !out[i].OK {
							t.Errorf("settle %s: %+v, %v", h.Key, out, err)
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for key, n := range seen {
			if n != 1 {
				t.Errorf("row %s was taken %d times", key, n)
			}
		}
		if len(seen) != rows {
			t.Errorf("%d rows taken, want %d", len(seen), rows)
		}
	})
}

// TestPlansUseIndexes: a claim reads the due index and no statement by key reads
// the whole table.
func TestPlansUseIndexes(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 20_000)
		switch s.Dialect().Name {
		case "postgres":
			execute(t, s, "VACUUM ANALYZE items")
		default:
			execute(t, s, words(s, "ANALYZE", "", "ANALYZE TABLE items"))
		}
		for name, st := range sqlstore.ClaimStatements(c) {
			plan := explain(t, s, st)
			switch s.Dialect().Name {
			case "sqlite":
				if strings.Contains(plan, "SCAN items") && !strings.Contains(plan, "USING INDEX") || strings.Contains(plan, "TEMP B-TREE") {
					t.Errorf("%s: %s", name, plan)
				}
			case "postgres":
				if strings.Contains(plan, "Seq Scan on items") {
					t.Errorf("%s: %s", name, plan)
				}
			case "mysql":
				if strings.Contains(plan, "ALL items") || strings.Contains(plan, "filesort") {
					t.Errorf("%s: %s", name, plan)
				}
			}
			if strings.HasPrefix(name, "claim ") && !strings.Contains(plan, "items_due") {
				t.Errorf("%s does not use the due index: %s", name, plan)
			}
		}
	})
}

// explain returns a statement's plan, in a form that names tables and indexes.
func explain(t *testing.T, s *sqlstore.Store, st sqlstore.Explained) string {
	t.Helper()
	prefix := words(s, "EXPLAIN QUERY PLAN ", "EXPLAIN ", "EXPLAIN ")
	rows, err := s.DB().QueryContext(t.Context(), prefix+st.SQL, st.Args...)
	if err != nil {
		t.Fatalf("explain %s: %v", st.SQL, err)
	}
	defer func() { _ = rows.Close() }() // read to the end below
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		switch s.Dialect().Name {
		case "mysql": // id, select_type, table, type, possible_keys, key, key_len, ref, rows, Extra
			fmt.Fprintf(&plan, "%s %s %s %s\n", values[3].String, values[2].String, values[5].String, values[len(values)-1].String)
		default:
			fmt.Fprintf(&plan, "%s\n", values[len(values)-1].String)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// TestCaseB06RenewalPassesLockedRows: a handler's own transaction on one row delays
// neither the other rows' renewal nor another claim, and is not taken for a loss.
// (B06, B67)
func TestCaseB06RenewalPassesLockedRows(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		if s.Dialect().Name == "sqlite" {
			return // one writer at a time: there are no row locks
		}
		c := makeItems(t, s, 4)
		release, err := s.Reserve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		r := start(t, s, "job", time.Minute, true)
		got := claim(t, c, r, 3)
		tx, err := s.DB().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }() // ends the handler's transaction
		if _, err := tx.ExecContext(t.Context(), "UPDATE items SET name = 'mine' WHERE id IN (2, 4)"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		renewed, err := c.Renew(ctx, dibs.RenewRequest{Run: r.Ref(), Lease: 5 * time.Minute, Items: got.Items})
		if err != nil {
			t.Fatalf("renew beside a locked row: %v", err)
		}
		for i, it := range renewed.Items {
			same := it.EndsAt.Equal(got.Items[i].EndsAt)
			if locked := i == 1; same != locked || it.EndsAt.IsZero() {
				t.Errorf("row %d renewed to %s, was %s", i+1, it.EndsAt, got.Items[i].EndsAt)
			}
		}
		more, err := c.Claim(ctx, dibs.ClaimRequest{Run: r.Ref(), Token: "t/9", Limit: 5, Lease: time.Minute})
		if err != nil || len(more.Items) != 0 {
			t.Errorf("claimed a locked row: %+v, %v", more, err)
		}
		if n, err := c.Remaining(ctx, dibs.Scope{}, 10); err != nil || n != 1 {
			t.Errorf("%d remain, %v; want the locked one", n, err)
		}
	})
}

// TestPlainMySQLConnections uses a pool that neither counts rows found nor puts
// parameters into the text.
func TestPlainMySQLConnections(t *testing.T) {
	address := testdb.MySQL(t)
	_, dsn, err := testdb.DSN(address)
	if err != nil {
		t.Fatal(err)
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.Params, config.ClientFoundRows, config.InterpolateParams, config.ParseTime = nil, false, false, false
	db, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test's pool
	s := open(t, "mysql", db, "")
	migrate(t, s)
	makeItems(t, s, 3)
	fullRound(t, s, dibs.Table{Name: "items", Key: "id", Select: []string{"name"}})
}

func TestPoolerSafeModes(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol", "cache_describe", "describe_exec"} {
		t.Run(mode, func(t *testing.T) {
			s := open(t, "postgres", testdb.Open(t, testdb.Postgres(t)+"&default_query_exec_mode="+mode), "")
			migrate(t, s)
			c := makeItems(t, s, 3)
			fullRound(t, s, dibs.Table{Name: "items", Key: "id", Select: []string{"name"}})
			if _, err := c.Sweep(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			if _, err := c.Stats(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := c.Remaining(t.Context(), dibs.Scope{}, 10); err != nil {
				t.Error(err)
			}
			if _, err := c.Rows(t.Context(), dibs.RowFilter{Due: true}); err != nil {
				t.Error(err)
			}
		})
	}
}
