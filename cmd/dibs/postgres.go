package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/cli"
	"github.com/dibs-run/dibs/store/postgres"
)

// postgresStore owns its pool.
type postgresStore struct {
	*postgres.Store
	db *sql.DB
}

// Close closes the pool.
func (s postgresStore) Close() error { return s.db.Close() }

func openPostgres(ctx context.Context, d cli.Database) (cli.Store, error) {
	config, err := pgx.ParseConfig(d.DSN)
	if err != nil {
		// The driver's error may repeat the URL, and with it a password.
		return nil, &dibs.ConfigError{Subject: "database", Problem: "the PostgreSQL driver does not understand the URL", Fix: "check its parameters"}
	}
	// No prepared statement outlives its transaction: a pooler such as pgbouncer
	// may hand each transaction another server connection.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 0, 0
	if config.ConnectTimeout == 0 || config.ConnectTimeout > dialTimeout {
		config.ConnectTimeout = dialTimeout
	}
	if _, given := config.RuntimeParams["application_name"]; !given {
		config.RuntimeParams["application_name"] = "dibs"
	}
	db := stdlib.OpenDB(*config, stdlib.OptionShouldPing(idleLong))
	if err := pool(ctx, db, d.Conns); err != nil {
		return nil, err
	}
	return postgresStore{postgres.Open(postgres.Config{DB: db, Installation: d.Installation}), db}, nil
}

// idleLong tells whether a connection has been idle for so long that it should
// prove that it is alive, as the driver would by itself. The driver counts from
// the connection's last use by the pool, and for a new one from the year one;
// that one is believed.
func idleLong(_ context.Context, p stdlib.ShouldPingParams) bool {
	return p.IdleDuration > time.Second && p.IdleDuration < 365*24*time.Hour
}
