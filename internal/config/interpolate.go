package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxSecretFile bounds the bytes that ${file:PATH} reads.
const maxSecretFile = 64 << 10

// expander fills ${…} in scalars.
type expander struct {
	lookup func(string) (string, bool)
	dir    string
	// secrets collects every value that came from outside the file.
	secrets map[string]bool
}

// expansionError says what is wrong with one ${…}.
type expansionError struct{ problem, fix string }

func (e *expansionError) Error() string { return e.problem }

// expand replaces ${NAME}, ${NAME:-default} and ${file:PATH}; $$ is a dollar
// sign, and a dollar sign before anything else stays. A default stands in for a
// variable that is unset or empty.
func (e *expander) expand(text string) (string, *expansionError) {
	var out strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			out.WriteString(text)
			return out.String(), nil
		}
		out.WriteString(text[:i])
		switch text[i+1] {
		case '$':
			out.WriteByte('$')
			text = text[i+2:]
		case '{':
			inner, rest, closed := strings.Cut(text[i+2:], "}")
			if !closed {
				return "", &expansionError{"${ is never closed", "write ${NAME}, or $${ for the two characters"}
			}
			value, err := e.one(inner)
			if err != nil {
				return "", err
			}
			out.WriteString(value)
			text = rest
		default:
			out.WriteByte('$')
			text = text[i+1:]
		}
	}
}

// one evaluates what stands between the braces.
func (e *expander) one(inner string) (string, *expansionError) {
	if path, ok := strings.CutPrefix(inner, "file:"); ok {
		return e.file(path)
	}
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !variableName(name) {
		return "", &expansionError{
			fmt.Sprintf("${%s} names no variable", inner),
			"write ${NAME}, ${NAME:-default}, ${file:PATH}, or $${ for the two characters",
		}
	}
	value, set := e.lookup(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set:
		return "", &expansionError{
			fmt.Sprintf("the environment variable %s is not set", name),
			fmt.Sprintf("set it, or write ${%s:-default}", name),
		}
	}
	e.secrets[value] = true
	return value, nil
}

// file reads a secret's file without its last line break.
func (e *expander) file(path string) (string, *expansionError) {
	if path == "" {
		return "", &expansionError{"${file:} names no file", "write ${file:/run/secrets/NAME}"}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.dir, path)
	}
	text, err := readLimited(path, maxSecretFile)
	if err != nil {
		return "", &expansionError{"${file:…}: " + err.Error(), "make the file readable for this user, or correct the path"}
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	e.secrets[value] = true
	return value, nil
}

// readLimited reads a regular file (or a pipe) of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading: nothing to lose
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return text, nil
}

func variableName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}
