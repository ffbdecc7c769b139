package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String is the canonical text: equal for two schedules that were written
// differently (names, macros, leading zeros, blanks) and mean the same fields
// and options. The part before the options can be parsed again.
func (s *Schedule) String() string {
	var b strings.Builder
	switch s.kind {
	case kindEvery:
		fmt.Fprintf(&b, "@every %s", time.Duration(s.every)*time.Second)
		if s.anchor != 0 {
			fmt.Fprintf(&b, " anchor=%s", time.Unix(s.anchor, 0).UTC().Format(time.RFC3339))
		}
	case kindAt:
		fmt.Fprintf(&b, "at %s", time.Unix(s.at, 0).UTC().Format(time.RFC3339))
	default:
		first := fieldMinute
		if s.hasSeconds {
			first = fieldSecond
		}
		fmt.Fprintf(&b, "CRON_TZ=%s %s", s.loc, strings.Join(s.text[first:], " "))
		s.writeOptions(&b)
	}
	if s.spec.Jitter > 0 {
		fmt.Fprintf(&b, " jitter=%s", s.spec.Jitter)
	}
	return b.String()
}

func (s *Schedule) writeOptions(b *strings.Builder) {
	if s.spec.Days == DaysBoth {
		b.WriteString(" days=both")
	}
	if s.spec.DST.Missing != "" {
		b.WriteString(" dst.missing=" + string(s.spec.DST.Missing))
	}
	if s.spec.DST.Repeated != "" {
		b.WriteString(" dst.repeated=" + string(s.spec.DST.Repeated))
	}
}

// Describe says in English when the schedule fires, for people.
func (s *Schedule) Describe() string {
	switch s.kind {
	case kindEvery:
		return "every " + time.Duration(s.every*int64(time.Second)).String()
	case kindAt:
		return "once, at " + time.Unix(s.at, 0).In(s.loc).Format(time.RFC3339)
	}
	parts := []string{s.describeTime()}
	if days := s.describeDays(); days != "" {
		parts = append(parts, days)
	}
	if month := s.text[fieldMonth]; month != "*" {
		parts = append(parts, "in "+names(month, fieldDefs[fieldMonth].names, 1))
	}
	return strings.Join(parts, " ") + ", " + s.loc.String()
}

// describeTime lists up to six times of day, else says the fields in words.
func (s *Schedule) describeTime() string {
	if s.clock.perDay <= 6 {
		var times []string
		for sec := s.clock.first; sec >= 0; sec = s.clock.secondFrom(sec + 1) {
			text := fmt.Sprintf("%02d:%02d", sec/3600, sec/60%60)
			if s.clock.second != 1 {
				text += fmt.Sprintf(":%02d", sec%60)
			}
			times = append(times, text)
			if sec == s.clock.last {
				break
			}
		}
		return "at " + strings.Join(times, ", ")
	}
	text := unit("hour", s.text[fieldHour], s.clock.hour)
	if s.text[fieldMinute] != "0" {
		text = of(unit("minute", s.text[fieldMinute], s.clock.minute), text)
	}
	if s.clock.second != 1 {
		text = of(unit("second", s.text[fieldSecond], s.clock.second), text)
	}
	return text
}

// of joins two units and leaves out what goes without saying: "every 5
// minutes", not "every 5 minutes of every hour".
func of(inner, outer string) string {
	if strings.HasPrefix(inner, "every ") && (outer == "every hour" || outer == "every minute") {
		return inner
	}
	return inner + " of " + outer
}

func unit(name, text string, set uint64) string {
	if text == "*" {
		return "every " + name
	}
	if n, found := strings.CutPrefix(text, "*/"); found && !strings.ContainsAny(n, ",/") {
		return "every " + n + " " + name + "s"
	}
	if bits.OnesCount64(set) == 1 {
		return name + " " + text
	}
	return name + "s " + text
}

func (s *Schedule) describeDays() string {
	var parts []string
	if text := s.text[fieldDom]; text != "*" {
		parts = append(parts, "on day "+text+" of the month")
	}
	if text := s.text[fieldDow]; text != "*" {
		parts = append(parts, "on "+names(text, fieldDefs[fieldDow].names, 0))
	}
	if s.clock.union {
		return strings.Join(parts, " or ")
	}
	return strings.Join(parts, " and ")
}

// names puts names for the plain numbers of a canonical field.
func names(text string, list []string, first int) string {
	terms := strings.Split(text, ",")
	for i, term := range terms {
		span, step, hasStep := strings.Cut(term, "/")
		ends := strings.Split(span, "-")
		for j, end := range ends {
			tail := strings.TrimLeft(end, "0123456789")
			if n, err := strconv.Atoi(strings.TrimSuffix(end, tail)); err == nil && n-first < len(list) {
				ends[j] = list[n-first] + tail
			} else if err == nil {
				ends[j] = list[0] + tail // 7 is Sunday
			}
		}
		if terms[i] = strings.Join(ends, "-"); hasStep {
			terms[i] += "/" + step
		}
	}
	return strings.Join(slices.Compact(terms), ",")
}
