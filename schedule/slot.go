package schedule

import "time"

type kind uint8

const (
	kindCron kind = iota
	kindEvery
	kindAt
)

// Schedule is a compiled Spec: a rule that yields slots. It is immutable and
// may be used by several goroutines. Next, Prev and Count do not allocate.
//
// A slot is an instant in UTC on a whole second, and that instant is its
// identity: the two passes of a repeated hour are different slots, and jitter
// does not change a slot.
type Schedule struct {
	spec       Spec
	loc        *time.Location
	clock      clock
	text       [fieldCount]string // canonical fields
	every      int64              // seconds
	anchor, at int64              // seconds since 1970
	kind       kind
	hasSeconds bool
	elapsed    bool     // the hour is a wildcard or has a step
	repeated   Repeated // the rule in force
}

// Location is the zone in which the fields are read; UTC for every and at
// unless a zone was given for display.
func (s *Schedule) Location() *time.Location { return s.loc }

// Spec answers what was parsed, with the default day rule filled in.
func (s *Schedule) Spec() Spec { return s.spec }

// Next is the first slot strictly after an instant. It answers false if there
// is none: an at that has passed, or the end of the year 9999.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	return instant(s.from(max(after.Unix(), minInstant-1) + 1))
}

// Prev is the last slot at or before an instant, false if there is none.
func (s *Schedule) Prev(at time.Time) (time.Time, bool) {
	return instant(s.upTo(min(at.Unix(), maxInstant)))
}

// Between answers the slots after the first instant and up to and including
// the second, oldest first, but at most limit; more tells that it left some
// out. [Schedule.Count] tells how many there are at no such cost.
func (s *Schedule) Between(after, upTo time.Time, limit int) (slots []time.Time, more bool) {
	for t := after; ; {
		slot, ok := s.Next(t)
		if !ok || slot.After(upTo) {
			return slots, false
		}
		if len(slots) >= limit {
			return slots, true
		}
		slots = append(slots, slot)
		t = slot
	}
}

// Count is the number of slots after the first instant and up to and including
// the second. It jumps: its cost grows with the months between and the changes
// of the clock, a few milliseconds for a thousand years, not with the slots.
func (s *Schedule) Count(after, upTo time.Time) int64 {
	from, to := max(after.Unix(), minInstant-1)+1, min(upTo.Unix(), maxInstant)
	if from > to {
		return 0
	}
	switch s.kind {
	case kindAt:
		if from <= s.at && s.at <= to {
			return 1
		}
		return 0
	case kindEvery:
		return floorDiv(to-s.anchor, s.every) - floorDiv(from-1-s.anchor, s.every)
	}
	return s.countCron(from, to)
}

// Interval is the smallest regular distance between two slots, changes of the
// clock aside; zero for at.
func (s *Schedule) Interval() time.Duration {
	switch s.kind {
	case kindAt:
		return 0
	case kindEvery:
		return time.Duration(s.every) * time.Second
	}
	return time.Duration(s.clock.interval()) * time.Second
}

func instant(t int64, ok bool) (time.Time, bool) {
	if !ok || t > maxInstant || t < minInstant {
		return time.Time{}, false
	}
	return time.Unix(t, 0).UTC(), true
}

// from is the first slot at or after t.
func (s *Schedule) from(t int64) (int64, bool) {
	switch s.kind {
	case kindAt:
		return s.at, s.at >= t
	case kindEvery:
		return s.anchor - floorDiv(s.anchor-t, s.every)*s.every, true
	}
	return s.fromCron(t)
}

// upTo is the last slot at or before t.
func (s *Schedule) upTo(t int64) (int64, bool) {
	switch s.kind {
	case kindAt:
		return s.at, s.at <= t
	case kindEvery:
		return s.anchor + floorDiv(t-s.anchor, s.every)*s.every, true
	}
	return s.upToCron(t)
}
