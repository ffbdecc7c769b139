package dibs

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels that callers branch on with [errors.Is].
var (
	// ErrLeaseLost is the cause of a handler's cancelled context when the lease
	// of its run or item has ended or was refused.
	ErrLeaseLost = errors.New("lease lost")
	// ErrStaleFence is returned when a write did not prove ownership: the row no
	// longer carries the caller's token and fence.
	ErrStaleFence = errors.New("no longer yours: token or fence differs")
	// ErrRunOver is returned by a claim whose run is no longer running, was told
	// to stop, or is owned by another token. Nothing was claimed.
	ErrRunOver = errors.New("the run is over: nothing may be claimed for it")
	// ErrNotFound is returned when the named thing does not exist.
	ErrNotFound = errors.New("not found")
	// ErrSlotTaken is returned when another trigger has decided the slot, or the
	// caller's own identity, that a trigger was to own.
	ErrSlotTaken = errors.New("another trigger has decided that slot")
	// ErrLockTaken is returned when a run was to take a lock that a running run
	// still has.
	ErrLockTaken = errors.New("a running run has the lock")
	// ErrPaused is returned when a person has paused the job.
	ErrPaused = errors.New("paused")
	// ErrUnavailable is returned when the database cannot be used: unreachable,
	// read-only, or without our schema. Nothing was started.
	ErrUnavailable = errors.New("database unavailable")
	// ErrUnanswered is returned when a transaction may have been committed and
	// its answer was lost. Ask again by token before repeating anything.
	ErrUnanswered = errors.New("the database's answer was lost: the outcome is unknown")
	// ErrPoolTooSmall is returned when the connection pool has no room for the
	// connection that renewals must never wait for.
	ErrPoolTooSmall = errors.New("connection pool too small")
	// ErrSchema is returned when our tables are missing, older than this program
	// needs, or newer than it may open.
	ErrSchema = errors.New("dibs schema does not fit this program")
	// ErrForeign is returned when the database belongs to another installation,
	// as a restored copy does.
	ErrForeign = errors.New("this database belongs to another installation")
	// ErrTimeout is the cause of a handler's cancelled context when its own time
	// limit has passed. A handler that ignores it keeps its slot and its lease.
	ErrTimeout = errors.New("time limit reached")
	// ErrStopping is the cause of a cancelled context when the process was asked
	// to stop.
	ErrStopping = errors.New("stopping")
)

// HeldError says who has what was asked for, and until when.
type HeldError struct {
	// What is held: a lock's name or a row's key.
	What string
	// Run that holds it.
	Run string
	// Holder of that run.
	Holder Holder
	// ExpiresAt is the end of the lease by the database's clock.
	ExpiresAt time.Time
	// Now is the database's time when ExpiresAt was read.
	Now time.Time
}

func (e *HeldError) Error() string {
	left := e.ExpiresAt.Sub(e.Now).Round(time.Second)
	return fmt.Sprintf("%s is held by %s on %s, lease ends in %s", e.What, ShortID(e.Run), e.Holder, left)
}

// RefusedError says why a row could not be claimed by key although nobody
// holds it.
type RefusedError struct {
	Key    Key
	Reason Reason
	Detail string
}

func (e *RefusedError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %s", e.Key, e.Reason)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Key, e.Reason, e.Detail)
}

// ConfigError is a fault of configuration: it names the thing, the place and
// the fix. Several are joined with [errors.Join].
type ConfigError struct {
	// Subject is the thing at fault, such as "job crm-sync".
	Subject string
	// Field is the place, such as "lease" or "table account_config, column status".
	Field string
	// Problem says what is wrong.
	Problem string
	// Fix says what to do about it.
	Fix string
}

func (e *ConfigError) Error() string {
	s := e.Subject
	if e.Field != "" {
		s += ": " + e.Field
	}
	s += ": " + e.Problem
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// handlerError is what Reject, NotApplied, Later and Stop return.
type handlerError struct {
	kind  Outcome
	after time.Duration
	again bool
	stop  bool
	err   error
}

func (e *handlerError) Error() string {
	switch {
	case e.err == nil && e.again:
		return fmt.Sprintf("try again in %s", e.after)
	case e.err == nil:
		return string(e.kind)
	}
	return e.err.Error()
}

func (e *handlerError) Unwrap() error { return e.err }

// Reject marks an error as final: the destination will never accept this item
// as it is, and nothing was applied.
func Reject(err error) error { return &handlerError{kind: OutcomeRejected, err: err} }

// NotApplied marks an error as certainly without effect: the attempt could not
// even start or connect. It may be repeated and spends no retry budget.
func NotApplied(err error) error {
	return &handlerError{kind: OutcomeFailed, err: err}
}

// Later asks for another attempt after d, with certainly no effect so far. It
// spends no retry budget.
func Later(d time.Duration) error {
	return &handlerError{kind: OutcomeFailed, again: true, after: d}
}

// Stop marks an error that concerns every item alike, such as refused
// credentials: nothing was applied, no retry budget is spent, and the run
// claims no more.
func Stop(err error) error {
	return &handlerError{kind: OutcomeFailed, stop: true, err: err}
}

// Verdict is what a handler's error means.
type Verdict struct {
	// Outcome is completed, failed (certainly not applied), rejected or
	// uncertain (unknown).
	Outcome Outcome
	// Free is true when the attempt spends no retry budget.
	Free bool
	// After, if positive, is the handler's own wish for the next attempt.
	After time.Duration
	// Stop is true when the next item would fare no better: claim no more.
	Stop bool
}

// VerdictOf classifies a handler's error: nil is completed, the typed errors
// of this package say what they say, and anything else is unknown.
func VerdictOf(err error) Verdict {
	var he *handlerError
	switch {
	case err == nil:
		return Verdict{Outcome: OutcomeCompleted}
	case errors.As(err, &he):
		return Verdict{Outcome: he.kind, Free: he.kind == OutcomeFailed, After: he.after, Stop: he.stop}
	default:
		return Verdict{Outcome: OutcomeUncertain}
	}
}
