package sqlstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// micros binds a time; zero is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// clean makes free text fit for every database: what is no UTF-8, and NUL, are
// replaced, so that output and errors can never prevent an outcome.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\u2400")
}

// text binds free text, cleaned; empty is NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return clean(s)
}

// name binds a name, key or token byte for byte; empty is NULL.
func name(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// timeInto scans microseconds, or NULL as the zero time.
type timeInto struct{ t *time.Time }

// Scan implements sql.Scanner.
func (d timeInto) Scan(src any) error {
	n, null, err := integer(src)
	switch {
	case err != nil:
		return err
	case null:
		*d.t = time.Time{}
	default:
		*d.t = time.UnixMicro(n).UTC()
	}
	return nil
}

// countInto scans a number; NULL is 0.
type countInto struct{ n *int64 }

// Scan implements sql.Scanner.
func (c countInto) Scan(src any) error {
	n, _, err := integer(src)
	*c.n = n
	return err
}

// durationInto scans microseconds.
type durationInto struct{ d *time.Duration }

// Scan implements sql.Scanner.
func (d durationInto) Scan(src any) error {
	n, _, err := integer(src)
	*d.d = time.Duration(n) * time.Microsecond
	return err
}

// intoPointer scans a number, or NULL as nil.
type intoPointer struct{ p **int }

// Scan implements sql.Scanner.
func (d intoPointer) Scan(src any) error {
	n, null, err := integer(src)
	if *d.p = nil; !null && err == nil {
		v := int(n)
		*d.p = &v
	}
	return err
}

// textInto scans text or bytes, or NULL as "".
type textInto[S ~string] struct{ s *S }

// into makes the scanner of a string.
func into[S ~string](s *S) textInto[S] { return textInto[S]{s} }

// Scan implements sql.Scanner.
func (d textInto[S]) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*d.s = ""
	case string:
		*d.s = S(v)
	case []byte:
		*d.s = S(v)
	default:
		return fmt.Errorf("want text, got %T", src)
	}
	return nil
}

// rawInto scans JSON, or NULL as nil.
type rawInto struct{ raw *json.RawMessage }

// Scan implements sql.Scanner.
func (d rawInto) Scan(src any) error {
	var s string
	if err := into(&s).Scan(src); err != nil {
		return err
	}
	if *d.raw = nil; s != "" {
		*d.raw = json.RawMessage(s)
	}
	return nil
}

// integer reads what drivers make of an integer column.
func integer(src any) (n int64, null bool, err error) {
	switch v := src.(type) {
	case nil:
		return 0, true, nil
	case int64:
		return v, false, nil
	case []byte:
		n, err = strconv.ParseInt(string(v), 10, 64)
	case string:
		n, err = strconv.ParseInt(v, 10, 64)
	default:
		err = fmt.Errorf("want an integer, got %T", src)
	}
	return n, false, err
}

// timesText stores a list of instants; none is NULL.
func timesText(times []time.Time) (any, error) {
	if len(times) == 0 {
		return nil, nil
	}
	utc := make([]time.Time, len(times))
	for i, t := range times {
		utc[i] = t.UTC()
	}
	b, err := json.Marshal(utc)
	if err != nil {
		return nil, fmt.Errorf("list of slots: %w", err)
	}
	return string(b), nil
}

// timesInto scans what timesText stored.
type timesInto struct{ times *[]time.Time }

// Scan implements sql.Scanner.
func (d timesInto) Scan(src any) error {
	var s string
	if err := into(&s).Scan(src); err != nil {
		return err
	}
	if *d.times = nil; s == "" {
		return nil
	}
	return json.Unmarshal([]byte(s), d.times)
}

// holderInto scans a stored holder.
type holderInto struct{ h *dibs.Holder }

// Scan implements sql.Scanner.
func (d holderInto) Scan(src any) error {
	var s string
	if err := into(&s).Scan(src); err != nil {
		return err
	}
	h, err := dibs.ParseHolder(s)
	if err != nil {
		h = dibs.Holder{Host: s} // written by hand or by a later version: shown, not refused
	}
	*d.h = h
	return nil
}

// The most bytes that the narrowest database keeps of each name. Longer ones are
// refused, never cut: two would become one.
const (
	mostID    = 64
	mostToken = 96
	mostName  = 255
	mostKey   = 1024
	// mostText is the end that is kept of free text, such as output.
	mostText = 1 << 20
)

// fit refuses names that are too long. It takes pairs of what and value.
func fit(most int, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if len(pairs[i+1]) > most {
			return fmt.Errorf("%s has %d bytes, the most is %d", pairs[i], len(pairs[i+1]), most)
		}
	}
	return nil
}

// tail is the last n bytes of free text, on a border of characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// limitOf is the number of rows of a list.
func limitOf(n int) int {
	if n <= 0 {
		return defaultLimit
	}
	return n
}

// defaultLimit is the length of a list when none was asked for.
const defaultLimit = 100
