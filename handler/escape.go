package handler

import (
	"encoding/xml"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"
)

// escaper writes a value so that it cannot leave its place.
type escaper = func(field string, v value) (string, error)

func escapePath(_ string, v value) (string, error) {
	switch v.text {
	case "":
		return "", errors.New("empty, which would address another path")
	case ".", "..":
		return "", fmt.Errorf("%q would address another path", v.text)
	}
	return url.PathEscape(v.text), nil
}

func escapeQuery(_ string, v value) (string, error) { return url.QueryEscape(v.text), nil }

// escapeQueryFull is for lookups: an empty value would ask for everything.
func escapeQueryFull(field string, v value) (string, error) {
	if v.text == "" {
		return "", errors.New("empty, which would ask for everything")
	}
	return escapeQuery(field, v)
}

func escapeHeader(_ string, v value) (string, error) {
	if !headerSafe(v.text) {
		return "", errors.New("control characters cannot be sent in a header")
	}
	return v.text, nil
}

func headerSafe(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) && utf8.ValidString(s)
}

// escapeInString is for a field between the quotes of a JSON string.
func escapeInString(_ string, v value) (string, error) {
	quoted := jsonText(v.text)
	return string(quoted[1 : len(quoted)-1]), nil
}

// escapeAsJSON is for a field where a JSON value stands.
func escapeAsJSON(_ string, v value) (string, error) { return string(v.raw), nil }

func escapeXML(_ string, v value) (string, error) {
	if !plainXML(v.text) {
		return "", errors.New("XML cannot hold its characters")
	}
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(v.text)); err != nil {
		return "", err
	}
	return b.String(), nil
}

func plainXML(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 0x20 && r != '\t' && r != '\n' && r != '\r') || r == 0xFFFE || r == 0xFFFF
	})
}

func escapeNothing(_ string, v value) (string, error) { return v.text, nil }

// url reads the template of an address. Fields may stand in the path and in the
// query: one in the host would let an item choose who gets the credentials.
func (p parser) url(s string, query escaper) (template, error) {
	return p.parse(s, false, func(before string) (escaper, error) {
		_, rest, _ := strings.Cut(before, "://")
		switch path := strings.IndexAny(rest, "/?#"); {
		case path < 0:
			return nil, errors.New("fields may stand in the path and the query only")
		case strings.Contains(rest, "#"):
			return nil, errors.New("what follows # is never sent")
		case strings.Contains(rest, "?"):
			return query, nil
		}
		return escapePath, nil
	})
}

func (p parser) header(s string) (template, error) {
	return p.parse(s, false, func(string) (escaper, error) { return escapeHeader, nil })
}

// body reads the template of a body of the given content type.
func (p parser) body(s, contentType string) (template, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, fmt.Errorf("content type: %w", err)
	}
	always := func(e escaper) func(string) (escaper, error) {
		return func(string) (escaper, error) { return e, nil }
	}
	switch {
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return p.jsonBody(s)
	case media == "application/x-www-form-urlencoded":
		return p.parse(s, true, always(escapeQuery))
	case media == "application/xml" || media == "text/xml" || strings.HasSuffix(media, "+xml"):
		return p.parse(s, true, always(escapeXML))
	case media == "text/plain":
		return p.parse(s, true, always(escapeNothing))
	}
	return p.parse(s, true, func(string) (escaper, error) {
		return nil, fmt.Errorf("no escape is known for fields in a body of type %s", media)
	})
}

// jsonBody reads a JSON text in which fields stand inside strings, or bare
// where a value belongs: {"ref": "dibs-{key}", "amount": {amount}}.
func (p parser) jsonBody(s string) (template, error) {
	t, err := p.parse(s, true, func(before string) (escaper, error) {
		if insideString(before) {
			return escapeInString, nil
		}
		return escapeAsJSON, nil
	})
	if err != nil {
		return nil, err
	}
	var sample strings.Builder
	for _, part := range t {
		if part.escape == nil {
			sample.WriteString(part.literal)
		} else if !insideString(sample.String()) {
			sample.WriteString("null")
		}
	}
	if _, err := decodeJSON([]byte(sample.String())); err != nil {
		return nil, err
	}
	return t, nil
}

// insideString tells whether a JSON text breaks off between quotes.
func insideString(s string) bool {
	inside := false
	for i := 0; i < len(s); i++ {
		switch {
		case inside && s[i] == '\\':
			i++
		case s[i] == '"':
			inside = !inside
		}
	}
	return inside
}
