package sqlstore

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// A statement file is one SQL statement with three additions:
//
//	:name          a bind; the same name may occur several times
//	{name}         a fragment: text that the mapping of a table provides, such
//	               as quoted identifiers
//	-- if name     at the end of a line: the line stays only when the fragment
//	-- if !name    of that name is present (or absent)
//
// Comments are dropped, wherever "--" stands. "::" (a cast), quoted text and
// quoted identifiers are otherwise left alone.

// Statement is a compiled statement: SQL for the driver and the order of its
// binds.
type Statement struct {
	Name  string
	SQL   string
	binds []string
}

// Binds holds a statement's arguments by name.
type Binds map[string]any

// args orders the binds for the driver. A missing bind is a fault of the
// program, and named.
func (s Statement) args(b Binds) ([]any, error) {
	out := make([]any, len(s.binds))
	for i, name := range s.binds {
		v, ok := b[name]
		if !ok {
			return nil, fmt.Errorf("statement %s: no value for :%s", s.Name, name)
		}
		out[i] = v
	}
	return out, nil
}

// Files are the .sql files of a folder, by name without ".sql". A file is read
// when it is asked for: a short program needs a dozen of a hundred. The zero
// value has no folder and no files.
type Files struct {
	fsys  fs.FS
	dir   string
	added map[string]string
}

// FilesIn are the .sql files of a folder, which were embedded when the program
// was built.
func FilesIn(fsys fs.FS, dir string) Files { return Files{fsys: fsys, dir: dir} }

// With is f and one file more.
func (f Files) With(name, text string) Files {
	added := maps.Clone(f.added)
	if added == nil {
		added = map[string]string{}
	}
	added[name] = text
	return Files{f.fsys, f.dir, added}
}

// Text is one file's text, and whether there is such a file.
func (f Files) Text(name string) (string, bool) {
	if text, ok := f.added[name]; ok {
		return text, true
	}
	if f.fsys == nil {
		return "", false
	}
	text, err := fs.ReadFile(f.fsys, f.dir+"/"+name+".sql")
	return string(text), err == nil
}

// Has tells whether there is such a file.
func (f Files) Has(name string) bool {
	_, ok := f.Text(name)
	return ok
}

// Names lists the files in order.
func (f Files) Names() []string {
	names := slices.Collect(maps.Keys(f.added))
	if f.fsys == nil {
		slices.Sort(names)
		return names
	}
	// The only error is a bad pattern, and this one is good.
	found, _ := fs.Glob(f.fsys, f.dir+"/*.sql")
	for _, n := range found {
		names = append(names, strings.TrimSuffix(path.Base(n), ".sql"))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Fragments are the texts that fill {name}. An entry with empty text counts as
// absent for "-- if".
type Fragments map[string]string

// Compile fills the fragments of one statement and numbers its binds.
func (d *Dialect) Compile(name string, fr Fragments) (Statement, error) {
	text, ok := d.Statements.Text(name)
	if !ok {
		return Statement{}, fmt.Errorf("dialect %s has no statement %s", d.Name, name)
	}
	kept, err := keepLines(text, fr)
	if err != nil {
		return Statement{}, fmt.Errorf("statement %s: %w", name, err)
	}
	filled, err := fill(kept, fr)
	if err != nil {
		return Statement{}, fmt.Errorf("statement %s: %w", name, err)
	}
	sql, binds := d.number(filled)
	return Statement{Name: name, SQL: sql, binds: binds}, nil
}

// keepLines applies "-- if" and drops comments.
func keepLines(text string, fr Fragments) (string, error) {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		code, comment, _ := strings.Cut(line, "--")
		cond, conditional := strings.CutPrefix(strings.TrimSpace(comment), "if ")
		if conditional {
			name, negated := strings.CutPrefix(strings.TrimSpace(cond), "!")
			if name == "" || strings.ContainsAny(name, " \t") {
				return "", fmt.Errorf("line %q: want one name after if", line)
			}
			if (fr[name] != "") == negated {
				continue
			}
		}
		if code = strings.TrimRight(code, " \t"); code != "" {
			out = append(out, code)
		}
	}
	return strings.TrimSuffix(strings.TrimSpace(strings.Join(out, "\n")), ";"), nil
}

// fill replaces {name}. Fragments may hold braces of their own: what was put in
// is not looked at again.
func fill(text string, fr Fragments) (string, error) {
	var b strings.Builder
	for {
		start := strings.IndexByte(text, '{')
		if start < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		end := strings.IndexByte(text[start:], '}')
		if end < 0 {
			return "", fmt.Errorf("unclosed { near %q", text[start:])
		}
		name := text[start+1 : start+end]
		value, ok := fr[name]
		if !ok {
			return "", fmt.Errorf("no fragment {%s}", name)
		}
		b.WriteString(text[:start])
		b.WriteString(value)
		text = text[start+end+1:]
	}
}

// number replaces :name by the dialect's placeholder and records the order.
// Where placeholders carry a number, a repeated name is bound once.
func (d *Dialect) number(text string) (string, []string) {
	var (
		b     strings.Builder
		binds []string
		seen  = map[string]int{}
	)
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\'' || c == '"' || c == '`':
			n := quotedLen(text[i:])
			b.WriteString(text[i : i+n])
			i += n
		case c == ':' && strings.HasPrefix(text[i:], "::"):
			b.WriteString("::")
			i += 2
		case c == ':' && i+1 < len(text) && isNameByte(text[i+1]):
			j := i + 1
			for j < len(text) && isNameByte(text[j]) {
				j++
			}
			name := text[i+1 : j]
			n, again := seen[name]
			if !again || !d.Numbered {
				binds = append(binds, name)
				n = len(binds)
				seen[name] = n
			}
			b.WriteString(d.Placeholder(n))
			i = j
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), binds
}

// quotedLen is the length of the quoted text at the start of s, doubled quotes
// included.
func quotedLen(s string) int {
	q := s[0]
	for i := 1; i < len(s); i++ {
		if s[i] != q {
			continue
		}
		if i+1 < len(s) && s[i+1] == q {
			i++
			continue
		}
		return i + 1
	}
	return len(s)
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
