package policy

import (
	"time"

	"github.com/dibs-run/dibs"
)

// Range is a run of consecutive slots that do not run.
type Range struct {
	First, Last time.Time
	Count       int64
	Reason      dibs.Reason
}

// Misfire says what becomes of the slots that have passed since the last
// decision: which run, oldest first, and which are missed.
type Misfire struct {
	Fire   []time.Time
	Missed []Range
	// Late is true when even the newest is too late to be called on time.
	Late bool
}

// Defaults of [dibs.CatchUp].
const (
	DefaultCatchUpLimit = 100
	// DefaultOnTime is how late a slot may fire and still be no misfire: longer
	// than any sensible distance between two ticks of a crontab.
	DefaultOnTime = 10 * time.Minute
)

// Misfires decides every slot after one instant up to and including slot, at
// the time now. asked is true when somebody asked for this very slot, which
// then runs whatever its age and even before the instant. The number of slots in
// between makes no difference to the time it takes.
func Misfires(s dibs.Scheduler, c dibs.CatchUp, after, slot, now time.Time, asked bool) Misfire {
	late := now.Sub(slot)
	m := Misfire{Late: late > DefaultOnTime}
	window := c.Window
	if c.Mode == dibs.CatchUpNone && window <= 0 {
		window = DefaultOnTime
	}
	reason := dibs.ReasonCatchUp
	switch {
	case !asked && window > 0 && late > window:
		if reason = dibs.ReasonWindow; c.Mode == dibs.CatchUpNone {
			reason = dibs.ReasonCatchUp
		}
		m.missed(s, after, slot, reason)
		return m
	case c.Mode != dibs.CatchUpAll:
		m.Fire = []time.Time{slot}
	default:
		reason = m.all(s, c, after, slot, now)
	}
	if before, ok := s.Prev(m.Fire[0].Add(-1)); ok && before.After(after) {
		m.missed(s, after, before, reason)
	}
	return m
}

// all takes the newest slots, up to the limit and within the window, and says
// why the rest is missed.
func (m *Misfire) all(s dibs.Scheduler, c dibs.CatchUp, after, slot, now time.Time) dibs.Reason {
	limit := c.Limit
	if limit <= 0 {
		limit = DefaultCatchUpLimit
	}
	newest := []time.Time{slot}
	reason := dibs.ReasonLimit
	for at := slot; len(newest) < limit; {
		before, ok := s.Prev(at.Add(-1))
		if !ok || !before.After(after) {
			break
		}
		if c.Window > 0 && now.Sub(before) > c.Window {
			reason = dibs.ReasonWindow
			break
		}
		newest = append(newest, before)
		at = before
	}
	for i := len(newest) - 1; i >= 0; i-- {
		m.Fire = append(m.Fire, newest[i])
	}
	return reason
}

func (m *Misfire) missed(s dibs.Scheduler, after, last time.Time, why dibs.Reason) {
	n := s.Count(after, last)
	first, ok := s.Next(after)
	if n <= 0 || !ok { // asked for a slot before the instant: it alone
		first, n = last, 1
	}
	m.Missed = append(m.Missed, Range{First: first, Last: last, Count: n, Reason: why})
}

// Latest is the newest slot whose start, jitter included, has come; false when
// there is none.
func Latest(s dibs.Scheduler, now time.Time) (time.Time, bool) {
	slot, ok := s.Prev(now)
	for ok && slot.Add(s.Delay(slot)).After(now) {
		slot, ok = s.Prev(slot.Add(-1))
	}
	return slot, ok
}

// Early is how long before a slot a request for it is already in time.
func Early(early time.Duration, s dibs.Scheduler) time.Duration {
	if early > 0 || s == nil {
		return max(early, 0)
	}
	most := 10 * time.Second
	if i := s.Interval(); i > 0 {
		most = min(most, i/10)
	}
	return most
}
