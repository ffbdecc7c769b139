package mysql

import "github.com/dibs-run/dibs/internal/sqlstore"

// adoption makes a table claimable while it is in use.
func adoption() *sqlstore.AdoptSQL {
	return &sqlstore.AdoptSQL{
		Types: map[string]string{
			"started_at": "DATETIME(6) NULL", "claimable_at": "DATETIME(6) NULL",
			"claim_token": "VARCHAR(96) CHARACTER SET ascii COLLATE ascii_bin NULL",
			"fence":       "BIGINT NOT NULL DEFAULT 0", "attempts": "INT NOT NULL DEFAULT 0",
			"expirations": "INT NOT NULL DEFAULT 0", "cycle": "BIGINT NULL", "last_error": "TEXT NULL",
		},
		Status:       "VARCHAR(32) NOT NULL DEFAULT {label}",
		Due:          "'1970-01-01 00:00:00.000000'",
		Later:        "(UTC_TIMESTAMP(6) + INTERVAL {lease} SECOND)",
		AddColumn:    "ADD COLUMN {column} {type}",
		AddColumns:   "ALTER TABLE {table}\n  {columns},\n  LOCK=NONE",
		Batch:        "UPDATE {table} SET {set}\nWHERE {which}\nORDER BY {keys} LIMIT {limit}",
		Default:      "ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {due}",
		Index:        "ALTER TABLE {table} ADD INDEX {index} ({columns}), LOCK=NONE",
		Patience:     "SET SESSION lock_wait_timeout = 5",
		Restore:      "SET SESSION lock_wait_timeout = DEFAULT",
		AddLocks:     "the table's definition, for an instant at start and end (LOCK=NONE); gives up after 5s of waiting and tries again",
		IndexLocks:   "the table's definition, for an instant at start and end (LOCK=NONE); rows can be read and written meanwhile",
		DefaultLocks: "the table's definition, for an instant",
	}
}
