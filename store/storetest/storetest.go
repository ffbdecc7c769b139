// Package storetest is the contract of a store as tests: what every promise of
// [dibs.Store] means, with crashes between any two statements and random
// histories against a small model.
//
// A store passes [Run], [Crashes], [LostAnswers] and [History], and the cases
// from the field that concern it. The suite sees a store through the interfaces
// of the root package alone, and stands beside it as the user's application
// does: with SQL of its own on the same database. It must not know which
// databases exist; what differs between them it is told in [SQL].
package storetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
)

// Fixture is one fresh database with our tables in it.
type Fixture struct {
	// Store works on DB, which has room for at least ten connections.
	Store dibs.Store
	DB    *sql.DB
	// Connector makes connections to the same database, see [Connector].
	Connector driver.Connector
	// Open returns a store on another pool to the same database.
	Open func(db *sql.DB) dibs.Store
}

// SQL is what the suite has to be told of a database.
type SQL struct {
	// Time is the type of a column for times with microseconds, Epoch the literal
	// of 1970 and Now the present in such a column.
	Time, Epoch, Now string
	// Bytes is the type of a text column that is compared byte for byte.
	Bytes string
	// Shift is an expression for a time moved by d.
	Shift func(expression string, d time.Duration) string
	// RowLocks is true where a writer locks rows and not the whole database.
	RowLocks bool
}

// Config makes a suite.
type Config struct {
	// Open makes a fresh database. It is called several times, from parallel
	// tests.
	Open func(t testing.TB) Fixture
	SQL  SQL
}

// Connector returns what makes the connections of db.
func Connector(db *sql.DB, dsn string) (driver.Connector, error) {
	if d, ok := db.Driver().(driver.DriverContext); ok {
		return d.OpenConnector(dsn)
	}
	return plainConnector{db.Driver(), dsn}, nil
}

type plainConnector struct {
	driver driver.Driver
	dsn    string
}

func (c plainConnector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c plainConnector) Driver() driver.Driver                        { return c.driver }

// check is one promise: a test with a table of its own.
type check struct {
	name string
	test func(b *bundle)
}

// Run checks every promise of the interfaces, in parallel subtests.
func Run(t *testing.T, c Config) {
	for _, group := range []struct {
		name   string
		checks []check
	}{
		{"claim", claimChecks()}, {"own", ownChecks()}, {"settle", settleChecks()}, {"renew", renewChecks()},
		{"sweep", sweepChecks()}, {"two", twoChecks()}, {"runs", runChecks()}, {"keys", keyChecks()},
		{"refused", refuseChecks()},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			c.each(t, group.checks)
		})
	}
}

// each runs checks on one database, each with tables of its own.
func (c Config) each(t *testing.T, checks []check) {
	t.Helper()
	f := c.Open(t)
	var tables atomic.Int64
	for _, one := range checks {
		t.Run(one.name, func(t *testing.T) {
			one.test(&bundle{T: t, f: f, sql: c.SQL, store: f.Store, tables: &tables})
		})
	}
}

// one runs a single check on a database of its own.
func (c Config) one(t *testing.T, test func(b *bundle)) {
	t.Helper()
	t.Parallel()
	test(c.bundle(t))
}

func (c Config) bundle(t *testing.T) *bundle {
	t.Helper()
	f := c.Open(t)
	return &bundle{T: t, f: f, sql: c.SQL, store: f.Store, tables: new(atomic.Int64)}
}

// bundle is what one check works with: a store, its database, and one table.
type bundle struct {
	*testing.T
	f      Fixture
	sql    SQL
	store  dibs.Store
	tables *atomic.Int64
	tokens atomic.Int64
	table  string
	claims dibs.Claims
}

// wait bounds everything that a test waits for.
const wait = 60 * time.Second

// lease is longer than any test: leases end by moving them into the past.
const lease = time.Hour

// past is how far a lease is moved to be over.
const past = -2 * time.Hour

// must fails the test on an error.
func (b *bundle) must(what string, err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// exec runs a statement as the application would.
func (b *bundle) exec(statement string) int64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), wait)
	defer cancel()
	result, err := b.f.DB.ExecContext(ctx, statement)
	b.must(statement, err)
	n, err := result.RowsAffected()
	b.must(statement, err)
	return n
}

// number reads one number.
func (b *bundle) number(query string) (n int64) {
	b.Helper()
	b.must(query, b.f.DB.QueryRowContext(b.Context(), query).Scan(&n))
	return n
}

// literals are the texts as a list of SQL literals.
func literals(texts ...string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strings.Join(quoted, ", ")
}

// full makes a full table with the rows 1 to n and opens it.
func (b *bundle) full(n int, change ...func(*dibs.Table)) {
	b.Helper()
	b.table = fmt.Sprintf("items%d", b.tables.Add(1))
	b.exec(fmt.Sprintf(`CREATE TABLE %s (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(50), status VARCHAR(20) DEFAULT 'IDLE' NOT NULL,
		started_at %[2]s, claimable_at %[2]s DEFAULT %[3]s, claim_token VARCHAR(96), fence BIGINT, attempts INT, expirations INT,
		cycle BIGINT, last_success_at %[2]s, last_error VARCHAR(40) CHECK (last_error <> 'poison'), %[4]s)`, b.table, b.sql.Time, b.sql.Epoch, refusing))
	b.exec(fmt.Sprintf("CREATE INDEX %s_due ON %[1]s (claimable_at, id)", b.table))
	b.insert(1, n)
	b.open(dibs.Table{Name: b.table, Key: "id", Select: []string{"name"},
		Columns: dibs.Columns{LastSuccessAt: "last_success_at", LastError: "last_error"}}, change...)
}

// two makes a two-column table with the rows 1 to n and opens it.
func (b *bundle) two(n int, change ...func(*dibs.Table)) {
	b.Helper()
	b.table = fmt.Sprintf("items%d", b.tables.Add(1))
	b.exec(fmt.Sprintf("CREATE TABLE %s (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(50), status VARCHAR(20) DEFAULT 'IDLE' NOT NULL, started_at %s, %s)",
		b.table, b.sql.Time, refusing))
	b.exec(fmt.Sprintf("CREATE INDEX %s_due ON %[1]s (status, started_at)", b.table))
	b.insert(1, n)
	b.open(dibs.Table{Name: b.table, Key: "id", TwoColumn: true}, change...)
}

func (b *bundle) open(table dibs.Table, change ...func(*dibs.Table)) {
	b.Helper()
	for _, f := range change {
		f(&table)
	}
	var err error
	b.claims, err = b.store.Claims(b.Context(), table)
	b.must("open table "+b.table, err)
}

func (b *bundle) insert(from, to int) {
	b.Helper()
	for from <= to {
		var rows []string
		for ; from <= to && len(rows) < 500; from++ {
			rows = append(rows, fmt.Sprintf("(%d, 'n%d')", from, from))
		}
		b.exec("INSERT INTO " + b.table + " (id, name) VALUES " + strings.Join(rows, ", "))
	}
}

// set changes rows as the application or a person would.
func (b *bundle) set(change, where string) {
	b.Helper()
	if n := b.exec("UPDATE " + b.table + " SET " + change + " WHERE " + where); n == 0 {
		b.Fatalf("no row where %s", where)
	}
}

// expire moves the leases of rows into the past.
func (b *bundle) expire(where string) {
	b.Helper()
	change := "started_at = " + b.sql.Shift("started_at", past)
	if !b.claims.TwoColumn() {
		change += ", claimable_at = " + b.sql.Shift("claimable_at", past)
	}
	b.set(change, where)
}

// expireRun moves a run's lease into the past.
func (b *bundle) expireRun(id string) {
	b.Helper()
	b.exec("UPDATE dibs_runs SET lease_end = " + b.sql.Shift("lease_end", past) + " WHERE id = " + literals(id))
}
