package runner_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/store/postgres"
)

const ledgerRows = 20_000

// ledgerLoop works a table at batch 100 under one choice for unknown outcomes.
func ledgerLoop(b *testing.B, db *sql.DB, table string, on dibs.OnUncertain, concurrency int) time.Duration {
	b.Helper()
	absent := func(context.Context, dibs.Item) (dibs.LookupResult, error) {
		return dibs.LookupResult{Presence: dibs.PresenceAbsent}, nil
	}
	r, err := runner.New(runner.Config{Store: postgres.New(db), Jobs: []dibs.Job{{
		Name: table, Overlap: dibs.Allow, OnUncertain: on, Lookup: absent, Batch: 100, Concurrency: concurrency,
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
	if report.Run.Counts.Completed != ledgerRows {
		b.Fatalf("did %s", report.Run.Counts)
	}
	return time.Since(began)
}

// BenchmarkLedger: no-op rows at batch 100, with effects kept (lookup) against
// without (replay), alternating; with a slot for each item of a batch, and with
// eight. Wanted with a slot for each: ratio ≥ 0.5.
func BenchmarkLedger(b *testing.B) {
	db := testdb.OpenPostgres(b)
	db.SetMaxOpenConns(4)
	if _, err := postgres.New(db).Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, slots := range []int{100, 8} {
		var ratios, rates []float64
		for i := range 3 {
			replay, lookup := fmt.Sprintf("replay%d_%d", slots, i), fmt.Sprintf("lookup%d_%d", slots, i)
			fillAccounts(b, db, replay, ledgerRows)
			fillAccounts(b, db, lookup, ledgerRows)
			floor := ledgerLoop(b, db, replay, dibs.Replay, slots)
			took := ledgerLoop(b, db, lookup, dibs.Lookup, slots)
			ratios = append(ratios, floor.Seconds()/took.Seconds())
			rates = append(rates, ledgerRows/took.Seconds())
			benchExec(b, db, "DROP TABLE "+replay+", "+lookup)
		}
		b.ReportMetric(middle(ratios), fmt.Sprintf("×replay-%dslots", slots))
		b.ReportMetric(middle(rates), fmt.Sprintf("rows/s-%dslots", slots))
	}
	b.ReportMetric(0, "ns/op")
}
