package sqlstore_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

// checkTable makes a full table with some due rows.
func checkTable(t testing.TB, s *sqlstore.Store) {
	t.Helper()
	stamp, due := "TIMESTAMPTZ", "DEFAULT 'epoch'"
	switch s.Dialect().Name {
	case "sqlite":
		stamp, due = "INTEGER", "DEFAULT 0"
	case "mysql":
		stamp, due = "DATETIME(6)", "DEFAULT '1970-01-02 00:00:00'"
	}
	execute(t, s, "CREATE TABLE acct (id VARCHAR(40) NOT NULL PRIMARY KEY, note TEXT, status VARCHAR(40) DEFAULT 'IDLE', started_at "+stamp+
		" NULL, claimable_at "+stamp+" NULL "+due+", claim_token VARCHAR(96), fence BIGINT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0,"+
		" expirations INT NOT NULL DEFAULT 0, cycle BIGINT)")
	execute(t, s, "INSERT INTO acct (id) VALUES ('a'), ('b'), ('c')")
}

var checkedTable = dibs.Table{Name: "acct", Key: "id", Every: dibs.Always}

// find runs a check and lists the findings of a code, or all that are not fine.
func find(t testing.TB, s *sqlstore.Store, table dibs.Table, code string) []sqlstore.Finding {
	t.Helper()
	all, err := s.CheckTable(t.Context(), table, dibs.Scope{StartedBefore: time.Now().Add(time.Hour), Lease: time.Minute, Backoff: time.Second})
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	var out []sqlstore.Finding
	for _, f := range all {
		if f.Code == code || code == "" && f.Severity != sqlstore.Fine {
			out = append(out, f)
		}
	}
	return out
}

// wantFinding demands one finding of a severity whose text holds a word.
func wantFinding(t testing.TB, s *sqlstore.Store, table dibs.Table, code string, severity sqlstore.Severity, word string) {
	t.Helper()
	for _, f := range find(t, s, table, code) {
		if f.Severity == severity && strings.Contains(f.Problem+" "+f.Fix, word) {
			return
		}
	}
	t.Errorf("no %s %s with %q: %+v", severity, code, word, find(t, s, table, ""))
}

// unchanged demands that the rows are as they were made.
func unchanged(t testing.TB, s *sqlstore.Store) {
	t.Helper()
	if n := single[int](t, s, "SELECT count(*) FROM acct WHERE status = 'IDLE' AND fence = 0 AND claim_token IS NULL AND started_at IS NULL AND cycle IS NULL"); n != 3 {
		t.Errorf("%d of 3 rows are as they were", n)
	}
	if n := single[int](t, s, "SELECT count(*) FROM dibs_outcomes"); n != 0 {
		t.Errorf("%d outcomes were left behind", n)
	}
}

func TestCheckOfAGoodTable(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		checkTable(t, s)
		execute(t, s, "CREATE INDEX acct_due ON acct (claimable_at, id)")
		if bad := find(t, s, checkedTable, ""); len(bad) > 0 {
			t.Errorf("a good table: %+v", bad)
		}
		wantFinding(t, s, checkedTable, "claim", sqlstore.Fine, "3 due rows")
		unchanged(t, s)
		server, err := s.CheckServer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range server {
			if f.Severity == sqlstore.Wrong {
				t.Errorf("a good server: %+v", f)
			}
		}
	})
}

func TestCheckOfATwoColumnTable(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		checkTable(t, s)
		two := checkedTable
		two.TwoColumn = true
		wantFinding(t, s, two, "two_columns", sqlstore.Noted, "status and started_at")
		wantFinding(t, s, two, "claim", sqlstore.Fine, "3 due rows")
		wantFinding(t, s, two, "index", sqlstore.Noted, "status, started_at")
		unchanged(t, s)
	})
}

func TestCheckFindsOrphanedStates(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		checkTable(t, s)
		execute(t, s, "INSERT INTO acct (id, status, claimable_at) VALUES ('no-lease', 'IN_PROGRESS', NULL), ('no-due', 'IDLE', NULL)")
		execute(t, s, "INSERT INTO acct (id, status) VALUES ('odd', 'Running'), ('none', NULL)")
		execute(t, s, "INSERT INTO acct (id, claim_token) VALUES ('left', 'run_x/1')")
		for code, word := range map[string]string{"no_lease": "no-lease", "no_due": "no-due", "unknown_label": "\"Running\"", "leftover": "left"} {
			wantFinding(t, s, checkedTable, code, sqlstore.Doubtful, word)
		}
	})
}

// onServer is onAll for one kind.
func onServer(t *testing.T, kind string, test func(t *testing.T, s *sqlstore.Store, address string)) {
	t.Helper()
	testdb.All(t, func(t *testing.T, name, address string) {
		if name != kind {
			return
		}
		s := open(t, kind, testdb.Open(t, address), "")
		migrate(t, s)
		checkTable(t, s)
		test(t, s, address)
	})
}

func TestCheckFindsUpdatesThatATriggerCancelsOrRewrites(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		for name, body := range map[string]string{
			"cancels":  "IF NEW.status = 'IN_PROGRESS' THEN RETURN NULL; END IF; RETURN NEW;",
			"rewrites": "NEW.claimable_at := NEW.claimable_at + interval '1 day'; RETURN NEW;",
			"fence":    "NEW.fence := OLD.fence; RETURN NEW;",
			"settle":   "IF NEW.status = 'IDLE' THEN RETURN NULL; END IF; RETURN NEW;",
		} {
			t.Run(name, func(t *testing.T) {
				onServer(t, "postgres", func(t *testing.T, s *sqlstore.Store, _ string) {
					execute(t, s, "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+body+" END $$")
					execute(t, s, "CREATE TRIGGER meddler BEFORE UPDATE ON acct FOR EACH ROW EXECUTE FUNCTION meddle()")
					wantFinding(t, s, checkedTable, "swallowed", sqlstore.Wrong, "meddler")
					unchanged(t, s)
				})
			})
		}
	})
	t.Run("mysql", func(t *testing.T) {
		onServer(t, "mysql", func(t *testing.T, s *sqlstore.Store, _ string) {
			execute(t, s, "CREATE TRIGGER meddler BEFORE UPDATE ON acct FOR EACH ROW SET NEW.status = OLD.status")
			wantFinding(t, s, checkedTable, "swallowed", sqlstore.Wrong, "meddler")
			unchanged(t, s)
			execute(t, s, "DROP TRIGGER meddler")
			execute(t, s, "CREATE TRIGGER refuser BEFORE UPDATE ON acct FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'closed on Sundays'")
			wantFinding(t, s, checkedTable, "claim_refused", sqlstore.Wrong, "closed on Sundays")
			unchanged(t, s)
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		onServer(t, "sqlite", func(t *testing.T, s *sqlstore.Store, _ string) {
			execute(t, s, "CREATE TRIGGER meddler BEFORE UPDATE ON acct WHEN NEW.status = 'IN_PROGRESS' BEGIN SELECT RAISE(IGNORE); END")
			wantFinding(t, s, checkedTable, "swallowed", sqlstore.Wrong, "meddler")
			unchanged(t, s)
		})
	})
}

func TestCheckFindsRowSecurity(t *testing.T) {
	onServer(t, "postgres", func(t *testing.T, s *sqlstore.Store, address string) {
		role, as := login(t, s, address)
		execute(t, s, "GRANT SELECT, UPDATE ON acct TO "+role)
		execute(t, s, "ALTER TABLE acct ENABLE ROW LEVEL SECURITY")
		execute(t, s, "CREATE POLICY firsts ON acct USING (id = 'a')")
		wantFinding(t, as, checkedTable, "row_security", sqlstore.Wrong, role)
		execute(t, s, "DROP POLICY firsts ON acct")
		execute(t, s, "CREATE POLICY readers ON acct FOR SELECT USING (true)")
		execute(t, s, "CREATE POLICY writers ON acct FOR UPDATE USING (id = 'a')")
		wantFinding(t, as, checkedTable, "row_security", sqlstore.Wrong, role)
		wantFinding(t, as, checkedTable, "swallowed", sqlstore.Wrong, "of 3 due rows a claim gets 1")
		execute(t, s, "DROP POLICY writers ON acct")
		execute(t, s, "CREATE POLICY everybody ON acct FOR UPDATE USING (true)")
		wantFinding(t, as, checkedTable, "row_security", sqlstore.Noted, role)
		wantFinding(t, as, checkedTable, "claim", sqlstore.Fine, "3 due rows")
		unchanged(t, s)
	})
}

func TestCheckFindsMissingPrivileges(t *testing.T) {
	for _, kind := range []string{"postgres", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			onServer(t, kind, func(t *testing.T, s *sqlstore.Store, address string) {
				role, as := login(t, s, address)
				execute(t, s, "REVOKE INSERT ON dibs_runs FROM "+role)
				server, err := as.CheckServer(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				refused := 0
				for _, f := range server {
					if f.Code == "privilege" && f.Severity == sqlstore.Wrong {
						refused++
						if !strings.Contains(f.Subject, "dibs_runs") {
							t.Errorf("the wrong table: %+v", f)
						}
					}
				}
				if refused != 1 {
					t.Errorf("%d refusals: %+v", refused, server)
				}
				execute(t, s, "GRANT SELECT, UPDATE (status, started_at, claimable_at, claim_token, fence, expirations, attempts) ON acct TO "+role)
				wantFinding(t, as, checkedTable, "privilege", sqlstore.Wrong, "column cycle")
				if n := len(find(t, as, checkedTable, "privilege")); n != 1 {
					t.Errorf("%d columns are refused, want 1", n)
				}
				execute(t, s, "GRANT UPDATE (cycle) ON acct TO "+role)
				wantFinding(t, as, checkedTable, "claim", sqlstore.Fine, "3 due rows")
				unchanged(t, s)
			})
		})
	}
}

// login makes a role that may use our tables and nothing else, and a store that
// uses it.
func login(t *testing.T, s *sqlstore.Store, address string) (role string, as *sqlstore.Store) {
	t.Helper()
	id, err := dibs.NewRunID()
	if err != nil {
		t.Fatal(err)
	}
	kind, name := s.Dialect().Name, "u"+id[len(id)-12:]
	role = name
	const password = "Pw-0123456789"
	own := []string{"dibs_meta", "dibs_jobs", "dibs_definitions", "dibs_locks", "dibs_triggers", "dibs_runs", "dibs_outcomes", "dibs_audit"}
	if kind == "mysql" {
		role = name + "@'%'"
		execute(t, s, "CREATE USER "+role+" IDENTIFIED BY '"+password+"'")
	} else {
		execute(t, s, "CREATE ROLE "+role+" LOGIN PASSWORD '"+password+"'")
	}
	for _, table := range own {
		execute(t, s, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+table+" TO "+role)
	}
	db := testdb.Open(t, withUser(t, address, name, password))
	t.Cleanup(func() {
		_ = db.Close()
		if kind == "postgres" {
			_, _ = s.DB().Exec("DROP OWNED BY " + role)
		}
		if _, err := s.DB().Exec(map[string]string{"mysql": "DROP USER ", "postgres": "DROP ROLE "}[kind] + role); err != nil {
			t.Errorf("drop the role: %v", err)
		}
	})
	return role, open(t, kind, db, "")
}

func TestCheckOfWhatCannotBeClaimed(t *testing.T) {
	onServer(t, "mysql", func(t *testing.T, s *sqlstore.Store, _ string) {
		execute(t, s, "CREATE TABLE old ENGINE=MyISAM AS SELECT * FROM acct")
		wantFinding(t, s, dibs.Table{Name: "old", Key: "id", Every: dibs.Always}, "mapping", sqlstore.Wrong, "MyISAM")
		execute(t, s, "ALTER TABLE acct ADD touched DATETIME(6) NULL ON UPDATE CURRENT_TIMESTAMP(6)")
		wantFinding(t, s, checkedTable, "on_update", sqlstore.Noted, "touched")
		execute(t, s, "ALTER TABLE acct MODIFY started_at DATETIME(6) NULL ON UPDATE CURRENT_TIMESTAMP(6)")
		wantFinding(t, s, checkedTable, "mapping", sqlstore.Wrong, "ON UPDATE")
	})
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		checkTable(t, s)
		execute(t, s, "CREATE VIEW seen AS SELECT * FROM acct")
		wantFinding(t, s, dibs.Table{Name: "seen", Key: "id", Every: dibs.Always}, "mapping", sqlstore.Wrong, "view")
	})
	onServer(t, "postgres", func(t *testing.T, s *sqlstore.Store, _ string) {
		execute(t, s, "ALTER TABLE acct SET UNLOGGED")
		wantFinding(t, s, checkedTable, "unlogged", sqlstore.Wrong, "unlogged")
		execute(t, s, "UPDATE acct SET claimable_at = 'infinity' WHERE id = 'a'")
		wantFinding(t, s, checkedTable, "times", sqlstore.Doubtful, "infinity")
		execute(t, s, "CREATE RULE nothing AS ON UPDATE TO acct DO INSTEAD NOTHING")
		wantFinding(t, s, checkedTable, "rule", sqlstore.Wrong, "nothing")
	})
}

func TestCaseB04CheckFindsMixedTimes(t *testing.T) {
	onServer(t, "sqlite", func(t *testing.T, s *sqlstore.Store, _ string) {
		execute(t, s, "UPDATE acct SET claimable_at = 1795959600000000 WHERE id <> 'a'")
		if bad := find(t, s, checkedTable, "times"); len(bad) > 0 {
			t.Errorf("one unit: %+v", bad)
		}
		execute(t, s, "UPDATE acct SET claimable_at = 1795959600 WHERE id = 'a'")
		wantFinding(t, s, checkedTable, "times", sqlstore.Wrong, "claimable_at mixes forms of time: 2 like 1795959600000000, 1 like 1795959600")
	})
	onServer(t, "sqlite", func(t *testing.T, s *sqlstore.Store, _ string) {
		execute(t, s, "DROP TABLE acct")
		execute(t, s, "CREATE TABLE acct (id TEXT PRIMARY KEY, status TEXT, started_at TEXT)")
		execute(t, s, "INSERT INTO acct VALUES ('a', 'IDLE', '2026-11-29 23:59:59'), ('b', 'IDLE', '2026-11-29T00:00:01Z'), ('c', 'IDLE', NULL)")
		wantFinding(t, s, checkedTable, "times", sqlstore.Doubtful, "1 like 2026-11-29 23:59:59")
		execute(t, s, "UPDATE acct SET started_at = '1795959600' WHERE id = 'c'")
		wantFinding(t, s, checkedTable, "times", sqlstore.Wrong, "numbers as text")
	})
}

// withUser is the address with other credentials.
func withUser(t *testing.T, address, name, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}

func TestCaseB60CheckQuotesNames(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		q := s.Dialect().Quote
		stamp := map[string]string{"sqlite": "INTEGER", "postgres": "TIMESTAMPTZ", "mysql": "DATETIME(6)"}[s.Dialect().Name]
		execute(t, s, "CREATE TABLE "+q("My-Or.der")+" ("+q("User")+" VARCHAR(40) NOT NULL PRIMARY KEY, "+q("order")+" VARCHAR(20) NOT NULL DEFAULT 'IDLE', "+q("it's")+" "+stamp+" NULL)")
		execute(t, s, "INSERT INTO "+q("My-Or.der")+" ("+q("User")+") VALUES ('a')")
		odd := dibs.Table{Name: "My-Or.der", Key: "User", Every: dibs.Always, Columns: dibs.Columns{Status: "order", StartedAt: "it's"}}
		wantFinding(t, s, odd, "claim", sqlstore.Fine, "1 due row")
		wantFinding(t, s, odd, "index", sqlstore.Noted, "order, it's")
	})
}

func TestCheckTellsLockedRowsFromSwallowedUpdates(t *testing.T) {
	for _, kind := range []string{"postgres", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			onServer(t, kind, func(t *testing.T, s *sqlstore.Store, _ string) {
				tx, err := s.DB().BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback() }()
				if _, err := tx.ExecContext(t.Context(), "UPDATE acct SET note = 'mine' WHERE id = 'b'"); err != nil {
					t.Fatal(err)
				}
				wantFinding(t, s, checkedTable, "locked", sqlstore.Noted, "of 3 due rows 1 locked")
			})
		})
	}
}
