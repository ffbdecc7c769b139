package dispatch_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/internal/testdb"
	"github.com/dibs-run/dibs/store/mysql"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/store/sqlite"
)

// migrator is a store whose tables can be made.
type migrator interface {
	dibs.Store
	Migrate(ctx context.Context) ([]string, error)
}

func openStore(kind string, db *sql.DB) migrator {
	switch kind {
	case "postgres":
		return postgres.New(db)
	case "mysql":
		return mysql.New(db)
	}
	return sqlite.New(db)
}

// raceRounds is how often the wake-up race is run: a few hundred times in the
// ordinary test, ten thousand times in make soak.
func raceRounds() int {
	if os.Getenv("DIBS_SOAK") != "" {
		return 10_000
	}
	return 150
}

// The wake-up race: a finisher frees the lock while a waiter arrives. Whichever
// comes first, once both have returned, nobody waits for a free lock: either the
// waiter has started, or the finisher has handed it the lock.
func TestRandomWakeUpRaceNeverLeavesAFreeLockWithALiveWaiter(t *testing.T) {
	testdb.All(t, func(t *testing.T, kind, url string) {
		db := testdb.Open(t, url)
		store := openStore(kind, db)
		if _, err := store.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		const lanes = 4
		var group errgroup.Group
		for lane := range lanes {
			group.Go(func() error { return race(t.Context(), store, fmt.Sprint("job", lane), raceRounds()/lanes) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// race plays rounds of finisher against two arrivers on one lock.
func race(ctx context.Context, store dibs.Store, name string, rounds int) error {
	if err := store.Register(ctx, []dibs.JobRecord{{Name: name, Hash: "h", Text: "h"}}); err != nil {
		return err
	}
	j := &dibs.Job{Name: name, Overlap: dibs.Queue}
	d := func(host string) *dispatch.Dispatcher {
		return dispatch.New(dispatch.Config{Runs: store, Holder: dibs.Holder{Host: host, PID: 1, Process: "p"}})
	}
	arrive := func(host string) (dispatch.Fired, error) {
		return d(host).Fire(ctx, dispatch.Request{Job: j, Hash: "h", Origin: dibs.OriginExternal, Kind: dibs.KindCommand, Lease: time.Minute, Waiter: true})
	}
	first, err := arrive("first")
	if err != nil || first.Run == nil {
		return fmt.Errorf("round 0: %+v, %w", first.Trigger, err)
	}
	run := *first.Run
	for round := range rounds {
		var wg sync.WaitGroup
		var faults [3]error
		var arrived [2]dispatch.Fired
		wg.Go(func() {
			faults[2] = d("finisher").Finish(ctx, run, dibs.RunEnd{Run: run.Ref(), State: dibs.RunSucceeded})
		})
		for i := range arrived {
			wg.Go(func() { arrived[i], faults[i] = arrive(fmt.Sprint("w", i)) })
		}
		wg.Wait()
		if err := errors.Join(faults[:]...); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		// Serve both, one after the other; nobody beats, nobody sweeps.
		for turn := range 2 {
			live, err := only(ctx, store, arrived[:])
			if err != nil {
				return fmt.Errorf("round %d, turn %d: %w", round, turn, err)
			}
			if turn == 1 { // the next round's run
				run = live
				break
			}
			if err := d("w").Finish(ctx, live, dibs.RunEnd{Run: live.Ref(), State: dibs.RunSucceeded}); err != nil {
				return fmt.Errorf("round %d, turn %d: %w", round, turn, err)
			}
		}
	}
	return nil
}

// only is the one running run of the two that arrived.
func only(ctx context.Context, store dibs.Store, arrived []dispatch.Fired) (dibs.Run, error) {
	var live []dibs.Run
	waiting := 0
	for _, f := range arrived {
		t, err := store.Trigger(ctx, f.Trigger.ID)
		if err != nil {
			return dibs.Run{}, err
		}
		if t.Decision == dibs.DecisionWaiting {
			waiting++
		}
		if t.RunID == "" {
			continue
		}
		r, err := store.Run(ctx, t.RunID)
		if err != nil {
			return dibs.Run{}, err
		}
		if r.State == dibs.RunRunning {
			live = append(live, r)
		}
	}
	if len(live) != 1 {
		return dibs.Run{}, fmt.Errorf("%d runs live, %d triggers waiting: want exactly one live", len(live), waiting)
	}
	return live[0], nil
}
