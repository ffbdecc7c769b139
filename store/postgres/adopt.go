package postgres

import "github.com/dibs-run/dibs/internal/sqlstore"

// adoption makes a table claimable while it is in use.
func adoption() *sqlstore.AdoptSQL {
	return &sqlstore.AdoptSQL{
		Types: map[string]string{
			"started_at": "timestamptz", "claimable_at": "timestamptz", "claim_token": "text",
			"fence": "bigint NOT NULL DEFAULT 0", "attempts": "integer NOT NULL DEFAULT 0",
			"expirations": "integer NOT NULL DEFAULT 0", "cycle": "bigint", "last_error": "text",
		},
		Status:         "text NOT NULL DEFAULT {label}",
		Due:            "timestamptz '1970-01-01 00:00:00+00'",
		Later:          "clock_timestamp() + interval '{lease} seconds'",
		AddColumn:      "ADD COLUMN {column} {type}",
		AddColumns:     "ALTER TABLE {table}\n  {columns}",
		Batch:          "UPDATE {table} SET {set}\nWHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {which} LIMIT {limit} FOR UPDATE SKIP LOCKED))",
		Default:        "ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {due}",
		Index:          "CREATE INDEX CONCURRENTLY {index} ON {table} ({columns}){condition}",
		Partial:        true,
		DropIndex:      "DROP INDEX CONCURRENTLY {schema}.{index}",
		PatienceInside: "SET LOCAL lock_timeout = '5s'",
		AddLocks:       "the whole table (ACCESS EXCLUSIVE), for an instant: no row is rewritten; gives up after 5s of waiting and tries again",
		IndexLocks:     "nothing that reads or writes rows (CONCURRENTLY); waits for older transactions to end",
		DefaultLocks:   "the whole table (ACCESS EXCLUSIVE), for an instant",
	}
}
