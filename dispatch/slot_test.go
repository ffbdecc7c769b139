package dispatch_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

func at(day, hour, minute, second int) time.Time {
	return time.Date(2000, 1, day, hour, minute, second, 0, time.UTC)
}

// B16: the unit of exclusion is the slot, not the moment: a job of 100 ms whose
// second firing comes 3 s later runs once, and so it does when another host
// is 2 s behind.
func TestCaseB16QuickJobRunsOncePerSlot(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "0 3 * * *")
		a, b := w.process("a"), w.process("b")
		until(at(1, 3, 0, 0))
		run := a.fire(j, latest).Run
		pass(100 * time.Millisecond)
		a.end(run, nil)
		pass(3 * time.Second)
		for range 3 {
			dup := b.fire(j, latest)
			w.wantFired(dup, dibs.DecisionDuplicate, dibs.ReasonSlotSpent)
			if dup.Spent == nil || dup.Spent.ID != run.ID {
				t.Errorf("spent by %+v, want %s", dup.Spent, run.ID)
			}
		}
		until(at(2, 3, 0, 0))
		if f := b.fire(j, latest); f.Run == nil || !f.Run.Slot.Equal(at(2, 3, 0, 0)) {
			t.Errorf("the next day: %+v", f)
		}
	})
}

// A worker whose host is 2 s ahead of the database never loses a day: it waits
// for the slot that it must be meant for.
func TestHostAheadOfTheDatabaseNeverLosesADay(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "0 3 * * *")
		p := w.process("ahead")
		until(at(1, 2, 59, 58))
		first := p.fire(j, latest) // the slot of the day before, from before registration
		w.wantFired(first, dibs.DecisionStarted, dibs.ReasonFree)
		p.end(first.Run, nil)
		for day := 1; day < 5; day++ {
			until(at(day, 2, 59, 58))
			if day == 1 {
				pass(time.Second)
			}
			f := p.fire(j, latest)
			if f.Run != nil || !f.WaitUntil.Equal(at(day, 3, 0, 0)) {
				t.Fatalf("day %d: %+v, want to be told to wait", day, f)
			}
			until(f.WaitUntil)
			f = p.fire(j, latest)
			if f.Run == nil || !f.Run.Slot.Equal(at(day, 3, 0, 0)) {
				t.Fatalf("day %d: %+v", day, f)
			}
			p.end(f.Run, nil)
		}
	})
}

func TestSlotTooFarAheadIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "0 3 * * *")
		p := w.process("p")
		until(at(1, 2, 59, 55))
		if f := p.fire(j, given(at(1, 3, 0, 0))); f.Run == nil || !f.Run.Slot.Equal(at(1, 3, 0, 0)) {
			t.Errorf("5 s early: %+v", f)
		}
		if _, err := p.try(j, given(at(2, 3, 0, 0))); err == nil {
			t.Error("a slot of tomorrow was accepted")
		}
		if got := w.triggers("j"); len(got) != 1 {
			t.Errorf("%d rows, want 1", len(got))
		}
	})
}

// B40, B41: the number of missed slots never prevents the next one; what is
// dropped is one row with a count.
func TestCaseB40MissedSlotsNeverStopASchedule(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "* * * * *")
		p := w.process("p")
		until(at(1, 0, 1, 0))
		p.end(p.fire(j, dueSlot).Run, nil)
		pass(365*24*time.Hour + 30*time.Second)
		f := p.fire(j, dueSlot)
		w.wantFired(f, dibs.DecisionStarted, dibs.ReasonFree)
		var missed []dibs.Trigger
		for _, row := range w.triggers("j") {
			if row.Decision == dibs.DecisionMissed {
				missed = append(missed, row)
			}
		}
		if len(missed) != 1 || missed[0].Missed != 365*24*60-1 || len(missed[0].Covered) != 2 {
			t.Errorf("missed rows: %+v", missed)
		}
		p.end(f.Run, nil)
		pass(time.Minute)
		if f = p.fire(j, dueSlot); f.Run == nil {
			t.Errorf("the next slot: %+v", f)
		}
	})
}

func TestCaseB41CatchUpModes(t *testing.T) {
	week := func(w *world, c dibs.CatchUp) (*dibs.Job, process) {
		j := w.job("j", dibs.Skip, "0 6 * * *")
		j.CatchUp = c
		p := w.process("p")
		until(at(1, 6, 0, 0))
		p.end(p.fire(j, dueSlot).Run, nil)
		until(at(8, 9, 0, 0)) // seven slots passed, the newest three hours ago
		return j, p
	}
	count := func(w *world) map[dibs.Decision]int64 {
		n := map[dibs.Decision]int64{}
		for _, t := range w.triggers("j") {
			n[t.Decision] += max(t.Missed, 1)
		}
		return n
	}
	t.Run("none", func(t *testing.T) {
		inWorld(t, func(w *world) {
			j, p := week(w, dibs.CatchUp{Mode: dibs.CatchUpNone})
			if f := p.fire(j, dueSlot); f.Run != nil {
				t.Errorf("fired %+v", f.Trigger)
			}
			if n := count(w); n[dibs.DecisionMissed] != 7 || n[dibs.DecisionStarted] != 1 {
				t.Errorf("decisions %v", n)
			}
		})
	})
	t.Run("latest", func(t *testing.T) {
		inWorld(t, func(w *world) {
			j, p := week(w, dibs.CatchUp{})
			f := p.fire(j, dueSlot)
			if f.Run == nil || !f.Run.Slot.Equal(at(8, 6, 0, 0)) || f.Run.Origin != dibs.OriginCatchUp {
				t.Errorf("fired %+v", f.Trigger)
			}
			if n := count(w); n[dibs.DecisionMissed] != 6 || n[dibs.DecisionStarted] != 2 {
				t.Errorf("decisions %v", n)
			}
		})
	})
	t.Run("latest with a window", func(t *testing.T) {
		inWorld(t, func(w *world) {
			j, p := week(w, dibs.CatchUp{Window: time.Hour})
			if f := p.fire(j, dueSlot); f.Run != nil {
				t.Errorf("fired %+v", f.Trigger)
			}
			if n := count(w); n[dibs.DecisionMissed] != 7 {
				t.Errorf("decisions %v", n)
			}
		})
	})
	t.Run("all", func(t *testing.T) {
		inWorld(t, func(w *world) {
			j, p := week(w, dibs.CatchUp{Mode: dibs.CatchUpAll, Limit: 3})
			f := p.fire(j, dueSlot)
			for day := 6; day <= 8; day++ { // oldest first, one after another
				if f.Run == nil || !f.Run.Slot.Equal(at(day, 6, 0, 0)) {
					t.Fatalf("day %d: %+v", day, f.Trigger)
				}
				next := p.end(f.Run, able(j)).Next
				if (next == nil) != (day == 8) {
					t.Fatalf("day %d: then %+v", day, next)
				}
				if next != nil {
					f = *next
				}
			}
			if n := count(w); n[dibs.DecisionMissed] != 4 || n[dibs.DecisionStarted] != 4 {
				t.Errorf("decisions %v", n)
			}
		})
	})
}

// B56: editing a schedule, pausing and unpausing fire nothing; the reference is
// the moment of the act. Only a definition not seen before re-anchors.
func TestCaseB56EditingAScheduleFiresNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "0 23 * * *")
		p := w.process("p")
		until(at(1, 23, 0, 0))
		p.end(p.fire(j, dueSlot).Run, nil)
		until(at(2, 15, 0, 0))
		j = w.job("j", dibs.Skip, "0 9 * * *")
		w.register("j", "h2")
		if f := p.fire(j, dueSlot); f.Run != nil || f.Trigger.Decision != "" || !f.Next.Equal(at(3, 9, 0, 0)) {
			t.Errorf("after the edit: %+v", f)
		}
		until(at(3, 9, 0, 1))
		p.end(p.fire(j, dueSlot).Run, nil)

		ctx := w.t.Context()
		act := dibs.AuditRecord{By: "ops", What: "pause", Job: "j"}
		if err := w.store.SetPaused(ctx, "j", at(9, 0, 0, 0), act); err != nil {
			t.Fatal(err)
		}
		until(at(5, 9, 0, 1))
		w.wantFired(p.fire(j, dueSlot), dibs.DecisionSkipped, dibs.ReasonPaused)
		until(at(6, 12, 0, 0))
		if err := w.store.SetPaused(ctx, "j", time.Time{}, act); err != nil {
			t.Fatal(err)
		}
		if f := p.fire(j, dueSlot); f.Run != nil || f.Trigger.Decision != "" {
			t.Errorf("after unpausing: %+v", f.Trigger)
		}
		// Two definitions alternating in a rolling deploy re-anchor nothing.
		until(at(7, 9, 0, 1))
		for range 3 {
			w.register("j", "h1")
			w.register("j", "h2")
		}
		if f := p.fire(j, dueSlot); f.Run == nil || !f.Run.Slot.Equal(at(7, 9, 0, 0)) {
			t.Errorf("during a rolling deploy: %+v", f.Trigger)
		}
	})
}

// A pause that ends by itself is as good as one that is ended: what passed
// meanwhile, with nobody there to skip it, is not caught up.
func TestPauseThatEndsByItselfCatchesNothingUp(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "0 * * * *")
		p := w.process("p")
		until(at(1, 1, 0, 1))
		p.end(p.fire(j, dueSlot).Run, nil)
		act := dibs.AuditRecord{By: "ops", What: "pause", Job: "j"}
		if err := w.store.SetPaused(w.t.Context(), "j", at(1, 4, 30, 0), act); err != nil {
			t.Fatal(err)
		}
		until(at(1, 4, 45, 0)) // every scheduler was down
		if f := p.fire(j, dueSlot); f.Run != nil || f.Trigger.Decision != "" {
			t.Errorf("after the pause: %+v", f.Trigger)
		}
		until(at(1, 5, 0, 1))
		if f := p.fire(j, dueSlot); f.Run == nil || !f.Run.Slot.Equal(at(1, 5, 0, 0)) {
			t.Errorf("the next slot: %+v", f.Trigger)
		}
	})
}

// B44: the schedule is registered by several processes, and several schedulers
// fire it: one decision and one run for each slot.
func TestCaseB44ScheduleRegisteredTwice(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "*/5 * * * *")
		for i := range 20 {
			until(at(1, 0, 5*(i+1)/1%60, 0).Add(time.Duration(5*(i+1)/60) * time.Hour))
			var started int
			for _, host := range []string{"a", "b", "c", "d"} {
				w.register("j", "h1")
				f := w.process(host).fire(j, latest)
				if f.Run != nil {
					started++
					w.process(host).end(f.Run, nil)
				}
			}
			if started != 1 {
				t.Errorf("slot %d ran %d times", i, started)
			}
		}
	})
}

// The slot of a lost run is taken over, but not for ever, and not once a newer
// slot has started.
func TestSlotOfALostRunIsTakenOver(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "0 * * * *")
		p := w.process("p")
		until(at(1, 1, 0, 0))
		w.wantFired(p.fire(j, latest), dibs.DecisionStarted, dibs.ReasonFree)
		for range 3 {
			pass(lease + time.Second)
			f := p.fire(j, latest)
			w.wantFired(f, dibs.DecisionStarted, dibs.ReasonSlotLost)
			if f.Run.Origin != dibs.OriginRetry || !f.Run.Slot.Equal(at(1, 1, 0, 0)) || f.First.IsZero() || !f.First.Before(f.Run.StartedAt) {
				t.Errorf("took over as %+v, first %s", f.Run, f.First)
			}
		}
		pass(lease + time.Second)
		w.wantFired(p.fire(j, latest), dibs.DecisionDuplicate, dibs.ReasonSlotSpent)

		until(at(1, 2, 0, 0))
		p.fire(j, latest)
		pass(lease + time.Second)
		if _, err := p.Sweep(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		until(at(1, 3, 0, 0))
		p.end(p.fire(j, latest).Run, nil)
		w.wantFired(p.fire(j, given(at(1, 2, 0, 0))), dibs.DecisionDuplicate, dibs.ReasonSlotSpent)
	})
}

// A stored stamp in the future, as after a correction of the clock, does not
// stop the schedule, and is reported; nothing that ran runs again.
func TestCaseB41StampInTheFutureIsClampedAndReported(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "0 * * * *")
		p := w.process("p")
		until(at(1, 1, 0, 0))
		p.end(p.fire(j, dueSlot).Run, nil)
		future := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
		if _, err := w.db.ExecContext(w.t.Context(), "UPDATE dibs_jobs SET last_slot = ?, reference = ?", future, future); err != nil {
			t.Fatal(err)
		}
		f := p.fire(j, dueSlot)
		if f.Run != nil || f.Clamped == "" {
			t.Errorf("fired %+v", f)
		}
		until(at(1, 2, 0, 0))
		if f = p.fire(j, dueSlot); f.Run == nil || !f.Run.Slot.Equal(at(1, 2, 0, 0)) {
			t.Errorf("the next slot: %+v", f.Trigger)
		}
	})
}

// B38: a slot that meets a passing reason is not booked as done: it waits for a
// host that may run it.
func TestCaseB38PassingReasonLeavesTheSlotWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "0 * * * *")
		j.CatchUp.Window = 30 * time.Minute
		until(at(1, 1, 0, 0))
		f := w.process("elsewhere").fire(j, func(r *dispatch.Request) { dueSlot(r); r.NotHere, r.Able = true, nil })
		w.wantFired(f, dibs.DecisionWaiting, dibs.ReasonNoHost)
		pass(10 * time.Minute)
		got, err := w.process("here").Pump(w.t.Context(), "j", able(j))
		if err != nil || got.Run == nil || !got.Run.Slot.Equal(at(1, 1, 0, 0)) {
			t.Fatalf("the host that may run it got %+v, %v", got, err)
		}
		w.process("here").end(got.Run, nil)
		until(at(1, 2, 0, 0))
		f = w.process("elsewhere").fire(j, func(r *dispatch.Request) { dueSlot(r); r.NotHere, r.Able = true, nil })
		pass(31 * time.Minute)
		if got, err = w.process("here").Pump(w.t.Context(), "j", able(j)); err != nil || got.Run != nil {
			t.Errorf("after the window: %+v, %v", got, err)
		}
		w.wantTrigger(f.Trigger.ID, dibs.DecisionMissed, dibs.ReasonWindow)
	})
}

// B17: whatever starts it (a new leader, a restart, a person), a run in progress
// is never joined by a copy.
func TestCaseB17NoDoorStartsACopy(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "* * * * *")
		until(at(1, 0, 1, 0))
		run := w.process("x").fire(j, dueSlot).Run
		for i, change := range []func(*dispatch.Request){
			nil, latest, dueSlot,
			func(r *dispatch.Request) { r.Origin = dibs.OriginManual },
			func(r *dispatch.Request) { r.Origin = dibs.OriginAPI },
			func(r *dispatch.Request) { r.Origin = dibs.OriginRetry },
			func(r *dispatch.Request) { r.Origin, r.Kind = dibs.OriginRecovery, dibs.KindRecovery },
			given(at(1, 0, 1, 0)),
		} {
			w.register("j", "h1")
			if f := w.process("restarted").fire(j, change); f.Run != nil {
				t.Errorf("door %d started a copy: %+v", i, f.Trigger)
			}
		}
		if live, err := w.store.ListRuns(w.t.Context(), dibs.RunFilter{Job: "j"}); err != nil || len(live) != 1 || live[0].ID != run.ID {
			t.Errorf("runs %+v, %v", live, err)
		}
	})
}

func TestNotWithinRefusesWhatComesTooSoon(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Skip, "")
		j.NotWithin = time.Hour
		p := w.process("p")
		p.end(p.fire(j, nil).Run, nil)
		pass(59 * time.Minute)
		w.wantFired(p.fire(j, nil), dibs.DecisionSkipped, dibs.ReasonNotWithin)
		manual := p.fire(j, func(r *dispatch.Request) { r.Origin = dibs.OriginManual })
		w.wantFired(manual, dibs.DecisionStarted, dibs.ReasonFree)
		p.end(manual.Run, nil)
		pass(time.Hour)
		w.wantFired(p.fire(j, nil), dibs.DecisionStarted, dibs.ReasonFree)
	})
}
