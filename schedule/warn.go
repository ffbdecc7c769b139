package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ClockWarnings is the last part of Warnings: what the changes of the clock in
// the coming year do. Those who have read it once may want it less loud.
func (s *Schedule) ClockWarnings(after time.Time) []string {
	if s.kind != kindCron {
		return nil
	}
	return s.warnClock(after)
}

const warnDates = 3 // dates shown to make a difference visible

// Warnings lists what is allowed but often meant differently: two restricted
// day fields, steps that do not divide their field, days that some months lack,
// and times that the next changes of the clock leave out or repeat. Dates in
// the texts are the next ones after the instant given.
func (s *Schedule) Warnings(after time.Time) (list []string) {
	if s.kind != kindCron {
		return nil
	}
	if text := s.warnDays(after); text != "" {
		list = append(list, text)
	}
	list = append(list, s.warnSteps()...)
	if text := s.warnShortMonths(); text != "" {
		list = append(list, text)
	}
	return append(list, s.warnClock(after)...)
}

// warnDays shows the classic rule beside its alternative.
func (s *Schedule) warnDays(after time.Time) string {
	dom, dow := s.text[fieldDom], s.text[fieldDow]
	if dom == "*" || dow == "*" || s.spec.Days == DaysBoth {
		return ""
	}
	other := *s
	other.clock.union = !s.clock.union
	alternative := "never"
	if _, ok := other.clock.next(0); ok {
		alternative = other.dates(after)
	}
	if s.clock.union {
		return fmt.Sprintf("day-of-month %s and day-of-week %s are both restricted: by the classic rule it fires when either matches (%s); days: both would need both (%s)",
			dom, dow, s.dates(after), alternative)
	}
	return fmt.Sprintf("day-of-month %s and day-of-week %s are both restricted and one begins with a star: by the classic rule it fires when both match (%s), and not when either does (%s)",
		dom, dow, s.dates(after), alternative)
}

// dates lists the next different dates on which a schedule fires.
func (s *Schedule) dates(after time.Time) string {
	var dates []string
	for t := after; len(dates) < warnDates; {
		slot, ok := s.Next(t)
		if !ok {
			return strings.Join(dates, ", ")
		}
		local := slot.In(s.loc)
		date := local.Format(time.DateOnly)
		if !slices.Contains(dates, date) {
			dates = append(dates, date)
		}
		// On by what is left of that date, at least by the slot itself. A day
		// made longer by a change of the clock is looked at twice.
		h, m, sec := local.Clock()
		t = slot.Add(time.Duration(daySeconds-1-h*3600-m*60-sec) * time.Second)
	}
	return strings.Join(dates, ", ") + ", …"
}

// warnSteps finds */n that does not divide the field: the last distance is
// shorter, since each minute, hour and day starts again.
func (s *Schedule) warnSteps() (list []string) {
	for i, unit := range []string{fieldSecond: "s", fieldMinute: "m", fieldHour: "h"} {
		n, err := strconv.Atoi(strings.TrimPrefix(s.text[i], "*/"))
		modulus := fieldDefs[i].modulus
		if err != nil || !strings.HasPrefix(s.text[i], "*/") || modulus%n == 0 {
			continue
		}
		list = append(list, fmt.Sprintf("%s %s is not every %d%s: it starts again after %d, so the last distance is %d%s; \"@every %d%s\" keeps the distance",
			fieldDefs[i].name, s.text[i], n, unit, (modulus-1)/n*n, modulus-(modulus-1)/n*n, unit, n, unit))
	}
	return list
}

// warnShortMonths finds months passed over because they lack the day.
func (s *Schedule) warnShortMonths() string {
	c := &s.clock
	if c.special || c.union || s.text[fieldDom] == "*" || bits.OnesCount32(c.dom) != 1 {
		return ""
	}
	day := bits.TrailingZeros32(c.dom)
	var short []string
	for m := 1; m <= 12; m++ {
		if c.month&(1<<uint(m)) != 0 && daysIn(2001, m) < day {
			short = append(short, fieldDefs[fieldMonth].names[m-1])
		}
	}
	if len(short) == 0 {
		return ""
	}
	return fmt.Sprintf("day-of-month %d does not exist in every %s, which is passed over then; L is the last day of each month", day, strings.Join(short, ", "))
}

// warnClock looks at the changes of the offset in the coming year.
func (s *Schedule) warnClock(after time.Time) (list []string) {
	if s.text[fieldHour] == "*" && s.spec.DST == (DST{}) {
		return nil // keeps its distance across every change
	}
	t := min(max(after.Unix(), minInstant), maxInstant)
	for end := t + 366*daySeconds; ; {
		g := s.segmentAt(t)
		if t = g.end; t > end {
			return list
		}
		next := s.offsetAt(t)
		instant := time.Unix(t, 0).In(s.loc).Format(time.RFC3339)
		if next > g.off {
			if wall, ok := s.clock.next(t + g.off); ok && wall < t+next {
				what := "is skipped"
				if _, ok := s.shifted(t, g.off, next); ok {
					what = "fires at " + instant + " instead"
				}
				list = append(list, fmt.Sprintf("%s does not exist in %s: it %s", time.Unix(wall, 0).UTC().Format("2006-01-02 15:04"), s.loc, what))
			}
			continue
		}
		if wall, ok := s.clock.next(t + next); ok && wall < t+g.off {
			list = append(list, fmt.Sprintf("%s occurs twice in %s: %s", time.Unix(wall, 0).UTC().Format("2006-01-02 15:04"), s.loc, passes(s.repeated)))
		}
	}
}

func passes(r Repeated) string {
	switch r {
	case RepeatedLast:
		return "it fires at the second pass"
	case RepeatedBoth:
		return "it fires at both passes"
	}
	return "it fires at the first pass"
}
