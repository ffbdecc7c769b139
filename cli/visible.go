package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible makes a text fit for a terminal: names, errors and output come from
// elsewhere, and may hold sequences that move the cursor, hide text or reverse
// its order. What cannot be printed is written as Go would write it.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80 && hidden(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000 && hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// hidden is true for control characters, marks of direction, and everything
// else that leaves no ink, except the plain space.
func hidden(r rune) bool { return !unicode.IsPrint(r) }

// oneLine is the first line of a text, visible and at most limit characters.
func oneLine(s string, limit int) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return cutTo(visible(strings.TrimRight(s, "\r")), limit)
}

// cutTo shortens a text to limit characters; an ellipsis says so.
func cutTo(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:max(limit-1, 0)]) + "…"
}

// block writes a text of several lines, each behind a bar, so that nothing in
// it can be taken for ours.
func (o *output) block(title, s string) {
	s = strings.TrimRight(s, "\n")
	if s == "" {
		return
	}
	o.line("  %s", o.paint(faint, title))
	for line := range strings.SplitSeq(s, "\n") {
		line = visible(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\t", "    "))
		o.line("    %s %s", o.paint(faint, "|"), line)
	}
}

// fit cuts the last column so that the table keeps within a terminal. Without
// a terminal nothing is cut: what reads a pipe wants it all.
func (t *table) fit(o *output, indent string) {
	width := o.width()
	if width == 0 {
		return
	}
	last := 0
	for _, row := range t.rows {
		last = max(last, len(row)-1)
	}
	used := len(indent)
	for i := range last {
		widest := 0
		for _, row := range t.rows {
			if i < len(row) {
				widest = max(widest, utf8.RuneCountInString(row[i].text))
			}
		}
		used += widest + 2
	}
	for _, row := range t.rows {
		if len(row) == last+1 {
			row[last].text = cutTo(row[last].text, max(width-used, 12))
		}
	}
}

// print fits and writes.
func (t *table) print(o *output, indent string) {
	t.fit(o, indent)
	t.write(o, indent)
}
