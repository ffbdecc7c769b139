package schedule

import "math/bits"

// clock is a parsed set of cron fields: which wall times it matches, whatever
// the zone. It is immutable; its methods do not allocate.
type clock struct {
	second, minute, hour uint64
	month                uint64
	dom                  uint32    // bit d: day d
	dow                  [7]uint32 // days that match, by the weekday of the month's first
	domLast              uint32    // bit k: k days before the last of the month
	domWeekday           uint32    // bit d: the weekday nearest to day d
	lastWeekday          bool      // the last Monday-to-Friday of the month
	nth                  [6]uint8  // [n] bit w: the n-th weekday w of the month
	lastNth              uint8     // bit w: the last weekday w of the month
	special              bool      // any of the last five is in use
	union                bool      // either day field suffices; otherwise both must match

	first, last int   // first and last second of the day that match
	perDay      int64 // matching seconds in a matching day
	min, max    int64 // smallest distance within one day; largest, around midnight too
}

// finish derives what depends on all fields.
func (c *clock) finish(weekdays uint64) {
	for start := range 7 {
		for day := 1; day <= 31; day++ {
			if weekdays&(1<<uint((start+day-1)%7)) != 0 {
				c.dow[start] |= 1 << uint(day)
			}
		}
	}
	s := spacingOf(c.second).within(spacingOf(c.minute), 60).within(spacingOf(c.hour), 3600)
	c.first, c.last, c.min = int(s.first), int(s.last), s.min
	c.max = max(s.max, daySeconds-s.last+s.first)
	c.perDay = int64(bits.OnesCount64(c.second) * bits.OnesCount64(c.minute) * bits.OnesCount64(c.hour))
}

// days is the set of matching days (bit d) of a month whose first day has
// weekday start and which has n days.
func (c *clock) days(month, start, n int) uint32 {
	if c.month&(1<<uint(month)) == 0 {
		return 0
	}
	dom, dow := c.dom, c.dow[start]
	if c.special {
		dom |= c.specialDom(start, n)
		dow |= c.specialDow(start, n)
	}
	all := uint32(1)<<uint(n+1) - 2
	if c.union {
		return (dom | dow) & all
	}
	return dom & dow & all
}

func (c *clock) specialDom(start, n int) (set uint32) {
	for rest := c.domLast; rest != 0; rest &= rest - 1 {
		if back := bits.TrailingZeros32(rest); back < n {
			set |= 1 << uint(n-back)
		}
	}
	for rest := c.domWeekday; rest != 0; rest &= rest - 1 {
		if day := bits.TrailingZeros32(rest); day <= n {
			set |= 1 << uint(nearestWeekday(day, start, n))
		}
	}
	if c.lastWeekday {
		set |= 1 << uint(nearestWeekdayBack(start, n))
	}
	return set
}

// nearestWeekday never leaves the month: a Saturday the first moves to Monday
// the third, a Sunday at the month's end moves to the Friday before.
func nearestWeekday(day, start, n int) int {
	switch (start + day - 1) % 7 {
	case 6:
		if day == 1 {
			return 3
		}
		return day - 1
	case 0:
		if day == n {
			return day - 2
		}
		return day + 1
	}
	return day
}

func nearestWeekdayBack(start, n int) int {
	switch (start + n - 1) % 7 {
	case 6:
		return n - 1
	case 0:
		return n - 2
	}
	return n
}

func (c *clock) specialDow(start, n int) (set uint32) {
	for w := range 7 {
		day := 1 + (w-start+7)%7
		for k := 1; k <= 5; k++ {
			if c.nth[k]&(1<<uint(w)) != 0 {
				set |= 1 << uint(day+7*(k-1))
			}
		}
		if c.lastNth&(1<<uint(w)) != 0 {
			set |= 1 << uint(day+(n-day)/7*7)
		}
	}
	return set
}

// secondFrom is the first matching second of a day at or after s, or -1.
func (c *clock) secondFrom(s int) int {
	h, m := s/3600, s/60%60
	if c.hour&(1<<uint(h)) != 0 {
		if c.minute&(1<<uint(m)) != 0 {
			if x := atOrAbove(c.second, s%60); x >= 0 {
				return s - s%60 + x
			}
		}
		if x := atOrAbove(c.minute, m+1); x >= 0 {
			return h*3600 + x*60 + bits.TrailingZeros64(c.second)
		}
	}
	if x := atOrAbove(c.hour, h+1); x >= 0 {
		return x*3600 + c.first%3600
	}
	return -1
}

// secondUpTo is the last matching second of a day at or before s, or -1.
func (c *clock) secondUpTo(s int) int {
	h, m := s/3600, s/60%60
	if c.hour&(1<<uint(h)) != 0 {
		if c.minute&(1<<uint(m)) != 0 {
			if x := atOrBelow(c.second, s%60); x >= 0 {
				return s - s%60 + x
			}
		}
		if x := atOrBelow(c.minute, m-1); x >= 0 {
			return h*3600 + x*60 + bits.Len64(c.second) - 1
		}
	}
	if x := atOrBelow(c.hour, h-1); x >= 0 {
		return x*3600 + c.last%3600
	}
	return -1
}

// next is the first matching wall time at or after wall. It looks through one
// cycle of the calendar, so false means never.
func (c *clock) next(wall int64) (int64, bool) {
	today, second := splitWall(wall)
	year, month, day := civil(today)
	first := today - int64(day) + 1
	for range cycleMonths + 2 {
		n := daysIn(year, month)
		set := uint64(c.days(month, weekday(first), n))
		if day > 0 && set&(1<<uint(day)) != 0 {
			if s := c.secondFrom(second); s >= 0 {
				return today*daySeconds + int64(s), true
			}
		}
		if d := atOrAbove(set, day+1); d >= 0 {
			return (first+int64(d)-1)*daySeconds + int64(c.first), true
		}
		first += int64(n)
		day = 0
		if month++; month > 12 {
			month, year = 1, year+1
		}
	}
	return 0, false
}

// prev is the last matching wall time at or before wall, false if there is
// none in one cycle of the calendar.
func (c *clock) prev(wall int64) (int64, bool) {
	today, second := splitWall(wall)
	year, month, day := civil(today)
	first := today - int64(day) + 1
	for i := range cycleMonths + 2 {
		set := uint64(c.days(month, weekday(first), daysIn(year, month)))
		if i == 0 && set&(1<<uint(day)) != 0 {
			if s := c.secondUpTo(second); s >= 0 {
				return today*daySeconds + int64(s), true
			}
		}
		if d := atOrBelow(set, day-1); d >= 1 {
			return (first+int64(d)-1)*daySeconds + int64(c.last), true
		}
		if month--; month < 1 {
			month, year = 12, year-1
		}
		first -= int64(daysIn(year, month))
		day = 32
	}
	return 0, false
}

// count is the number of matching wall times in [from, to). Its cost grows
// with the months between, not with the matches.
func (c *clock) count(from, to int64) int64 {
	if from >= to {
		return 0
	}
	d1, s1 := splitWall(from)
	d2, s2 := splitWall(to)
	if d1 == d2 {
		return c.countDays(d1, d1+1) * (c.secondsBelow(s2) - c.secondsBelow(s1))
	}
	n := c.countDays(d1, d1+1) * (c.perDay - c.secondsBelow(s1))
	n += c.countDays(d1+1, d2) * c.perDay
	if s2 > 0 {
		n += c.countDays(d2, d2+1) * c.secondsBelow(s2)
	}
	return n
}

func (c *clock) secondsBelow(s int) int64 {
	h, m := s/3600, s/60%60
	perMinute := int64(bits.OnesCount64(c.second))
	n := below(c.hour, h) * int64(bits.OnesCount64(c.minute)) * perMinute
	if c.hour&(1<<uint(h)) == 0 {
		return n
	}
	n += below(c.minute, m) * perMinute
	if c.minute&(1<<uint(m)) != 0 {
		n += below(c.second, s%60)
	}
	return n
}

// countDays is the number of matching days in [from, to).
func (c *clock) countDays(from, to int64) (n int64) {
	for from < to {
		year, month, day := civil(from)
		first := from - int64(day) + 1
		length := daysIn(year, month)
		set := uint64(c.days(month, weekday(first), length)) &^ (1<<uint(day) - 1)
		if left := to - first + 1; left <= int64(length) {
			set &= 1<<uint(left) - 1
		}
		n += int64(bits.OnesCount64(set))
		from = first + int64(length)
	}
	return n
}

// dayGap is the smallest distance in days between two matching days.
func (c *clock) dayGap() int64 {
	least, prev := noGap, int64(-1)
	year, month, first := int64(2000), 1, civilDays(2000, 1, 1)
	for range cycleMonths + 12*41 { // the longest wait between two matches is 40 years
		n := daysIn(year, month)
		for set := c.days(month, weekday(first), n); set != 0; set &= set - 1 {
			day := first + int64(bits.TrailingZeros32(set)) - 1
			if prev >= 0 {
				least = min(least, day-prev)
			}
			if prev = day; least == 1 {
				return least
			}
		}
		first += int64(n)
		if month++; month > 12 {
			month, year = 1, year+1
		}
	}
	return least
}

// interval is the smallest distance in seconds between two matching wall times.
func (c *clock) interval() int64 {
	gap := int64(1)
	if cross := int64(daySeconds - c.last + c.first); cross < c.min {
		gap = c.dayGap()
	}
	return min(c.min, gap*daySeconds-int64(c.last-c.first))
}
