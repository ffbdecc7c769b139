package sqlstore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// WhereRules are a dialect's rules of quoting, as far as the tokenizer of a
// where fragment needs them.
type WhereRules struct {
	// Backslash is true when a backslash may escape a quote in a plain string,
	// depending on the session; such texts are refused, being two things at once.
	Backslash bool
	// DoubleIsString is true when "…" may be a string rather than an identifier.
	DoubleIsString bool
	// EscapeStrings is true for E'…', whose backslashes always escape.
	EscapeStrings bool
	// DollarQuotes is true for $tag$…$tag$.
	DollarQuotes bool
	// Backtick and Bracket quote identifiers.
	Backtick bool
	Bracket  bool
	// Comments are the texts that begin a comment.
	Comments []string
	// Placeholders are the characters that begin a placeholder.
	Placeholders string
}

// checkWhere makes sure that a fragment is one expression that cannot end
// early: put in parentheses it can only narrow what a statement does. It says
// what is wrong and where, or returns "".
func checkWhere(text string, r WhereRules) string {
	if strings.TrimSpace(text) == "" {
		return "is empty"
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "is not plain UTF-8 text"
	}
	s := whereScan{text: text, rules: r}
	for s.at < len(s.text) {
		if problem := s.token(); problem != "" {
			return fmt.Sprintf("%s at character %d: …%s", problem, utf8.RuneCountInString(text[:s.start])+1, excerpt(text[s.start:]))
		}
	}
	if len(s.open) > 0 {
		at := s.open[len(s.open)-1]
		return fmt.Sprintf("has a %q that is never closed at character %d", text[at:at+1], utf8.RuneCountInString(text[:at])+1)
	}
	return ""
}

func excerpt(s string) string {
	const most = 20
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// whereScan walks over a fragment token by token.
type whereScan struct {
	text  string
	rules WhereRules
	at    int
	start int   // of the token being read
	open  []int // where the open brackets are
}

// token reads one token and returns what is wrong with it, or "".
func (s *whereScan) token() string {
	s.start = s.at
	rest := s.text[s.at:]
	c := rest[0]
	for _, comment := range s.rules.Comments {
		if strings.HasPrefix(rest, comment) {
			return fmt.Sprintf("has a comment (%s)", comment)
		}
	}
	switch {
	case c == ';':
		return "has a semicolon"
	case c == '\'' || c == '"' || c == '`' && s.rules.Backtick:
		text := c == '\'' || c == '"' && s.rules.DoubleIsString
		return s.quoted(c, text && s.rules.Backslash, false)
	case c == '[' && s.rules.Bracket:
		return s.until("]", 1)
	case c == '$' && s.rules.DollarQuotes:
		return s.dollar()
	case strings.IndexByte(s.rules.Placeholders, c) >= 0:
		return fmt.Sprintf("has a placeholder (%c)", c)
	case c == '(' || c == '[':
		s.open = append(s.open, s.at)
	case c == ')' || c == ']':
		return s.closing(c)
	case c == ',' && len(s.open) == 0:
		return "is more than one expression: a comma"
	case isWordByte(c):
		return s.word()
	}
	s.at++
	return ""
}

func (s *whereScan) closing(c byte) string {
	opener := byte('(')
	if c == ']' {
		opener = '['
	}
	if len(s.open) == 0 || s.text[s.open[len(s.open)-1]] != opener {
		return fmt.Sprintf("closes a %q that is not open", string(opener))
	}
	s.open = s.open[:len(s.open)-1]
	s.at++
	return ""
}

// quoted reads text in quotes, doubled quotes included. Where a backslash might
// escape the quote, depending on the session, it is refused; where it certainly
// does, it is honoured.
func (s *whereScan) quoted(q byte, doubtful, escapes bool) string {
	slashes := 0
	for i := s.at + 1; i < len(s.text); i++ {
		c := s.text[i]
		switch {
		case c == '\\':
			slashes++
			continue
		case c == q && slashes%2 == 1 && escapes:
		case c == q && slashes%2 == 1 && doubtful:
			return "has a backslash before a quote, which is read differently from session to session; double the quote instead"
		case c == q && i+1 < len(s.text) && s.text[i+1] == q:
			i++
		case c == q:
			s.at = i + 1
			return ""
		}
		slashes = 0
	}
	return fmt.Sprintf("has a quote (%c) that is never closed", q)
}

// until moves behind the next end, looking from skip bytes on.
func (s *whereScan) until(end string, skip int) string {
	i := strings.Index(s.text[s.at+skip:], end)
	if i < 0 {
		return fmt.Sprintf("has a quote (%s) that is never closed", s.text[s.at:s.at+skip])
	}
	s.at += skip + i + len(end)
	return ""
}

// dollar reads $tag$…$tag$; $1 is a placeholder.
func (s *whereScan) dollar() string {
	i := s.at + 1
	for i < len(s.text) && isWordByte(s.text[i]) {
		i++
	}
	tag := s.text[s.at+1 : min(i, len(s.text))]
	if i == len(s.text) || s.text[i] != '$' || tag != "" && tag[0] >= '0' && tag[0] <= '9' {
		return "has a placeholder ($)"
	}
	delimiter := s.text[s.at : i+1]
	return s.until(delimiter, len(delimiter))
}

// word reads an identifier, keyword or number; E'…' is a string.
func (s *whereScan) word() string {
	i := s.at
	for i < len(s.text) && (isWordByte(s.text[i]) || s.text[i] == '$' && i > s.at) {
		i++
	}
	word := s.text[s.at:i]
	s.at = i
	if s.rules.EscapeStrings && strings.EqualFold(word, "e") && i < len(s.text) && s.text[i] == '\'' {
		return s.quoted('\'', false, true)
	}
	return ""
}

func isWordByte(c byte) bool { return isNameByte(c) || c >= utf8.RuneSelf }
