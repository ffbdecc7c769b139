package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-run/dibs"
)

// txError is an error of a transaction that says whether to repeat it.
type txError struct {
	err   error
	class Class
}

func (e *txError) Error() string { return e.err.Error() }
func (e *txError) Unwrap() error { return e.err }

// Retryable is true when nothing was written and the same call may be made
// again.
func (e *txError) Retryable() bool {
	switch e.class {
	case ClassRetry, ClassConnection, ClassReadOnly:
		return !errors.Is(e.err, dibs.ErrUnanswered)
	}
	return false
}

// Tx is one transaction of ours on one connection.
type Tx struct {
	store *Store
	conn  *sql.Conn
	tx    *sql.Tx // nil where the dialect begins by itself
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (t *Tx) q() querier {
	if t.tx != nil {
		return t.tx
	}
	return t.conn
}

// Exec runs a statement and returns the rows affected.
func (t *Tx) Exec(ctx context.Context, s Statement, b Binds) (int64, error) {
	return exec(ctx, t.q(), s, b)
}

// Query runs a statement and hands each row to scan; the rows are closed when
// it returns.
func (t *Tx) Query(ctx context.Context, s Statement, b Binds, scan func(*sql.Rows) error) error {
	return query(ctx, t.q(), s, b, scan)
}

// Savepoint runs fn under a savepoint and undoes it alone when it fails.
func (t *Tx) Savepoint(ctx context.Context, fn func() error) error {
	if _, err := t.q().ExecContext(ctx, "SAVEPOINT dibs_item"); err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	if err := fn(); err != nil {
		if _, rerr := t.q().ExecContext(ctx, "ROLLBACK TO SAVEPOINT dibs_item"); rerr != nil {
			return errors.Join(err, fmt.Errorf("roll back to savepoint: %w", rerr))
		}
		return err
	}
	if _, err := t.q().ExecContext(ctx, "RELEASE SAVEPOINT dibs_item"); err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return nil
}

func exec(ctx context.Context, q querier, s Statement, b Binds) (int64, error) {
	args, err := s.args(b)
	if err != nil {
		return 0, err
	}
	res, err := q.ExecContext(ctx, s.SQL, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.Name, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("%s: rows affected: %w", s.Name, err)
	}
	return n, nil
}

func query(ctx context.Context, q querier, s Statement, b Binds, scan func(*sql.Rows) error) (err error) {
	args, err := s.args(b)
	if err != nil {
		return err
	}
	rows, err := q.QueryContext(ctx, s.SQL, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	defer func() {
		if cerr := rows.Close(); cerr != nil && err == nil {
			err = fmt.Errorf("%s: close rows: %w", s.Name, cerr)
		}
	}()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("%s: scan: %w", s.Name, err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// InTx runs fn in one transaction on a connection of the pool and repeats it,
// with full jitter, while the classifier says that nothing was written. It
// gives up when ctx ends. Nothing fn learned counts before InTx has returned
// nil: a commit without an answer is [dibs.ErrUnanswered].
func (s *Store) InTx(ctx context.Context, what string, fn func(context.Context, *Tx) error) error {
	return s.repeat(ctx, what, func() error {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return &txError{fmt.Errorf("connect: %w", err), s.connectClass(ctx, err)}
		}
		defer func() { _ = conn.Close() }() // back to the pool; errors belong to the transaction
		return s.once(ctx, conn, fn)
	})
}

// connectClass is the class of an error met before anything was asked: a
// database that does not even begin within the caller's time is unavailable.
func (s *Store) connectClass(ctx context.Context, err error) Class {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ClassUnavailable
	}
	return s.classify(ctx, err)
}

// once runs fn in one transaction on conn.
func (s *Store) once(ctx context.Context, conn *sql.Conn, fn func(context.Context, *Tx) error) error {
	tx, err := s.begin(ctx, conn)
	if err != nil {
		return &txError{fmt.Errorf("begin: %w", err), s.connectClass(ctx, err)}
	}
	if err := run(ctx, tx, fn); err != nil {
		return &txError{err, s.classify(ctx, err)}
	}
	if err := tx.commit(ctx); err != nil {
		class := s.classify(ctx, err)
		// Refused, as a certification failure is, or undone by us: nothing was
		// written.
		if undone := tx.rollback(ctx); undone || class == ClassRetry {
			return &txError{fmt.Errorf("commit: %w", err), class}
		}
		return &txError{fmt.Errorf("commit: %w: %w", dibs.ErrUnanswered, err), class}
	}
	return nil
}

// run calls fn and rolls back when it fails or panics.
func run(ctx context.Context, tx *Tx, fn func(context.Context, *Tx) error) error {
	finished := false
	defer func() {
		if !finished {
			tx.rollback(ctx)
		}
	}()
	err := fn(ctx, tx)
	finished = err == nil
	return err
}

func (s *Store) begin(ctx context.Context, conn *sql.Conn) (*Tx, error) {
	if s.dialect.BeginImmediate == "" {
		tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		return &Tx{store: s, conn: conn, tx: tx}, err
	}
	_, err := conn.ExecContext(ctx, s.dialect.BeginImmediate)
	return &Tx{store: s, conn: conn}, err
}

func (t *Tx) commit(ctx context.Context) error {
	if t.tx != nil {
		return t.tx.Commit()
	}
	_, err := t.conn.ExecContext(ctx, "COMMIT")
	return err
}

// rollback undoes the transaction and tells whether the database said so. A
// connection on which that fails is thrown away, since nobody may inherit a
// half-open transaction.
func (t *Tx) rollback(ctx context.Context) bool {
	if t.tx != nil {
		return t.tx.Rollback() == nil // database/sql discards the connection otherwise
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
		return false
	}
	return true
}

func (s *Store) classify(ctx context.Context, err error) Class {
	var te *txError
	if errors.As(err, &te) {
		return te.class
	}
	if ctx.Err() != nil {
		return ClassOther
	}
	if dibs.Retryable(err) {
		return ClassRetry // a caller's own error asks for it
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return ClassConnection
	}
	if dibs.Retryable(err) { // the caller's own word, such as ground that moved
		return ClassRetry
	}
	return s.dialect.Classify(err)
}

// Backoff of repeated transactions: full jitter between these bounds.
const (
	firstPause = 2 * time.Millisecond
	mostPause  = time.Second
	// Among writers of one file the bound shrinks with every so many tries.
	agingTries = 8
	leastPause = 100 * time.Microsecond
)

// repeat calls fn again while its error is retryable, with full jitter, until
// ctx ends. Lock conflicts never end a loop; a dead database ends with ctx.
func (s *Store) repeat(ctx context.Context, what string, fn func() error) error {
	pause := firstPause
	for tries := 1; ; tries++ {
		err := fn()
		if err == nil {
			return nil
		}
		if !dibs.Retryable(err) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, s.explain(err))
		}
		pause = min(pause, s.pauseLimit(err, tries))
		if !wait(ctx, time.Duration(rand.Int64N(int64(pause)))+100*time.Microsecond) {
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), s.explain(err))
		}
		pause *= 2
	}
}

// reading calls fn again while the database is merely busy. A lost connection is
// reported at once: whoever only reads can decide to ask again.
func (s *Store) reading(ctx context.Context, what string, fn func() error) error {
	var final error
	err := s.repeat(ctx, what, func() error {
		err := fn()
		if err == nil {
			return nil
		}
		failed := &txError{err, s.connectClass(ctx, err)} // reading waits for nobody
		if failed.class == ClassRetry {
			return failed
		}
		final = failed
		return nil
	})
	if final != nil {
		return fmt.Errorf("%s: %w", what, s.explain(final))
	}
	return err
}

// pauseLimit keeps conflicts on a busy database short, and lets a dead database
// rest. Where there is one writer at a time, whoever has waited longer asks more
// often, so that waiting stays fair.
func (s *Store) pauseLimit(err error, tries int) time.Duration {
	var te *txError
	if !errors.As(err, &te) || te.class != ClassRetry {
		return mostPause
	}
	if s.dialect.BeginImmediate == "" {
		return s.conflictPause
	}
	return max(s.conflictPause/time.Duration(1+tries/agingTries), leastPause)
}

// explain adds the sentinel that callers branch on.
func (s *Store) explain(err error) error {
	var te *txError
	if !errors.As(err, &te) || errors.Is(err, dibs.ErrUnanswered) {
		return err
	}
	switch te.class {
	case ClassConnection, ClassReadOnly, ClassUnavailable:
		return fmt.Errorf("%w: %w", dibs.ErrUnavailable, err)
	case ClassDenied:
		return fmt.Errorf("%w: %w", &dibs.ConfigError{Subject: "database user", Problem: "lacks a privilege",
			Fix: "grant it SELECT and UPDATE on your own tables, and also INSERT and DELETE on ours"}, err)
	}
	return err
}

// wait pauses for d; false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
