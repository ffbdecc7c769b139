package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-run/dibs"
)

// RenewRun extends a run without items, on the reserved connection. A refused
// renewal is no error: Renewed.Run is then zero, and StopBy tells whether the
// run was asked to stop.
func (s *Store) RenewRun(ctx context.Context, r dibs.RunRef, lease time.Duration) (dibs.Renewed, error) {
	var renewed dibs.Renewed
	err := s.InReservedTx(ctx, "renew run "+r.ID, func(ctx context.Context, tx *Tx) (err error) {
		renewed, err = s.extendRun(ctx, tx, r, lease)
		return err
	})
	if err != nil {
		return dibs.Renewed{}, err
	}
	return renewed, nil
}

// extendRun renews the run's own lease inside a transaction.
func (s *Store) extendRun(ctx context.Context, tx *Tx, r dibs.RunRef, lease time.Duration) (renewed dibs.Renewed, err error) {
	extend, err := s.own("run_extend")
	if err != nil {
		return renewed, err
	}
	read, err := s.own("run_lease")
	if err != nil {
		return renewed, err
	}
	n, err := tx.Exec(ctx, extend, Binds{
		"id": r.ID, "token": string(r.Token),
		"lease_us": (lease + s.skew).Microseconds(), "asked_us": lease.Microseconds(),
	})
	if err != nil {
		return renewed, err
	}
	err = tx.Query(ctx, read, Binds{"id": r.ID, "token": string(r.Token)}, func(rows *sql.Rows) error {
		return rows.Scan(timeInto{&renewed.Ends}, timeInto{&renewed.StopBy}, timeInto{&renewed.Now})
	})
	if n > 0 {
		renewed.Run = renewed.Ends
	}
	return renewed, err
}
