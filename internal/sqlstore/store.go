package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/dibs-run/dibs"
)

// Config makes a Store.
type Config struct {
	// DB is the caller's pool. It needs room for two connections at least: one is
	// reserved for renewals.
	DB *sql.DB
	// Dialect describes the database.
	Dialect *Dialect
	// Schema holds our tables; empty: the connection's default.
	Schema string
	// Skew is added to every lease end on clusters whose nodes' clocks differ by
	// up to this much.
	Skew time.Duration
	// Installation is the identity that the database must have; empty: any.
	Installation string
}

// Store runs a dialect's statements over a *sql.DB. It is safe for concurrent
// use.
type Store struct {
	db            *sql.DB
	dialect       *Dialect
	schema        string
	skew          time.Duration
	installation  string
	conflictPause time.Duration
	compiled      sync.Map // of our own statements, by what was asked for

	reserved reserved
}

// New returns a Store. It does not connect.
func New(c Config) *Store {
	pause := 50 * time.Millisecond
	if c.Dialect.BeginImmediate != "" {
		pause = 2 * time.Millisecond // one writer at a time: short, random waits are fair
	}
	return &Store{db: c.DB, dialect: c.Dialect, schema: c.Schema, skew: c.Skew,
		installation: c.Installation, conflictPause: pause}
}

// DB is the pool the store was made with.
func (s *Store) DB() *sql.DB { return s.db }

// Dialect is the store's dialect.
func (s *Store) Dialect() *Dialect { return s.dialect }

// reserved is the one connection that renewals use.
type reserved struct {
	mu    sync.Mutex // held during a renewal: one at a time
	users int
	conn  *sql.Conn // nil until first needed or after it broke
}

// Reserve takes one connection for renewals. See [dibs.Store].
func (s *Store) Reserve(ctx context.Context) (func(), error) {
	if limit := s.db.Stats().MaxOpenConnections; limit == 1 {
		return nil, fmt.Errorf("%w: one connection is reserved for renewals and one more is needed to claim and settle; call db.SetMaxOpenConns(2) or more",
			dibs.ErrPoolTooSmall)
	}
	s.reserved.mu.Lock()
	defer s.reserved.mu.Unlock()
	if s.reserved.conn == nil {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return nil, fmt.Errorf("reserve a connection for renewals: %w", err)
		}
		s.reserved.conn = conn
	}
	s.reserved.users++
	return sync.OnceFunc(s.unreserve), nil
}

func (s *Store) unreserve() {
	s.reserved.mu.Lock()
	defer s.reserved.mu.Unlock()
	if s.reserved.users--; s.reserved.users == 0 && s.reserved.conn != nil {
		_ = s.reserved.conn.Close() // back to the pool
		s.reserved.conn = nil
	}
}

// InReservedTx is InTx on the reserved connection, or on one of the pool while
// nobody has reserved. A broken connection is replaced.
func (s *Store) InReservedTx(ctx context.Context, what string, fn func(context.Context, *Tx) error) error {
	s.reserved.mu.Lock()
	defer s.reserved.mu.Unlock()
	if s.reserved.users == 0 {
		return s.InTx(ctx, what, fn)
	}
	return s.repeat(ctx, what, func() error {
		if s.reserved.conn == nil {
			conn, err := s.db.Conn(ctx)
			if err != nil {
				return &txError{fmt.Errorf("connect: %w", err), s.connectClass(ctx, err)}
			}
			s.reserved.conn = conn
		}
		err := s.once(ctx, s.reserved.conn, fn)
		if c := s.classOf(ctx, err); c == ClassConnection || c == ClassReadOnly {
			_ = s.reserved.conn.Close() // it is broken; the next try takes another
			s.reserved.conn = nil
		}
		return err
	})
}

// classOf is the class of an error, ClassOther for none.
func (s *Store) classOf(ctx context.Context, err error) Class {
	if err == nil {
		return ClassOther
	}
	return s.classify(ctx, err)
}
