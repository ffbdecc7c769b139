package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // registers "sqlite3"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/cli"
	"github.com/dibs-run/dibs/store/sqlite"
)

// sqliteStore owns its pool.
type sqliteStore struct {
	*sqlite.Store
	db *sql.DB
}

// Close closes the pool.
func (s sqliteStore) Close() error { return s.db.Close() }

func openSQLite(ctx context.Context, d cli.Database) (cli.Store, error) {
	if !d.Create {
		if _, err := os.Stat(d.DSN); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%w: there is no such file; run dibs init to make it", dibs.ErrUnavailable)
		}
	}
	if !d.AllowLocal {
		if err := sqlite.CheckFile(d.DSN); err != nil {
			return nil, err
		}
	}
	if err := makeFile(d.DSN, d.Create); err != nil {
		return nil, err
	}
	db, err := sqliteFile(ctx, d.DSN, d.Conns)
	if err != nil {
		return nil, err
	}
	return sqliteStore{sqlite.Open(sqlite.Config{DB: db, Installation: d.Installation}), db}, nil
}

// openSQLiteFile opens or makes a file without our tables' store, for the demo.
func openSQLiteFile(ctx context.Context, path string) (*sql.DB, error) {
	if err := makeFile(path, true); err != nil {
		return nil, err
	}
	return sqliteFile(ctx, path, 0)
}

func sqliteFile(ctx context.Context, path string, conns int) (*sql.DB, error) {
	name, err := sqliteName(path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite3", name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
	}
	waitForLock(ctx, db)
	if err := pool(ctx, db, conns); err != nil {
		return nil, err
	}
	return db, nil
}

// lockPatience is how long others may keep a file to themselves while it is
// opened, as those do that make it a write-ahead file for the first time.
const lockPatience = 5 * time.Second

// waitForLock opens a first connection again and again while the file is locked:
// the driver reads it for its settings, and does not wait. Any other fault is
// left to whoever opens the file next.
func waitForLock(ctx context.Context, db *sql.DB) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil || !strings.Contains(err.Error(), "locked") {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Millisecond + rand.N(20*time.Millisecond)):
		}
	}
}

// makeFile makes a missing file that its owner alone may read.
func makeFile(path string, create bool) error {
	if !create {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
	}
	return f.Close()
}

// sqliteName is the name that the driver opens. Waiting inside SQLite is kept
// short, since the store's own is fair; FULL survives a power cut; the
// write-ahead log gets the mode of the file itself.
func sqliteName(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
	}
	u := url.URL{Scheme: "file", Path: path}
	q := url.Values{"_pragma": {"busy_timeout(50)", "synchronous(FULL)"}, "_txlock": {"immediate"}, "modeof": {path}}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
