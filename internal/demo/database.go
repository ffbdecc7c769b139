package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// load makes the table of accounts and fills it from the shipped file, as an
// application of somebody's own would have done long ago.
func load(ctx context.Context, db *sql.DB, all []account) error {
	if _, err := db.ExecContext(ctx, accountsSQL); err != nil {
		return fmt.Errorf("make the table of accounts: %w", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("load the accounts: %w", err)
	}
	defer tx.Rollback()
	for _, a := range all {
		_, err := tx.ExecContext(ctx, `INSERT INTO account_config (account_id, name, external_ref, enabled) VALUES (?, ?, ?, ?)`,
			a.ID, a.Name, a.ExternalRef, a.Enabled)
		if err != nil {
			return fmt.Errorf("load the account %s: %w", a.ID, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("load the accounts: %w", err)
	}
	return nil
}

// liveRun is a run as the database has it now.
type liveRun struct {
	id    string
	pid   int
	state string
	// inHand are the rows that it has, done the outcomes that it has recorded.
	inHand, done      int
	selected          int
	completed, failed int
	leaseEnd          time.Time
}

// runs lists the job's runs by process ID, without those that a person started
// for one account. One process has one run.
func runs(ctx context.Context, db *sql.DB) (map[int]liveRun, error) {
	rows, err := db.QueryContext(ctx, `
		SELECT r.id, r.holder, r.state, r.lease_end, r.selected, r.completed, r.failed,
		       (SELECT count(*) FROM account_config a
		        WHERE a.status = 'IN_PROGRESS' AND substr(a.claim_token, 1, length(r.id) + 1) = r.id || '/'),
		       (SELECT count(*) FROM dibs_outcomes o WHERE o.run_id = r.id)
		FROM dibs_runs r
		WHERE r.item_key IS NULL`)
	if err != nil {
		return nil, fmt.Errorf("look at the runs: %w", err)
	}
	defer rows.Close()
	all := map[int]liveRun{}
	for rows.Next() {
		var r liveRun
		var holder string
		var leaseEnd int64
		if err := rows.Scan(&r.id, &holder, &r.state, &leaseEnd, &r.selected, &r.completed, &r.failed, &r.inHand, &r.done); err != nil {
			return nil, fmt.Errorf("look at the runs: %w", err)
		}
		h, err := dibs.ParseHolder(holder)
		if err != nil {
			return nil, fmt.Errorf("look at the runs: %w", err)
		}
		r.pid, r.leaseEnd = h.PID, time.UnixMicro(leaseEnd)
		all[r.pid] = r
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look at the runs: %w", err)
	}
	return all, nil
}

// inHand lists the rows of a run and until when it has each, and the database's
// time at that moment.
func inHand(ctx context.Context, db *sql.DB, run string) (until map[string]time.Time, now time.Time, err error) {
	rows, err := db.QueryContext(ctx, `
		SELECT account_id, claimable_at, CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)
		FROM account_config
		WHERE status = 'IN_PROGRESS' AND substr(claim_token, 1, length(?1) + 1) = ?1 || '/'`, run)
	if err != nil {
		return nil, now, fmt.Errorf("look at the rows in hand: %w", err)
	}
	defer rows.Close()
	until = map[string]time.Time{}
	for rows.Next() {
		var key string
		var at, ms int64
		if err := rows.Scan(&key, &at, &ms); err != nil {
			return nil, now, fmt.Errorf("look at the rows in hand: %w", err)
		}
		until[key], now = time.UnixMicro(at), time.UnixMilli(ms)
	}
	if err := rows.Err(); err != nil {
		return nil, now, fmt.Errorf("look at the rows in hand: %w", err)
	}
	return until, now, nil
}

// pick answers with one account, or "" when there is none.
func pick(ctx context.Context, db *sql.DB, query string) (string, error) {
	var key string
	if err := db.QueryRowContext(ctx, query).Scan(&key); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("look for an account: %w", err)
	}
	return key, nil
}

// The account that was claimed last and stands last in its batch: it will be in
// progress for a while.
const pickInProgress = `SELECT account_id FROM account_config WHERE status = 'IN_PROGRESS' ORDER BY started_at DESC, account_id DESC LIMIT 1`

// The account whose turn comes last.
const pickFree = `SELECT account_id FROM account_config
	WHERE status = 'IDLE' AND enabled = 1 AND NOT EXISTS (SELECT 1 FROM dibs_outcomes o WHERE o.item_key = account_id)
	ORDER BY account_id DESC LIMIT 1`

// readDatabase reads the database's side of the evidence.
func readDatabase(ctx context.Context, db *sql.DB, e *Evidence) error {
	rows, err := db.QueryContext(ctx, `SELECT account_id, enabled, status FROM account_config ORDER BY account_id`)
	if err != nil {
		return fmt.Errorf("read the accounts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		if err := rows.Scan(&r.Key, &r.Enabled, &r.Status); err != nil {
			return fmt.Errorf("read the accounts: %w", err)
		}
		e.Rows = append(e.Rows, r)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the accounts: %w", err)
	}
	return readOutcomes(ctx, db, e)
}

func readOutcomes(ctx context.Context, db *sql.DB, e *Evidence) error {
	rows, err := db.QueryContext(ctx, `
		SELECT item_key, work_id, run_id, fence, outcome, recorded_at, took_us FROM dibs_outcomes ORDER BY recorded_at, token, item_key`)
	if err != nil {
		return fmt.Errorf("read the outcomes: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var o Outcome
		var at, took int64
		if err := rows.Scan(&o.Key, &o.WorkID, &o.Run, &o.Fence, &o.Outcome, &at, &took); err != nil {
			return fmt.Errorf("read the outcomes: %w", err)
		}
		o.At, o.Took = time.UnixMicro(at), time.Duration(took)*time.Microsecond
		e.Outcomes = append(e.Outcomes, o)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the outcomes: %w", err)
	}
	return nil
}
