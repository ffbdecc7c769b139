package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/internal/testdb/server"
)

// forgetful are databases that may forget a commit that they have answered.
func forgetful(t *testing.T, kind string) (s *sqlstore.Store, setting string) {
	t.Helper()
	switch kind {
	case "postgres":
		address := testdb.Postgres(t)
		mark := "?"
		if strings.Contains(address, "?") {
			mark = "&"
		}
		return open(t, kind, testdb.Open(t, address+mark+"synchronous_commit=off"), ""), "synchronous_commit"
	case "mysql":
		own := testdb.StartMySQL(t, server.Config{Settings: map[string]string{"innodb_flush_log_at_trx_commit": "2"}})
		return open(t, kind, testdb.Open(t, testdb.MySQLDatabase(t, own)), ""), "innodb_flush_log_at_trx_commit"
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return open(t, kind, db, ""), "synchronous"
}

// A commit that can be forgotten is a fence that is issued twice: refused, unless
// allowed by its name.
func TestForgetfulDatabasesAreRefused(t *testing.T) {
	for _, kind := range []string{"sqlite", "postgres", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, setting := forgetful(t, kind)
			migrate(t, s)
			found, err := s.CheckServer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			severity := func() (got sqlstore.Severity) {
				for _, f := range found {
					if f.Subject == "setting "+setting {
						got = f.Severity
					}
				}
				return got
			}
			if got := severity(); got != sqlstore.Wrong {
				t.Errorf("%s is %q: %+v", setting, got, found)
			}
			sqlstore.AllowSettings(found, []string{"another", setting})
			if got := severity(); got != sqlstore.Noted {
				t.Errorf("%s is %q although it is allowed", setting, got)
			}
			faults, err := s.Durability(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			refused := sqlstore.RefuseForgetful(faults, nil)
			if len(refused) != 1 || !strings.Contains(refused[0].Error(), "--allow "+setting) {
				t.Errorf("refused %v", refused)
			}
			if refused := sqlstore.RefuseForgetful(faults, []string{setting}); len(refused) != 0 {
				t.Errorf("refused %v although it is allowed", refused)
			}
		})
	}
}
