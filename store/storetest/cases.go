package storetest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dibs-run/dibs"
)

// Cases from the field, named as in the project's list. Each checks the whole
// kind of failure as far as a store has to do with it.

// CaseB02 checks that recovery must not rewrite what finished, or was claimed afresh, after
// recovery had read it.
func CaseB02(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		renewed, ended, restarted := b.start(), b.start(), b.start()
		runs := []dibs.Run{renewed, ended, restarted}
		for _, r := range runs {
			b.expireRun(r.ID)
		}
		read, err := b.store.ExpiredRuns(b.Context(), 10)
		b.must("list expired runs", err)
		if len(read) != 3 {
			b.Fatalf("%d expired runs", len(read))
		}
		b.renewAlone(renewed.Ref())
		b.end(ended)
		b.lose(restarted)
		(&scene{bundle: b}).succeed("after a lost run", restarted.Job)
		var before []dibs.Run
		for _, r := range runs {
			run, err := b.store.Run(b.Context(), r.ID)
			b.must("read the run", err)
			before = append(before, run)
		}
		for i, r := range read {
			b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
				lost, err := d.MarkLost(ctx, r.Ref(), dibs.ReasonHolderGone)
				if lost {
					b.Errorf("run %d was marked lost after it had moved on", i)
				}
				return err
			})
		}
		for i, r := range runs {
			if run, err := b.store.Run(b.Context(), r.ID); err != nil || cmp.Diff(before[i], run) != "" {
				b.Errorf("the run changed (%v):\n%s", err, cmp.Diff(before[i], run))
			}
		}
		b.decide(restarted.Job, func(_ context.Context, d dibs.Desk) error {
			if d.Holder() == nil || d.Holder().ID == restarted.ID {
				b.Errorf("the successor lost its lock: %+v", d.Holder())
			}
			return nil
		})
		movedOn(b)
	})
}

// movedOn lets orphaned rows move on in the application's own transaction while a
// sweep that has perhaps seen them waits for it.
func movedOn(b *bundle) {
	b.full(5)
	b.orphans() // 1 to 4
	tx, err := b.f.DB.BeginTx(b.Context(), nil)
	b.must("begin", err)
	for _, change := range []string{
		"status = 'IDLE', claimable_at = " + b.sql.Shift(b.sql.Now, lease) + ", last_error = 'done by hand' WHERE id = 1",
		"claim_token = 'other/1', fence = 9, claimable_at = " + b.sql.Shift(b.sql.Now, 2*lease) + ", started_at = " + b.sql.Now + " WHERE id IN (2, 3)",
		"status = 'DONE' WHERE id = 4",
	} {
		_, err := tx.ExecContext(b.Context(), "UPDATE "+b.table+" SET "+change)
		b.must(change, err)
	}
	var swept dibs.Swept
	var failed error
	var one sync.WaitGroup
	one.Go(func() { swept, failed = b.claims.Sweep(b.Context(), lease) })
	began := time.Now()
	b.eventually("the sweep has had its time", func() bool { return time.Since(began) > 200*time.Millisecond })
	b.must("commit", tx.Commit())
	before := b.state()
	one.Wait()
	b.must("sweep", failed)
	if swept != (dibs.Swept{}) {
		b.Errorf("swept %+v although every row had moved on", swept)
	}
	again, err := b.claims.Sweep(b.Context(), lease)
	if err != nil || again != (dibs.Swept{}) {
		b.Errorf("swept again %+v, %v", again, err)
	}
	if diff := cmp.Diff(before, b.state()); diff != "" {
		b.Errorf("rows that had moved on were rewritten:\n%s", diff)
	}
}

// CaseB08 checks that a lease end is computed when the wait for a lock is over, by the
// database's clock.
func CaseB08(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		b.full(4)
		r := b.start()
		held := b.take(r, "1").Items
		const asked = 10 * time.Minute
		for what, do := range map[string]func() (time.Time, error){
			"claim": func() (time.Time, error) {
				got, err := b.claims.Claim(b.Context(), b.request(r, 2, func(q *dibs.ClaimRequest) { q.Lease = asked }))
				return got.EndsAt, err
			},
			"renewal": func() (time.Time, error) {
				b.exec("UPDATE " + b.table + " SET claimable_at = " + b.sql.Shift(b.sql.Now, time.Second) + " WHERE id = 1")
				got, err := b.claims.Renew(b.Context(), dibs.RenewRequest{Run: r.Ref(), Lease: asked, Items: held})
				if err != nil {
					return time.Time{}, err
				}
				return got.Items[0].EndsAt, nil
			},
			"start": func() (time.Time, error) {
				next := b.newRun(r.Job)
				next.LeaseFor = asked
				err := b.store.Decide(b.Context(), r.Job, func(ctx context.Context, d dibs.Desk) error {
					return d.StartRun(ctx, &next, false)
				})
				return next.Lease, err
			},
		} {
			b.delayed(what, r, asked, do)
		}
	})
}

// delayed carries an operation out while the application has the run's row
// locked, and checks that the lease is as long as asked when the wait is over.
func (b *bundle) delayed(what string, r dibs.Run, asked time.Duration, do func() (time.Time, error)) {
	b.Helper()
	began, err := b.store.Now(b.Context())
	b.must("now", err)
	tx, err := b.f.DB.BeginTx(b.Context(), nil)
	b.must("begin", err)
	for _, statement := range []string{
		"UPDATE dibs_runs SET position = 'locked' WHERE id = " + literals(r.ID),
		"UPDATE dibs_locks SET decisions = decisions + 1 WHERE name = " + literals(r.Job),
	} {
		_, err := tx.ExecContext(b.Context(), statement)
		b.must(statement, err)
	}
	var ends time.Time
	var failed error
	var one sync.WaitGroup
	one.Go(func() { ends, failed = do() })
	var over time.Time
	b.eventually("the operation has waited for a while", func() bool {
		over, err = b.store.Now(b.Context())
		b.must("now", err)
		return over.Sub(began) > 300*time.Millisecond
	})
	b.must("commit", tx.Commit())
	one.Wait()
	b.must(what, failed)
	if ends.Before(over.Add(asked)) {
		b.Errorf("%s: the lease ends at %s, %s after the wait for the lock: %s were asked for", what, ends, ends.Sub(over), asked)
	}
}

// CaseB10 checks that a delayed renewal takes nothing back from the new owner, and a
// worker's own last renewal does not make its own finish stale.
func CaseB10(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		b.full(1)
		r, thief := b.start(), b.start()
		old := b.claimOne(r, 1)
		b.expire(where(1))
		stolen := b.claimOne(thief, 1)
		before := b.state()
		if got := b.renew(r, old); !got.Items[0].EndsAt.IsZero() {
			b.Errorf("a delayed renewal was granted: %+v", got)
		}
		if got := b.settle(r, completed(r, old)...); got[0].OK || !got[0].Late {
			b.Errorf("the former owner finished: %+v", got)
		}
		if diff := cmp.Diff(before, b.state()); diff != "" {
			b.Errorf("the former owner changed the row:\n%s", diff)
		}
		b.settled(thief, completed(thief, stolen)...)
		for range 20 {
			h := b.claimOne(r, 1)
			var beat sync.WaitGroup
			beat.Go(func() {
				if _, err := b.claims.Renew(b.Context(), dibs.RenewRequest{Run: r.Ref(), Lease: lease, Items: []dibs.Held{h}}); err != nil {
					b.Errorf("renew: %v", err)
				}
			})
			got, err := b.claims.Settle(b.Context(), dibs.SettleRequest{Run: r.Ref(), Items: completed(r, h)})
			beat.Wait()
			if err != nil || !got[0].OK {
				b.Fatalf("a finish beside the own renewal: %+v, %v", got, err)
			}
			if row := b.look("1"); row.Status != dibs.StatusIdle || row.Token != "" || row.ClaimableAt.After(row.Now) {
				b.Fatalf("a renewal came after the finish: %+v", row)
			}
		}
	})
}

// CaseB24 checks that every state that holds a row has an end.
func CaseB24(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		b.full(8)
		b.orphans()                                                                                                                                    // 1 to 4
		b.set("status = 'IN_PROGRESS', started_at = "+b.sql.Shift(b.sql.Now, past)+", claimable_at = "+b.sql.Shift(b.sql.Now, -time.Minute), where(5)) // no token
		b.set("claim_token = 'left/3', fence = 2, started_at = "+b.sql.Now, where(6))                                                                  // idle with what a claim left
		b.set("status = 'FAILED', claim_token = 'left/3'", where(7))
		b.set("status = 'IN_PROGRESS', claim_token = 'left/3', fence = NULL", where(8))
		orphans, err := b.claims.Rows(b.Context(), dibs.RowFilter{Orphaned: true})
		if err != nil || len(orphans) != 4 {
			b.Errorf("orphaned: %+v, %v", orphans, err)
		}
		if _, err := b.claims.Sweep(b.Context(), lease); err != nil {
			b.Fatal(err)
		}
		b.expire("id <= 3")
		r := b.start()
		got := b.claim(r, 100).Items
		if len(got) != 8 {
			b.Errorf("%s of 8 rows were picked up", names(got))
		}
		b.settled(r, completed(r, got...)...)
	})
}

// CaseB30 checks that rows that keep failing do not own the head of the queue.
func CaseB30(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		const bad, good, batch = 8, 1000, 8
		b.full(bad + good)
		r := b.start()
		done := 0
		var settle []dibs.Settlement
		for claims := 0; done < good; claims++ {
			if claims > 2*(bad+good)/batch {
				b.Fatalf("%d of %d good rows done after %d claims", done, good, claims)
			}
			got := b.claim(r, batch, func(q *dibs.ClaimRequest) { q.Settle = settle })
			settle = nil
			for _, h := range got.Items {
				if len(h.Key[0]) == 1 && h.Key[0] <= "8" {
					settle = append(settle, failed(r, h, 0, "always")) // due again at once
					continue
				}
				done++
				settle = append(settle, completedIn(lease, r, h)...)
			}
		}
	})
}

// CaseB35 checks that a process that dies between the claim and the start leaves a row that
// somebody picks up, and no success that never was.
func CaseB35(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		b.full(8)
		r := b.start()
		b.settled(r, completed(r, b.claimOne(r, 1))...)
		success := b.look("1").LastSuccess
		p, faults := b.faulty()
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		faults.CrashAtText(isCommit, After, cancel)
		q := b.request(r, 8)
		if got, err := p.claims.Claim(ctx, q); !errors.Is(err, dibs.ErrUnanswered) {
			b.Fatalf("the process lived on with %+v, %v", got, err)
		}
		next := b.start()
		if got := b.claim(next, 8); len(got.Items) != 0 {
			b.Errorf("claimed %s before the lease had ended", names(got.Items))
		}
		b.expire("id > 0")
		got := b.claim(next, 8).Items
		if len(got) != 8 {
			b.Fatalf("picked up %s", names(got))
		}
		for _, h := range got {
			if h.Key[0] == "1" && !h.LastSuccess.Equal(success) || h.Key[0] != "1" && !h.LastSuccess.IsZero() {
				b.Errorf("row %s last succeeded at %s", h.Key, h.LastSuccess)
			}
			if h.Prior.Token != q.Token || !h.Prior.Expired() {
				b.Errorf("row %s was %+v", h.Key, h.Prior)
			}
		}
		b.wantRecorded(8, r.ID, dibs.OutcomeLost, false)
	})
}

// CaseB58 checks that names that some collation takes for equal are different jobs, locks
// and slots; see the checks of keys for rows.
func CaseB58(t *testing.T, c Config) { c.one(t, caseB58) }

// CaseB70 checks that a lock belongs to a lease and to no connection: whatever a pool or a
// pooler does with connections neither frees it nor keeps it.
func CaseB70(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		other := sql.OpenDB(b.f.Connector)
		gone := b.f.Open(other)
		r := b.newRun("led")
		b.must("start", gone.Decide(b.Context(), r.Job, func(ctx context.Context, d dibs.Desk) error { return startOn(ctx, d, &r) }))
		b.must("close every connection", other.Close())
		b.decide(r.Job, func(_ context.Context, d dibs.Desk) error {
			if d.Holder() == nil || d.Holder().ID != r.ID || !d.Holder().Lease.After(d.Now()) {
				b.Errorf("the lock went with its connection: %+v", d.Holder())
			}
			return nil
		})
		if got := b.renewAlone(r.Ref()); got.Run.IsZero() {
			b.Errorf("another connection cannot renew: %+v", got)
		}
		b.f.DB.SetConnMaxLifetime(time.Nanosecond) // each statement on a new one
		defer b.f.DB.SetConnMaxLifetime(0)
		b.renewAlone(r.Ref())
		b.end(r)
		b.decide(r.Job, func(_ context.Context, d dibs.Desk) error {
			if d.Holder() != nil {
				b.Errorf("the lock outlived its run: %+v", d.Holder())
			}
			return nil
		})
	})
}
