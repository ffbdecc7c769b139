package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
)

// CaseB66 checks that eight idle workers that poll an empty table, renew and sweep it delay
// nobody who inserts.
func CaseB66(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		b.full(0, func(t *dibs.Table) { t.Where = "name = 'never'" })
		alone := b.inserts(1, 100)
		ctx, stop := context.WithCancel(b.Context())
		defer stop()
		var polls atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			r := b.start()
			all.Go(func() {
				for ctx.Err() == nil {
					if err := b.poll(ctx, r); err != nil && ctx.Err() == nil {
						b.Errorf("the loop of a worker ended: %v", err)
						return
					}
					polls.Add(1)
				}
			})
		}
		b.eventually("all workers poll", func() bool { return polls.Load() >= 16 })
		beside := b.inserts(101, 200)
		stop()
		all.Wait()
		b.Logf("longest insert %s alone, %s beside eight workers after %d polls", alone, beside, polls.Load())
		if beside > 5*time.Second {
			b.Errorf("an insert waited %s for workers that had nothing to do", beside)
		}
	})
}

// poll is what an idle worker does.
func (b *bundle) poll(ctx context.Context, r dibs.Run) error {
	if _, err := b.claims.Sweep(ctx, lease); err != nil {
		return err
	}
	got, err := b.claims.Claim(ctx, b.request(r, 10))
	if err == nil && len(got.Items) != 0 {
		err = fmt.Errorf("claimed %s", names(got.Items))
	}
	if err != nil {
		return err
	}
	_, err = b.claims.Remaining(ctx, dibs.Scope{}, 10)
	return err
}

// inserts rows one by one, as applications do, and returns the longest wait.
func (b *bundle) inserts(from, to int) (longest time.Duration) {
	b.Helper()
	for ; from <= to; from++ {
		began := time.Now()
		b.insert(from, from)
		longest = max(longest, time.Since(began))
	}
	return longest
}

// CaseB67 checks that claims, sweeps, heartbeats and the application's own transactions in
// each other's way lose no lease and end no loop.
func CaseB67(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		const rows, workers, rounds = 40, 3, 12
		b.full(rows)
		ctx, stop := context.WithTimeout(b.Context(), 2*wait)
		defer stop()
		var working, disturbing sync.WaitGroup
		disturb := func(name string, do func(n int) error) {
			disturbing.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if err := do(n); err != nil && ctx.Err() == nil {
						b.Errorf("%s ended: %v", name, err)
						return
					}
				}
			})
		}
		for range workers {
			r := b.start()
			working.Go(func() { b.beatingWorker(ctx, r, rounds) })
		}
		disturb("sweeping", func(int) error { _, err := b.claims.Sweep(ctx, lease); return err })
		disturb("the application", func(n int) error {
			_, err := b.f.DB.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET name = 'n%d' WHERE id = %d", b.table, n, n%rows+1))
			return err
		})
		working.Wait()
		stop()
		disturbing.Wait()
		st, err := b.claims.Stats(b.Context())
		if err != nil || st.InProgress != 0 || st.Idle != rows {
			b.Errorf("left %+v, %v", st, err)
		}
	})
}

// beatingWorker claims, renews what it holds from another goroutine, and settles.
func (b *bundle) beatingWorker(ctx context.Context, r dibs.Run, rounds int) {
	for range rounds {
		got, err := b.claims.Claim(ctx, b.request(r, 8))
		if err != nil {
			b.Errorf("claiming ended: %v", err)
			return
		}
		var beats sync.WaitGroup
		beats.Go(func() {
			for range 2 {
				renewed, err := b.claims.Renew(ctx, dibs.RenewRequest{Run: r.Ref(), Lease: lease, Items: got.Items})
				if err != nil {
					b.Errorf("the heartbeat ended: %v", err)
					return
				}
				for i, it := range renewed.Items {
					if it.EndsAt.IsZero() {
						b.Errorf("the lease of %s was taken for lost", got.Items[i].Key)
					}
				}
			}
		})
		beats.Wait()
		settled, err := b.claims.Settle(ctx, dibs.SettleRequest{Run: r.Ref(), Items: completed(r, got.Items...)})
		if err != nil {
			b.Errorf("settling ended: %v", err)
			return
		}
		for i, s := range settled {
			if !s.OK {
				b.Errorf("row %s was lost: %+v", got.Items[i].Key, s)
			}
		}
	}
}
