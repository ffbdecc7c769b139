package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// triggers reads triggers by a statement whose columns are trigger_columns.
func (s *Store) triggers(ctx context.Context, q querier, st Statement, b Binds) ([]dibs.Trigger, error) {
	var list []dibs.Trigger
	err := query(ctx, q, st, b, func(rows *sql.Rows) error {
		var t dibs.Trigger
		err := rows.Scan(triggerFields(&t)...)
		list = append(list, t)
		return err
	})
	return list, err
}

// timedTriggers reads triggers by a statement whose columns are the time and
// trigger_columns. Without a trigger it answers with one row that has the time
// alone. Of several rows the first one's time counts.
func (s *Store) timedTriggers(ctx context.Context, q querier, st Statement, b Binds, now *time.Time) ([]dibs.Trigger, error) {
	var list []dibs.Trigger
	read := false
	err := query(ctx, q, st, b, func(rows *sql.Rows) error {
		var t dibs.Trigger
		var at time.Time
		err := rows.Scan(append([]any{timeInto{&at}}, triggerFields(&t)...)...)
		if !read {
			*now, read = at, true
		}
		if t.ID != "" {
			list = append(list, t)
		}
		return err
	})
	if err == nil && !read {
		err = fmt.Errorf("%s: no row with the time", st.Name)
	}
	return list, err
}

// triggerFields are where trigger_columns go.
func triggerFields(t *dibs.Trigger) []any {
	return []any{into(&t.ID), into(&t.Job), into(&t.Lock), into(&t.Origin), timeInto{&t.Slot},
		into(&t.ExternalID), into(&t.Key), into(&t.Decision), into(&t.Reason), into(&t.Detail), into(&t.RunID),
		into(&t.BlockingRun), into(&t.BlockingHolder), timeInto{&t.BlockingUntil}, timesInto{&t.Covered},
		&t.OwnsSlot, into(&t.Executor), timeInto{&t.WaiterUntil}, into(&t.By), into(&t.Why),
		timeInto{&t.CreatedAt}, timeInto{&t.DecidedAt}, timeInto{&t.WaitingSince}, &t.Folds, countInto{&t.Missed}}
}

// Trigger reads one trigger by its full ID, or [dibs.ErrNotFound].
func (s *Store) Trigger(ctx context.Context, id string) (dibs.Trigger, error) {
	st, err := s.own("trigger_list", "id")
	if err != nil {
		return dibs.Trigger{}, err
	}
	var list []dibs.Trigger
	err = s.reading(ctx, "read trigger "+id, func() error {
		list, err = s.triggers(ctx, s.db, st, Binds{"id": id, "limit": 1})
		return err
	})
	switch {
	case err != nil:
		return dibs.Trigger{}, err
	case len(list) == 0:
		return dibs.Trigger{}, fmt.Errorf("read trigger %s: %w", id, dibs.ErrNotFound)
	}
	return list[0], nil
}

// ListTriggers lists triggers, newest first.
func (s *Store) ListTriggers(ctx context.Context, f dibs.TriggerFilter) ([]dibs.Trigger, error) {
	suffix := strings.TrimPrefix(f.Suffix, "…")
	st, err := s.own("trigger_list", present(map[string]bool{
		"job": f.Job != "", "decision": f.Decision != "", "run": f.Run != "", "blocking": f.Blocking != "",
		"slot": !f.Slot.IsZero(), "external_id": f.ExternalID != "", "suffix": suffix != "",
		"from": !f.From.IsZero(), "to": !f.To.IsZero(),
	})...)
	if err != nil {
		return nil, err
	}
	var list []dibs.Trigger
	err = s.reading(ctx, "list triggers", func() error {
		list, err = s.triggers(ctx, s.db, st, Binds{
			"job": f.Job, "decision": string(f.Decision), "run": f.Run, "blocking": f.Blocking,
			"slot": micros(f.Slot), "external_id": f.ExternalID, "suffix": suffix, "limit": limitOf(f.Limit),
			"from": micros(f.From), "to": micros(f.To),
		})
		return err
	})
	return list, err
}

// AddTrigger inserts a waiting trigger that anybody may execute. Its lock is the
// job's name unless it says otherwise.
func (s *Store) AddTrigger(ctx context.Context, t dibs.Trigger) error {
	t.Decision, t.Executor = dibs.DecisionWaiting, "any"
	return s.InTx(ctx, fmt.Sprintf("add a trigger of job %q", t.Job), func(ctx context.Context, tx *Tx) error {
		inserted, err := s.insertTrigger(ctx, tx, t)
		if err == nil && !inserted {
			err = dibs.ErrSlotTaken
		}
		return err
	})
}

// insertTrigger tells whether it was inserted; it was not when its ID, or what
// it would own, is there already.
func (s *Store) insertTrigger(ctx context.Context, tx *Tx, t dibs.Trigger) (bool, error) {
	insert, err := s.own("trigger_insert")
	if err != nil {
		return false, err
	}
	b, err := triggerBinds(t)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, insert, b)
	if err != nil && s.classify(ctx, err) == ClassUnique {
		return false, nil
	}
	return n > 0, err
}

// putTrigger inserts the trigger or updates the one with its ID.
func (s *Store) putTrigger(ctx context.Context, tx *Tx, t dibs.Trigger) error {
	inserted, err := s.insertTrigger(ctx, tx, t)
	if err != nil || inserted {
		return err
	}
	update, err := s.own("trigger_update")
	if err != nil {
		return err
	}
	b, err := triggerBinds(t)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, update, b)
	if err != nil && s.classify(ctx, err) == ClassUnique || err == nil && n == 0 {
		return fmt.Errorf("%w: job %q, slot %s", dibs.ErrSlotTaken, t.Job, slotText(t))
	}
	return err
}

// waitingKey is unique among waiting triggers that others fold into: one for each
// lock, job and kind of executor.
func waitingKey(t dibs.Trigger) string {
	kind := dibs.ExecutorAny
	if !t.Anybody() {
		kind = "waiter"
	}
	sum := sha256.Sum256([]byte(t.Lock + "\x00" + t.Job + "\x00" + kind))
	return hex.EncodeToString(sum[:])
}

// WaitingLocks lists locks with waiting triggers. See [dibs.Runs].
func (s *Store) WaitingLocks(ctx context.Context, limit int) (names []string, err error) {
	st, err := s.own("lock_waiting")
	if err != nil {
		return nil, err
	}
	err = s.reading(ctx, "list locks with waiting triggers", func() error {
		names = nil
		return query(ctx, s.db, st, Binds{"limit": limitOf(limit)}, func(rows *sql.Rows) error {
			var n string
			err := rows.Scan(into(&n))
			names = append(names, n)
			return err
		})
	})
	return names, err
}

func slotText(t dibs.Trigger) string {
	if t.Slot.IsZero() {
		return t.ExternalID
	}
	return t.Slot.UTC().Format("2006-01-02T15:04:05.999999Z")
}

// triggerBinds binds all of a trigger. What it owns is its slot or, without one,
// the caller's own identity.
func triggerBinds(t dibs.Trigger) (Binds, error) {
	if t.Lock == "" {
		t.Lock = t.Job
	}
	if err := firstError(
		fit(mostID, "the trigger's ID", t.ID, "its run", t.RunID, "its blocking run", t.BlockingRun),
		fit(mostName, "the job's name", t.Job, "the lock's name", t.Lock, "the trigger's own identity", t.ExternalID),
		fit(mostKey, "the key", t.Key, "the executor", t.Executor, "the blocking holder", t.BlockingHolder),
	); err != nil {
		return nil, err
	}
	covered, err := timesText(t.Covered)
	if err != nil {
		return nil, err
	}
	b := Binds{
		"id": t.ID, "job": t.Job, "lock": t.Lock, "origin": string(t.Origin), "slot": micros(t.Slot),
		"owns_slot": nil, "external_id": name(t.ExternalID), "owns_external": nil, "key": name(t.Key),
		"decision": string(t.Decision), "reason": string(t.Reason), "detail": text(tail(t.Detail, mostText)),
		"run": name(t.RunID), "blocking_run": name(t.BlockingRun), "blocking_holder": name(t.BlockingHolder),
		"blocking_until": micros(t.BlockingUntil), "covered": covered, "executor": name(t.Executor),
		"waiter_until": micros(t.WaiterUntil), "by": text(t.By), "why": text(tail(t.Why, mostText)),
		"created_at": micros(t.CreatedAt), "decided_at": micros(t.DecidedAt),
		"waiting_key": nil, "waiting_since": micros(t.WaitingSince), "missed": t.Missed,
	}
	if t.Folds && t.Decision == dibs.DecisionWaiting {
		b["waiting_key"] = waitingKey(t)
	}
	switch {
	case !t.OwnsSlot:
	case !t.Slot.IsZero():
		b["owns_slot"] = micros(t.Slot)
	default:
		b["owns_external"] = name(t.ExternalID)
	}
	return b, nil
}
