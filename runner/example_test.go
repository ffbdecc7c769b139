package runner_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/store/sqlite"
)

// Example syncs the enabled accounts of one's own table to a CRM.
func Example() {
	ctx := context.Background()
	db, crm, done := openDB(ctx) // your *sql.DB, your driver
	defer done()
	r, err := runner.New(runner.Config{Store: sqlite.New(db), Jobs: []dibs.Job{{
		Name:        "crm-sync",
		Overlap:     dibs.Skip,
		OnUncertain: dibs.Replay, // UpsertNote is idempotent by work ID
		Source: dibs.Table{
			Name: "account_config", Key: "account_id",
			Where: "enabled", Select: []string{"name", "external_ref"}, Every: 5 * time.Minute,
		},
		Batch: 100, Concurrency: 8, Timeout: 30 * time.Second,
		Handle: func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			var a struct{ Name, ExternalRef string }
			if err := it.Decode(&a); err != nil {
				return dibs.Receipt{}, dibs.Reject(err) // never sent; the others go on
			}
			id, err := crm.UpsertNote(ctx, it.WorkID, a.ExternalRef, a.Name)
			return dibs.Receipt{ID: id}, err // ctx ends with the lease
		},
	}}})
	if err != nil {
		log.Fatal(err) // every fault of the configuration at once
	}
	report, err := r.Tick(ctx, "crm-sync") // also r.Run(ctx, job, key)
	fmt.Println(report, err)

	_, err = r.Run(ctx, "crm-sync", "b")
	var refused *dibs.RefusedError
	fmt.Println(errors.As(err, &refused), err)
	// Output:
	// started: 3 claimed = 2 completed + 1 rejected, 0 uncertain, 0 remaining <nil>
	// true b: filtered (the job's where excludes it)
}

// crmClient stands for a destination's client library.
type crmClient struct{}

// UpsertNote refuses accounts without a reference for good.
func (crmClient) UpsertNote(_ context.Context, workID, ref, _ string) (string, error) {
	if ref == "" {
		return "", dibs.Reject(errors.New("no external reference"))
	}
	return "note-" + workID, nil
}

// openDB makes a table of accounts with the columns that "dibs adopt" adds.
func openDB(ctx context.Context) (*sql.DB, crmClient, func()) {
	dir, err := os.MkdirTemp("", "dibs-example-")
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "app.db")+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := sqlite.New(db).Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, accountsTable+`
		INSERT INTO account_config (account_id, name, external_ref, enabled) VALUES
			('a', 'Anna', 'A-1', 1), ('b', 'Bert', 'B-1', 0), ('c', 'Carla', '', 1), ('d', 'Dora', 'D-1', 1);`); err != nil {
		log.Fatal(err)
	}
	return db, crmClient{}, func() {
		if err := errors.Join(db.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

// accountsTable is a user's table after adoption, on SQLite.
const accountsTable = `
	CREATE TABLE account_config (
		account_id TEXT PRIMARY KEY, name TEXT, external_ref TEXT, enabled INTEGER NOT NULL DEFAULT 1,
		status TEXT NOT NULL DEFAULT 'IDLE', started_at INTEGER, claimable_at INTEGER DEFAULT 0, claim_token TEXT,
		fence INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, expirations INTEGER NOT NULL DEFAULT 0,
		cycle INTEGER, last_success_at INTEGER, last_error TEXT);
	CREATE INDEX account_config_claim ON account_config (claimable_at, account_id);`
