package dibs

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Key identifies an item inside its source: the canonical text of each key
// column, in order. Keys are strings in every JSON.
type Key []string

// String is the one text form: a single part as it is, several parts joined by
// "/" with "/" and "%" escaped, so that different keys never read alike.
func (k Key) String() string {
	if len(k) == 1 {
		return k[0]
	}
	parts := make([]string, len(k))
	for i, p := range k {
		parts[i] = escapePart(p)
	}
	return strings.Join(parts, "/")
}

// ParseKey reads what [Key.String] wrote for a key of n parts.
func ParseKey(s string, n int) (Key, error) {
	if n == 1 {
		return Key{s}, nil
	}
	parts := strings.Split(s, "/")
	if len(parts) != n {
		return nil, fmt.Errorf("key %q has %d parts, the table's key has %d columns; join them with /", s, len(parts), n)
	}
	for i := range parts {
		parts[i] = unescapePart(parts[i])
	}
	return parts, nil
}

// MarshalJSON writes the text form.
func (k Key) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// Equal tells whether two keys have the same parts.
func (k Key) Equal(o Key) bool {
	if len(k) != len(o) {
		return false
	}
	for i := range k {
		if k[i] != o[i] {
			return false
		}
	}
	return true
}

// JoinWorkID joins the parts of a work ID so that different parts never
// collide. An empty part is refused: it would make two actions one.
func JoinWorkID(parts ...string) (string, error) {
	out := make([]string, len(parts))
	for i, p := range parts {
		if p == "" {
			return "", fmt.Errorf("work id: part %d of %q is empty", i+1, parts)
		}
		out[i] = escapePart(p)
	}
	return strings.Join(out, "/"), nil
}

// escapePart escapes what separates parts ("/"), the escape itself ("%") and
// control characters.
func escapePart(s string) string {
	if !strings.ContainsFunc(s, mustEscape) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; mustEscape(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEscape(r rune) bool { return r == '/' || r == '%' || r < 0x20 || r == 0x7f }

func unescapePart(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
