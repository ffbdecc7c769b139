package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs"
)

// maxFaults bounds how many faults one answer lists.
const maxFaults = 50

// Fault is one fault of a configuration file with its place. It unwraps to a
// [*dibs.ConfigError].
type Fault struct {
	// Config is the fault without its excerpt; its Subject is FILE:LINE:COLUMN.
	Config dibs.ConfigError
	// File is the path as it was given or found.
	File string
	// Line and Column count from 1; zero when the fault has no place.
	Line, Column int
	// Excerpt shows the line and the one before it, with a caret; it may be
	// empty. Passwords inside URLs are hidden.
	Excerpt string
}

// Error is the message, then the excerpt on lines of its own.
func (f *Fault) Error() string {
	if f.Excerpt == "" {
		return f.Config.Error()
	}
	return f.Config.Error() + "\n" + f.Excerpt
}

// Unwrap gives errors.As the *dibs.ConfigError.
func (f *Fault) Unwrap() error { return &f.Config }

// source is one file's text.
type source struct {
	name  string
	dir   string
	lines []string
}

func newSource(name, dir, text string) *source {
	return &source{name: name, dir: dir, lines: strings.Split(text, "\n")}
}

func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return strings.TrimRight(s.lines[n-1], "\r")
}

// excerpt is the line, the one before it, and a caret under the column.
func (s *source) excerpt(line, column int) string {
	if line < 1 || line > len(s.lines) {
		return ""
	}
	var b strings.Builder
	if before := s.line(line - 1); strings.TrimSpace(before) != "" {
		fmt.Fprintf(&b, "  %4d | %s\n", line-1, shorten(before))
	}
	text := s.line(line)
	fmt.Fprintf(&b, "  %4d | %s", line, shorten(text))
	if column < 1 || column > maxExcerpt || hideSecrets(text) != text {
		return b.String()
	}
	b.WriteString("\n       | ")
	for i, r := range []rune(text) {
		if i == column-1 {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	b.WriteByte('^')
	return b.String()
}

const maxExcerpt = 120

// shorten makes a line of a file fit to show: passwords hidden, controls and
// length tamed.
func shorten(line string) string {
	clean := strings.Map(func(r rune) rune {
		if r != '\t' && (r < ' ' || r == 0x7f) {
			return '\uFFFD'
		}
		return r
	}, hideSecrets(line))
	if runes := []rune(clean); len(runes) > maxExcerpt {
		return string(runes[:maxExcerpt]) + "…"
	}
	return clean
}

// faults collects what is wrong; the same fault twice counts once, as when
// several jobs inherit it from defaults.
type faults struct {
	list []*Fault
	seen map[string]bool
}

// at adds a fault at a place. Field is a path such as "jobs.crm-sync.lease".
func (f *faults) at(src *source, line, column int, field, problem, fix string) {
	subject := src.name
	if line > 0 {
		subject = fmt.Sprintf("%s:%d:%d", src.name, line, column)
	}
	place := subject + "\x00" + problem
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	if f.seen[place] {
		return
	}
	f.seen[place] = true
	f.list = append(f.list, &Fault{
		Config: dibs.ConfigError{Subject: subject, Field: field, Problem: problem, Fix: fix},
		File:   src.name, Line: line, Column: column, Excerpt: src.excerpt(line, column),
	})
}

// node adds a fault at a node's place.
func (f *faults) node(n *node, field, problem, fix string) {
	f.at(n.src, n.line, n.column, field, problem, fix)
}

// err joins all faults in the order of their places.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b *Fault) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var all []error
	for _, fault := range f.list[:min(len(f.list), maxFaults)] {
		all = append(all, fault)
	}
	if more := len(f.list) - maxFaults; more > 0 {
		all = append(all, &dibs.ConfigError{Subject: f.list[0].File, Problem: fmt.Sprintf("%d more faults", more), Fix: "repair these first"})
	}
	return errors.Join(all...)
}
