package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// fieldDef is the grammar of one cron field.
type fieldDef struct {
	name     string
	min, max int
	modulus  int      // ranges that wrap do so by this
	names    []string // names[i] means min+i (day-of-week: i)
	day      bool     // a day field: ? and the day extras are allowed
}

const (
	fieldSecond = iota
	fieldMinute
	fieldHour
	fieldDom
	fieldMonth
	fieldDow
	fieldCount
)

// fieldDefs is read only.
var fieldDefs = [fieldCount]fieldDef{
	fieldSecond: {name: "second", max: 59, modulus: 60},
	fieldMinute: {name: "minute", max: 59, modulus: 60},
	fieldHour:   {name: "hour", max: 23, modulus: 24},
	fieldDom:    {name: "day-of-month", min: 1, max: 31, modulus: 31, day: true},
	fieldMonth: {name: "month", min: 1, max: 12, modulus: 12,
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
	fieldDow: {name: "day-of-week", max: 7, modulus: 7, day: true,
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}

// field is one parsed cron field.
type field struct {
	def  *fieldDef
	pos  int    // byte offset in Spec.Cron
	text string // canonical: upper-case extras, numbers without leading zeros, Sunday as 0
	set  uint64 // the plain members; day-of-week as 0-6
	star bool   // begins with * or ?: what the classic day rule looks at
	step bool   // contains *, ? or /: follows elapsed time if it is the hour
	all  bool   // is * or ? alone

	lastMinus, weekdays uint32 // day-of-month: L-k, dW
	lastWeekday         bool   // day-of-month: LW
	nth                 [6]uint8
	lastNth             uint8
}

// special tells whether a day extra is in use.
func (f *field) special() bool {
	return f.lastMinus|f.weekdays != 0 || f.lastWeekday || f.nth != [6]uint8{} || f.lastNth != 0
}

// parseField reads comma-separated terms.
func parseField(def *fieldDef, text string, pos int, bad *faults) field {
	f := field{def: def, pos: pos}
	var canonical []string
	for at := 0; at <= len(text); {
		term, _, _ := strings.Cut(text[at:], ",")
		p := &termParser{field: &f, bad: bad, term: term, pos: pos + at, whole: text}
		if c, ok := p.parse(); ok {
			canonical = append(canonical, c)
		}
		at += len(term) + 1
	}
	f.star = strings.HasPrefix(text, "*") || strings.HasPrefix(text, "?")
	f.step = strings.ContainsAny(text, "*?/")
	f.text = strings.Join(canonical, ",")
	f.all = f.text == "*"
	return f
}

// termParser reads one term into a field.
type termParser struct {
	field *field
	bad   *faults
	term  string // without the commas
	whole string // the whole field
	pos   int    // of term in Spec.Cron
}

func (p *termParser) refuse(text, reason, fix string) (string, bool) {
	at := p.pos
	if i := strings.Index(p.term, text); i > 0 {
		at += i
	}
	p.bad.add(p.field.def.name, at, text, reason, fix)
	return "", false
}

// parse answers the term's canonical text.
func (p *termParser) parse() (string, bool) {
	def := p.field.def
	if p.term == "" {
		return p.refuse("", fmt.Sprintf("there is an empty value in %q", p.whole), "remove the extra comma")
	}
	if def.day {
		if text, ok, done := p.extra(strings.ToUpper(p.term)); done {
			return text, ok
		}
	}
	body, stepText, hasStep := strings.Cut(p.term, "/")
	lo, hi, text, ok := p.span(body, hasStep)
	if !ok {
		return "", false
	}
	step := 1
	if hasStep {
		if step, ok = p.step(stepText, hi-lo); !ok {
			return "", false
		}
		if step > 1 || text != "*" {
			text += "/" + strconv.Itoa(step)
		}
	}
	for v := lo; v <= hi; v += step {
		p.field.set |= 1 << uint((v-def.min)%def.modulus+def.min)
	}
	return text, true
}

// span reads *, ?, a value or a range; hi is beyond the maximum if it wraps.
func (p *termParser) span(body string, hasStep bool) (lo, hi int, text string, ok bool) {
	def := p.field.def
	top := def.min + def.modulus - 1
	switch {
	case body == "*":
		return def.min, top, "*", true
	case body == "?" && !def.day:
		_, ok = p.refuse(body, "? is allowed in the two day fields only", "write *")
		return 0, 0, "", ok
	case body == "?" && hasStep:
		_, ok = p.refuse(p.term, "? takes no step", "write *"+strings.TrimPrefix(p.term, "?"))
		return 0, 0, "", ok
	case body == "?":
		return def.min, top, "*", true
	}
	from, to, isRange := strings.Cut(body, "-")
	if lo, ok = p.value(from); !ok {
		return 0, 0, "", false
	}
	sunday := lo > top // 7, which is also 0
	if lo = (lo-def.min)%def.modulus + def.min; !isRange {
		if hi = lo; hasStep {
			hi = top
		}
		return lo, hi, strconv.Itoa(lo), true
	}
	if hi, ok = p.value(to); !ok {
		return 0, 0, "", false
	}
	if sunday && hi > top {
		hi = lo
	}
	text = strconv.Itoa(lo) + "-" + strconv.Itoa(hi)
	if hi < lo {
		hi += def.modulus
	}
	return lo, hi, text, true
}

// step reads the number after the slash; span is hi-lo of what it divides.
func (p *termParser) step(text string, span int) (int, bool) {
	n, err := strconv.Atoi(text)
	if err != nil || !digits(text) || n < 1 {
		_, ok := p.refuse("/"+text, "a step is a whole number of at least 1", "write for example */5")
		return 0, ok
	}
	if n > span {
		def := p.field.def
		fix := fmt.Sprintf("write a step of at most %d, or the single value", max(span, 1))
		if unit, ok := map[string]string{"second": "s", "minute": "m", "hour": "h"}[def.name]; ok {
			fix += fmt.Sprintf("; for every %d%s of elapsed time use \"@every %d%s\"", n, unit, n, unit)
		}
		_, ok := p.refuse(p.term, fmt.Sprintf("step %d is larger than the range it divides (%d to %d), so only one value would be left", n, def.min, def.min+def.modulus-1), fix)
		return 0, ok
	}
	return n, true
}

// value reads a number or a name.
func (p *termParser) value(text string) (int, bool) {
	def := p.field.def
	for i, name := range def.names {
		if strings.EqualFold(text, name) {
			return def.min + i, true
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || !digits(text) {
		fix := fmt.Sprintf("write a number from %d to %d", def.min, def.max)
		if def.names != nil {
			fix += fmt.Sprintf(" or a name from %s to %s", def.names[0], def.names[len(def.names)-1])
		}
		if len(text) > 3 {
			if v, ok := p.longName(text); ok {
				fix = "write " + v
			}
		}
		_, ok := p.refuse(text, "is not a value of this field", fix)
		return 0, ok
	}
	if n < def.min || n > def.max {
		_, ok := p.refuse(text, fmt.Sprintf("must lie between %d and %d", def.min, def.max), p.swapped(n))
		return 0, ok
	}
	return n, true
}

func (p *termParser) longName(text string) (string, bool) {
	for _, name := range p.field.def.names {
		if strings.EqualFold(text[:3], name) {
			return name, true
		}
	}
	return "", false
}

// swapped hints at the usual causes of a number out of range.
func (p *termParser) swapped(n int) string {
	switch p.field.def {
	case &fieldDefs[fieldHour]:
		if n == 24 {
			return "midnight is hour 0"
		}
		return "the order is minute, hour, day-of-month, month, day-of-week"
	case &fieldDefs[fieldMinute], &fieldDefs[fieldSecond]:
		if n == 60 {
			return "write 0"
		}
	case &fieldDefs[fieldDow]:
		return "0 and 7 are Sunday"
	}
	return "the order is minute, hour, day-of-month, month, day-of-week"
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
