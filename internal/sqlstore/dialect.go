package sqlstore

import (
	"context"
	"database/sql"
)

// Class is what an error means for the transaction that met it.
type Class int

// The classes of errors.
const (
	// ClassOther is not known to be worth repeating.
	ClassOther Class = iota
	// ClassRetry is a deadlock, a serialization or certification failure, a lock
	// time-out or a busy database: nothing was written, repeat the transaction.
	ClassRetry
	// ClassConnection is a lost or unusable connection. Before COMMIT nothing was
	// written; during COMMIT nobody knows.
	ClassConnection
	// ClassData is a value that the database refuses: repeat item by item.
	ClassData
	// ClassReadOnly is a database that takes no writes now, such as a standby
	// after a failover: repeat on a new connection.
	ClassReadOnly
	// ClassUnique is a violated unique constraint.
	ClassUnique
	// ClassMissing is an unknown table or column.
	ClassMissing
	// ClassDenied is a missing privilege.
	ClassDenied
	// ClassUnavailable is a database that cannot be used and will not be usable
	// by waiting, such as a file that cannot be opened or a wrong password.
	ClassUnavailable
)

// Dialect describes a database to the executor. It is data, made once per store.
type Dialect struct {
	// Name is "postgres", "sqlite" or "mysql".
	Name string
	// Statements are the files of query/.
	Statements Files
	// Migrations are the files of schema/, by name "0001_what". "0000_meta" makes
	// the table that remembers which others were applied. Each may hold several
	// statements; every one must do nothing when it was done before.
	Migrations Files
	// TransactionalDDL is true when schema changes can be rolled back. Where it is
	// false, migrations run on a second connection while the first one holds a
	// row of dibs_meta, and therefore must never alter that table.
	TransactionalDDL bool
	// BeforeMigrate prepares the database outside of any transaction; nil:
	// nothing to prepare.
	BeforeMigrate func(context.Context, *sql.DB) error
	// Identity names the server and database that the tables are really on, so
	// that a restored copy is noticed. meta holds the rows of meta_read.
	Identity func(ctx context.Context, q Querier, meta map[string]string) (string, error)
	// Quote quotes one identifier part.
	Quote func(ident string) string
	// Placeholder writes the n-th bind, counting from 1.
	Placeholder func(n int) string
	// Numbered is true when a placeholder carries its number, so that a repeated
	// name is bound once.
	Numbered bool
	// Returning is true when UPDATE can return rows. Where it is false each such
	// statement NAME has a companion NAME_write: NAME locks and reads, NAME_write
	// updates by key, both in one transaction.
	Returning bool
	// BeginImmediate is the text that starts a writing transaction where the
	// driver's own BEGIN would not do; empty: the driver's own, READ COMMITTED.
	BeginImmediate string
	// Classify tells what an error means.
	Classify func(error) Class
	// OneStatementSettle is true when settle also writes the outcome rows, and
	// takes the fields that all items share as :same instead of in each item.
	OneStatementSettle bool
	// OneStatementEnd is true when run_end also frees the run's lock, :lock.
	OneStatementEnd bool
	// Columns writes the SQL around the columns of users' own tables.
	Columns ColumnSQL
	// Adopt makes a user's table claimable.
	Adopt *AdoptSQL
}

// Querier reads: a *sql.DB, *sql.Conn or *sql.Tx.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
