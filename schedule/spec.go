package schedule

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Spec is what a user writes. Exactly one of Cron, Every and At is set.
type Spec struct {
	Cron    string        // the grammar of the package comment, "@every 90s" and "at …" included
	Every   time.Duration // whole seconds, at least one; counted from Anchor
	At      time.Time     // one instant
	Zone    string        // IANA name; required with cron fields, there or as CRON_TZ=
	Seconds bool          // Cron has six fields, seconds first
	Days    Days          // how two restricted day fields combine
	DST     DST
	Jitter  time.Duration // delay of each start, in [0, Jitter); shorter than the interval
	Anchor  time.Time     // origin of Every, cut to the second; zero: 1970-01-01T00:00:00Z
	Name    string        // the job's name; required with Jitter, whose delays it spreads
}

// Days says how day-of-month and day-of-week combine.
type Days string

const (
	DaysClassic Days = "classic" // the default: either suffices, unless one field begins with a star
	DaysBoth    Days = "both"    // both must match
)

// DST overrides what happens at a change of the clock. Empty fields mean the
// default, which depends on the hour field: see the package comment.
type DST struct {
	Missing  Missing
	Repeated Repeated
}

// Missing says what becomes of a wall time that a change leaves out.
type Missing string

const (
	MissingShift Missing = "shift" // fires once at the first instant after the gap
	MissingSkip  Missing = "skip"  // does not fire
)

// Repeated says which pass of a wall time that occurs twice fires.
type Repeated string

const (
	RepeatedFirst Repeated = "first"
	RepeatedLast  Repeated = "last"
	RepeatedBoth  Repeated = "both"
)

const maxExpr = 1024 // bytes; longer expressions are refused, so that parsing is bounded

// ParseExpr parses an expression in a zone, with the defaults for all else.
// The zone may be empty if the expression names it (CRON_TZ=) or needs none.
func ParseExpr(expr, zone string) (*Schedule, error) {
	return Parse(Spec{Cron: expr, Zone: zone})
}

// Parse checks a Spec and compiles it. The error is an *Error or a join of
// several. A schedule that can never fire is refused, in bounded time.
//
// Each call loads its zone anew; a program with many schedules parses them
// with one [Zones].
func Parse(spec Spec) (*Schedule, error) {
	return new(Zones).Parse(spec)
}

// Parse is the package's Parse with the zones already loaded.
func (z *Zones) Parse(spec Spec) (*Schedule, error) {
	var bad faults
	checkWords(&spec, &bad)
	s := &Schedule{spec: spec, loc: time.UTC}
	p := &parser{Schedule: s, zones: z, bad: &bad}
	given := 0
	for _, set := range []bool{spec.Cron != "", spec.Every != 0, !spec.At.IsZero()} {
		if set {
			given++
		}
	}
	switch {
	case given == 0:
		bad.add("cron", -1, "", "the schedule is empty", `write for example cron: "*/5 * * * *"`)
	case given > 1:
		bad.add("cron", -1, "", "cron, every and at exclude one another", "keep one of them")
	case spec.Cron != "":
		p.parseCron(spec.Cron)
	case spec.Every != 0:
		p.setEvery(spec.Every, -1, spec.Every.String())
	default:
		p.setAt(spec.At, -1)
	}
	if s.kind != kindCron && spec.Zone != "" {
		p.setZone(spec.Zone, -1)
	}
	if len(bad) == 0 {
		p.checkJitter()
	}
	if len(bad) > 0 {
		return nil, bad.err()
	}
	return s, nil
}

// checkWords refuses unknown option words and fills in defaults.
func checkWords(spec *Spec, bad *faults) {
	switch spec.Days {
	case "":
		spec.Days = DaysClassic
	case DaysClassic, DaysBoth:
	default:
		bad.add("days", -1, string(spec.Days), "is not a day rule", "write classic or both")
	}
	switch spec.DST.Missing {
	case "", MissingShift, MissingSkip:
	default:
		bad.add("dst.missing", -1, string(spec.DST.Missing), "is not a rule for missing times", "write shift or skip")
	}
	switch spec.DST.Repeated {
	case "", RepeatedFirst, RepeatedLast, RepeatedBoth:
	default:
		bad.add("dst.repeated", -1, string(spec.DST.Repeated), "is not a rule for repeated times", "write first, last or both")
	}
}

// parser fills in a Schedule and collects what is wrong.
type parser struct {
	*Schedule
	zones *Zones
	bad   *faults
}

func (p *parser) setZone(name string, pos int) {
	loc, fault := p.zones.load(name)
	if fault != nil {
		fault.Pos = pos
		*p.bad = append(*p.bad, fault)
		return
	}
	p.loc = loc
}

// parseCron reads Spec.Cron: a prefix, then one of the four forms.
func (p *parser) parseCron(expr string) {
	if len(expr) > maxExpr {
		p.bad.add("cron", 0, expr, fmt.Sprintf("is longer than %d bytes", maxExpr), "shorten it")
		return
	}
	tokens := tokenize(expr)
	if len(tokens) == 0 {
		p.bad.add("cron", 0, expr, "the schedule is empty", `write for example "*/5 * * * *"`)
		return
	}
	zone, zonePos := p.spec.Zone, -1
	if name, value, found := strings.Cut(tokens[0].text, "="); found && (name == "CRON_TZ" || name == "TZ") {
		if zonePos = tokens[0].pos + len(name) + 1; zone != "" && zone != value {
			p.bad.add("zone", zonePos, value, fmt.Sprintf("contradicts the zone %s given beside the expression", zone), "keep one of them")
			return
		}
		zone, tokens = value, tokens[1:]
		if len(tokens) == 0 {
			p.bad.add("cron", 0, expr, "there is no schedule after the zone", `write for example "CRON_TZ=Europe/Amsterdam */5 * * * *"`)
			return
		}
	}
	switch word := strings.ToLower(tokens[0].text); {
	case word == "@every":
		p.parseEvery(tokens)
	case word == "at" || word == "@at":
		p.parseAt(tokens)
	default:
		p.kind = kindCron
		p.setZone(zone, zonePos)
		p.parseFields(expr, tokens)
		return
	}
	if zonePos >= 0 {
		p.setZone(zone, zonePos)
	}
}

// compile turns the parsed fields into a clock and refuses the impossible.
func (p *parser) compile(fields [fieldCount]field) {
	dom, dow := &fields[fieldDom], &fields[fieldDow]
	for i := range fields {
		p.text[i] = fields[i].text
	}
	c := &p.clock
	c.second, c.minute, c.hour = fields[fieldSecond].set, fields[fieldMinute].set, fields[fieldHour].set
	c.month, c.dom = fields[fieldMonth].set, uint32(dom.set)
	c.domLast, c.domWeekday, c.lastWeekday = dom.lastMinus, dom.weekdays, dom.lastWeekday
	c.nth, c.lastNth = dow.nth, dow.lastNth
	c.special = dom.special() || dow.special()
	c.union = p.spec.Days == DaysClassic && !dom.star && !dow.star
	c.finish(dow.set)
	p.elapsed = fields[fieldHour].step || bits.OnesCount64(c.hour) == 24
	p.repeated = p.spec.DST.Repeated
	if p.repeated == "" {
		p.repeated = RepeatedFirst
		if p.elapsed {
			p.repeated = RepeatedBoth
		}
	}
	if _, ok := c.next(civilDays(2000, 1, 1) * daySeconds); !ok {
		p.refuseNever(fields[fieldDom], fields[fieldMonth], fields[fieldDow])
	}
}

// refuseNever explains why no date matches.
func (p *parser) refuseNever(dom, month, dow field) {
	longest := 0
	for m := 1; m <= 12; m++ {
		if month.set&(1<<uint(m)) != 0 {
			longest = max(longest, daysIn(2000, m))
		}
	}
	alone := p.clock
	alone.dow, alone.nth, alone.lastNth, alone.union = [7]uint32{}, [6]uint8{}, 0, false
	for i := range alone.dow {
		alone.dow[i] = ^uint32(0)
	}
	if _, ok := alone.next(0); !ok {
		p.bad.add(dom.def.name, dom.pos, dom.text, fmt.Sprintf("can never fire: %s has at most %d days", strings.ReplaceAll(names(month.text, fieldDefs[fieldMonth].names, 1), ",", " or "), longest),
			"choose an earlier day, or L for the last day of the month")
		return
	}
	p.bad.add(dow.def.name, dow.pos, dow.text, fmt.Sprintf("can never fire: no date in the 400 years of the calendar matches day-of-month %s, month %s and day-of-week %s together", dom.text, month.text, dow.text),
		"widen one of the day fields")
}
