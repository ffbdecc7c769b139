package runner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
)

// An item's transaction commits with the settle or not at all.
func TestItemTxCompletesTheItem(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.exec("CREATE TABLE total (n INTEGER NOT NULL)")
		w.exec("INSERT INTO total VALUES (0)")
		boom := errors.New("boom")
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			err := it.Tx(ctx, func(ctx context.Context, tx dibs.Tx) (dibs.Receipt, error) {
				if _, err := tx.ExecContext(ctx, "UPDATE total SET n = n + 1"); err != nil {
					return dibs.Receipt{}, err
				}
				switch it.Key.String() {
				case id(2):
					return dibs.Receipt{}, boom
				case id(3): // somebody takes the row meanwhile
					if _, err := tx.ExecContext(ctx, "UPDATE account_config SET fence = fence + 1, claim_token = 'x' WHERE account_id = ?", id(3)); err != nil {
						return dibs.Receipt{}, err
					}
				}
				return dibs.Receipt{ID: "row-" + it.Key.String()}, nil
			})
			switch {
			case it.Key.String() == id(2) && !errors.Is(err, boom):
				t.Errorf("%s: %v", it.Key, err)
			case it.Key.String() == id(3) && !errors.Is(err, dibs.ErrLeaseLost):
				t.Errorf("%s: %v", it.Key, err)
			case it.Key.String() == id(4):
				return dibs.Receipt{}, errors.New("after the fact")
			}
			return dibs.Receipt{}, err
		}
		d := &destination{has: map[string]int{}}
		report := w.tick(w.runner(w.effectJob(handle, d, func(j *dibs.Job) { j.Concurrency = 2 })))
		if c := report.Run.Counts; c.Completed != 2 || c.Uncertain != 2 {
			t.Errorf("%s", c)
		}
		w.want("2", "SELECT n FROM total")
		w.want("row-"+id(1), "SELECT receipt_id FROM dibs_outcomes WHERE item_key = ?", id(1))
		w.want("2", "SELECT count(*) FROM dibs_effects WHERE state = 'confirmed' AND destination_id LIKE 'row-%'")
		w.want("2", "SELECT count(*) FROM dibs_effects WHERE state = 'uncertain'")
	})
}

// On SQLite a transaction that would starve the renewals is ended.
func TestItemTxIsBoundedOnSQLite(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			err := it.Tx(ctx, func(context.Context, dibs.Tx) (dibs.Receipt, error) {
				pass(15 * time.Second) // a beat is 20 s
				return dibs.Receipt{}, nil
			})
			if !errors.Is(err, dibs.ErrTimeout) {
				t.Errorf("want a time-out, got %v", err)
			}
			return dibs.Receipt{}, err
		}
		if c := w.tick(w.runner(w.job(handle, nil))).Run.Counts; c.Failed != 1 {
			t.Errorf("%s", c)
		}
	})
}
