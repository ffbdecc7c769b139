// Package postgres keeps everything in PostgreSQL, 13 or later.
//
// It is a dialect: statements, schema and a classifier of errors. It takes a
// *sql.DB and imports no driver; it must not know what its statements are used
// for. It may import the root package and internal/sqlstore.
//
// Nothing here needs a session: no SET, no session lock, no temporary table, so
// that it works behind a pooler of transactions.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

//go:embed query/*.sql schema/*.sql
var files embed.FS

// Config makes a Store.
type Config struct {
	// DB is the caller's pool; it needs room for two connections at least.
	DB *sql.DB
	// Schema holds our tables; empty: the first one of the search path.
	Schema string
	// Skew is by how much the clocks of a cluster's nodes may differ; it is added
	// to every lease end.
	Skew time.Duration
	// Installation is the identity that the database must have; empty: any.
	Installation string
}

// Store keeps claims, runs and history in PostgreSQL. It is safe for concurrent
// use.
type Store struct {
	*sqlstore.Store
}

// New returns a store over db, with our tables in the first schema of the search
// path. It does not connect.
func New(db *sql.DB) *Store { return Open(Config{DB: db}) }

// Open returns a store as configured. It does not connect.
func Open(c Config) *Store {
	return &Store{sqlstore.New(sqlstore.Config{
		DB: c.DB, Dialect: Dialect(), Schema: c.Schema, Skew: c.Skew, Installation: c.Installation,
	})}
}

// Dialect describes PostgreSQL to the executor.
func Dialect() *sqlstore.Dialect {
	return &sqlstore.Dialect{
		Name:               "postgres",
		Statements:         sqlstore.FilesIn(files, "query"),
		Migrations:         sqlstore.FilesIn(files, "schema"),
		Quote:              func(ident string) string { return `"` + strings.ReplaceAll(ident, `"`, `""`) + `"` },
		Placeholder:        func(n int) string { return "$" + strconv.Itoa(n) },
		Numbered:           true,
		Returning:          true,
		TransactionalDDL:   true,
		Classify:           classify,
		Adopt:              adoption(),
		Identity:           identity,
		OneStatementSettle: true,
		OneStatementEnd:    true,
		Columns:            columns{},
	}
}

// identity is the cluster's own identifier and the database in it. A dump that
// was loaded elsewhere has another; a standby that was promoted has the same.
func identity(_ context.Context, _ sqlstore.Querier, meta map[string]string) (string, error) {
	return "postgres/" + meta["here"], nil
}
