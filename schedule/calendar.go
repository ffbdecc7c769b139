package schedule

import "math/bits"

// A wall time is a count of seconds on a clock without a zone: the seconds
// from 1970-01-01 00:00 to that date and time as a calendar without offsets
// would count them. Everything in this file is arithmetic on such clocks.

const (
	daySeconds  = 86400
	cycleMonths = 400 * 12 // the Gregorian calendar repeats after 400 years, weekdays included
)

// civil turns days since 1970-01-01 into year, month (1-12) and day (1-31).
func civil(days int64) (year int64, month, day int) {
	z := days + 719468 // days since 0000-03-01
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = int(doy - (153*mp+2)/5 + 1)
	month = int(mp) + 3
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// civilDays is the inverse of civil.
func civilDays(year int64, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yoe := year - era*400
	doy := int64((153*(month-3)+2)/5 + day - 1)
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

// daysIn is the length of a month in days.
func daysIn(year int64, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// weekday is 0 for Sunday to 6 for Saturday.
func weekday(days int64) int { return int(floorMod(days+4, 7)) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

// splitWall gives the day number and the second of that day.
func splitWall(wall int64) (day int64, second int) {
	day = floorDiv(wall, daySeconds)
	return day, int(wall - day*daySeconds)
}

// atOrAbove is the lowest member of set that is at least n, or -1.
func atOrAbove(set uint64, n int) int {
	set &= ^uint64(0) << uint(n)
	if set == 0 {
		return -1
	}
	return bits.TrailingZeros64(set)
}

// atOrBelow is the highest member of set that is at most n, or -1.
func atOrBelow(set uint64, n int) int {
	if n < 0 {
		return -1
	}
	return bits.Len64(set&(^uint64(0)>>uint(63-n))) - 1
}

// below counts the members of set that are less than n.
func below(set uint64, n int) int64 {
	return int64(bits.OnesCount64(set & (1<<uint(n) - 1)))
}

// spacing describes how the members of a set lie apart, in its own unit.
type spacing struct{ first, last, min, max int64 }

const noGap = int64(1) << 60

// spacingOf measures a set; min is noGap and max 0 if it has one member.
func spacingOf(set uint64) spacing {
	s := spacing{first: int64(bits.TrailingZeros64(set)), last: int64(bits.Len64(set) - 1), min: noGap}
	prev := s.first
	for n := s.first + 1; n <= s.last; n++ {
		if set&(1<<uint(n)) == 0 {
			continue
		}
		s.min, s.max = min(s.min, n-prev), max(s.max, n-prev)
		prev = n
	}
	return s
}

// within combines the spacing inside a unit of size units with the spacing of
// the units themselves, as minutes within hours.
func (s spacing) within(outer spacing, units int64) spacing {
	step := s.first - s.last
	out := spacing{first: outer.first*units + s.first, last: outer.last*units + s.last, min: s.min, max: s.max}
	if outer.min < noGap {
		out.min = min(out.min, outer.min*units+step)
		out.max = max(out.max, outer.max*units+step)
	}
	return out
}
