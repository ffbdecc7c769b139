package schedule

import (
	"errors"
	"fmt"
	"strings"
)

// Error is one fault of a Spec. Parse reports all it finds, joined by
// errors.Join; errors.As yields the first.
type Error struct {
	Field  string // minute, hour, day-of-month, month, day-of-week, second, cron, every, at, zone, days, dst.missing, dst.repeated, jitter, anchor
	Pos    int    // byte offset of Text in Spec.Cron; -1 if the fault is not in Cron
	Text   string // what is refused, may be empty
	Reason string // why
	Fix    string // what to write instead
}

// Error renders the fault on one line: field, text, place, reason and fix.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "schedule: %s", e.Field)
	if e.Text != "" {
		fmt.Fprintf(&b, " %q", clip(e.Text))
	}
	if e.Pos >= 0 {
		fmt.Fprintf(&b, " at byte %d", e.Pos)
	}
	b.WriteString(": " + e.Reason)
	if e.Fix != "" {
		b.WriteString("; " + e.Fix)
	}
	return b.String()
}

// clip keeps messages on one screen whatever was pasted into the expression.
func clip(text string) string {
	const limit = 60
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// faults collects errors so that one Parse names them all.
type faults []error

func (f *faults) add(field string, pos int, text, reason, fix string) {
	*f = append(*f, &Error{Field: field, Pos: pos, Text: text, Reason: reason, Fix: fix})
}

func (f faults) err() error {
	if len(f) == 1 {
		return f[0]
	}
	return errors.Join(f...)
}
