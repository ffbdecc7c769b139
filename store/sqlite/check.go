package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// CheckFile refuses a database file that is shared over a network, where SQLite
// locks cannot be trusted, or that lies in a container's own layer, where every
// container has another one. The file need not exist yet. The error is a
// [dibs.ConfigError]; callers who know better skip this check.
func CheckFile(path string) error {
	folder := filepath.Dir(path)
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		folder = filepath.Dir(resolved)
	}
	problem, err := unfitFileSystem(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &dibs.ConfigError{
			Subject: "database " + path, Problem: "the folder " + folder + " does not exist", Fix: "create it",
		}
	case err != nil:
		return fmt.Errorf("check the file system of %s: %w", path, err)
	case problem != "":
		return &dibs.ConfigError{
			Subject: "database " + path, Problem: problem,
			Fix: "put it on a local disk or a volume, use PostgreSQL or MariaDB, or allow it with --allow-local-db",
		}
	}
	return nil
}

// Longest busy_timeout that [Check] accepts: SQLite's own waiting is unfair, so
// that one of several processes can starve; ours is short, random and fair.
const longestBusyTimeout = 20 * time.Second

// Check reads back what a connection of the pool was opened with: journal_mode
// WAL, synchronous FULL, a bounded busy_timeout. It answers with all faults at
// once; each is a [dibs.ConfigError]. A file that was never migrated has no WAL
// yet: migrate first.
func Check(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%w: open the SQLite file: %w", dibs.ErrUnavailable, err)
	}
	defer func() { _ = conn.Close() }() // back to the pool
	var mode string
	var synchronous, busy int64
	for _, pragma := range []struct {
		name string
		into any
	}{{"journal_mode", &mode}, {"synchronous", &synchronous}, {"busy_timeout", &busy}} {
		if err := conn.QueryRowContext(ctx, "PRAGMA "+pragma.name).Scan(pragma.into); err != nil {
			return fmt.Errorf("%w: read PRAGMA %s: %w", dibs.ErrUnavailable, pragma.name, err)
		}
	}
	var faults []error
	fault := func(field, problem, fix string) {
		faults = append(faults, &dibs.ConfigError{Subject: "SQLite connection", Field: field, Problem: problem, Fix: fix})
	}
	if !strings.EqualFold(mode, "wal") {
		fault("journal_mode", "it is "+mode+": readers and writers block one another", "set journal_mode=WAL")
	}
	if synchronous < 2 {
		fault("synchronous", "it is below FULL: a fence can be issued twice after a power cut",
			"set synchronous=FULL for every connection, as the driver spells it")
	}
	if limit := longestBusyTimeout.Milliseconds(); busy > limit {
		fault("busy_timeout", fmt.Sprintf("it is %d ms: a process could wait that long inside SQLite", busy),
			fmt.Sprintf("set at most %d ms", limit))
	}
	return errors.Join(faults...)
}

// switchToWAL makes the file a WAL file, once for its life. Many processes that
// switch a fresh file at the same time can be told that it is locked, whatever
// their busy_timeout; hence the retry, which is bounded.
func switchToWAL(ctx context.Context, db *sql.DB) error {
	const tries = 200
	var err error
	for range tries {
		var mode string
		err = db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		if err == nil {
			return nil // "memory" stays as it is: there is nothing to share
		}
		if !strings.Contains(err.Error(), "locked") {
			break
		}
		select {
		case <-time.After(time.Millisecond + time.Duration(rand.Int64N(int64(20*time.Millisecond)))):
		case <-ctx.Done():
			return fmt.Errorf("%w: switch the file to WAL: %w", dibs.ErrUnavailable, context.Cause(ctx))
		}
	}
	return fmt.Errorf("%w: switch the file to WAL: %w", dibs.ErrUnavailable, err)
}
