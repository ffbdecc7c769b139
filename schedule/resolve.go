package schedule

import "time"

// This file lays the wall times that match onto the line of instants. Time is
// cut at the changes of the offset. Within a segment, instant and wall time
// differ by one number, so that nothing is ambiguous; at a border the two
// offsets say which wall times are missing (the offset grows) and which occur
// twice (it shrinks). time.Date is never asked: it answers the two cases
// differently east and west of Greenwich.

// open is the first wall time of g that may fire: not the second pass of a
// repeated stretch, if the rule leaves that out.
func (s *Schedule) open(g segment) int64 {
	if g.start == alwaysStart {
		return alwaysStart
	}
	if s.repeated == RepeatedFirst {
		return g.start + max(g.off, s.offsetAt(g.start-1))
	}
	return g.start + g.off
}

// close is the wall time at which g stops firing: before the first pass of a
// repeated stretch, if the rule leaves that out.
func (s *Schedule) close(g segment) int64 {
	if g.end == alwaysEnd {
		return alwaysEnd
	}
	if s.repeated == RepeatedLast {
		return g.end + min(g.off, s.offsetAt(g.end))
	}
	return g.end + g.off
}

// shifted tells whether wall times left out between offset before and after
// at instant t fire at t, and which is the first.
func (s *Schedule) shifted(t, before, after int64) (wall int64, ok bool) {
	if after <= before || s.spec.DST.Missing == MissingSkip {
		return 0, false
	}
	wall, ok = s.clock.next(t + before)
	if !ok || wall >= t+after {
		return 0, false
	}
	if s.spec.DST.Missing == MissingShift || !s.elapsed {
		return wall, true
	}
	// A schedule that follows elapsed time drops the missing time unless that
	// leaves a hole longer than its largest regular distance plus the shift.
	prev, ok1 := s.clock.prev(t + before - 1)
	next, ok2 := s.clock.next(t + after)
	hole := next - prev - (after - before)
	return wall, !ok1 || !ok2 || hole > s.clock.max+(after-before)
}

func (s *Schedule) fromCron(t int64) (int64, bool) {
	for t <= maxInstant {
		g := s.segmentAt(t)
		wall := t + g.off
		if t-g.start < maxShift {
			wall = max(wall, s.open(g))
		}
		match, ok := s.clock.next(wall)
		if !ok {
			return 0, false
		}
		if near := match-g.off > g.end-maxShift; !near || match < s.close(g) {
			return match - g.off, true
		}
		if _, ok := s.shifted(g.end, g.off, s.offsetAt(g.end)); ok {
			return g.end, true
		}
		// No wall time between wall and match fires, so everything up to a
		// shift before match can be passed over, unless a border is near that
		// repeats wall times before wall.
		if far := match - maxShift; far > g.end+maxShift && g.end-t > maxShift {
			t = far
		} else {
			t = g.end
		}
	}
	return 0, false
}

func (s *Schedule) upToCron(t int64) (int64, bool) {
	for t >= minInstant {
		g := s.segmentAt(t)
		wall := t + g.off
		if g.end-t <= maxShift {
			wall = min(wall, s.close(g)-1)
		}
		match, ok := s.clock.prev(wall)
		if !ok {
			return 0, false
		}
		if near := match-g.off < g.start+maxShift; !near || match >= s.open(g) {
			return match - g.off, true
		}
		if _, ok := s.shifted(g.start, s.offsetAt(g.start-1), g.off); ok {
			return g.start, true
		}
		if far := match + maxShift; far < g.start-maxShift && t-g.start > maxShift {
			t = far
		} else {
			t = g.start - 1
		}
	}
	return 0, false
}

// countCron counts the slots in [from, to], both inclusive.
func (s *Schedule) countCron(from, to int64) (n int64) {
	for t := from; t <= to; {
		g := s.segmentAt(t)
		lo, hi := max(s.open(g), t+g.off), min(s.close(g), to+1+g.off)
		n += s.clock.count(lo, hi)
		if t == g.start && !(lo == t+g.off && s.clock.count(lo, min(lo+1, hi)) == 1) {
			if _, ok := s.shifted(t, s.offsetAt(t-1), g.off); ok {
				n++
			}
		}
		t = g.end
	}
	return n
}

// Effect is what a change of the clock does to one slot.
type Effect struct {
	Missing string // the wall time, as 2006-01-02 15:04:05, that does not exist and fires at this slot instead
	Pass    int    // 1 or 2 if the slot's wall time occurs twice, else 0
}

// String is a short remark for people, empty without an effect.
func (e Effect) String() string {
	switch {
	case e.Missing != "":
		return e.Missing + " does not exist: fires at the first instant after"
	case e.Pass == 1:
		return "first pass of a repeated hour"
	case e.Pass == 2:
		return "second pass of a repeated hour"
	}
	return ""
}

// Effect tells what a change of the clock does to a slot of this schedule.
func (s *Schedule) Effect(slot time.Time) (e Effect) {
	t := slot.Unix()
	if s.kind != kindCron || t < minInstant || t > maxInstant {
		return e
	}
	g := s.segmentAt(t)
	wall := t + g.off
	if g.start != alwaysStart {
		before := s.offsetAt(g.start - 1)
		if t == g.start {
			if missing, ok := s.shifted(t, before, g.off); ok {
				e.Missing = time.Unix(missing, 0).UTC().Format(time.DateTime)
			}
		}
		if wall < g.start+before {
			e.Pass = 2
		}
	}
	if g.end != alwaysEnd && wall >= g.end+s.offsetAt(g.end) {
		e.Pass = 1
	}
	return e
}
