package handler

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tail keeps the last limit bytes written to it. It knows bytes only, so
// neither NUL nor a line without end can disturb it. It is not safe for
// concurrent use.
type tail struct {
	limit int
	buf   []byte
	cut   bool
}

// Write never fails: a process must not notice that nobody keeps its output.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > t.limit {
		p, t.cut = p[n-t.limit:], true
	}
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*t.limit {
		t.shrink()
	}
	return n, nil
}

func (t *tail) shrink() {
	if extra := len(t.buf) - t.limit; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
		t.cut = true
	}
}

// bytes is what is kept, and whether something was written before it.
func (t *tail) bytes() (kept []byte, cut bool) {
	t.shrink()
	return t.buf, t.cut
}

// lastLine is the last line that is not blank; whole is false when its
// beginning is not kept.
func (t *tail) lastLine() (line []byte, whole bool) {
	kept, cut := t.bytes()
	kept = bytes.TrimRight(kept, " \t\r\n")
	if i := bytes.LastIndexByte(kept, '\n'); i >= 0 {
		return bytes.TrimSpace(kept[i+1:]), true
	}
	return bytes.TrimSpace(kept), !cut
}

// quoteEnd makes the end of foreign output fit for an error text: one line, no
// control characters or terminal sequences, valid UTF-8, at most limit bytes.
func quoteEnd(b []byte, limit int) string {
	s := oneLine(string(b))
	if len(s) <= limit {
		return s
	}
	s = s[len(s)-limit:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return "…" + s
}

// quoteStart is quoteEnd for text whose beginning matters.
func quoteStart(b []byte, limit int) string {
	s := oneLine(string(b))
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// oneLine joins lines with " | " and takes out what a terminal would act on.
func oneLine(s string) string {
	s = strings.ToValidUTF8(stripEscapes(s), "\uFFFD")
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.In(r, unicode.Cf):
			return '\uFFFD'
		}
		return r
	}, strings.Join(lines, " | "))
}

// stripEscapes removes the colour and cursor sequences of terminals, ESC [ … m
// and its kind.
func stripEscapes(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "\x1b[")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i+2:]
		end := strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r >= 0x40 })
		switch {
		case end < 0:
			return b.String()
		case s[end] >= 0x40 && s[end] < 0x7f:
			s = s[end+1:]
		default:
			s = s[end:]
		}
	}
}

// plain tells whether a value holds neither control characters nor broken UTF-8.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// nearest is the known name that is most like the given one, or "" when none is
// close enough to be meant.
func nearest(name string, known []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the number of single-byte edits between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
