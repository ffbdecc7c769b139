package runner_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sort"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/store/postgres"
)

// The benchmarks compare within one run, on one server: absolute figures of
// shared machines do not compare, ratios do. Run them with make bench.

const benchRows = 100_000

// fillAccounts makes a full table of n due rows on PostgreSQL.
func fillAccounts(b *testing.B, db *sql.DB, table string, n int) {
	b.Helper()
	benchExec(b, db, fmt.Sprintf(`CREATE TABLE %s (
		id bigint PRIMARY KEY, enabled boolean NOT NULL DEFAULT true,
		status text NOT NULL DEFAULT 'IDLE', started_at timestamptz, claimable_at timestamptz DEFAULT '1970-01-01Z', claim_token text,
		fence bigint NOT NULL DEFAULT 0, attempts int NOT NULL DEFAULT 0, expirations int NOT NULL DEFAULT 0, cycle bigint)`, table))
	benchExec(b, db, fmt.Sprintf("INSERT INTO %s (id) SELECT i FROM generate_series(1, %d) AS i", table, n))
	benchExec(b, db, fmt.Sprintf("CREATE INDEX ON %s (claimable_at, id)", table))
	benchExec(b, db, "VACUUM ANALYZE "+table)
}

func benchExec(b *testing.B, db *sql.DB, query string, args ...any) {
	b.Helper()
	if _, err := db.ExecContext(b.Context(), query, args...); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
}

// bareLoop is the physical floor: claim 100, complete 100, nothing kept.
func bareLoop(b *testing.B, db *sql.DB, table string) time.Duration {
	b.Helper()
	claim := fmt.Sprintf(`UPDATE %[1]s SET status = 'IN_PROGRESS', started_at = now(), claimable_at = now() + interval '1 minute', fence = fence + 1
		WHERE id = ANY(ARRAY(SELECT id FROM %[1]s WHERE status IN ('IDLE', 'IN_PROGRESS', 'FAILED') AND claimable_at <= now()
			ORDER BY claimable_at, id LIMIT 100 FOR NO KEY UPDATE SKIP LOCKED)) RETURNING id, fence`, table)
	complete := fmt.Sprintf(`UPDATE %s AS t SET status = 'IDLE', claimable_at = now() + interval '1 hour'
		FROM unnest($1::bigint[], $2::bigint[]) AS u(id, fence) WHERE t.id = u.id AND t.fence = u.fence AND t.status = 'IN_PROGRESS'`, table)
	began := time.Now()
	for total := 0; ; {
		rows, err := db.QueryContext(b.Context(), claim) //nolint:sqlclosecheck // read to its end, which closes it
		if err != nil {
			b.Fatal(err)
		}
		var ids, fences []int64
		for rows.Next() {
			var id, fence int64
			if err := rows.Scan(&id, &fence); err != nil {
				b.Fatal(err)
			}
			ids, fences = append(ids, id), append(fences, fence)
		}
		if err := rows.Err(); err != nil {
			b.Fatal(err)
		}
		if len(ids) == 0 {
			if total != benchRows {
				b.Fatalf("the bare loop did %d rows", total)
			}
			return time.Since(began)
		}
		benchExec(b, db, complete, ids, fences)
		total += len(ids)
	}
}

// libraryLoop does the same through the library, with everything kept.
func libraryLoop(b *testing.B, db *sql.DB, table string) time.Duration {
	b.Helper()
	r, err := runner.New(runner.Config{Store: postgres.New(db), Jobs: []dibs.Job{{
		Name: table, Overlap: dibs.Allow, OnUncertain: dibs.Replay, Batch: 100, Concurrency: 8,
		Source: dibs.Table{Name: table, Key: "id", Every: time.Hour}, Handle: done,
	}}})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	report, err := r.Tick(b.Context(), table)
	if err != nil {
		b.Fatal(err)
	}
	if report.Run.Counts.Completed != benchRows {
		b.Fatalf("the library did %s", report.Run.Counts)
	}
	return time.Since(began)
}

// BenchmarkNoOpRows: 100,000 no-op rows at batch 100, the library with outcome
// rows kept against the bare loop, alternating. Wanted: ratio ≥ 0.7.
func BenchmarkNoOpRows(b *testing.B) {
	db := testdb.OpenPostgres(b)
	db.SetMaxOpenConns(4)
	if _, err := postgres.New(db).Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	var ratios, rates []float64
	for i := range 3 {
		bare, lib := fmt.Sprintf("bare%d", i), fmt.Sprintf("lib%d", i)
		fillAccounts(b, db, bare, benchRows)
		fillAccounts(b, db, lib, benchRows)
		floor, took := bareLoop(b, db, bare), libraryLoop(b, db, lib)
		ratios = append(ratios, floor.Seconds()/took.Seconds())
		rates = append(rates, benchRows/took.Seconds())
		benchExec(b, db, "DROP TABLE "+bare+", "+lib)
	}
	b.ReportMetric(middle(ratios), "×bare")
	b.ReportMetric(middle(rates), "rows/s")
	b.ReportMetric(0, "ns/op")
}

// middle is the median.
func middle(x []float64) float64 {
	sort.Float64s(x)
	return x[len(x)/2]
}

// claimTimes measures the median time of one claim of 100 rows; each is given
// back, so that the table stays as it was.
func claimTime(b *testing.B, store *postgres.Store, table, where string) float64 {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	claims, err := store.Claims(ctx, dibs.Table{Name: table, Key: "id", Where: where, Every: dibs.Always})
	if err != nil {
		b.Fatal(err)
	}
	run := benchRun(b, store, table)
	var took []float64
	for i := range 60 {
		began := time.Now()
		got, err := claims.Claim(ctx, dibs.ClaimRequest{Run: run.Ref(), Token: dibs.ClaimToken(run.ID, i+1), Limit: 100, Lease: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began).Seconds())
		if len(got.Items) != 100 {
			b.Fatalf("claimed %d of 100 rows of %s", len(got.Items), table)
		}
		back := make([]dibs.Settlement, len(got.Items))
		for j, h := range got.Items {
			back[j] = dibs.Settlement{Held: h, Outcome: dibs.OutcomeReleased, Change: dibs.RowChange{Restore: true},
				Record: dibs.OutcomeRecord{Token: h.Token, Key: h.Key.String(), RunID: run.ID, Outcome: dibs.OutcomeReleased}}
		}
		if _, err := claims.Settle(ctx, dibs.SettleRequest{Run: run.Ref(), Items: back}); err != nil {
			b.Fatal(err)
		}
	}
	return middle(took)
}

// benchRun starts a run by hand.
func benchRun(b *testing.B, store *postgres.Store, job string) dibs.Run {
	b.Helper()
	id, err := dibs.NewRunID()
	if err != nil {
		b.Fatal(err)
	}
	run := dibs.Run{ID: id, Job: job, Trigger: "trg_" + id, Kind: dibs.KindItems, State: dibs.RunRunning, Token: dibs.ClaimToken(id, 0), LeaseFor: time.Hour}
	err = store.Decide(b.Context(), job, func(ctx context.Context, desk dibs.Desk) error {
		return desk.StartRun(ctx, &run, false)
	})
	if err != nil {
		b.Fatal(err)
	}
	return run
}

// BenchmarkClaimStaysFlat: the time of a claim of 100 rows in tables that are
// large in the ways that hurt, over its time at 10,000 rows. Wanted: ≤ 1.3.
func BenchmarkClaimStaysFlat(b *testing.B) {
	db := testdb.OpenPostgres(b)
	store := postgres.New(db)
	if _, err := store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	fillAccounts(b, db, "small", 10_000)
	fillAccounts(b, db, "large", 1_000_000)
	fillAccounts(b, db, "disabled", 1_010_000)
	benchExec(b, db, "UPDATE disabled SET enabled = false WHERE id > 10000")
	benchExec(b, db, "VACUUM ANALYZE disabled")
	fillAccounts(b, db, "spread", 1_000_000)
	benchExec(b, db, "UPDATE spread SET claimable_at = now() - id * interval '1 second'")
	benchExec(b, db, "VACUUM ANALYZE spread")
	ratio := map[string][]float64{}
	for range 3 {
		small := claimTime(b, store, "small", "enabled")
		ratio["1M-equal"] = append(ratio["1M-equal"], claimTime(b, store, "large", "enabled")/small)
		ratio["1M-disabled"] = append(ratio["1M-disabled"], claimTime(b, store, "disabled", "enabled")/small)
		ratio["1M-spread"] = append(ratio["1M-spread"], claimTime(b, store, "spread", "enabled")/small)
	}
	for name, r := range ratio {
		b.ReportMetric(middle(r), name+"/10k")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkClaimAfterChurn: rows come again at once for five minutes
// (DIBS_CHURN), then a claim's time over its time before. Wanted: ≤ 1.3.
func BenchmarkClaimAfterChurn(b *testing.B) {
	length := 5 * time.Minute
	if text := os.Getenv("DIBS_CHURN"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			b.Fatalf("DIBS_CHURN: %v", err)
		}
		length = d
	}
	db := testdb.OpenPostgres(b)
	store := postgres.New(db)
	if _, err := store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	fillAccounts(b, db, "still", 10_000)
	fillAccounts(b, db, "churned", 500_000)
	r, err := runner.New(runner.Config{Store: store, Jobs: []dibs.Job{{
		Name: "churn", Overlap: dibs.Allow, OnUncertain: dibs.Replay, Batch: 100, Concurrency: 8,
		Source: dibs.Table{Name: "churned", Key: "id", Every: dibs.Always}, Handle: done, MaxDuration: length,
	}}})
	if err != nil {
		b.Fatal(err)
	}
	var rows int64
	for began := time.Now(); time.Since(began) < length; {
		report, err := r.Tick(b.Context(), "churn")
		if err != nil {
			b.Fatal(err)
		}
		rows += report.Run.Counts.Completed
	}
	var ratios []float64
	for range 3 {
		still := claimTime(b, store, "still", "enabled")
		ratios = append(ratios, claimTime(b, store, "churned", "enabled")/still)
	}
	b.ReportMetric(middle(ratios), "churned/still")
	b.ReportMetric(float64(rows), "rows")
	b.ReportMetric(0, "ns/op")
}
