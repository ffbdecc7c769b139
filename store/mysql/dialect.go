// Package mysql keeps everything in MariaDB, 10.6 or later, or MySQL, 8.0.16 or
// later.
//
// It is a dialect: statements, schema and a classifier of errors. It takes a
// *sql.DB and imports no driver; it must not know what its statements are used
// for. It may import the root package and internal/sqlstore.
//
// The *sql.DB has to count the rows that an UPDATE found instead of those that
// it changed, or a guarded write that changes nothing looks refused; in the
// usual driver that is clientFoundRows=true, which [Check] verifies. Times are
// UTC whatever the session's zone is.
package mysql

import (
	"database/sql"
	"embed"
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
	// Database holds our tables; empty: the connection's own.
	Database string
	// Skew is by how much the clocks of a cluster's nodes may differ; it is added
	// to every lease end.
	Skew time.Duration
	// Installation is the identity that the database must have; empty: any.
	Installation string
}

// Store keeps claims, runs and history in MariaDB or MySQL. It is safe for
// concurrent use.
type Store struct {
	*sqlstore.Store
}

// New returns a store over db, with our tables in the connection's own database.
// It does not connect.
func New(db *sql.DB) *Store { return Open(Config{DB: db}) }

// Open returns a store as configured. It does not connect.
func Open(c Config) *Store {
	return &Store{sqlstore.New(sqlstore.Config{
		DB: c.DB, Dialect: Dialect(), Schema: c.Database, Skew: c.Skew, Installation: c.Installation,
	})}
}

// Dialect describes MariaDB and MySQL to the executor.
func Dialect() *sqlstore.Dialect {
	return &sqlstore.Dialect{
		Name:        "mysql",
		Statements:  sqlstore.FilesIn(files, "query"),
		Migrations:  sqlstore.FilesIn(files, "schema"),
		Quote:       func(ident string) string { return "`" + strings.ReplaceAll(ident, "`", "``") + "`" },
		Placeholder: func(int) string { return "?" },
		Classify:    classify,
		Adopt:       adoption(),
		Identity:    identity,
		Columns:     columns{},
	}
}
