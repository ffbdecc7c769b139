package handler

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Statuses overrides what HTTP status codes mean. Each entry is a code ("409")
// or a class ("2xx"); a code wins over a class, and both over the defaults.
type Statuses struct {
	// Done: the destination has applied the item.
	Done []string
	// Later: nothing was applied, a later attempt may succeed.
	Later []string
	// Rejected: nothing was applied and never will be.
	Rejected []string
	// Stop: nothing was applied, and no other item would fare better.
	Stop []string
}

// meaning is what a status code says about an attempt.
type meaning int

const (
	unknown meaning = iota
	done
	later
	rejected
	stop
	// busy codes say "not processed" if they come with Retry-After; without it
	// they are sent by too many proxies to be believed.
	busy
)

// statusTable maps codes and classes (2 for 2xx) to meanings.
type statusTable struct {
	codes   map[int]meaning
	classes map[int]meaning
}

func newStatusTable(s Statuses) (statusTable, error) {
	t := statusTable{codes: map[int]meaning{}, classes: map[int]meaning{}}
	var faults []error
	for _, list := range []struct {
		entries []string
		means   meaning
	}{{s.Done, done}, {s.Later, later}, {s.Rejected, rejected}, {s.Stop, stop}} {
		for _, e := range list.entries {
			faults = append(faults, t.add(e, list.means))
		}
	}
	return t, errors.Join(faults...)
}

func (t statusTable) add(entry string, m meaning) error {
	into := t.codes
	var n int
	if len(entry) == 3 && entry[1:] == "xx" {
		into, n = t.classes, int(entry[0]-'0')
		if n < 2 || n > 5 {
			return fmt.Errorf("%q: classes are 2xx to 5xx", entry)
		}
	} else if code, err := strconv.Atoi(entry); err == nil && code >= 200 && code <= 599 {
		n = code
	} else {
		return fmt.Errorf("%q: want a code such as 409 or a class such as 2xx", entry)
	}
	if old, taken := into[n]; taken && old != m {
		return fmt.Errorf("%q is listed under two meanings", entry)
	}
	into[n] = m
	return nil
}

func (t statusTable) of(code int) meaning {
	if m, ok := t.codes[code]; ok {
		return m
	}
	if m, ok := t.classes[code/100]; ok {
		return m
	}
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return stop
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return busy
	}
	switch code / 100 {
	case 2:
		return done
	case 3, 4:
		return rejected
	}
	return unknown
}

// maxRetryAfter bounds what a destination may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header: seconds, or a date, which is taken
// relative to the destination's own Date so that clocks need not agree.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	s := h.Get("Retry-After")
	if s == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil && seconds >= 0 {
		return min(time.Duration(min(seconds, int64(maxRetryAfter/time.Second)))*time.Second, maxRetryAfter), true
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(at.Sub(now), 0), maxRetryAfter), true
}

// statusText is a status for people: the reason that a server sends is not
// repeated.
func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}
