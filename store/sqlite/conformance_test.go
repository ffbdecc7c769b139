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

func TestStatementsOfABatch(t *testing.T) { storetest.CaseStatements(t, suite(), 7) }

func TestRandomHistory(t *testing.T) { storetest.History(t, suite()) }

func TestCaseB02RecoveryAfterTheFact(t *testing.T)   { storetest.CaseB02(t, suite()) }
func TestCaseB08LeaseAfterTheWait(t *testing.T)      { storetest.CaseB08(t, suite()) }
func TestCaseB09FinishedAndLost(t *testing.T)        { storetest.CaseB09(t, suite()) }
func TestCaseB10DelayedRenewal(t *testing.T)         { storetest.CaseB10(t, suite()) }
func TestCaseB24NoLeaseToExpire(t *testing.T)        { storetest.CaseB24(t, suite()) }
func TestCaseB26OneUnreadableRow(t *testing.T)       { storetest.CaseB26(t, suite()) }
func TestCaseB30FailingRowsAtTheHead(t *testing.T)   { storetest.CaseB30(t, suite()) }
func TestCaseB33RestartedUnderItsName(t *testing.T)  { storetest.CaseB33(t, suite()) }
func TestCaseB35CrashBeforeTheStart(t *testing.T)    { storetest.CaseB35(t, suite()) }
func TestCaseB58NamesThatLookEqual(t *testing.T)     { storetest.CaseB58(t, suite()) }
func TestCaseB66PollingAnEmptyTable(t *testing.T)    { storetest.CaseB66(t, suite()) }
func TestCaseB67BeatsAgainstClaims(t *testing.T)     { storetest.CaseB67(t, suite()) }
func TestCaseB70LockWithoutAConnection(t *testing.T) { storetest.CaseB70(t, suite()) }
