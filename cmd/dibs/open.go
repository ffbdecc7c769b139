package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/cli"
)

// dialTimeout bounds the start of one connection, so that an unreachable host is
// noticed before a lease ends.
const dialTimeout = 10 * time.Second

// open opens the database with the driver of its kind.
func open(ctx context.Context, d cli.Database) (cli.Store, error) {
	switch d.Kind {
	case "sqlite":
		return openSQLite(ctx, d)
	case "postgres":
		return openPostgres(ctx, d)
	case "mysql":
		return openMySQL(ctx, d)
	}
	return nil, &dibs.ConfigError{Subject: "database", Problem: fmt.Sprintf("this program has no driver for %q", d.Kind), Fix: "use sqlite:, postgres:// or mysql://"}
}

// pool bounds a pool and reaches the database once, so that a wrong address or
// password is told at once.
func pool(ctx context.Context, db *sql.DB, conns int) error {
	db.SetMaxOpenConns(max(conns, 2))
	db.SetMaxIdleConns(max(conns, 2))
	db.SetConnMaxIdleTime(time.Minute)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout+time.Second)
	defer cancel()
	conn, err := db.Conn(ctx) // not a ping: whoever has connected was answered
	if err != nil {
		_ = db.Close()
		return fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
	}
	_ = conn.Close() // back to the pool
	return nil
}
