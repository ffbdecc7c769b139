package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/dibs-run/dibs"
)

var _ dibs.Plans = (*Store)(nil)

// PutPlan inserts a plan or updates its state and runs. See [dibs.Plans].
func (s *Store) PutPlan(ctx context.Context, p dibs.Plan) error {
	insert, err := s.own("plan_insert")
	if err != nil {
		return err
	}
	update, err := s.own("plan_update")
	if err != nil {
		return err
	}
	if err := firstError(
		fit(mostID, "the plan's ID", p.ID, "its state", string(p.State)),
		fit(mostName, "the job's name", p.Job), fit(mostKey, "the range", p.Span),
	); err != nil {
		return fmt.Errorf("write plan %s: %w", p.ID, err)
	}
	runs, err := json.Marshal(p.Runs)
	if err != nil {
		return fmt.Errorf("write plan %s: %w", p.ID, err)
	}
	b := Binds{
		"id": p.ID, "job": p.Job, "span": p.Span, "state": string(p.State), "most": int64(p.Count), "items": string(p.Items),
		"runs": string(runs), "by": text(p.By), "why": text(tail(p.Why, mostText)),
	}
	return s.InTx(ctx, "write plan "+p.ID, func(ctx context.Context, tx *Tx) error {
		n, err := tx.Exec(ctx, update, b)
		if err != nil || n > 0 {
			return err
		}
		there := false // written so before: some servers count only changes
		if err := s.plans(ctx, tx.q(), p.Job, p.Span, func(old dibs.Plan) { there = old.ID == p.ID }); err != nil || there {
			return err
		}
		_, err = tx.Exec(ctx, insert, b)
		return err
	})
}

// LatestPlan is the newest plan of a job and range. See [dibs.Plans].
func (s *Store) LatestPlan(ctx context.Context, job, span string) (dibs.Plan, error) {
	var plan dibs.Plan
	err := s.reading(ctx, "read the plan of "+job, func() error {
		plan = dibs.Plan{}
		return s.plans(ctx, s.db, job, span, func(p dibs.Plan) { plan = p })
	})
	if err == nil && plan.ID == "" {
		err = fmt.Errorf("a plan of %s for %s: %w", job, span, dibs.ErrNotFound)
	}
	return plan, err
}

func (s *Store) plans(ctx context.Context, q querier, job, span string, take func(dibs.Plan)) error {
	st, err := s.own("plan_latest")
	if err != nil {
		return err
	}
	return query(ctx, q, st, Binds{"job": job, "span": span}, func(rows *sql.Rows) error {
		var p dibs.Plan
		var runs json.RawMessage
		if err := rows.Scan(into(&p.ID), into(&p.Job), into(&p.Span), into(&p.State), &p.Count, rawInto{&p.Items}, rawInto{&runs},
			into(&p.By), into(&p.Why), timeInto{&p.CreatedAt}); err != nil {
			return err
		}
		if err := json.Unmarshal(runs, &p.Runs); err != nil {
			return fmt.Errorf("plan %s: its runs: %w", p.ID, err)
		}
		take(p)
		return nil
	})
}
