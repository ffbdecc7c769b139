package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
)

// faultyConn is one connection under [Faults]. It offers what database/sql asks
// for, as far as the wrapped connection has it.
type faultyConn struct {
	driver.Conn
	faults *Faults
	cut    bool
	open   map[*faultyStmt]bool
	once   sync.Once
}

// close ends the connection as the loss of it does: without a word to the
// transaction.
func (c *faultyConn) close() {
	c.cut = true
	for st := range c.open { // some drivers stay open as long as one of these is
		_ = st.Close()
	}
	c.once.Do(func() { _ = c.Conn.Close() })
}

// Close ends the connection.
func (c *faultyConn) Close() (err error) {
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}

// IsValid is false once the connection was cut.
func (c *faultyConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !c.cut && (!ok || v.IsValid())
}

// ResetSession prepares the connection for its next user.
func (c *faultyConn) ResetSession(ctx context.Context) error {
	if c.cut {
		return errCut
	}
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// Ping asks whether the connection lives. It is not counted.
func (c *faultyConn) Ping(ctx context.Context) error {
	if c.cut {
		return errCut
	}
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// CheckNamedValue leaves the conversion of values to the driver.
func (c *faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// BeginTx begins a transaction.
func (c *faultyConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	var tx driver.Tx
	err := c.faults.around(c, "BEGIN", func() (err error) {
		if b, ok := c.Conn.(driver.ConnBeginTx); ok {
			tx, err = b.BeginTx(ctx, o)
			return err
		}
		return errors.New("the driver cannot begin with a context")
	})
	return &faultyTx{tx, c}, err
}

// ExecContext carries out a statement.
func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	err = c.faults.around(c, query, func() (err error) {
		r, err = e.ExecContext(ctx, query, args)
		return err
	})
	return r, err
}

// QueryContext carries out a statement that answers with rows.
func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Rows, err error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return c.rows(query, func() (driver.Rows, error) { return q.QueryContext(ctx, query, args) })
}

// rows reads a whole answer before it is passed on or lost: a driver may carry
// the statement out no sooner than its rows are read.
func (c *faultyConn) rows(query string, do func() (driver.Rows, error)) (driver.Rows, error) {
	var all *answer
	err := c.faults.around(c, query, func() error {
		rows, err := do()
		if err != nil {
			return err
		}
		all, err = readAnswer(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// PrepareContext prepares a statement.
func (c *faultyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.cut {
		return nil, errCut
	}
	p, ok := c.Conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.New("the driver cannot prepare with a context")
	}
	st, err := p.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	faulty := &faultyStmt{Stmt: st, conn: c, query: query}
	if c.open == nil {
		c.open = map[*faultyStmt]bool{}
	}
	c.open[faulty] = true
	return faulty, nil
}

// faultyTx is a transaction on such a connection.
type faultyTx struct {
	tx   driver.Tx
	conn *faultyConn
}

// Commit commits.
func (t *faultyTx) Commit() error { return t.conn.faults.around(t.conn, "COMMIT", t.tx.Commit) }

// Rollback undoes the transaction. It is not counted.
func (t *faultyTx) Rollback() error {
	if t.conn.cut {
		return errCut
	}
	return t.tx.Rollback()
}

// faultyStmt is a prepared statement on such a connection.
type faultyStmt struct {
	driver.Stmt
	conn  *faultyConn
	query string
	once  sync.Once
}

// Close ends the statement.
func (s *faultyStmt) Close() (err error) {
	s.once.Do(func() {
		delete(s.conn.open, s)
		err = s.Stmt.Close()
	})
	return err
}

// CheckNamedValue leaves the conversion of values to the driver.
func (s *faultyStmt) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

// ExecContext carries the statement out.
func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	e, ok := s.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errors.New("the driver cannot execute with a context")
	}
	err = s.conn.faults.around(s.conn, s.query, func() (err error) {
		r, err = e.ExecContext(ctx, args)
		return err
	})
	return r, err
}

// QueryContext carries the statement out.
func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := s.Stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, errors.New("the driver cannot query with a context")
	}
	return s.conn.rows(s.query, func() (driver.Rows, error) { return q.QueryContext(ctx, args) })
}
