package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The oracle of this file knows nothing of segments: it walks minute by
// minute, looks at the clock on the wall, and applies the rules as the package
// comment states them.

// naive is a set of fields, each an ordinary table of what matches.
type naive struct {
	minute, hour, dom, month, dow [60]bool
	anyDom, anyDow                bool
	elapsed                       bool
	day                           int // largest distance in minutes if every day matched
}

func parseNaive(t *testing.T, expr string) *naive {
	t.Helper()
	f := strings.Fields(expr)
	n := &naive{anyDom: f[2][0] == '*', anyDow: f[4][0] == '*', elapsed: strings.ContainsAny(f[1], "*/")}
	for i, set := range []*[60]bool{&n.minute, &n.hour, &n.dom, &n.month, &n.dow} {
		lo := []int{0, 0, 1, 1, 0}[i]
		hi := []int{59, 23, 31, 12, 6}[i]
		for term := range strings.SplitSeq(f[i], ",") {
			a, b, step := lo, hi, 1
			body, every, ok := strings.Cut(term, "/")
			if ok {
				step, _ = strconv.Atoi(every)
			}
			if body != "*" {
				from, to, isRange := strings.Cut(body, "-")
				a, _ = strconv.Atoi(from)
				if b = a; isRange {
					b, _ = strconv.Atoi(to)
				}
			}
			for v := a; v <= b; v += step {
				set[v] = true
			}
		}
	}
	first, prev := -1, -1
	for m := range 1440 {
		if n.hour[m/60] && n.minute[m%60] {
			if first < 0 {
				first = m
			} else {
				n.day = max(n.day, m-prev)
			}
			prev = m
		}
	}
	n.day = max(n.day, first+1440-prev)
	return n
}

// match looks at a wall time in minutes since 1970.
func (n *naive) match(wall int64) bool {
	at := time.Unix(wall*60, 0).UTC()
	return n.matchMinute(minute{m: int8(at.Minute()), h: int8(at.Hour()), dom: int8(at.Day()), month: int8(at.Month()), dow: int8(at.Weekday())})
}

func (n *naive) matchMinute(at minute) bool {
	if !n.minute[at.m] || !n.hour[at.h] || !n.month[at.month] {
		return false
	}
	dom, dow := n.dom[at.dom], n.dow[at.dow]
	if n.anyDom || n.anyDow {
		return dom && dow
	}
	return dom || dow
}

// minute is what the clock on the wall shows during one minute.
type minute struct {
	wall                  int64 // minutes since 1970
	m, h, dom, month, dow int8
	again, later          bool // shown before, or still to be shown a second time
}

// walls looks at the wall in every minute in [from, to).
func walls(loc *time.Location, from, to time.Time) []minute {
	list := make([]minute, 0, to.Sub(from)/time.Minute)
	seen := map[int64]int{}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		local := at.In(loc)
		_, off := local.Zone()
		w := minute{wall: floorDiv(at.Unix()+int64(off), 60), m: int8(local.Minute()), h: int8(local.Hour()),
			dom: int8(local.Day()), month: int8(local.Month()), dow: int8(local.Weekday())}
		if i, ok := seen[w.wall]; ok {
			w.again, list[i].later = true, true
		}
		seen[w.wall] = len(list)
		list = append(list, w)
	}
	return list
}

// slots applies the rules to the minutes from an instant on.
func (n *naive) slots(dst DST, from time.Time, wall []minute) (list []time.Time) {
	repeated := dst.Repeated
	if repeated == "" {
		repeated = RepeatedFirst
		if n.elapsed {
			repeated = RepeatedBoth
		}
	}
	for i, w := range wall {
		fires := n.matchMinute(w)
		switch repeated {
		case RepeatedFirst:
			fires = fires && !w.again
		case RepeatedLast:
			fires = fires && !w.later
		}
		if !fires && i > 0 && w.wall > wall[i-1].wall+1 {
			fires = n.firesForGap(dst.Missing, wall[i-1].wall+1, w.wall)
		}
		if fires {
			list = append(list, from.Add(time.Duration(i)*time.Minute))
		}
	}
	return list
}

// firesForGap decides for the missing wall times [from, to).
func (n *naive) firesForGap(rule Missing, from, to int64) bool {
	missing := false
	for w := from; w < to; w++ {
		missing = missing || n.match(w)
	}
	if !missing || rule == MissingSkip {
		return false
	}
	if rule == MissingShift || !n.elapsed {
		return true
	}
	prev, next := from-1, to
	for !n.match(prev) {
		prev--
	}
	for !n.match(next) {
		next++
	}
	shift := to - from
	return next-prev-shift > int64(n.day)+shift
}

var walkExprs = []string{
	"* * * * *", "*/15 * * * *", "0 * * * *", "30 * * * *", "0 */2 * * *", "20,50 */6 * * *", "0 */12 * * *",
	"30 2 * * *", "0 0 * * *", "15 0,1,2,3 * * *", "*/10 1-3 * * *", "59 23 * * *", "0 0 1-31/2 * 1", "0 0 */2 * 1",
	"30 0 * * 0", "0 */4 * * 0", "10 1 30,31 * *",
}

var walkRules = []DST{
	{}, {Missing: MissingSkip, Repeated: RepeatedLast}, {Missing: MissingShift, Repeated: RepeatedBoth}, {Repeated: RepeatedFirst}, {Repeated: RepeatedLast},
}

// TestMinuteWalk compares Next, Prev and Count with the oracle around the
// changes of a year in zones that are odd in one way or another.
func TestMinuteWalk(t *testing.T) {
	for _, c := range []struct {
		zone string
		from time.Time // and ten months from here
	}{
		{"Pacific/Apia", date(2011, 7, 1)},        // no 30 December 2011
		{"Australia/Lord_Howe", date(2027, 2, 1)}, // half an hour
		{"Africa/Casablanca", date(2027, 1, 1)},   // around Ramadan, the other way round
		{"Africa/Cairo", date(2027, 3, 1)},        // no midnight
		{"Asia/Beirut", date(2027, 2, 1)},         // no midnight
		{"America/Havana", date(2027, 2, 1)},      // no midnight, one o'clock back to midnight
		{"America/Santiago", date(2027, 2, 1)},    // no midnight, midnight back to 23:00
		{"America/Sao_Paulo", date(2018, 2, 1)},   // no midnight
		{"Antarctica/Troll", date(2027, 2, 1)},    // two hours
		{"Europe/Dublin", date(2027, 2, 1)},       // negative saving in winter
		{"America/New_York", date(2027, 2, 1)},
		{"Pacific/Kwajalein", date(1993, 5, 1)}, // no 21 August 1993
	} {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			to := c.from.AddDate(0, 10, 0)
			loc, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			wall := walls(loc, c.from, to)
			for i, expr := range walkExprs {
				n := parseNaive(t, expr)
				for _, rule := range []DST{walkRules[0], walkRules[1+i%4]} {
					s, err := Parse(Spec{Cron: expr, Zone: c.zone, DST: rule})
					if err != nil {
						t.Fatal(err)
					}
					days := 16
					if s.clock.perDay > 50 {
						days = 3
					}
					for _, w := range aroundChanges(t, wall, days*1440) {
						from := c.from.Add(time.Duration(w[0]) * time.Minute)
						sameSlots(t, fmt.Sprintf("%s %+v", expr, rule), s, from, c.from.Add(time.Duration(w[1])*time.Minute), n.slots(rule, from, wall[w[0]:w[1]]))
					}
				}
			}
		})
	}
}

// aroundChanges gives the ranges of minutes at most span away from a jump on
// the wall.
func aroundChanges(t *testing.T, wall []minute, span int) (list [][2]int) {
	t.Helper()
	for i := 1; i < len(wall); i++ {
		if wall[i].wall == wall[i-1].wall+1 {
			continue
		}
		from, to := max(i-span, 0), min(i+span, len(wall))
		if n := len(list); n > 0 && list[n-1][1] >= from {
			list[n-1][1] = to
		} else {
			list = append(list, [2]int{from, to})
		}
	}
	if len(list) == 0 {
		t.Fatal("the clock does not change in this time")
	}
	return list
}

func date(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }

// sameSlots walks forward and back and counts; want are the slots in [from, to).
func sameSlots(t *testing.T, name string, s *Schedule, from, to time.Time, want []time.Time) {
	t.Helper()
	before, end := from.Add(-time.Second), to.Add(-time.Second)
	got, more := s.Between(before, end, len(want)+5)
	if more || !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Fatalf("%s: %s", name, firstDifference(got, want, s.loc))
	}
	if n := s.Count(before, end); n != int64(len(want)) {
		t.Errorf("%s: Count says %d, there are %d", name, n, len(want))
	}
	at := end
	for _, slot := range slices.Backward(want) {
		got, ok := s.Prev(at)
		if !ok || !got.Equal(slot) {
			t.Fatalf("%s: Prev(%s) = %s, want %s", name, at.In(s.loc), got.In(s.loc), slot.In(s.loc))
		}
		at = slot.Add(-time.Nanosecond)
	}
}

func firstDifference(got, want []time.Time, loc *time.Location) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "missing " + want[i].In(loc).String()
		case i >= len(want):
			return "extra " + got[i].In(loc).String()
		case !got[i].Equal(want[i]):
			return fmt.Sprintf("slot %d is %s, want %s", i, got[i].In(loc), want[i].In(loc))
		}
	}
	return "no difference"
}
