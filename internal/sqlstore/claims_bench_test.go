package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

// BenchmarkDrain drains a table in batches of 100, by the store (claim, settle
// and outcome rows in one transaction) and by a bare loop that only claims and
// completes. Compare the two of one run, never two runs.
func BenchmarkDrain(b *testing.B) {
	for _, kind := range []string{"postgres", "sqlite", "mysql"} {
		b.Run(kind+"/store", func(b *testing.B) { benchmarkDrain(b, kind, drainByStore) })
	}
	b.Run("postgres/bare", func(b *testing.B) { benchmarkDrain(b, "postgres", drainBare) })
}

const drained = 20_000

func benchmarkDrain(b *testing.B, kind string, drain func(b *testing.B, s *sqlstore.Store, c dibs.Claims) int) {
	address := map[string]func(testing.TB) string{
		"postgres": testdb.Postgres, "sqlite": testdb.SQLite, "mysql": testdb.MySQL,
	}[kind](b)
	s := open(b, kind, testdb.Open(b, address), "")
	migrate(b, s)
	c := makeItems(b, s, 0)
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		execute(b, s, "DELETE FROM items")
		insertItems(b, s, 1, drained)
		if kind == "postgres" {
			execute(b, s, "VACUUM ANALYZE items")
		}
		b.StartTimer()
		if n := drain(b, s, c); n != drained {
			b.Fatalf("drained %d rows", n)
		}
	}
	b.ReportMetric(float64(drained*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func drainByStore(b *testing.B, s *sqlstore.Store, c dibs.Claims) int {
	r := start(b, s, fmt.Sprintf("job%d", time.Now().UnixNano()), time.Hour, true)
	n := 0
	var settled []dibs.Settlement
	var mark dibs.Mark
	for {
		got := claim(b, c, r, 100, func(q *dibs.ClaimRequest) {
			q.Settle, q.Mark = settled, mark
			q.Scope.StartedBefore = r.StartedAt
		})
		if mark = got.Mark; len(got.Items) == 0 {
			return n
		}
		n += len(got.Items)
		settled = completed(r, got.Items)
	}
}

// drainBare is the least that a careful hand-written loop does on PostgreSQL.
func drainBare(b *testing.B, s *sqlstore.Store, _ dibs.Claims) int {
	const take = `UPDATE items SET status = 'IN_PROGRESS', started_at = now(), claimable_at = now() + interval '1 minute',
			claim_token = 'x', fence = coalesce(fence, 0) + 1
		WHERE id = ANY(ARRAY(SELECT id FROM items WHERE status = 'IDLE' AND claimable_at <= now() AND started_at IS NULL
			ORDER BY claimable_at, id LIMIT 100 FOR UPDATE SKIP LOCKED)) RETURNING id`
	const done = `UPDATE items SET status = 'IDLE', claimable_at = now(), claim_token = NULL
		WHERE id = ANY($1::bigint[]) AND claim_token = 'x'`
	n := 0
	for {
		var ids []int64
		rows, err := s.DB().QueryContext(b.Context(), take) //nolint:sqlclosecheck // read to its end, which closes it
		if err != nil {
			b.Fatal(err)
		}
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				b.Fatal(err)
			}
			ids = append(ids, id)
		}
		if err := rows.Err(); err != nil {
			b.Fatal(err)
		}
		if len(ids) == 0 {
			return n
		}
		if _, err := s.DB().ExecContext(b.Context(), done, ids); err != nil {
			b.Fatal(err)
		}
		n += len(ids)
	}
}
