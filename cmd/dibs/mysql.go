package main

import (
	"context"
	"database/sql"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/cli"
	"github.com/dibs-run/dibs/store/mysql"
)

// mysqlStore owns its pool.
type mysqlStore struct {
	*mysql.Store
	db *sql.DB
}

// Close closes the pool.
func (s mysqlStore) Close() error { return s.db.Close() }

func openMySQL(ctx context.Context, d cli.Database) (cli.Store, error) {
	config, err := driver.ParseDSN(d.DSN)
	if err != nil {
		// The driver's error may repeat the DSN, and with it a password.
		return nil, &dibs.ConfigError{Subject: "database", Problem: "the MySQL driver does not understand the URL", Fix: "check its parameters"}
	}
	// A guarded write that changes nothing has still found its row.
	config.ClientFoundRows = true
	config.ParseTime, config.Loc = true, time.UTC
	if config.Params == nil {
		config.Params = map[string]string{}
	}
	config.Params["time_zone"] = "'+00:00'"
	// One round trip per statement instead of three.
	config.InterpolateParams = true
	if config.Timeout == 0 || config.Timeout > dialTimeout {
		config.Timeout = dialTimeout
	}
	config.Logger = silent{} // broken connections come back as errors
	connector, err := driver.NewConnector(config)
	if err != nil {
		return nil, &dibs.ConfigError{Subject: "database", Problem: "the MySQL driver refuses the URL", Fix: "check its parameters"}
	}
	db := sql.OpenDB(connector)
	if err := pool(ctx, db, d.Conns); err != nil {
		return nil, err
	}
	return mysqlStore{mysql.Open(mysql.Config{DB: db, Installation: d.Installation}), db}, nil
}

// silent drops what the driver would write to standard error by itself.
type silent struct{}

var _ driver.Logger = silent{}

// Print drops its arguments.
func (silent) Print(...any) {}
