package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// state puts the lock into a state before the trigger arrives.
type state struct {
	name  string
	setUp func(w *world, holder process, j *dibs.Job)
}

func states() []state {
	start := func(w *world, holder process, j *dibs.Job) *dibs.Run {
		one := *j
		one.Overlap = dibs.Skip // also under allow the lock shall be taken
		return holder.fire(&one, nil).Run
	}
	return []state{
		{"idle", func(*world, process, *dibs.Job) {}},
		{"running", func(w *world, holder process, j *dibs.Job) { start(w, holder, j) }},
		{"expired", func(w *world, holder process, j *dibs.Job) {
			start(w, holder, j)
			pass(lease + time.Second)
		}},
		{"paused", func(w *world, _ process, j *dibs.Job) {
			act := dibs.AuditRecord{By: "ops", What: "pause", Why: "because"}
			if err := w.store.SetPaused(w.t.Context(), j.Name, time.Now().Add(time.Hour), act); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"stopping", func(w *world, holder process, j *dibs.Job) {
			run := start(w, holder, j)
			if _, err := holder.Cancel(w.t.Context(), dispatch.Cancel{Run: run.ID, Act: dibs.AuditRecord{By: "ops", What: "cancel"}}); err != nil {
				w.t.Fatal(err)
			}
		}},
	}
}

// Each policy × (idle, running, expired, paused, stopping) × origin: the same
// decision whichever door the trigger came through.
func TestEveryPolicyInEveryStateForEveryOrigin(t *testing.T) {
	type answer struct {
		decision dibs.Decision
		reason   dibs.Reason
	}
	started := func(r dibs.Reason) answer { return answer{dibs.DecisionStarted, r} }
	waiting := answer{dibs.DecisionWaiting, dibs.ReasonRunning}
	paused := answer{dibs.DecisionSkipped, dibs.ReasonPaused}
	want := map[dibs.Overlap]map[string]answer{
		dibs.Skip: {
			"idle": started(dibs.ReasonFree), "running": {dibs.DecisionSkipped, dibs.ReasonRunning},
			"expired": started(dibs.ReasonTookOver), "paused": paused, "stopping": {dibs.DecisionSkipped, dibs.ReasonRunning},
		},
		dibs.Allow: {
			"idle": started(dibs.ReasonAllowed), "running": started(dibs.ReasonAllowed),
			"expired": started(dibs.ReasonAllowed), "paused": paused, "stopping": started(dibs.ReasonAllowed),
		},
	}
	for _, o := range []dibs.Overlap{dibs.Queue, dibs.Coalesce, dibs.Replace} {
		want[o] = map[string]answer{
			"idle": started(dibs.ReasonFree), "running": waiting, "expired": started(dibs.ReasonTookOver),
			"paused": paused, "stopping": waiting,
		}
	}
	for overlap, answers := range want {
		for _, st := range states() {
			for _, origin := range []dibs.Origin{dibs.OriginSchedule, dibs.OriginExternal, dibs.OriginManual, dibs.OriginAPI} {
				t.Run(fmt.Sprintf("%s/%s/%s", overlap, st.name, origin), func(t *testing.T) {
					inWorld(t, func(w *world) {
						j := w.job("j", overlap, "* * * * *")
						pass(90 * time.Second)
						st.setUp(w, w.process("a"), j)
						fired := w.process("b").fire(j, func(r *dispatch.Request) {
							r.Origin = origin
							if origin == dibs.OriginSchedule {
								r.Slots = dispatch.LatestSlot
							}
						})
						w.wantFired(fired, answers[st.name].decision, answers[st.name].reason)
						if (fired.Run != nil) != (fired.Trigger.Decision == dibs.DecisionStarted) {
							t.Errorf("decision %s with run %v", fired.Trigger.Decision, fired.Run)
						}
						if owns := fired.Trigger.OwnsSlot; owns != (origin == dibs.OriginSchedule) {
							t.Errorf("origin %s: owns a slot: %v", origin, owns)
						}
						if fired.Trigger.Reason == dibs.ReasonRunning && (fired.Trigger.BlockingRun == "" || fired.Trigger.BlockingUntil.IsZero()) {
							t.Errorf("does not name what it stood back for: %+v", fired.Trigger)
						}
					})
				})
			}
		}
	}
}

func TestQueueIsFirstInFirstOutAndBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Queue, "")
		j.QueueLimit = 3
		p := w.process("a")
		run := p.fire(j, nil).Run
		var ids []string
		for range 3 {
			pass(time.Second)
			f := p.fire(j, nil)
			w.wantFired(f, dibs.DecisionWaiting, dibs.ReasonRunning)
			ids = append(ids, f.Trigger.ID)
		}
		w.wantFired(p.fire(j, nil), dibs.DecisionSkipped, dibs.ReasonQueueFull)
		for _, id := range ids {
			next := p.end(run, able(j)).Next
			if next == nil || next.For.ID != id {
				t.Fatalf("continued with %+v, want %s", next, id)
			}
			w.wantTrigger(id, dibs.DecisionStarted, dibs.ReasonGranted)
			run = next.Run
		}
		if next := p.end(run, able(j)).Next; next != nil {
			t.Errorf("continued with %+v though nobody waits", next)
		}
		w.wantFired(p.fire(j, nil), dibs.DecisionStarted, dibs.ReasonFree)
	})
}

// A head that nobody present can run is passed over and keeps its place.
func TestHeadThatNobodyPresentCanRunIsPassedOver(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.job("a", dibs.Queue, ""), w.job("b", dibs.Queue, "")
		a.Lock, b.Lock = "shared", "shared"
		p, q := w.process("p"), w.process("q")
		run := p.fire(a, nil).Run
		head := p.fire(a, nil).Trigger
		pass(time.Second)
		second := q.fire(b, func(r *dispatch.Request) { r.Able = able(b) }).Trigger
		end := dispatch.Finish{Run: *run, End: dibs.RunEnd{Run: run.Ref(), State: dibs.RunSucceeded}, Able: able(b)}
		done, err := q.End(w.t.Context(), end)
		if err != nil || done.Next == nil || done.Next.For.ID != second.ID {
			t.Fatalf("continued with %+v, %v; want %s", done.Next, err, second.ID)
		}
		w.wantTrigger(head.ID, dibs.DecisionWaiting, dibs.ReasonRunning)
		// Two jobs on one lock never run at once, and the head comes next.
		if next := q.end(done.Next.Run, able(a, b)).Next; next == nil || next.For.ID != head.ID {
			t.Errorf("then continued with %+v, want %s", next, head.ID)
		}
	})
}

// A newcomer to a free lock lets those who wait go first, and runs the head
// itself when it may.
func TestNewcomerRunsTheHeadFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Queue, "")
		p := w.process("a")
		head := p.fire(j, func(r *dispatch.Request) { r.Enqueue, r.Able = true, nil })
		w.wantFired(head, dibs.DecisionWaiting, dibs.ReasonEnqueued)
		pass(time.Second)
		f := p.fire(j, nil)
		w.wantFired(f, dibs.DecisionWaiting, dibs.ReasonWaitersLeft)
		if f.Run == nil || f.For.ID != head.Trigger.ID {
			t.Fatalf("runs %+v, want the head %s", f.For, head.Trigger.ID)
		}
		if next := p.end(f.Run, able(j)).Next; next == nil || next.For.ID != f.Trigger.ID {
			t.Errorf("then runs %+v, want its own", next)
		}
	})
}

func TestReplaceStopsTheRunAndTakesThePlaceOfTheWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Replace, "")
		p := w.process("a")
		run := p.fire(j, nil).Run
		pass(time.Second)
		first := p.fire(j, nil)
		w.wantFired(first, dibs.DecisionWaiting, dibs.ReasonRunning)
		stopping := w.run(run.ID)
		// grace 10 s; one beat 20 s + margin 12 s
		if got := stopping.StopBy.Sub(first.Now); got != 10*time.Second {
			t.Errorf("stop_by is %s from now, want 10s", got)
		}
		if got := stopping.Lease.Sub(first.Now); got != 32*time.Second {
			t.Errorf("the lease ends in %s, want one beat and the margin: 32s", got)
		}
		second := p.fire(j, nil)
		w.wantFired(second, dibs.DecisionWaiting, dibs.ReasonNewer)
		w.wantTrigger(first.Trigger.ID, dibs.DecisionReplaced, dibs.ReasonNewer)
		pass(11 * time.Second)
		if renewed, err := w.store.RenewRun(w.t.Context(), run.Ref(), lease); err != nil || !renewed.Run.IsZero() || renewed.Ends.IsZero() {
			t.Errorf("a renewal past stop_by: %+v, %v; want it refused, with the end as it stands", renewed, err)
		}
		end := dibs.RunEnd{Run: run.Ref(), State: dibs.RunCancelled, Reason: dibs.ReasonStopBy}
		done, err := p.End(w.t.Context(), dispatch.Finish{Run: *run, End: end, Able: able(j)})
		if err != nil || done.Next == nil || done.Next.For.ID != second.Trigger.ID {
			t.Fatalf("continued with %+v, %v; want the newest", done.Next, err)
		}
		if got := w.run(run.ID); got.State != dibs.RunCancelled || got.Reason != dibs.ReasonReplaced {
			t.Errorf("the replaced run ended %s (%s)", got.State, got.Reason)
		}
	})
}

// The replaced run's process is dead: its lease, cut short, decides.
func TestReplaceOfADeadRunStartsAtTheEndOfItsLease(t *testing.T) {
	inWorld(t, func(w *world) {
		j := w.job("j", dibs.Replace, "")
		run := w.process("a").fire(j, nil).Run
		f := w.process("b").fire(j, nil)
		pass(31 * time.Second)
		if got, err := w.process("b").Pump(w.t.Context(), "j", able(j)); err != nil || got.Run != nil {
			t.Fatalf("started before the lease ended: %+v, %v", got, err)
		}
		pass(2 * time.Second)
		got, err := w.process("b").Pump(w.t.Context(), "j", able(j))
		if err != nil || got.Run == nil || got.For.ID != f.Trigger.ID || got.Run.Previous != "lost:"+run.ID {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
}
