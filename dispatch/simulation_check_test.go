package dispatch_test

import (
	"fmt"
	"hash"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/dibs-run/dibs"
)

// check looks at the whole history of every job.
func (s *simulation) check() {
	var slots, missed int64
	digest := fnv.New64a()
	for _, j := range s.jobs {
		h := s.read(j)
		a, b := s.checkJob(j, h)
		slots, missed = slots+a, missed+b
		h.sum(digest, j.Name)
	}
	s.w.t.Logf("%d requests, %d slots decided, %d of them missed, digest %016x", s.decided, slots, missed, digest.Sum64())
	if slots == 0 {
		s.w.t.Error("nothing was decided")
	}
}

// history is what the database says of one job's slots.
type history struct {
	owned  map[int64]dibs.Trigger
	missed []dibs.Trigger
	runs   map[int64][]dibs.Run
	last   time.Time
}

// sum adds what was decided about each slot, and how its runs ended.
func (h history) sum(to hash.Hash, job string) {
	for _, slot := range slices.Sorted(maps.Keys(h.owned)) {
		t := h.owned[slot]
		_, _ = fmt.Fprintln(to, job, slot, t.Decision, t.Reason, t.DecidedAt.UnixMicro()) // never fails
	}
	for _, slot := range slices.Sorted(maps.Keys(h.runs)) {
		for _, r := range h.runs[slot] {
			_, _ = fmt.Fprintln(to, job, slot, r.State, r.Reason, r.StartedAt.UnixMicro())
		}
	}
}

func (s *simulation) read(j *simJob) history {
	ctx, t := s.w.t.Context(), s.w.t
	h := history{owned: map[int64]dibs.Trigger{}, runs: map[int64][]dibs.Run{}}
	list, err := s.w.store.ListTriggers(ctx, dibs.TriggerFilter{Job: j.Name, Limit: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range list {
		if tr.Decision == dibs.DecisionWaiting {
			t.Errorf("%s: trigger %s still waits (%s)", j.Name, tr.ID, tr.Reason)
		}
		if !tr.OwnsSlot {
			continue
		}
		if tr.Missed > 0 {
			h.missed = append(h.missed, tr)
			continue
		}
		h.owned[tr.Slot.UnixMicro()] = tr
	}
	runs, err := s.w.store.ListRuns(ctx, dibs.RunFilter{Job: j.Name, Limit: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	for i := len(runs) - 1; i >= 0; i-- {
		h.runs[runs[i].Slot.UnixMicro()] = append(h.runs[runs[i].Slot.UnixMicro()], runs[i])
	}
	state, err := s.w.store.Job(ctx, j.Name)
	if err != nil {
		t.Fatal(err)
	}
	h.last = state.LastSlot
	return h
}

// checkJob walks the slots of each era and compares.
func (s *simulation) checkJob(j *simJob, h history) (slots, missed int64) {
	t := s.w.t
	for i, e := range j.eras {
		end := s.end
		if i+1 < len(j.eras) {
			end = j.eras[i+1].from
		}
		given := false // the rest was given up by an edit
		for slot, ok := e.sched.Next(e.from); ok && slot.Before(end); slot, ok = e.sched.Next(slot) {
			n := 0
			if _, owned := h.owned[slot.UnixMicro()]; owned {
				n++
			}
			for _, m := range h.missed {
				if covers(m, slot) {
					n, missed = n+1, missed+1
				}
			}
			switch {
			case n == 1 && !given:
				slots++
			case n == 0 && i+1 < len(j.eras):
				given = true // passed undecided before the edit, which sets a new reference
			case n != 1:
				t.Errorf("%s (%s, %s): slot %s has %d decisions", j.Name, j.Overlap, e.sched, slot.Format(time.RFC3339), n)
			default:
				t.Errorf("%s: slot %s was decided after an earlier one of its definition was given up", j.Name, slot)
			}
		}
	}
	for slot, runs := range h.runs {
		ended := 0
		for i, r := range runs {
			if r.State == dibs.RunRunning {
				t.Errorf("%s: run %s never ended", j.Name, r.ID)
			}
			if r.State != dibs.RunLost {
				ended++
			}
			if ended > 0 && i < len(runs)-1 {
				t.Errorf("%s: slot %s ran again after it was spent", j.Name, time.UnixMicro(slot).UTC())
			}
		}
		if len(runs) > 4 {
			t.Errorf("%s: slot %s was started %d times", j.Name, time.UnixMicro(slot).UTC(), len(runs))
		}
	}
	return slots, missed
}

// covers tells whether a row of missed slots stands for a slot.
func covers(m dibs.Trigger, slot time.Time) bool {
	if len(m.Covered) != 2 {
		return m.Slot.Equal(slot)
	}
	return !slot.Before(m.Covered[0]) && !slot.After(m.Covered[1])
}
