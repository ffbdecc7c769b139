package schedule

import (
	"strconv"
	"strings"
)

// extra reads the terms that only day fields have; done is false if the term
// is an ordinary one.
func (p *termParser) extra(term string) (text string, ok, done bool) {
	if p.field.def == &fieldDefs[fieldDom] {
		return p.domExtra(term)
	}
	return p.dowExtra(term)
}

// domExtra reads L, L-3, LW and 15W.
func (p *termParser) domExtra(term string) (text string, ok, done bool) {
	switch {
	case term == "L":
		p.field.lastMinus |= 1
		return term, true, true
	case term == "LW":
		p.field.lastWeekday = true
		return term, true, true
	case strings.HasPrefix(term, "L-"):
		n, err := strconv.Atoi(term[2:])
		if err != nil || !digits(term[2:]) || n < 1 || n > 30 {
			text, ok = p.refuse(p.term, "L-n counts days back from the last of the month, n from 1 to 30", "write for example L-3")
			return text, ok, true
		}
		p.field.lastMinus |= 1 << uint(n)
		return "L-" + strconv.Itoa(n), true, true
	case strings.HasSuffix(term, "W"):
		day := strings.TrimSuffix(term, "W")
		n, err := strconv.Atoi(day)
		if err != nil || !digits(day) || n < 1 || n > 31 {
			text, ok = p.refuse(p.term, "W takes one day from 1 to 31: the Monday to Friday nearest to it", "write for example 15W, or LW for the month's last weekday")
			return text, ok, true
		}
		p.field.weekdays |= 1 << uint(n)
		return strconv.Itoa(n) + "W", true, true
	case strings.ContainsAny(term, "L#"):
		text, ok = p.refuse(p.term, "is not a day of the month", "write L, L-3, LW or 15W here; 5L and 5#2 belong in the day-of-week field")
		return text, ok, true
	}
	return "", false, false
}

// dowExtra reads 5#2, FRI#2, 5L and FRIL.
func (p *termParser) dowExtra(term string) (text string, ok, done bool) {
	if day, nth, found := strings.Cut(term, "#"); found {
		w, ok := p.value(day)
		if !ok {
			return "", false, true
		}
		if len(nth) != 1 || nth[0] < '1' || nth[0] > '5' {
			text, ok = p.refuse(p.term, "# takes a number from 1 to 5: which such weekday of the month", "write for example MON#2, or MONL for the last Monday")
			return text, ok, true
		}
		p.field.nth[nth[0]-'0'] |= 1 << uint(w%7)
		return strconv.Itoa(w%7) + "#" + nth, true, true
	}
	switch day, found := strings.CutSuffix(term, "L"); {
	case found && day == "":
		text, ok = p.refuse(p.term, "L alone has two meanings in this field", "write SAT for Saturday, or FRIL for the last Friday of the month")
		return text, ok, true
	case found:
		w, ok := p.value(day)
		if !ok {
			return "", false, true
		}
		p.field.lastNth |= 1 << uint(w%7)
		return strconv.Itoa(w%7) + "L", true, true
	case strings.HasSuffix(term, "W"):
		text, ok = p.refuse(p.term, "W belongs in the day-of-month field", "write MON-FRI for every weekday")
		return text, ok, true
	}
	return "", false, false
}
