package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// Now is the database's time.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.reading(ctx, "ask for the time", func() error {
		now, err = s.now(ctx, s.db)
		return err
	})
	return now, err
}

func (s *Store) now(ctx context.Context, q querier) (now time.Time, err error) {
	st, err := s.own("now")
	if err != nil {
		return now, err
	}
	err = query(ctx, q, st, nil, func(rows *sql.Rows) error { return rows.Scan(timeInto{&now}) })
	return now, err
}

// runs reads runs by a statement whose columns are run_columns.
func (s *Store) runs(ctx context.Context, q querier, st Statement, b Binds) ([]dibs.Run, error) {
	var list []dibs.Run
	err := query(ctx, q, st, b, func(rows *sql.Rows) error {
		var r dibs.Run
		c := &r.Counts
		err := rows.Scan(into(&r.ID), into(&r.Job), into(&r.Lock), into(&r.Trigger), into(&r.Origin),
			into(&r.Kind), into(&r.State), into(&r.Reason), timeInto{&r.Slot}, into(&r.Key), into(&r.Definition),
			holderInto{&r.Holder}, into(&r.Token), timeInto{&r.Lease}, durationInto{&r.LeaseFor},
			timeInto{&r.Heartbeat}, timeInto{&r.StopBy}, timeInto{&r.StartedAt}, timeInto{&r.EndedAt},
			&c.Selected, &c.Completed, &c.AlreadyDone, &c.Failed, &c.Rejected, &c.Uncertain, &c.Held,
			&c.Released, &c.Lost, &c.Remaining,
			into(&r.Position), intoPointer{&r.ExitCode}, into(&r.Error), into(&r.Output), into(&r.Recovers), into(&r.Previous))
		list = append(list, r)
		return err
	})
	return list, err
}

// readRuns is runs outside of a transaction.
func (s *Store) readRuns(ctx context.Context, what string, st Statement, b Binds) (list []dibs.Run, err error) {
	err = s.reading(ctx, what, func() error {
		list, err = s.runs(ctx, s.db, st, b)
		return err
	})
	return list, err
}

// Run reads one run by its full ID, or [dibs.ErrNotFound].
func (s *Store) Run(ctx context.Context, id string) (dibs.Run, error) {
	st, err := s.own("run_list", "id")
	if err != nil {
		return dibs.Run{}, err
	}
	list, err := s.readRuns(ctx, "read run "+id, st, Binds{"id": id, "limit": 1})
	switch {
	case err != nil:
		return dibs.Run{}, err
	case len(list) == 0:
		return dibs.Run{}, fmt.Errorf("read run %s: %w", id, dibs.ErrNotFound)
	}
	return list[0], nil
}

// ListRuns lists runs, newest first, without the output of their processes.
func (s *Store) ListRuns(ctx context.Context, f dibs.RunFilter) ([]dibs.Run, error) {
	suffix := strings.TrimPrefix(f.Suffix, "…")
	st, err := s.own("run_list", present(map[string]bool{
		"job": f.Job != "", "state": f.State != "", "suffix": suffix != "", "listed": true,
	})...)
	if err != nil {
		return nil, err
	}
	return s.readRuns(ctx, "list runs", st, Binds{
		"job": f.Job, "state": string(f.State), "suffix": suffix, "limit": limitOf(f.Limit),
	})
}

// present lists the names whose condition holds.
func present(conditions map[string]bool) []string {
	var names []string
	for n, holds := range conditions {
		if holds {
			names = append(names, n)
		}
	}
	return names
}

// ExpiredRuns lists running runs whose lease has ended, oldest first.
func (s *Store) ExpiredRuns(ctx context.Context, limit int) ([]dibs.Run, error) {
	st, err := s.own("run_expired")
	if err != nil {
		return nil, err
	}
	return s.readRuns(ctx, "list expired runs", st, Binds{"limit": limitOf(limit)})
}

// SetProgress writes what a run tells about itself. [dibs.ErrStaleFence]: the
// run is not running any more, or not this token's.
func (s *Store) SetProgress(ctx context.Context, r dibs.RunRef, p dibs.Progress) error {
	st, err := s.own("run_progress")
	if err != nil {
		return err
	}
	b := Binds{"id": r.ID, "token": string(r.Token), "position": text(p.Position)}
	b.counts(p.Counts)
	return s.InTx(ctx, "write the progress of run "+r.ID, func(ctx context.Context, tx *Tx) error {
		n, err := tx.Exec(ctx, st, b)
		if err == nil && n == 0 {
			err = dibs.ErrStaleFence
		}
		return err
	})
}

// counts binds a run's counters.
func (b Binds) counts(c dibs.Counts) {
	b["selected"], b["completed"], b["already_done"] = c.Selected, c.Completed, c.AlreadyDone
	b["failed"], b["rejected"], b["uncertain"] = c.Failed, c.Rejected, c.Uncertain
	b["held"], b["released"], b["lost"], b["remaining"] = c.Held, c.Released, c.Lost, c.Remaining
}

// FoldOutcomes counts the outcomes on record for a run, late ones apart.
// Selected and Remaining are not known from outcomes and stay zero.
func (s *Store) FoldOutcomes(ctx context.Context, run string) (dibs.Counts, error) {
	st, err := s.own("outcome_fold")
	if err != nil {
		return dibs.Counts{}, err
	}
	var counts dibs.Counts
	err = s.reading(ctx, "count the outcomes of run "+run, func() error {
		counts = dibs.Counts{}
		return query(ctx, s.db, st, tokensOf(run), func(rows *sql.Rows) error {
			var outcome dibs.Outcome
			var n int64
			err := rows.Scan(into(&outcome), &n)
			counts.Add(outcome, n)
			return err
		})
	})
	return counts, err
}

// tokensOf binds the range of tokens that a run can have made: "0" is the byte
// after "/".
func tokensOf(run string) Binds { return Binds{"from": run + "/", "to": run + "0"} }

// ListOutcomes lists outcomes, newest first.
func (s *Store) ListOutcomes(ctx context.Context, f dibs.OutcomeFilter) ([]dibs.OutcomeRecord, error) {
	st, err := s.own("outcome_list", present(map[string]bool{
		"run": f.Run != "", "job": f.Job != "", "key": f.Key != "",
		"work_id": f.WorkID != "", "outcome": f.Outcome != "",
	})...)
	if err != nil {
		return nil, err
	}
	b := tokensOf(f.Run)
	b["job"], b["key"], b["work_id"] = f.Job, f.Key, f.WorkID
	b["outcome"], b["limit"] = string(f.Outcome), limitOf(f.Limit)
	var list []dibs.OutcomeRecord
	err = s.reading(ctx, "list outcomes", func() error {
		list = nil
		return query(ctx, s.db, st, b, func(rows *sql.Rows) error {
			var o dibs.OutcomeRecord
			err := rows.Scan(into(&o.Token), into(&o.Key), &o.Late, into(&o.RunID), into(&o.Job), into(&o.WorkID),
				&o.Fence, &o.Attempt, into(&o.Outcome), into(&o.Reason), into(&o.ReceiptID), rawInto{&o.Evidence},
				into(&o.Error), durationInto{&o.Took}, timeInto{&o.RecordedAt})
			list = append(list, o)
			return err
		})
	})
	return list, err
}

// Audit records a human act.
func (s *Store) Audit(ctx context.Context, a dibs.AuditRecord) error {
	return s.InTx(ctx, "record "+a.What, func(ctx context.Context, tx *Tx) error { return s.audit(ctx, tx.q(), a) })
}

func (s *Store) audit(ctx context.Context, q querier, a dibs.AuditRecord) error {
	st, err := s.own("audit_insert")
	if err != nil {
		return err
	}
	_, err = exec(ctx, q, st, Binds{
		"by": clean(a.By), "what": clean(tail(a.What, mostID)), "job": name(a.Job), "object": text(tail(a.Object, mostText)),
		"before": text(tail(a.Before, mostText)), "after": text(tail(a.After, mostText)), "why": text(tail(a.Why, mostText)),
	})
	return err
}

// ListAudit lists human acts, newest first.
func (s *Store) ListAudit(ctx context.Context, limit int) ([]dibs.AuditRecord, error) {
	st, err := s.own("audit_list")
	if err != nil {
		return nil, err
	}
	var list []dibs.AuditRecord
	err = s.reading(ctx, "list human acts", func() error {
		list = nil
		return query(ctx, s.db, st, Binds{"limit": limitOf(limit)}, func(rows *sql.Rows) error {
			var a dibs.AuditRecord
			err := rows.Scan(timeInto{&a.At}, into(&a.By), into(&a.What), into(&a.Job), into(&a.Object),
				into(&a.Before), into(&a.After), into(&a.Why))
			list = append(list, a)
			return err
		})
	})
	return list, err
}
