package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/store/sqlite"
	"github.com/dibs-run/dibs/store/storetest"
)

const patient = "_pragma=busy_timeout(15000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

// TestCaseB63TransactionsBeginImmediate: whatever the driver would begin with by
// itself, no transaction of ours reads before it has the right to write.
func TestCaseB63TransactionsBeginImmediate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db := openWith(t, path, patient) // without the driver's own setting for it
	connector, err := storetest.Connector(db, "file:"+path+"?"+patient)
	if err != nil {
		t.Fatal(err)
	}
	faults := storetest.NewFaults(connector)
	watched := sql.OpenDB(faults)
	defer func() { _ = watched.Close() }() // the file goes with the test
	s := sqlite.New(watched)
	run := workOnce(t, s, db)
	begun, open := 0, false
	for _, text := range faults.Statements() {
		switch word, _, _ := strings.Cut(strings.TrimSpace(text), " "); strings.ToUpper(word) {
		case "BEGIN":
			begun, open = begun+1, true
			if text != "BEGIN IMMEDIATE" {
				t.Errorf("a transaction began with %q", text)
			}
		case "COMMIT":
			open = false
		case "INSERT", "UPDATE", "DELETE":
			if !open {
				t.Errorf("written outside a transaction: %s", text)
			}
		}
	}
	if begun < 6 || run.ID == "" {
		t.Errorf("%d transactions of run %q were seen", begun, run.ID)
	}
}

// workOnce calls everything that writes, on a table that it makes.
func workOnce(t *testing.T, s *sqlite.Store, db *sql.DB) dibs.Run {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Migrate(ctx)
	must(err)
	_, err = db.ExecContext(ctx, `CREATE TABLE items (id INT NOT NULL PRIMARY KEY, status TEXT DEFAULT 'IDLE', started_at INTEGER, claimable_at INTEGER DEFAULT 0,
		claim_token TEXT, fence INT, attempts INT, expirations INT, cycle INT)`)
	must(err)
	_, err = db.ExecContext(ctx, "INSERT INTO items (id) VALUES (1)")
	must(err)
	claims, err := s.Claims(ctx, dibs.Table{Name: "items", Key: "id"})
	must(err)
	must(s.Register(ctx, []dibs.JobRecord{{Name: "job", Hash: "h"}}))
	id, err := dibs.NewRunID()
	must(err)
	run := dibs.Run{ID: id, Job: "job", Trigger: "trg_1", Origin: dibs.OriginManual, Kind: dibs.KindItems,
		Token: dibs.ClaimToken(id, 0), LeaseFor: time.Hour}
	must(s.Decide(ctx, "job", func(ctx context.Context, d dibs.Desk) error { return d.StartRun(ctx, &run, true) }))
	got, err := claims.Claim(ctx, dibs.ClaimRequest{Run: run.Ref(), Token: dibs.ClaimToken(id, 1), Limit: 1, Lease: time.Hour})
	must(err)
	_, err = claims.Renew(ctx, dibs.RenewRequest{Run: run.Ref(), Lease: time.Hour, Items: got.Items})
	must(err)
	must(s.SetProgress(ctx, run.Ref(), dibs.Progress{Position: "at 1"}))
	_, err = claims.Settle(ctx, dibs.SettleRequest{Run: run.Ref(), Items: []dibs.Settlement{{
		Held: got.Items[0], Outcome: dibs.OutcomeReleased, Change: dibs.RowChange{Restore: true}}}})
	must(err)
	_, err = claims.Sweep(ctx, time.Hour)
	must(err)
	must(s.Decide(ctx, "job", func(ctx context.Context, d dibs.Desk) error {
		return d.EndRun(ctx, dibs.RunEnd{Run: run.Ref(), State: dibs.RunSucceeded})
	}))
	return run
}

// TestCaseB63SnapshotConflictIsRetried: a transaction that read first and writes
// after somebody else did is refused at once, whatever busy_timeout says. Met
// inside a transaction of ours, the whole of it is done again.
func TestCaseB63SnapshotConflictIsRetried(t *testing.T) {
	db := openWith(t, filepath.Join(t.TempDir(), "app.db"), patient)
	s := sqlite.New(db)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec := func(q interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}, statement string,
	) {
		t.Helper()
		if _, err := q.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	exec(db, "CREATE TABLE app (n INT)")
	exec(db, "INSERT INTO app VALUES (1)")
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // back to the pool
	exec(conn, "BEGIN")
	var n int
	if err := conn.QueryRowContext(t.Context(), "SELECT n FROM app").Scan(&n); err != nil {
		t.Fatal(err)
	}
	exec(db, "UPDATE app SET n = 2")
	began := time.Now()
	_, stale := conn.ExecContext(t.Context(), "UPDATE app SET n = n + 10")
	if took := time.Since(began); stale == nil || took > 10*time.Second {
		t.Fatalf("a stale snapshot: %v after %s", stale, took)
	}
	exec(conn, "ROLLBACK")
	if class := sqlite.Dialect().Classify(stale); class != sqlstore.ClassRetry {
		t.Errorf("%q is of class %d", stale, class)
	}
	tries := 0
	err = s.Decide(t.Context(), "lock", func(ctx context.Context, d dibs.Desk) error {
		if err := d.Audit(ctx, dibs.AuditRecord{By: "somebody", What: "write"}); err != nil {
			return err
		}
		if tries++; tries < 3 {
			return stale
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	var audits, decisions int
	if err := db.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM dibs_audit), decisions FROM dibs_locks").Scan(&audits, &decisions); err != nil {
		t.Fatal(err)
	}
	if audits != 1 || decisions != 1 {
		t.Errorf("%d records of %d decisions are left of what was undone and done again", audits, decisions)
	}
}
