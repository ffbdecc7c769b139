package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

func TestHandOverIsARunThatItsWaiterAccepts(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Queue, "")
		p, q := w.process("p"), w.process("q")
		run := p.fire(j, nil).Run
		f := q.fire(j, waiter)
		w.wantFired(f, dibs.DecisionWaiting, dibs.ReasonRunning)
		got := q.wait(w.t.Context(), f.Trigger)
		for range 10 { // longer than a waiter is believed without a beat
			pass(20 * time.Second)
			if _, err := w.store.RenewRun(w.t.Context(), run.Ref(), lease); err != nil {
				t.Fatal(err)
			}
		}
		w.wantTrigger(f.Trigger.ID, dibs.DecisionWaiting, dibs.ReasonRunning)
		if next := p.end(run, able(j)).Next; next != nil {
			t.Errorf("the finisher continued with a waiter's trigger: %+v", next)
		}
		a := <-got
		if a.err != nil || a.fired.Run == nil || a.fired.Run.LeaseFor != lease {
			t.Fatalf("the waiter got %+v, %v", a.fired, a.err)
		}
		if h := w.run(a.fired.Run.ID); h.Holder.Host != "q" || h.Lease.Sub(h.Heartbeat) != lease {
			t.Errorf("the run is %+v", h)
		}
		q.end(a.fired.Run, nil)
	})
}

// A waiter that was handed the lock and died: its run is lost, its trigger
// missed, and the next one is served.
func TestUnacceptedHandOverGoesToTheNext(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Queue, "")
		p, dead, q := w.process("p"), w.process("dead"), w.process("q")
		run := p.fire(j, nil).Run
		first := dead.fire(j, waiter)
		pass(time.Second)
		second := q.fire(j, waiter)
		p.end(run, nil)
		w.wantTrigger(first.Trigger.ID, dibs.DecisionStarted, dibs.ReasonGranted)
		a := <-q.wait(w.t.Context(), second.Trigger)
		if a.err != nil || a.fired.Run == nil {
			t.Fatalf("the next got %+v, %v", a.fired, a.err)
		}
		gone := w.wantTrigger(first.Trigger.ID, dibs.DecisionMissed, dibs.ReasonWaiterGone)
		if r := w.run(gone.RunID); r.State != dibs.RunLost || r.Reason != dibs.ReasonWaiterGone {
			t.Errorf("its run is %s (%s)", r.State, r.Reason)
		}
		if took := a.fired.Now.Sub(first.Now); took > dispatch.ClaimBy+dispatch.WaiterLease/3+2*time.Second {
			t.Errorf("the next was served after %s", took)
		}
	})
}

func TestDeadWaiterIsMissed(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Queue, "")
		p := w.process("p")
		run := p.fire(j, nil).Run
		f := w.process("dead").fire(j, waiter)
		pass(dispatch.WaiterLease + time.Second)
		p.end(run, nil)
		w.wantTrigger(f.Trigger.ID, dibs.DecisionMissed, dibs.ReasonWaiterGone)
		w.wantFired(p.fire(j, nil), dibs.DecisionStarted, dibs.ReasonFree)
	})
}

func TestWaiterThatHasToGoLeavesTheLine(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Queue, "")
		p, q := w.process("p"), w.process("q")
		run := p.fire(j, nil).Run
		f, g := q.fire(j, waiter), q.fire(j, waiter)
		ctx, cancel := context.WithCancelCause(w.t.Context())
		got := q.wait(ctx, f.Trigger)
		pass(3 * time.Second)
		stop := errors.New("told to stop")
		cancel(stop)
		if a := <-got; !errors.Is(a.err, stop) || a.fired.Trigger.Reason != dibs.ReasonWithdrawn {
			t.Errorf("answered %+v, %v", a.fired.Trigger, a.err)
		}
		w.wantTrigger(f.Trigger.ID, dibs.DecisionMissed, dibs.ReasonWithdrawn)
		p.end(run, nil)
		w.wantTrigger(g.Trigger.ID, dibs.DecisionStarted, dibs.ReasonGranted)
	})
}

// B37: a request that arrives before the claim, after it, or during the
// completing statement leads to exactly one further run, which lists all slots.
func TestCaseB37RequestsDuringARunLeadToExactlyOneMore(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Coalesce, "* * * * *")
		p := w.process("p")
		pass(time.Minute)
		run := p.fire(j, latest).Run
		var ids []string
		for range 3 {
			pass(time.Minute)
			if _, err := w.store.RenewRun(w.t.Context(), run.Ref(), 5*time.Minute); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, p.fire(j, latest).Trigger.ID)
		}
		head := w.wantTrigger(ids[0], dibs.DecisionWaiting, dibs.ReasonRunning)
		w.wantTrigger(ids[1], dibs.DecisionCoalesced, dibs.ReasonFolded)
		w.wantTrigger(ids[2], dibs.DecisionCoalesced, dibs.ReasonFolded)
		if len(head.Covered) != 2 {
			t.Errorf("the waiting one covers %v beside its own slot", head.Covered)
		}
		next := p.end(run, able(j)).Next
		if next == nil || next.For.ID != ids[0] {
			t.Fatalf("continued with %+v", next)
		}
		if want := time.Date(2000, 1, 1, 0, 4, 0, 0, time.UTC); !next.Run.Slot.Equal(want) {
			t.Errorf("runs with slot %s, want the latest, %s", next.Run.Slot, want)
		}
		for _, id := range ids[1:] {
			if got := w.trigger(id); got.RunID != next.Run.ID {
				t.Errorf("the coalesced trigger does not name the covering run: %+v", got)
			}
		}
		if again := p.end(next.Run, able(j)).Next; again != nil {
			t.Errorf("one run too many: %+v", again)
		}
		// The slot of a coalesced trigger has the covering run's verdict.
		dup := p.fire(j, given(time.Date(2000, 1, 1, 0, 3, 0, 0, time.UTC)))
		w.wantFired(dup, dibs.DecisionDuplicate, dibs.ReasonSlotSpent)
		if dup.Spent == nil || dup.Spent.ID != next.Run.ID {
			t.Errorf("spent by %+v, want %s", dup.Spent, next.Run.ID)
		}
	})
}

// Fifty wrappers under coalesce, with the waiting one killed and another
// arriving: one runs, the newest waits, the others go.
func TestFiftyWaitersCoalesceIntoTheNewest(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Coalesce, "")
		p := w.process("first")
		run := p.fire(j, waiter).Run
		var answers []<-chan waited
		for i := range 49 {
			q := w.process(fmt.Sprint("w", i))
			f := q.fire(j, waiter)
			answers = append(answers, q.wait(w.t.Context(), f.Trigger))
			synctest.Wait()
		}
		pass(3 * time.Second)
		for i, c := range answers[:48] {
			select {
			case a := <-c:
				if a.err != nil || a.fired.Trigger.Decision != dibs.DecisionCoalesced {
					t.Errorf("waiter %d: %+v, %v", i, a.fired.Trigger, a.err)
				}
			default:
				t.Errorf("waiter %d still waits", i)
			}
		}
		p.end(run, nil)
		last := <-answers[48]
		if last.err != nil || last.fired.Run == nil {
			t.Fatalf("the newest got %+v, %v", last.fired, last.err)
		}
		p.end(last.fired.Run, nil)
	})
}

// The slots of a waiting wrapper that was killed pass to the next arrival, and
// are missed only when nobody comes for long.
func TestSlotsOfADeadCoalescedWaiterPassOn(t *testing.T) {
	slot := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Coalesce, "")
		p := w.process("p")
		pass(10 * time.Minute)
		run := p.fire(j, nil).Run
		with := func(s time.Time) func(*dispatch.Request) {
			return func(r *dispatch.Request) { waiter(r); given(s)(r) }
		}
		dead := w.process("dead").fire(j, with(slot))
		pass(dispatch.WaiterLease + time.Second)
		p.end(run, nil)
		next := w.process("q").fire(j, with(slot.Add(time.Minute)))
		w.wantFired(next, dibs.DecisionStarted, dibs.ReasonFree)
		if c := next.Trigger.Covered; len(c) != 1 || !c[0].Equal(slot) {
			t.Errorf("covers %v, want the dead one's slot", c)
		}
		w.wantTrigger(dead.Trigger.ID, dibs.DecisionCoalesced, dibs.ReasonWaiterGone)
		if got := w.trigger(dead.Trigger.ID); got.RunID != next.Run.ID {
			t.Errorf("the dead one's slot is not linked to the run: %+v", got)
		}

		second := w.process("dead").fire(j, with(slot.Add(2*time.Minute)))
		p.end(next.Run, nil)
		w.wantTrigger(second.Trigger.ID, dibs.DecisionStarted, dibs.ReasonGranted)
		pass(25 * time.Hour)
		if _, err := p.Pump(w.t.Context(), "j", nil); err != nil {
			t.Fatal(err)
		}
		w.wantTrigger(second.Trigger.ID, dibs.DecisionMissed, dibs.ReasonWaiterGone)
	})
}

// The lock of a run that was declared dead goes to whoever waits, at once.
func TestCancelDeadHandsTheLockOn(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Queue, "")
		p, q := w.process("p"), w.process("q")
		run := p.fire(j, nil).Run
		f := q.fire(j, waiter)
		order := dispatch.Cancel{Run: run.ID, Dead: true, Act: dibs.AuditRecord{By: "ops", What: "cancel --dead", Job: "j", Why: "host burnt"}}
		if _, err := p.Cancel(w.t.Context(), order); err != nil {
			t.Fatal(err)
		}
		if got := w.run(run.ID); got.State != dibs.RunLost || got.Reason != dibs.ReasonDead {
			t.Errorf("the run is %s (%s)", got.State, got.Reason)
		}
		w.wantTrigger(f.Trigger.ID, dibs.DecisionStarted, dibs.ReasonGranted)
		if err := p.Finish(w.t.Context(), *run, dibs.RunEnd{Run: run.Ref(), State: dibs.RunSucceeded}); !errors.Is(err, dibs.ErrStaleFence) {
			t.Errorf("the dead run's process ended it: %v", err)
		}
		if _, err := p.Cancel(w.t.Context(), order); !errors.Is(err, dispatch.ErrEnded) {
			t.Errorf("cancelled twice: %v", err)
		}
		acts, err := w.store.ListAudit(w.t.Context(), 10)
		if err != nil || len(acts) != 1 || acts[0].Why != "host burnt" {
			t.Errorf("audit %+v, %v", acts, err)
		}
	})
}

// A request that kills its process every time is retried as often as a slot, and
// then stays lost.
func TestLostIdentityIsRetriedABoundedNumberOfTimes(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "")
		j.Retry.MaxExpirations = 2
		p := w.process("p")
		with := func(r *dispatch.Request) { r.ExternalID = "delivery-7" }
		for n := range 3 { // the first and two retries
			if f := p.fire(j, with); f.Run == nil {
				t.Fatalf("run %d: %+v", n+1, f.Trigger)
			}
			pass(lease + time.Second)
			if _, err := p.Sweep(w.t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		last := p.fire(j, with)
		w.wantFired(last, dibs.DecisionDuplicate, dibs.ReasonSlotSpent)
		if last.Spent == nil || last.Spent.State != dibs.RunLost {
			t.Errorf("spent by %+v, want the lost run", last.Spent)
		}
		if f := p.fire(j, func(r *dispatch.Request) { r.ExternalID = "delivery-8" }); f.Run == nil {
			t.Errorf("another identity: %+v", f.Trigger)
		}
	})
}

// Two jobs share a lock and one of them runs beside it: whoever sweeps that one's
// lost run looks after the line of the lock, not of one with the job's own name.
func TestSweepOfARunBesideTheLockLooksAfterItsLine(t *testing.T) {
	inWorld(t, func(w *world) {
		beside, behind := w.job("a", dibs.Allow, ""), w.job("b", dibs.Queue, "")
		beside.Lock, behind.Lock = "shared", "shared"
		p, q := w.process("p"), w.process("q")
		holds := p.fire(behind, nil).Run
		lost := p.fire(beside, nil).Run
		if holds == nil || lost == nil || lost.Lock != "" {
			t.Fatalf("the runs: %+v, %+v", holds, lost)
		}
		f := q.fire(behind, waiter) // and dies
		w.wantFired(f, dibs.DecisionWaiting, dibs.ReasonRunning)
		pass(lease / 2)
		if _, err := w.store.RenewRun(w.t.Context(), holds.Ref(), lease); err != nil {
			t.Fatal(err)
		}
		pass(lease/2 + time.Second)
		swept, err := p.Sweep(w.t.Context())
		if err != nil || len(swept) != 1 || swept[0].ID != lost.ID {
			t.Fatalf("swept %+v, %v", swept, err)
		}
		w.wantTrigger(f.Trigger.ID, dibs.DecisionMissed, dibs.ReasonWaiterGone)
	})
}

// Who leaves a trigger for another program's job does not know the job's lock: it
// runs under that lock all the same.
func TestTriggerInTheWrongLineIsMoved(t *testing.T) {
	inWorld(t, func(w *world) {
		j, other := w.job("j", dibs.Queue, ""), w.job("other", dibs.Skip, "")
		j.Lock, other.Lock = "shared", "shared"
		p := w.process("p")
		holds := p.fire(other, nil).Run
		id, err := dibs.NewTriggerID()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.AddTrigger(w.t.Context(), dibs.Trigger{ID: id, Job: "j", Origin: dibs.OriginManual, Reason: dibs.ReasonNobody}); err != nil {
			t.Fatal(err)
		}
		mine := func(dibs.Trigger) (dispatch.Worker, bool) {
			return dispatch.Worker{Hash: "h1", Lock: "shared", Kind: dibs.KindCommand, Lease: lease}, true
		}
		for _, lock := range []string{"j", "shared"} {
			if f, err := p.Pump(w.t.Context(), lock, mine); err != nil || f.Run != nil {
				t.Fatalf("lock %s: it ran beside the lock's holder: %+v, %v", lock, f.Run, err)
			}
		}
		p.end(holds, nil)
		f, err := p.Pump(w.t.Context(), "shared", mine)
		if err != nil || f.Run == nil || f.Run.Lock != "shared" || f.For.ID != id {
			t.Errorf("got %+v, %v", f, err)
		}
	})
}

func TestRequestWithTheSameIdentityIsADuplicate(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Allow, "")
		p := w.process("p")
		with := func(r *dispatch.Request) { r.ExternalID = "delivery-7" }
		f := p.fire(j, with)
		w.wantFired(f, dibs.DecisionStarted, dibs.ReasonAllowed)
		dup := p.fire(j, with)
		w.wantFired(dup, dibs.DecisionDuplicate, dibs.ReasonSlotSpent)
		if dup.Spent == nil || dup.Spent.ID != f.Run.ID {
			t.Errorf("spent by %+v", dup.Spent)
		}
		pass(lease + time.Second)
		if _, err := p.Sweep(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		again := p.fire(j, with)
		w.wantFired(again, dibs.DecisionStarted, dibs.ReasonSlotLost)
		p.end(again.Run, nil)
		if dup = p.fire(j, with); dup.Spent == nil || dup.Spent.ID != again.Run.ID {
			t.Errorf("then spent by %+v, want %s", dup.Spent, again.Run.ID)
		}
	})
}
