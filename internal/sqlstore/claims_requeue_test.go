package sqlstore_test

import (
	"context"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

// requeuer is what the command needs of a table.
type requeuer interface {
	Quarantined(ctx context.Context, r sqlstore.Requeue) (int64, error)
	Requeue(ctx context.Context, r sqlstore.Requeue) (int64, error)
}

func TestRequeueTakesQuarantinedRowsAloneAndExactlyTheNumberConfirmed(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		s := open(t, kind, testdb.Open(t, url), "")
		migrate(t, s)
		number, text := "BIGINT", "VARCHAR(100)"
		instant := map[string]string{"sqlite": "INTEGER", "postgres": "TIMESTAMPTZ", "mysql": "DATETIME(6)"}[kind]
		execute(t, s, "CREATE TABLE acct (id "+text+" PRIMARY KEY, status "+text+" NOT NULL, started_at "+instant+", claimable_at "+instant+
			", claim_token "+text+", fence "+number+" NOT NULL, attempts "+number+" NOT NULL, expirations "+number+" NOT NULL, cycle "+number+", last_error "+text+")")
		for _, row := range []string{
			"('a', 'QUARANTINED', NULL, NULL, NULL, 7, 8, 1, 1, 'no such account 50%')", "('b', 'QUARANTINED', NULL, NULL, NULL, 7, 8, 1, 1, 'time-out')",
			"('c', 'FAILED', NULL, NULL, NULL, 7, 1, 0, 1, 'held')", "('d', 'IDLE', NULL, NULL, NULL, 7, 0, 0, 1, NULL)",
			"('e', 'QUARANTINED', NULL, NULL, NULL, 7, 8, 1, 1, 'no such account 50x')",
		} {
			execute(t, s, "INSERT INTO acct VALUES "+row)
		}
		c, err := s.Claims(t.Context(), dibs.Table{
			Name: "acct", Key: "id", OneShot: true, Columns: dibs.Columns{LastError: "last_error"},
			Labels: dibs.Labels{Quarantined: "QUARANTINED"},
		})
		if err != nil {
			t.Fatal(err)
		}
		r, ok := c.(requeuer)
		if !ok {
			t.Fatal("the table cannot requeue")
		}
		ask := sqlstore.Requeue{Error: "50%", Confirm: 2, Act: dibs.AuditRecord{By: "ops", What: "requeue", Job: "sync", Why: "fixed"}}
		if n, err := r.Quarantined(t.Context(), ask); err != nil || n != 1 {
			t.Errorf("%d rows hold the error, %v, want 1", n, err)
		}
		if n, err := r.Requeue(t.Context(), ask); err == nil || n != 0 {
			t.Errorf("took %d rows though another number was confirmed, %v", n, err)
		}
		ask.Confirm = 1
		if n, err := r.Requeue(t.Context(), ask); err != nil || n != 1 {
			t.Errorf("took %d rows, %v", n, err)
		}
		if n := single[int](t, s, "SELECT count(*) FROM acct WHERE id = 'a' AND status = 'FAILED' AND claimable_at IS NOT NULL AND attempts = 0 AND expirations = 0 AND fence = 7"); n != 1 {
			t.Error("the row is not due again with its budget whole")
		}
		ask.Error, ask.Confirm = "", 2
		if n, err := r.Requeue(t.Context(), ask); err != nil || n != 2 {
			t.Errorf("took %d of the rest, %v", n, err)
		}
		if n := single[int](t, s, "SELECT count(*) FROM acct WHERE id IN ('c', 'd') AND attempts < 2 AND claimable_at IS NULL"); n != 2 {
			t.Error("a row that was not quarantined was touched")
		}
		if n := single[int](t, s, "SELECT count(*) FROM dibs_audit WHERE what = 'requeue' AND why = 'fixed'"); n != 2 {
			t.Errorf("%d acts on record, want 2", n)
		}
	})
}
