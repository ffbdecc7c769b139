package cli

import (
	"context"
	"database/sql"
	"io"
	"os"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

// Program is what a program brings to [Main].
type Program struct {
	// Name is how the program is called in texts. Default: dibs.
	Name string
	// Version is what the version command prints.
	Version string
	// Open opens the database. Required. It connects no further than it must and
	// migrates nothing. A Store that is an [io.Closer] is closed at the end.
	Open func(ctx context.Context, d Database) (Store, error)
	// Jobs are written in Go. The file's jobs come beside them; a name that both
	// have is refused.
	Jobs []dibs.Job
	// OpenSQLite opens a SQLite file, which is made if there is none, for the demo
	// to look at with statements of its own. Nil: there is no demo.
	OpenSQLite func(ctx context.Context, path string) (*sql.DB, error)
	// Env answers for environment variables. Default: os.LookupEnv.
	Env func(name string) (string, bool)
}

// Database says which database to open.
type Database struct {
	// Kind is sqlite, postgres or mysql.
	Kind string
	// DSN is what the usual driver of that kind takes: for SQLite the file's
	// path, for PostgreSQL the URL, for MySQL user:password@tcp(host)/name?….
	// It may hold a password.
	DSN string
	// Installation is the ID that the database must have; empty: any.
	Installation string
	// Create lets a missing SQLite file be made, readable by its owner alone.
	// Without it a missing file is an error that says so.
	Create bool
	// AllowLocal accepts a SQLite file on a network file system or in a
	// container's own layer.
	AllowLocal bool
	// Conns is how many connections are worth having.
	Conns int
}

// Store is what the commands need of a database: what a runner needs, and the
// administration of our own tables. The stores of this module have it.
type Store interface {
	dibs.Store
	// Migrate makes our tables or brings them up to date, and names what it
	// applied. Twice is a no-op.
	Migrate(ctx context.Context) (applied []string, err error)
	// PrintMigrations writes the same as a script.
	PrintMigrations(w io.Writer) error
	// CheckSchema answers with [dibs.ErrSchema] or [dibs.ErrForeign] when this
	// program may not use our tables as they are.
	CheckSchema(ctx context.Context) error
	// Installation is the name of this installation.
	Installation(ctx context.Context) (string, error)
	// Adopt makes a copied database an installation of its own.
	Adopt(ctx context.Context, by, why string) (installation string, err error)
	// PlanAdoption and ApplyAdoption make a user's table claimable.
	PlanAdoption(ctx context.Context, a sqlstore.Adoption) (*sqlstore.AdoptPlan, error)
	ApplyAdoption(ctx context.Context, p *sqlstore.AdoptPlan, report func(step int, rows int64)) error
	// Durability lists the settings by which the database may forget a commit.
	Durability(ctx context.Context) ([]string, error)
	// CheckServer and CheckTable look for what would go wrong. They change
	// nothing.
	CheckServer(ctx context.Context) ([]sqlstore.Finding, error)
	CheckTable(ctx context.Context, t dibs.Table, scope dibs.Scope) ([]sqlstore.Finding, error)
}

// env is the value of an environment variable, or "".
func (a *app) env(name string) string {
	value, _ := a.program.Env(name)
	return value
}

// withDefaults fills what was left out.
func (p Program) withDefaults() Program {
	if p.Name == "" {
		p.Name = "dibs"
	}
	if p.Version == "" {
		p.Version = "unknown"
	}
	if p.Env == nil {
		p.Env = os.LookupEnv
	}
	return p
}

// app is one invocation. It is used by one goroutine, except where said.
type app struct {
	program Program
	in      io.Reader
	out     *output
	log     io.Writer // standard error
	flags   globalFlags

	opened  opened
	closers []io.Closer
	conns   int // how many connections are worth having, if more than usual
}

// globalFlags are known to every command.
type globalFlags struct {
	db, config string
	allowLocal bool
}

// close gives back what was opened.
func (a *app) close() {
	for _, c := range a.closers {
		_ = c.Close() // at the end of the process there is nobody left to tell
	}
}
