package runner

import (
	"container/heap"
	"context"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/policy"
)

// due says when a job is to be looked at, by this process's clock.
type due struct {
	job string
	at  time.Time
}

// longestSleep bounds the sleep until the next slot: the clock may have been
// set, and the host may have slept.
const longestSleep = 30 * time.Second

// tooSoon is the least wait for a slot that had not come yet by the database's
// clock although it had by ours.
const tooSoon = 20 * time.Millisecond

// due sleeps until the next slot of any job and hands the job to whoever
// decides. It asks the database nothing by itself once it has begun, so that it
// turns while the database is away.
func (s *Server) due(ctx context.Context, states map[string]dibs.JobState, decide chan<- string) error {
	a := newAgenda()
	s.fill(a, states)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var pulse <-chan time.Time
	if s.pulse > 0 {
		ticker := time.NewTicker(s.pulse)
		defer ticker.Stop()
		pulse = ticker.C
	}
	var ready []string // due, and nobody is free to decide
	for {
		for name, ok := a.pop(time.Now()); ok; name, ok = a.pop(time.Now()) {
			ready = append(ready, name)
		}
		timer.Reset(min(a.sleep(time.Now()), longestSleep))
		out, first := decide, ""
		if len(ready) == 0 {
			out = nil // sends nothing
		} else {
			first = ready[0]
		}
		select {
		case <-ctx.Done():
			return nil
		case out <- first:
			ready = ready[1:]
		case next := <-s.again:
			a.push(next)
		case load := <-s.swap:
			s.runner.Store(load.next)
			s.fill(a, load.states)
			close(load.done)
		case <-pulse:
			s.alive()
		case <-timer.C:
		}
	}
}

// fill puts every scheduled job on the agenda: at once those with a slot that
// nobody has decided since they were registered, the others at their next.
func (s *Server) fill(a *agenda, states map[string]dibs.JobState) {
	a.clear()
	if s.only == OnlyRun {
		return
	}
	r := s.runner.Load()
	now := time.Now()
	for _, name := range r.order {
		j := r.jobs[name]
		if j.Schedule == nil {
			continue
		}
		slot, ok := policy.Latest(j.Schedule, s.database(now))
		state := states[j.Name]
		if ok && slot.After(state.LastSlot) && slot.After(state.Reference) {
			a.push(due{name, now})
			continue
		}
		if at, ok := s.next(j, now); ok {
			a.push(due{name, at})
		}
	}
}

// states reads what the database knows of all jobs, and its time.
func (s *Server) states(ctx context.Context) (map[string]dibs.JobState, error) {
	states := map[string]dibs.JobState{}
	err := s.until(ctx, "read the jobs", func(ctx context.Context) error {
		sent := time.Now()
		now, err := s.store.Now(ctx)
		if err != nil {
			return err
		}
		s.heard(sent, now)
		list, err := s.store.Jobs(ctx)
		if err != nil {
			return err
		}
		for _, state := range list {
			states[state.Name] = state
		}
		return nil
	})
	return states, err
}

// next is when the next slot of a job starts, jitter included, by this process's
// clock; false: never.
func (s *Server) next(j *job, now time.Time) (time.Time, bool) {
	there := s.database(now)
	if slot, ok := j.Schedule.Prev(there); ok { // it may have come, and its jitter not
		if start := slot.Add(j.Schedule.Delay(slot)); start.After(there) {
			return s.local(start), true
		}
	}
	slot, ok := j.Schedule.Next(there)
	if !ok {
		return time.Time{}, false
	}
	return s.local(slot.Add(j.Schedule.Delay(slot))), true
}

// heard learns the distance between the clocks from an answer.
func (s *Server) heard(sent, now time.Time) {
	back := time.Now()
	if now.IsZero() || back.Sub(sent) > time.Second { // too long on its way to say much
		return
	}
	s.offset.Store(int64(now.Sub(sent.Add(back.Sub(sent) / 2))))
}

// database turns this process's time into the database's, and local turns it
// back; a moment later, so that the slot has come there too.
func (s *Server) database(t time.Time) time.Time { return t.Add(time.Duration(s.offset.Load())) }

func (s *Server) local(t time.Time) time.Time {
	return time.Now().Add(t.Sub(s.database(time.Now())) + time.Millisecond)
}

// agenda orders jobs by the time at which they are due; a job is on it once, at
// its earliest time. Confined to one goroutine.
type agenda struct {
	list  []due
	place map[string]int
}

func newAgenda() *agenda { return &agenda{place: map[string]int{}} }

func (a *agenda) clear() {
	a.list = a.list[:0]
	clear(a.place)
}

func (a *agenda) push(d due) {
	if i, there := a.place[d.job]; there {
		if d.at.Before(a.list[i].at) {
			a.list[i].at = d.at
			heap.Fix((*agendaHeap)(a), i)
		}
		return
	}
	heap.Push((*agendaHeap)(a), d)
}

// pop takes the first job that is due.
func (a *agenda) pop(now time.Time) (string, bool) {
	if len(a.list) == 0 || a.list[0].at.After(now) {
		return "", false
	}
	d, _ := heap.Pop((*agendaHeap)(a)).(due)
	return d.job, true
}

// sleep is the time until the first is due.
func (a *agenda) sleep(now time.Time) time.Duration {
	if len(a.list) == 0 {
		return longestSleep
	}
	return max(a.list[0].at.Sub(now), 0)
}

// agendaHeap is the agenda as container/heap wants it.
type agendaHeap agenda

func (h *agendaHeap) Len() int           { return len(h.list) }
func (h *agendaHeap) Less(i, j int) bool { return h.list[i].at.Before(h.list[j].at) }
func (h *agendaHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.place[h.list[i].job], h.place[h.list[j].job] = i, j
}

func (h *agendaHeap) Push(x any) {
	d, _ := x.(due)
	h.place[d.job] = len(h.list)
	h.list = append(h.list, d)
}

func (h *agendaHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	delete(h.place, last.job)
	return last
}
