// Package sqlite keeps everything in one SQLite file, which several processes
// may use at once.
//
// It is a dialect: statements, schema and a classifier of errors. It takes a
// *sql.DB and imports no driver; it must not know what its statements are used
// for. It may import the root package and internal/sqlstore.
//
// The *sql.DB has to open every connection with journal_mode WAL, synchronous
// FULL and a short busy_timeout; each driver spells that differently, so
// [Check] reads the settings back. On SQLite the host's clock is the database's,
// and gives milliseconds.
package sqlite

import (
	"database/sql"
	"embed"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

//go:embed query/*.sql schema/*.sql
var files embed.FS

// Config makes a Store.
type Config struct {
	// DB is the caller's pool; it needs room for two connections at least.
	DB *sql.DB
	// Installation is the identity that the database must have; empty: any.
	Installation string
}

// Store keeps claims, runs and history in a SQLite file. It is safe for
// concurrent use.
type Store struct {
	*sqlstore.Store
}

// New returns a store over db. It does not connect.
func New(db *sql.DB) *Store { return Open(Config{DB: db}) }

// Open returns a store as configured. It does not connect.
func Open(c Config) *Store {
	return &Store{sqlstore.New(sqlstore.Config{
		DB:           c.DB,
		Dialect:      Dialect(),
		Installation: c.Installation,
	})}
}

// Dialect describes SQLite to the executor.
func Dialect() *sqlstore.Dialect {
	return &sqlstore.Dialect{
		Name:             "sqlite",
		Statements:       sqlstore.FilesIn(files, "query"),
		Migrations:       sqlstore.FilesIn(files, "schema"),
		Quote:            quote,
		Placeholder:      func(n int) string { return "?" + strconv.Itoa(n) },
		Numbered:         true,
		Returning:        true,
		BeginImmediate:   "BEGIN IMMEDIATE",
		TransactionalDDL: true,
		Classify:         classify,
		BeforeMigrate:    switchToWAL,
		Identity:         identity,
		Columns:          columns{},
		Adopt:            adoption(),
	}
}

func quote(ident string) string { return `"` + strings.ReplaceAll(ident, `"`, `""`) + `"` }
