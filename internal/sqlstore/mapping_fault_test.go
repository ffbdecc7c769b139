package sqlstore_test

import (
	"errors"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

// A program that embeds dibs and forgot to migrate is told so.
func TestRegisterWithoutOurTables(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		s := open(t, kind, testdb.Open(t, url), "")
		err := s.Register(t.Context(), []dibs.JobRecord{{Name: "sync", Hash: "h", Text: "{}"}})
		if !errors.Is(err, dibs.ErrSchema) {
			t.Errorf("error %v, want one that says that our tables are not there", err)
		}
	})
}

// Labels that fit no row at all are a wrong mapping, not a few odd rows.
func TestCheckRefusesLabelsThatFitNoRow(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		checkTable(t, s)
		execute(t, s, "UPDATE acct SET status = 'READY' WHERE id <> 'a'")
		wantFinding(t, s, checkedTable, "unknown_label", sqlstore.Doubtful, "READY")
		execute(t, s, "UPDATE acct SET status = 'READY'")
		wantFinding(t, s, checkedTable, "unknown_label", sqlstore.Wrong, "READY")
	})
}
