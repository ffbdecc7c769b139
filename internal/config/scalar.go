package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dibs-run/dibs"
)

// texted is a value with its own spelling. The error says what is wrong with
// the text, without repeating it (it may be a secret), and how to write it.
type texted interface {
	parse(text string) *expansionError
}

// Duration is a length of time as people write it: 90s, 2m, 1h30m, 1d, 500ms.
type Duration time.Duration

const durationFix = "write a number and a unit (ms, s, m, h, d), such as 90s, 2m or 1h30m"

func (d *Duration) parse(text string) *expansionError {
	if strings.HasPrefix(text, "-") {
		return &expansionError{"is negative", durationFix}
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && text != "0" {
		return &expansionError{"has no unit", "write " + text + "s for seconds"}
	}
	days, rest := int64(0), text
	if head, tail, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseInt(head, 10, 32)
		if err != nil || n < 0 || n > 36500 {
			return &expansionError{"is not a duration", durationFix}
		}
		days, rest = n, tail
	}
	var sum time.Duration
	if rest != "" || text == "" {
		var err error
		if sum, err = time.ParseDuration(rest); err != nil || strings.ContainsAny(rest, "+-") {
			return &expansionError{"is not a duration", durationFix}
		}
	}
	total := time.Duration(days)*24*time.Hour + sum
	if total < 0 {
		return &expansionError{"is too long", "keep it under 36500d"}
	}
	*d = Duration(total)
	return nil
}

// Backoff is how long failed items wait: from Min, doubling, up to Max.
type Backoff struct{ Min, Max time.Duration }

func (b *Backoff) parse(text string) *expansionError {
	const fix = "write MIN..MAX, such as 30s..1h"
	low, high, found := strings.Cut(text, "..")
	var from, to Duration
	if !found {
		return &expansionError{"is not a range of durations", fix}
	}
	for _, end := range []struct {
		into *Duration
		text string
	}{{&from, low}, {&to, high}} {
		if err := end.into.parse(strings.TrimSpace(end.text)); err != nil {
			return &expansionError{"has an end that " + err.problem, fix}
		}
	}
	switch {
	case from <= 0:
		return &expansionError{"starts at zero", fix}
	case from > to:
		return &expansionError{"ends before it starts", fix}
	}
	*b = Backoff{time.Duration(from), time.Duration(to)}
	return nil
}

// Switch is on or off; empty means not given.
type Switch string

func (s *Switch) parse(text string) *expansionError {
	switch text {
	case "on", "true":
		*s = "on"
	case "off", "false":
		*s = "off"
	default:
		return &expansionError{"is neither on nor off", "write on or off"}
	}
	return nil
}

// FailWhen says from how many failed items on a command exits with 3.
type FailWhen struct {
	// All is true when every item must have failed.
	All bool
	// Percent of the claimed items; zero with All false means any.
	Percent float64
	// Given is false when the file says nothing.
	Given bool
}

func (f *FailWhen) parse(text string) *expansionError {
	switch number, isPercent := strings.CutSuffix(text, "%"); {
	case text == "any":
		*f = FailWhen{Given: true}
	case text == "all":
		*f = FailWhen{All: true, Given: true}
	case isPercent:
		p, err := strconv.ParseFloat(number, 64)
		if err != nil || !(p > 0 && p <= 100) {
			return &expansionError{"is not a share between 0% and 100%", "write any, all or a percentage such as 5%"}
		}
		*f = FailWhen{Percent: p, Given: true}
	default:
		return &expansionError{"is not one of any, all and N%", "write any, all or a percentage such as 5%"}
	}
	return nil
}

// StatusCode is an HTTP status code or a class of them: 409 or 4xx.
type StatusCode string

func (s *StatusCode) parse(text string) *expansionError {
	digits := strings.TrimSuffix(strings.ToLower(text), "xx")
	n, err := strconv.Atoi(digits)
	class := len(digits) == 1 && len(text) == 3 && n >= 1 && n <= 5
	if err != nil || !class && (len(text) != 3 || n < 100 || n > 599) {
		return &expansionError{"is not an HTTP status", "write a code such as 409 or a class such as 4xx"}
	}
	*s = StatusCode(strings.ToLower(text))
	return nil
}

// Pointer is a JSON pointer (RFC 6901) into a response, such as /data/id.
type Pointer string

func (p *Pointer) parse(text string) *expansionError {
	if !strings.HasPrefix(text, "/") {
		return &expansionError{"is not a JSON pointer", "begin it with a slash, such as /id"}
	}
	*p = Pointer(text)
	return nil
}

// Names is one name or a list of them.
type Names []string

// checkName says why a job's name cannot be one, or "".
func checkName(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case len(name) > 200:
		return fmt.Sprintf("the name has %d bytes, more than 200", len(name))
	case strings.TrimSpace(name) != name:
		return "the name begins or ends with white space"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "the name holds a control character"
	}
	return ""
}

// always is the root's way to say that a row may come again at once.
func always(d Duration) time.Duration {
	if d == 0 {
		return dibs.Always
	}
	return time.Duration(d)
}
