package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// keyWait bounds the wait for a row that somebody's transaction has locked,
// keyPause is the time between two tries.
const (
	keyWait  = 2 * time.Second
	keyPause = 50 * time.Millisecond
)

// refusal says why the one row of a narrowed run could not be won.
type refusal struct {
	key    dibs.Key
	why    dibs.Reason
	detail string
	run    string
	holder string
	until  time.Time
	err    error
}

func (f *refusal) Error() string       { return f.err.Error() }
func (f *refusal) Unwrap() error       { return f.err }
func (f *refusal) reason() dibs.Reason { return f.why }

// concludeKey waits, bounded, for a row that is merely locked, and otherwise
// says why it could not be won.
func (s *shift) concludeKey(ctx context.Context, got dibs.Claimed) error {
	if len(got.Items) > 0 {
		s.exhausted = true
		return nil
	}
	row, err := s.claims.Look(ctx, s.scope.Key)
	if err != nil && !errors.Is(err, dibs.ErrNotFound) {
		return fmt.Errorf("look at %s of %s: %w", s.scope.Key, s.job.Name, err)
	}
	why := refuse(s.scope.Key, row, err != nil)
	if why.why == dibs.ReasonLocked && time.Since(s.asked) < keyWait && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(keyPause):
		}
		return nil // the coordinator claims again
	}
	if why.why == dibs.ReasonInProgress {
		s.nameHolder(ctx, why, row)
	}
	s.refused, s.exhausted = why, true
	return nil
}

// refuse reads the reason off a row as it was seen without a lock. A row that
// looks free was locked by somebody's transaction.
func refuse(key dibs.Key, row dibs.Row, absent bool) *refusal {
	f := &refusal{key: key, why: dibs.ReasonLocked, detail: "another transaction has the row locked"}
	switch {
	case absent:
		f.why, f.detail = dibs.ReasonAbsent, "no such row"
	case row.Filtered:
		f.why, f.detail = dibs.ReasonFiltered, "the job's where excludes it"
	case row.Status == dibs.StatusInProgress && (row.ClaimableAt.IsZero() || row.ClaimableAt.After(row.Now)):
		f.why, f.detail = dibs.ReasonInProgress, ""
	case row.Status == dibs.StatusDone:
		f.why, f.detail = dibs.ReasonDone, ""
	case row.Status == dibs.StatusQuarantined:
		f.why, f.detail = dibs.ReasonQuarantined, row.LastError
	case row.Status == dibs.StatusFailed && row.ClaimableAt.IsZero():
		f.why, f.detail = dibs.ReasonHeld, row.LastError
	}
	f.err = &dibs.RefusedError{Key: key, Reason: f.why, Detail: f.detail}
	return f
}

// nameHolder adds who has the row and until when.
func (s *shift) nameHolder(ctx context.Context, f *refusal, row dibs.Row) {
	f.run, f.until = row.Run, row.ClaimableAt
	held := &dibs.HeldError{What: f.key.String(), Run: row.Run, ExpiresAt: row.ClaimableAt, Now: row.Now}
	f.err = held
	if row.Run == "" {
		return
	}
	run, err := s.r.store.Run(ctx, row.Run)
	if err != nil {
		s.r.log.InfoContext(ctx, "the holder's run is not on record", "run", row.Run, "err", err)
		return
	}
	held.Holder, f.holder = run.Holder, run.Holder.String()
}

// refusedTrigger is the trigger as its decision turned out: a skip that names
// what blocks it.
func (s *shift) refusedTrigger() dibs.Trigger {
	t := s.trigger
	t.Decision, t.Reason, t.Detail = dibs.DecisionSkipped, s.refused.why, s.refused.detail
	t.BlockingRun, t.BlockingHolder, t.BlockingUntil = s.refused.run, s.refused.holder, s.refused.until
	return t
}
