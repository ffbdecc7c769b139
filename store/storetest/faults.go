package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
)

// Moment says where around a statement a fault strikes.
type Moment int

// The moments of a fault.
const (
	// Before: the statement never reaches the database.
	Before Moment = iota
	// After: the database has carried it out, and its answer is lost. Of a COMMIT
	// that means: committed, and nobody knows.
	After
)

// Faults wraps a driver's connector: it counts the statements that reach the
// database, BEGIN and COMMIT among them, and can end a connection around the
// n-th one. Its methods may be called from several goroutines.
type Faults struct {
	connector driver.Connector

	mu     sync.Mutex
	count  int
	texts  []string
	at     int // the statement to strike at, counted from 1; 0: none
	match  func(text string) bool
	moment Moment
	dead   bool   // strike means the end of all connections
	struck func() // called when it strikes
	down   bool
}

// NewFaults wraps a connector; give the result to sql.OpenDB.
func NewFaults(c driver.Connector) *Faults { return &Faults{connector: c} }

// errCut is how a cut connection looks to database/sql; stores know it from
// their drivers.
var errCut = driver.ErrBadConn

// errDown is the answer of a database that cannot be reached any more.
var errDown = errors.New("the network is gone")

// Reset forgets counts and faults; the database can be reached again.
func (f *Faults) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count, f.texts, f.at, f.match, f.down, f.struck = 0, nil, 0, nil, false, nil
}

// CutAt ends the connection around the n-th statement from now. A new one may be
// made at once.
func (f *Faults) CutAt(n int, m Moment) { f.arm(n, nil, m, false, nil) }

// CutAtText is CutAt for the first statement that the function accepts.
func (f *Faults) CutAtText(match func(text string) bool, m Moment) { f.arm(0, match, m, false, nil) }

// CrashAt is CutAt after which the database cannot be reached until Reset; struck
// is then called, so that a process can be made to end there.
func (f *Faults) CrashAt(n int, m Moment, struck func()) { f.arm(n, nil, m, true, struck) }

// CrashAtText is CrashAt for the first statement that the function accepts.
func (f *Faults) CrashAtText(match func(text string) bool, m Moment, struck func()) {
	f.arm(0, match, m, true, struck)
}

func (f *Faults) arm(n int, match func(string) bool, m Moment, dead bool, struck func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count, f.texts = 0, nil
	f.at, f.match, f.moment, f.dead, f.struck = n, match, m, dead, struck
}

// Count is the number of statements since the last arming or Reset.
func (f *Faults) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// Statements are their texts.
func (f *Faults) Statements() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.texts...)
}

// Connect makes a connection. See [driver.Connector].
func (f *Faults) Connect(ctx context.Context) (driver.Conn, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return nil, errDown
	}
	conn, err := f.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, faults: f}, nil
}

// Driver is the wrapped driver.
func (f *Faults) Driver() driver.Driver { return f.connector.Driver() }

// around carries out one statement of a connection.
func (f *Faults) around(c *faultyConn, text string, do func() error) error {
	f.mu.Lock()
	if f.down || c.cut {
		f.mu.Unlock()
		c.close()
		return errCut
	}
	f.count++
	f.texts = append(f.texts, text)
	strike := f.count == f.at || f.match != nil && f.match(text)
	moment := f.moment
	if strike && moment == Before {
		f.strike()
	}
	f.mu.Unlock()
	if strike && moment == Before {
		c.close()
		return errCut
	}
	err := do()
	if errors.Is(err, driver.ErrSkip) { // database/sql prepares it instead
		f.mu.Lock()
		f.count--
		f.texts = f.texts[:len(f.texts)-1]
		f.mu.Unlock()
		return err
	}
	if strike { // also the answer that something is wrong is lost
		f.mu.Lock()
		f.strike()
		f.mu.Unlock()
		c.close()
		return errCut
	}
	return err
}

// strike is called with mu held.
func (f *Faults) strike() {
	f.at, f.match = 0, nil
	f.down = f.dead
	if f.struck != nil {
		f.struck()
	}
}
