package schedule

import (
	"fmt"
	"strings"
	"time"
)

// token is one word of an expression and its byte offset.
type token struct {
	text string
	pos  int
}

func tokenize(expr string) (tokens []token) {
	start := -1
	for i := 0; i <= len(expr); i++ {
		blank := i == len(expr) || expr[i] == ' ' || expr[i] == '\t'
		switch {
		case blank && start >= 0:
			tokens = append(tokens, token{expr[start:i], start})
			start = -1
		case !blank && start < 0:
			start = i
		}
	}
	return tokens
}

// macro answers the five fields a macro stands for.
func macro(word string) (string, bool) {
	switch word {
	case "@yearly", "@annually":
		return "0 0 1 1 *", true
	case "@monthly":
		return "0 0 1 * *", true
	case "@weekly":
		return "0 0 * * 0", true
	case "@daily", "@midnight":
		return "0 0 * * *", true
	case "@hourly":
		return "0 * * * *", true
	}
	return "", false
}

// parseFields reads a macro or the five or six fields.
func (p *parser) parseFields(expr string, tokens []token) {
	seconds := p.spec.Seconds
	if first := tokens[0]; strings.HasPrefix(first.text, "@") {
		five, known := macro(strings.ToLower(first.text))
		switch {
		case !known:
			p.bad.add("cron", first.pos, first.text, "is not a macro", macroFix(first.text))
			return
		case len(tokens) > 1:
			p.bad.add("cron", tokens[1].pos, tokens[1].text, "a macro stands alone", "remove what follows "+first.text)
			return
		}
		seconds = false
		tokens = tokenize(five)
		for i := range tokens {
			tokens[i].pos = first.pos
		}
	}
	if !p.checkCount(expr, tokens, seconds) {
		return
	}
	var fields [fieldCount]field
	if !seconds {
		fields[fieldSecond] = field{def: &fieldDefs[fieldSecond], set: 1, text: "0", pos: -1}
		tokens = append([]token{{}}, tokens...)
	}
	before := len(*p.bad)
	for i := range fieldCount {
		if i == fieldSecond && !seconds {
			continue
		}
		fields[i] = parseField(&fieldDefs[i], tokens[i].text, tokens[i].pos, p.bad)
	}
	if len(*p.bad) == before {
		p.hasSeconds = seconds
		p.compile(fields)
	}
}

func macroFix(word string) string {
	if strings.EqualFold(word, "@reboot") {
		return "dibs has no notion of a boot; use a systemd unit or at"
	}
	return "the macros are @yearly, @monthly, @weekly, @daily, @hourly and @every 90s"
}

// checkCount explains a wrong number of fields by its usual causes.
func (p *parser) checkCount(expr string, tokens []token, seconds bool) bool {
	want := 5
	if seconds {
		want = 6
	}
	if strings.ContainsAny(tokens[0].text[:1], `"'`+"`") {
		p.bad.add("cron", tokens[0].pos, expr, "the quotes have become part of the expression", "quote it once")
		return false
	}
	if len(tokens) == want {
		return true
	}
	last := tokens[len(tokens)-1]
	switch {
	case len(tokens) == 6 && !seconds:
		p.bad.add("cron", tokens[0].pos, expr, "has six fields, and the first would be seconds only where that is declared",
			"set seconds: true, or remove a field")
	case len(tokens) == 5 && seconds:
		p.bad.add("cron", tokens[0].pos, expr, "has five fields, but seconds are declared", "put the seconds first, for example 0, or remove seconds: true")
	case len(tokens) == 7:
		p.bad.add("cron", last.pos, last.text, "has seven fields; there is no year field", `for one instant write "at 2027-01-01T00:00:00Z"`)
	default:
		p.bad.add("cron", tokens[0].pos, expr, fmt.Sprintf("has %d fields instead of %d (minute hour day-of-month month day-of-week)", len(tokens), want),
			`quote the schedule, for example "*/5 * * * *": unquoted, a shell or YAML changes the stars`)
	}
	return false
}

func (p *parser) parseEvery(tokens []token) {
	if len(tokens) != 2 {
		p.bad.add("every", tokens[0].pos, tokens[0].text, "takes one duration", "write for example @every 90s or @every 1h30m")
		return
	}
	d, err := time.ParseDuration(tokens[1].text)
	if err != nil {
		p.bad.add("every", tokens[1].pos, tokens[1].text, "is not a duration", "write for example 90s, 15m or 1h30m; a day is 24h")
		return
	}
	p.setEvery(d, tokens[1].pos, tokens[1].text)
}

func (p *parser) setEvery(d time.Duration, pos int, text string) {
	p.kind = kindEvery
	p.every = int64(d / time.Second)
	if d < time.Second || d%time.Second != 0 {
		p.bad.add("every", pos, text, "must be a whole number of seconds, at least one", "write for example 1s or 90s")
	}
	if a := p.spec.Anchor; !a.IsZero() {
		p.anchor = a.Unix()
		if p.anchor < minInstant || p.anchor > maxInstant {
			p.bad.add("anchor", -1, a.String(), "must lie in the years 1 to 9999", "write the instant from which to count")
		}
	}
}

func (p *parser) parseAt(tokens []token) {
	if len(tokens) != 2 {
		p.bad.add("at", tokens[0].pos, tokens[0].text, "takes one instant", "write for example at 2027-01-01T00:00:00Z")
		return
	}
	t, err := time.Parse(time.RFC3339, tokens[1].text)
	if err != nil {
		p.bad.add("at", tokens[1].pos, tokens[1].text, "is not an RFC 3339 instant with its offset", "write for example 2027-01-01T00:00:00Z or 2027-01-01T09:00:00+01:00")
		return
	}
	p.setAt(t, tokens[1].pos)
}

func (p *parser) setAt(t time.Time, pos int) {
	p.kind = kindAt
	p.at = t.Unix()
	if t.Nanosecond() != 0 {
		p.bad.add("at", pos, t.Format(time.RFC3339Nano), "has a fraction of a second", "write whole seconds")
	}
	if p.at < minInstant || p.at > maxInstant {
		p.bad.add("at", pos, t.String(), "must lie in the years 1 to 9999", "write for example 2027-01-01T00:00:00Z")
	}
}
