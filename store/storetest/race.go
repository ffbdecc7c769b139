package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/dibs-run/dibs"
)

// CaseB09 checks that what is finished and taken for dead in the same moment has
// exactly one outcome, and that the loser is told and recorded beside it.
func CaseB09(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		const rows = 24
		b.full(rows)
		r, next := b.start(), b.start()
		held := b.claim(r, rows).Items
		b.expire("id > 0")
		said := make([]dibs.Settled, rows)
		taken := map[string]dibs.Held{}
		var both sync.WaitGroup
		both.Go(func() { // from the end, so that the two meet in the middle
			for i := rows - 1; i >= 0; i-- {
				got, err := b.claims.Settle(b.Context(), dibs.SettleRequest{Run: r.Ref(), Items: completedIn(lease, r, held[i])})
				if err != nil {
					b.Errorf("settle %s: %v", held[i].Key, err)
					return
				}
				said[i] = got[0]
			}
		})
		both.Go(func() {
			for {
				got, err := b.claims.Claim(b.Context(), b.request(next, 1))
				if err != nil || len(got.Items) == 0 {
					if err != nil {
						b.Errorf("claim: %v", err)
					}
					return
				}
				h := got.Items[0]
				taken[h.Key.String()] = h
				if _, err := b.claims.Settle(b.Context(), dibs.SettleRequest{Run: next.Ref(), Items: []dibs.Settlement{failed(next, h, lease, "no more tries")}}); err != nil {
					b.Errorf("settle %s: %v", h.Key, err)
				}
			}
		})
		both.Wait()
		record := b.outcomes(r.ID)
		for i, h := range held {
			row := b.look(h.Key...)
			_, lost := taken[h.Key.String()]
			if said[i].OK == lost || said[i].Late != lost {
				b.Errorf("row %s, lost: %t: its first owner was told %+v", h.Key, lost, said[i])
			}
			want, status := "completed", dibs.StatusIdle
			if lost {
				want, status = "lost, late completed", dibs.StatusFailed
			}
			if have := recordOf(record, h); have != want || row.Status != status || row.LastSuccess.IsZero() != lost {
				b.Errorf("row %s is %+v with the outcomes %q, want %s and %q", h.Key, row, have, status, want)
			}
		}
		b.Logf("%d of %d rows were lost", len(taken), rows)
		runsEndOnce(b)
	})
}

// recordOf is what is on record of one claim: its outcome, then the late one.
func recordOf(record []dibs.OutcomeRecord, h dibs.Held) (said string) {
	var late string
	for _, o := range record {
		switch {
		case o.Token != h.Token || o.Key != h.Key.String():
		case o.Late:
			late += ", late " + string(o.Outcome)
		default:
			said += string(o.Outcome)
		}
	}
	return said + late
}

// runsEndOnce ends runs while they are marked as lost.
func runsEndOnce(b *bundle) {
	for range 12 {
		r := b.start()
		b.expireRun(r.ID)
		var ended error
		var lost bool
		var both sync.WaitGroup
		both.Go(func() {
			ended = b.store.Decide(b.Context(), r.Job, func(ctx context.Context, d dibs.Desk) error {
				return d.EndRun(ctx, dibs.RunEnd{Run: r.Ref(), State: dibs.RunSucceeded})
			})
		})
		both.Go(func() {
			err := b.store.Decide(b.Context(), r.Job, func(ctx context.Context, d dibs.Desk) (err error) {
				lost, err = d.MarkLost(ctx, r.Ref(), dibs.ReasonLeaseEnded)
				return err
			})
			if err != nil {
				b.Errorf("mark lost: %v", err)
			}
		})
		both.Wait()
		run, err := b.store.Run(b.Context(), r.ID)
		b.must("read the run", err)
		want := dibs.RunSucceeded
		if lost {
			want = dibs.RunLost
		}
		if run.State != want || (ended == nil) == lost || ended != nil && !errors.Is(ended, dibs.ErrStaleFence) {
			b.Errorf("the run is %s; marked as lost: %t; its end was answered with: %v", run.State, lost, ended)
		}
	}
}

// CaseB26 checks that rows and runs whose contents nobody can read neither stop
// the recovery of others nor lose their contents.
func CaseB26(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		b.full(6)
		dead := b.start()
		b.claim(dead, 6)
		b.set("claim_token = '{\"v\": 9', fence = -5, expirations = -1, attempts = -7, last_error = 'as it was'", where(1))
		b.set("status = 'BY A NEWER VERSION', last_error = 'as it was'", where(2))
		b.set("claim_token = '', last_error = 'as it was'", where(3))
		b.set("claimable_at = NULL, claim_token = '//', last_error = 'as it was'", where(4)) // for the sweep
		b.expire("id <> 4")
		swept, err := b.claims.Sweep(b.Context(), lease)
		if want := (dibs.Swept{InProgressWithoutLease: 1}); err != nil || swept != want {
			b.Errorf("swept %+v, %v", swept, err)
		}
		b.expire(where(4))
		r := b.start()
		got := b.claim(r, 10).Items
		if have := names(got); len(got) != 5 {
			b.Errorf("recovered %q, want all but 2, whose state nobody knows", have)
		}
		b.settled(r, released(r, got...)...)
		if n := b.number("SELECT count(*) FROM " + b.table + " WHERE last_error = 'as it was' AND id <= 4"); n != 4 {
			b.Errorf("%d of 4 unreadable rows kept what was in them", n)
		}
		runsBesideUnreadable(b, dead)
	})
}

// runsBesideUnreadable recovers runs of which the oldest cannot be read.
func runsBesideUnreadable(b *bundle, oldest dibs.Run) {
	others := []dibs.Run{b.start(), b.start()}
	for _, r := range append(others, oldest) {
		b.expireRun(r.ID)
	}
	b.exec("UPDATE dibs_runs SET holder = 'by a newer version', definition = '{', position = '[1,', output = '{\"v\":9', previous = '?', kind = 'later' WHERE id = " + literals(oldest.ID))
	list, err := b.store.ExpiredRuns(b.Context(), 10)
	b.must("list expired runs beside an unreadable one", err)
	if len(list) != 3 {
		b.Errorf("%d expired runs, want 3", len(list))
	}
	for _, r := range append(others, oldest) {
		b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
			lost, err := d.MarkLost(ctx, r.Ref(), dibs.ReasonHolderGone)
			if err == nil && !lost {
				b.Errorf("run %s was not recovered", r.ID)
			}
			return err
		})
	}
	if n := b.number("SELECT count(*) FROM dibs_runs WHERE state = 'lost' AND holder = 'by a newer version' AND position = '[1,' AND kind = 'later'"); n != 1 {
		b.Error("the unreadable run lost what was in it")
	}
}

// CaseB33 checks that work of a dead process is recovered although a new process
// with the same name is alive, and even by that one.
func CaseB33(t *testing.T, c Config) {
	c.one(t, func(b *bundle) {
		b.full(4)
		dead := b.start()
		held := b.take(dead, "1 2 3").Items
		b.expire("id <= 3")
		b.expireRun(dead.ID)
		again := b.start() // same host, same PID: a container that was restarted
		if again.Holder.Host != dead.Holder.Host || again.Holder.PID != dead.Holder.PID {
			b.Fatalf("%+v is not the old name", again.Holder)
		}
		own := b.claimOne(again, 4)
		if got := b.renew(again, own); got.Items[0].EndsAt.IsZero() || got.Run.IsZero() {
			b.Errorf("the new process's own renewal: %+v", got)
		}
		for id := 1; id <= 3; id++ {
			if row := b.look(keyOf(id)...); row.ClaimableAt.After(row.Now) {
				b.Errorf("the new process kept row %d of the dead one: %+v", id, row)
			}
		}
		list, err := b.store.ExpiredRuns(b.Context(), 10)
		if err != nil || len(list) != 1 || list[0].ID != dead.ID {
			b.Errorf("expired: %+v, %v", list, err)
		}
		got := b.take(again, "1 2 3").Items
		for i, h := range got {
			if h.Prior.Token != held[i].Token || !h.Prior.Expired() || h.Fence <= held[i].Fence {
				b.Errorf("recovered %+v", h)
			}
		}
		for _, s := range b.settle(dead, completed(dead, held...)...) {
			if s.OK || !s.Late {
				b.Errorf("the old name settled: %+v", s)
			}
		}
		b.settled(again, completedIn(lease, again, got...)...)
		b.lose(dead)
	})
}
