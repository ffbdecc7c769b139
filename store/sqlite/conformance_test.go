package sqlite_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/store/sqlite"
	"github.com/dibs-run/dibs/store/storetest"
)

func suite() storetest.Config {
	return storetest.Config{
		Open: func(t testing.TB) storetest.Fixture {
			address := testdb.SQLite(t)
			db := testdb.Open(t, address)
			_, dsn, err := testdb.DSN(address)
			if err != nil {
				t.Fatal(err)
			}
			s := sqlite.New(db)
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			connector, err := storetest.Connector(db, dsn)
			if err != nil {
				t.Fatal(err)
			}
			return storetest.Fixture{Store: s, DB: db, Connector: connector,
				Open: func(db *sql.DB) dibs.Store { return sqlite.New(db) }}
		},
		SQL: storetest.SQL{
			Time: "INTEGER", Epoch: "0", Bytes: "TEXT",
			Now:   "(cast(unixepoch('subsec') * 1000 AS INTEGER) * 1000)",
			Shift: func(e string, d time.Duration) string { return fmt.Sprintf("(%s + %d)", e, d.Microseconds()) },
		},
	}
}

func TestConformance(t *testing.T) { storetest.Run(t, suite()) }

func TestCrashesBetweenStatements(t *testing.T) { storetest.Crashes(t, suite()) }

func TestCaseB12CommitWithoutAnswer(t *testing.T) { storetest.CaseB12(t, suite()) }
