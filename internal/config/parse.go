package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxFile bounds the bytes of one file, maxDepth its nesting: the parser
	// recurses, and its time grows with the square of the depth.
	maxFile  = 1 << 20
	maxDepth = 64
)

const smallestFile = "the smallest useful file is\n\n    jobs:\n      NAME:\n        overlap: skip\n        on_uncertain: replay\n        handler: {exec: [COMMAND]}"

// parse turns a file's text into its root node; nil when it cannot.
func parse(name, dir string, text []byte, bad *faults) *node {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	src := newSource(name, dir, string(text))
	if !readable(src, text, bad) {
		return nil
	}
	root := &node{}
	err := guarded(func() error {
		file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
		if err != nil {
			return err
		}
		if len(file.Docs) > 1 {
			line := 0
			if start := file.Docs[1].Start; start != nil {
				line = start.Position.Line
			}
			bad.at(src, line, 1, "", "the file holds several YAML documents, and all but the first would be ignored",
				"remove the line ---, or move the jobs to files under include:")
			return nil
		}
		if len(file.Docs) == 0 || file.Docs[0].Body == nil {
			bad.at(src, 0, 0, "", "the file is empty", smallestFile)
			return nil
		}
		c := &converter{src: src, faults: bad, anchors: map[string]*node{}}
		root = c.node(file.Docs[0].Body)
		return nil
	})
	if err != nil {
		syntaxFault(src, err, bad)
		return nil
	}
	if root.src == nil {
		return nil
	}
	switch root.kind {
	case mapping:
		return root
	case null:
		bad.at(src, 0, 0, "", "the file is empty", smallestFile)
	default:
		bad.node(root, "", "the file must be a mapping, this is "+root.kindName(), smallestFile)
	}
	return nil
}

// guarded turns a panic of the parser, which reads untrusted text, into an
// error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the YAML parser gave up: %v", p)
		}
	}()
	return f()
}

// readable refuses what the parser must not see.
func readable(src *source, text []byte, bad *faults) bool {
	if len(text) > maxFile {
		bad.at(src, 0, 0, "", fmt.Sprintf("the file has %d bytes, more than %d", len(text), maxFile), "split it with include: jobs.d/*.yaml")
		return false
	}
	for i, line := range src.lines {
		at, what := strings.IndexByte(line, 0), "a NUL byte"
		if !utf8.ValidString(line) {
			at, what = len(strings.ToValidUTF8(line[:validPrefix(line)], "")), "text that is not UTF-8"
		}
		if at >= 0 {
			bad.at(src, i+1, utf8.RuneCountInString(line[:at])+1, "", "the file holds "+what, "save it as UTF-8 text")
			return false
		}
		if strings.Count(line, "- ") > maxDepth && strings.HasPrefix(strings.ReplaceAll(line, " ", ""), strings.Repeat("-", maxDepth)) {
			bad.at(src, i+1, 1, "", "the file is nested too deeply", fmt.Sprintf("keep to %d levels", maxDepth))
			return false
		}
	}
	depth := 0
	for _, b := range text {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if depth > maxDepth {
			bad.at(src, 0, 0, "", "the file is nested too deeply", fmt.Sprintf("keep to %d levels of [ and {", maxDepth))
			return false
		}
	}
	return true
}

func validPrefix(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

// syntaxFault adds the parser's complaint, in our words where the cause is
// common.
func syntaxFault(src *source, err error, bad *faults) {
	line, column, message := 0, 0, err.Error()
	var placed interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &placed) {
		message = placed.GetMessage()
		if tk := placed.GetToken(); tk != nil && tk.Position != nil {
			line, column = tk.Position.Line, tk.Position.Column
		}
	}
	text := src.line(line)
	if key, value, at := starValue(text); at > 0 {
		what := "value"
		if key == "schedule" || key == "cron" {
			what = "schedule"
		}
		bad.at(src, line, at, key, "quote the "+what+": YAML reads "+value[:1]+" as a sign of its own", "write "+key+": "+strconv.Quote(value))
		return
	}
	fix := "correct the YAML"
	switch {
	case strings.Contains(text, "\t") && strings.Contains(message, "character"):
		message, fix = "a tab cannot indent YAML", "use spaces"
	case strings.Contains(text, "${") && strings.ContainsAny(text, "{["):
		fix = "inside { } and [ ] quote ${…}: \"${NAME}\""
	case strings.Contains(message, "mapping value is not allowed"):
		fix = "quote a value that contains a colon and a space"
	}
	bad.at(src, line, column, "", message, fix)
}

// starValue finds an unquoted value that begins with a sign YAML keeps for
// itself: the key, the value and its column.
func starValue(line string) (key, value string, column int) {
	for at := 0; ; {
		i := strings.Index(line[at:], ": ")
		if i < 0 {
			return "", "", 0
		}
		at += i + 2
		rest := strings.TrimLeft(line[at:], " ")
		before := strings.FieldsFunc(line[:at-2], func(r rune) bool { return strings.ContainsRune(" {,-", r) && r != '-' })
		if rest == "" || !strings.ContainsRune("*@%`", rune(rest[0])) || len(before) == 0 {
			continue
		}
		value, _, _ = strings.Cut(rest, " #")
		if strings.Contains(line[:at], "{") {
			value = value[:flowEnd(value)]
		}
		column = utf8.RuneCountInString(line[:len(line)-len(rest)]) + 1
		return before[len(before)-1], strings.TrimSpace(value), column
	}
}

// flowEnd is where a value inside { } ends: at the brace, or at a comma before
// the next name.
func flowEnd(value string) int {
	end := len(value)
	if i := strings.IndexByte(value, '}'); i >= 0 {
		end = i
	}
	if i := strings.Index(value, ", "); i >= 0 && i < end {
		end = i
	}
	return end
}

func quote(s string) string { return strconv.Quote(s) }

func lineRef(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf(" (line %d)", line)
}
