package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dibs-run/dibs"
)

func runChecks() []check {
	return []check{
		{"deciders at once start one run", hammerDecide},
		{"mark lost against renewal: one wins", lostAgainstRenewal},
		{"an end needs the token", staleEnd},
		{"a live run cannot be marked lost", liveIsNotLost},
		{"a slot has one owner", slotOwner},
		{"a lock is taken and freed", lockLife},
		{"a refused decision leaves nothing", refusedDecision},
		{"expired runs are listed, live ones are not", expiredList},
		{"a run's lease ends no later than its time to stop by", startStopBy},
		{"a run reads back as written", runReadsBack},
		{"a waiting trigger waits for anybody", waitingTriggers},
		{"human acts are on record", audits},
	}
}

// hammerDecide: twelve processes want to start the same job.
func hammerDecide(b *bundle) {
	job := "hammer " + b.newRun("x").ID
	slot := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	var started, skipped atomic.Int64
	var all sync.WaitGroup
	for range 12 {
		r := b.newRun(job)
		r.Slot = slot
		all.Go(func() {
			var won bool
			err := b.store.Decide(b.Context(), job, func(ctx context.Context, d dibs.Desk) error {
				won = d.Holder() == nil
				if won {
					return startOn(ctx, d, &r)
				}
				return d.PutTrigger(ctx, dibs.Trigger{ID: r.Trigger, Job: job, Origin: r.Origin, Slot: slot,
					Decision: dibs.DecisionSkipped, Reason: dibs.ReasonRunning, BlockingRun: d.Holder().ID})
			})
			if err != nil {
				b.Errorf("decide: %v", err)
			} else if won {
				started.Add(1)
			} else {
				skipped.Add(1)
			}
		})
	}
	all.Wait()
	runs, err := b.store.ListRuns(b.Context(), dibs.RunFilter{Job: job, Limit: 100})
	if err != nil || len(runs) != 1 || started.Load() != 1 || skipped.Load() != 11 {
		b.Errorf("%d runs, %d started, %d skipped, %v", len(runs), started.Load(), skipped.Load(), err)
	}
	triggers, err := b.store.ListTriggers(b.Context(), dibs.TriggerFilter{Job: job, Slot: slot, Limit: 100})
	owners := 0
	for _, t := range triggers {
		if t.OwnsSlot {
			owners++
		} else if t.BlockingRun != runs[0].ID {
			b.Errorf("a skip names %q", t.BlockingRun)
		}
	}
	if err != nil || len(triggers) != 12 || owners != 1 {
		b.Errorf("%d triggers, %d owners, %v", len(triggers), owners, err)
	}
}

func lostAgainstRenewal(b *bundle) {
	for range 12 {
		r := b.start()
		b.expireRun(r.ID)
		var lost bool
		var renewed dibs.Renewed
		var lostErr, renewErr error
		var both sync.WaitGroup
		both.Go(func() {
			lostErr = b.store.Decide(b.Context(), r.Job, func(ctx context.Context, d dibs.Desk) (err error) {
				lost, err = d.MarkLost(ctx, r.Ref(), dibs.ReasonLeaseEnded)
				return err
			})
		})
		both.Go(func() { renewed, renewErr = b.store.RenewRun(b.Context(), r.Ref(), lease) })
		both.Wait()
		b.must("mark lost", lostErr)
		b.must("renew", renewErr)
		run, err := b.store.Run(b.Context(), r.ID)
		b.must("read the run", err)
		if lost == !renewed.Run.IsZero() || lost != (run.State == dibs.RunLost) {
			b.Errorf("lost is %t, renewed to %s, the run is %s", lost, renewed.Run, run.State)
		}
	}
}

func staleEnd(b *bundle) {
	r := b.start()
	end := func(ref dibs.RunRef) (err error) {
		b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
			err = d.EndRun(ctx, dibs.RunEnd{Run: ref, State: dibs.RunSucceeded})
			return nil
		})
		return err
	}
	if err := end(dibs.RunRef{ID: r.ID, Token: "run_other/0"}); !errors.Is(err, dibs.ErrStaleFence) {
		b.Errorf("ended by another token: %v", err)
	}
	b.decide(r.Job, func(_ context.Context, d dibs.Desk) error {
		if d.Holder() == nil || d.Holder().ID != r.ID || d.Holder().State != dibs.RunRunning {
			b.Errorf("after a stale end the lock is held by %+v", d.Holder())
		}
		return nil
	})
	b.lose(r)
	b.decide(r.Job, func(_ context.Context, d dibs.Desk) error {
		if d.Holder() != nil {
			b.Errorf("a lost run still has its lock: %+v", d.Holder())
		}
		return nil
	})
	if err := end(r.Ref()); !errors.Is(err, dibs.ErrStaleFence) {
		b.Errorf("a lost run was ended: %v", err)
	}
	if err := b.store.SetProgress(b.Context(), r.Ref(), dibs.Progress{}); !errors.Is(err, dibs.ErrStaleFence) {
		b.Errorf("a lost run wrote its progress: %v", err)
	}
	if run, err := b.store.Run(b.Context(), r.ID); err != nil || run.State != dibs.RunLost {
		b.Errorf("the run is %s, %v", run.State, err)
	}
}

func liveIsNotLost(b *bundle) {
	r := b.start()
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
		if lost, err := d.MarkLost(ctx, r.Ref(), dibs.ReasonLeaseEnded); err != nil || lost {
			b.Errorf("a live run was marked lost: %t, %v", lost, err)
		}
		live, err := d.Live(ctx, r.Job)
		if err != nil || len(live) != 1 || live[0].ID != r.ID {
			b.Errorf("live: %+v, %v", live, err)
		}
		return nil
	})
	b.expireRun(r.ID)
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
		if lost, err := d.MarkLost(ctx, dibs.RunRef{ID: r.ID, Token: "run_other/0"}, dibs.ReasonLeaseEnded); err != nil || lost {
			b.Errorf("marked lost by another token: %t, %v", lost, err)
		}
		return nil
	})
}

func slotOwner(b *bundle) {
	job := "slots " + b.newRun("x").ID
	slot := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	put := func(t dibs.Trigger) (err error) {
		id, idErr := dibs.NewTriggerID()
		b.must("name a trigger", idErr)
		t.ID, t.Job, t.Origin = id, job, dibs.OriginSchedule
		t.Decision, t.Reason = dibs.DecisionStarted, dibs.ReasonFree
		b.decide(job, func(ctx context.Context, d dibs.Desk) error {
			if err = d.PutTrigger(ctx, t); err != nil {
				// The decision goes on.
				t.OwnsSlot, t.Decision, t.Reason = false, dibs.DecisionDuplicate, dibs.ReasonSlotSpent
				return d.PutTrigger(ctx, t)
			}
			return nil
		})
		return err
	}
	for what, t := range map[string]dibs.Trigger{"slot": {Slot: slot}, "identity": {ExternalID: "order 7"}} {
		b.must(what, put(t)) // not an owner
		t.OwnsSlot = true
		b.must(what, put(t))
		if err := put(t); !errors.Is(err, dibs.ErrSlotTaken) {
			b.Errorf("a %s was owned twice: %v", what, err)
		}
		list, err := b.store.ListTriggers(b.Context(), dibs.TriggerFilter{Job: job, Slot: t.Slot, ExternalID: t.ExternalID, Limit: 10})
		if err != nil || len(list) != 3 {
			b.Errorf("%s: %d triggers, %v", what, len(list), err)
		}
		b.decide(job, func(ctx context.Context, d dibs.Desk) error {
			owner, err := d.Owner(ctx, job, t.Slot, t.ExternalID)
			if err != nil || owner == nil || !owner.OwnsSlot || owner.Decision != dibs.DecisionStarted {
				b.Errorf("the owner of the %s is %+v, %v", what, owner, err)
			}
			if none, err := d.Owner(ctx, job+"x", t.Slot, t.ExternalID); err != nil || none != nil {
				b.Errorf("another job's %s is owned by %+v, %v", what, none, err)
			}
			return nil
		})
	}
	b.must("another slot", put(dibs.Trigger{Slot: slot.Add(time.Second), OwnsSlot: true}))
}

func lockLife(b *bundle) {
	r := b.start()
	second := b.newRun(r.Job)
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
		if err := d.StartRun(ctx, &second, true); !errors.Is(err, dibs.ErrLockTaken) {
			b.Errorf("a held lock was taken: %v", err)
		}
		return nil
	})
	b.end(r)
	second = b.newRun(r.Job)
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
		if d.Holder() != nil {
			b.Errorf("a freed lock is held by %+v", d.Holder())
		}
		return startOn(ctx, d, &second)
	})
	b.expireRun(second.ID)
	third := b.newRun(r.Job)
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error {
		if d.Holder() == nil || d.Holder().ID != second.ID || d.Holder().Lease.After(d.Now()) {
			b.Errorf("an expired holder is %+v", d.Holder())
		}
		lost, err := d.MarkLost(ctx, second.Ref(), dibs.ReasonLeaseEnded)
		if err != nil || !lost {
			b.Errorf("an expired holder is not lost: %t, %v", lost, err)
		}
		return startOn(ctx, d, &third)
	})
	if !third.StartedAt.After(r.StartedAt) || third.State != dibs.RunRunning {
		b.Errorf("started %+v", third)
	}
	b.end(third)
}

func refusedDecision(b *bundle) {
	r := b.newRun("refused")
	no := errors.New("no")
	err := b.store.Decide(b.Context(), r.Job, func(ctx context.Context, d dibs.Desk) error {
		return errors.Join(startOn(ctx, d, &r), d.Audit(ctx, dibs.AuditRecord{By: r.ID, What: "try"}), no)
	})
	if !errors.Is(err, no) {
		b.Errorf("a refused decision ended with %v", err)
	}
	if _, err := b.store.Run(b.Context(), r.ID); !errors.Is(err, dibs.ErrNotFound) {
		b.Errorf("a refused decision left its run: %v", err)
	}
	if list, err := b.store.ListTriggers(b.Context(), dibs.TriggerFilter{Job: r.Job, Limit: 10}); err != nil || len(list) != 0 {
		b.Errorf("a refused decision left %+v, %v", list, err)
	}
}

func expiredList(b *bundle) {
	live, one, two, ended := b.start(), b.start(), b.start(), b.start()
	b.end(ended)
	for _, r := range []dibs.Run{two, one, ended} {
		b.expireRun(r.ID)
	}
	b.expireRun(one.ID) // twice: the older one
	list, err := b.store.ExpiredRuns(b.Context(), 100)
	b.must("list expired runs", err)
	at := map[string]int{}
	for i, r := range list {
		at[r.ID] = i + 1
	}
	if at[live.ID] != 0 || at[ended.ID] != 0 || at[one.ID] == 0 || at[two.ID] == 0 || at[one.ID] > at[two.ID] {
		b.Errorf("expired: %+v", at)
	}
	if list, err := b.store.ExpiredRuns(b.Context(), 1); err != nil || len(list) != 1 {
		b.Errorf("up to one: %d, %v", len(list), err)
	}
	b.lose(one)
	b.lose(two)
}

func startStopBy(b *bundle) {
	r := b.newRun("stops")
	now, err := b.store.Now(b.Context())
	b.must("now", err)
	r.StopBy = now.Add(5 * time.Minute)
	b.decide(r.Job, func(ctx context.Context, d dibs.Desk) error { return d.StartRun(ctx, &r, true) })
	run, err := b.store.Run(b.Context(), r.ID)
	if err != nil || run.Lease.After(r.StopBy) || !run.Lease.Equal(r.Lease) || run.StopBy.IsZero() {
		b.Errorf("started %+v, read %+v, %v", r, run, err)
	}
	b.near("lease left", run.Lease.Sub(now), 5*time.Minute)
	b.end(r)
}

func runReadsBack(b *bundle) {
	want := b.newRun("reads back é")
	want.Slot, want.Key, want.Definition = time.Date(2026, 11, 29, 3, 0, 0, 123456000, time.UTC), "a/b", "hash"
	want.Recovers, want.Previous = "run_old", "lost:run_old"
	b.decide(want.Job, func(ctx context.Context, d dibs.Desk) error { return startOn(ctx, d, &want) })
	have, err := b.store.Run(b.Context(), want.ID)
	b.must("read the run", err)
	if diff := cmp.Diff(want, have); diff != "" {
		b.Errorf("the run reads back differently:\n%s", diff)
	}
	code := 3
	end := dibs.RunEnd{Run: want.Ref(), State: dibs.RunFailed, Reason: dibs.ReasonError, ExitCode: &code, Error: "e", Output: "o",
		Counts: dibs.Counts{Selected: 8, Completed: 1, AlreadyDone: 1, Failed: 1, Rejected: 1, Uncertain: 1, Held: 1, Released: 1, Lost: 1, Remaining: 9}}
	b.decide(want.Job, func(ctx context.Context, d dibs.Desk) error { return d.EndRun(ctx, end) })
	have, err = b.store.Run(b.Context(), want.ID)
	b.must("read the run", err)
	if have.State != end.State || have.Reason != end.Reason || have.Counts != end.Counts || have.ExitCode == nil || *have.ExitCode != code ||
		have.Error != "e" || have.Output != "o" || have.EndedAt.IsZero() {
		b.Errorf("the end reads back as %+v", have)
	}
	list, err := b.store.ListRuns(b.Context(), dibs.RunFilter{Suffix: want.ID[len(want.ID)-8:], State: dibs.RunFailed, Limit: 5})
	if err != nil || len(list) != 1 || list[0].ID != want.ID || list[0].Output != "" {
		b.Errorf("by suffix: %+v, %v", list, err)
	}
}

func waitingTriggers(b *bundle) {
	job := "waits " + b.newRun("x").ID
	var ids []string
	for range 3 {
		id, err := dibs.NewTriggerID()
		b.must("name a trigger", err)
		ids = append(ids, id)
		b.must("leave a trigger", b.store.AddTrigger(b.Context(), dibs.Trigger{ID: id, Job: job, Lock: job, Origin: dibs.OriginAPI,
			Decision: dibs.DecisionWaiting, Reason: dibs.ReasonNobody, Executor: "any", Key: "k/1", By: "me", Why: "é"}))
	}
	b.decide(job, func(ctx context.Context, d dibs.Desk) error {
		waiting, err := d.Waiting(ctx)
		if err != nil || len(waiting) != 3 || waiting[0].ID != ids[0] || waiting[2].ID != ids[2] || waiting[0].Key != "k/1" || waiting[0].Why != "é" {
			b.Errorf("waiting: %+v, %v", waiting, err)
			return err
		}
		first := waiting[0]
		first.Decision, first.Reason = dibs.DecisionStarted, dibs.ReasonFree
		return d.PutTrigger(ctx, first)
	})
	b.decide(job, func(ctx context.Context, d dibs.Desk) error {
		if waiting, err := d.Waiting(ctx); err != nil || len(waiting) != 2 {
			b.Errorf("then waiting: %+v, %v", waiting, err)
		}
		return nil
	})
}

func audits(b *bundle) {
	want := dibs.AuditRecord{By: "me@here", What: "free", Job: "j", Object: "row é", Before: "a", After: "b", Why: "because"}
	b.must("record", b.store.Audit(b.Context(), want))
	list, err := b.store.ListAudit(b.Context(), 1)
	if err != nil || len(list) != 1 || list[0].At.IsZero() {
		b.Fatalf("listed %+v, %v", list, err)
	}
	list[0].At = time.Time{}
	if list[0] != want {
		b.Errorf("reads back as %+v", list[0])
	}
}
