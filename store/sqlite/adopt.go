package sqlite

import "github.com/dibs-run/dibs/internal/sqlstore"

// adoption makes a table claimable in one transaction: a column with a default
// costs nothing to add, and whoever writes waits anyway.
func adoption() *sqlstore.AdoptSQL {
	return &sqlstore.AdoptSQL{
		Types: map[string]string{
			"started_at": "INTEGER", "claimable_at": "INTEGER", "claim_token": "TEXT",
			"fence": "INTEGER NOT NULL DEFAULT 0", "attempts": "INTEGER NOT NULL DEFAULT 0",
			"expirations": "INTEGER NOT NULL DEFAULT 0", "cycle": "INTEGER", "last_error": "TEXT",
		},
		Status:     "TEXT NOT NULL DEFAULT {label}",
		Due:        "0",
		Later:      "(CAST(unixepoch('now') AS INTEGER) + {lease}) * 1000000",
		AddColumn:  "ADD COLUMN {column} {type}",
		AddColumns: "ALTER TABLE {table} {columns}",
		OneByOne:   true,
		AtOnce:     true,
		Index:      "CREATE INDEX {schema}.{index} ON {name} ({columns}){condition}",
		Partial:    true,
		AddLocks:   "the file, for writers, until all steps are done (readers go on); no row is rewritten",
		IndexLocks: "the same transaction",
	}
}
