package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
)

// itemFields are the template fields that every item has.
var itemFields = [...]string{"attempt", "cycle", "fence", "job", "key", "run", "slot", "work_id"}

// payloadPrefix reaches a column whose name is also an item field.
const payloadPrefix = "payload."

// value is what a field stands for in one item.
type value struct {
	text string
	// raw is the value as JSON.
	raw json.RawMessage
}

// piece is literal text, or a field with the escape of its position.
type piece struct {
	literal string
	field   string
	escape  func(field string, v value) (string, error)
}

// template is text with fields in braces.
type template []piece

// values answers fields of one item; the payload is decoded at the first use.
type values struct {
	item    dibs.Item
	columns map[string]json.RawMessage
}

// render fills in an item. A value that does not fit its place rejects the
// item: no later attempt would fare better.
func (t template) render(v *values) (string, error) {
	var b strings.Builder
	for _, p := range t {
		if p.escape == nil {
			b.WriteString(p.literal)
			continue
		}
		val, err := v.get(p.field)
		if err == nil {
			var s string
			s, err = p.escape(p.field, val)
			b.WriteString(s)
		}
		if err != nil {
			return "", dibs.Reject(fmt.Errorf("field {%s}: %w", p.field, err))
		}
	}
	return b.String(), nil
}

func (t template) fields() bool {
	return slices.ContainsFunc(t, func(p piece) bool { return p.escape != nil })
}

func (v *values) get(field string) (value, error) {
	it := v.item
	switch field {
	case "key":
		return textValue(it.Key.String()), nil
	case "work_id":
		return textValue(it.WorkID), nil
	case "job":
		return textValue(it.Job), nil
	case "run":
		return textValue(it.RunID), nil
	case "slot":
		return textValue(timeText(it.Slot)), nil
	case "fence":
		return numberValue(int64(it.Fence)), nil
	case "attempt":
		return numberValue(int64(it.Attempt)), nil
	case "cycle":
		return numberValue(it.Cycle), nil
	}
	return v.column(strings.TrimPrefix(field, payloadPrefix))
}

func (v *values) column(name string) (value, error) {
	if v.columns == nil && len(v.item.Payload) > 0 {
		if err := json.Unmarshal(v.item.Payload, &v.columns); err != nil {
			return value{}, errors.New("the item's payload is not a JSON object")
		}
	}
	raw, ok := v.columns[name]
	if !ok {
		return value{}, errors.New("the item has no such column")
	}
	doc, err := decodeJSON(raw)
	if err != nil {
		return value{}, err
	}
	return value{text: scalarText(doc), raw: raw}, nil
}

func textValue(s string) value { return value{text: s, raw: jsonText(s)} }

func numberValue(n int64) value {
	s := strconv.FormatInt(n, 10)
	return value{text: s, raw: json.RawMessage(s)}
}

// jsonText is a string as JSON.
func jsonText(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // strings always marshal
		return json.RawMessage(`""`)
	}
	return b
}

// parser reads templates and knows which columns an item will have.
type parser struct{ columns []string }

// next splits the text at its first brace: the literal before it and, if a
// field follows, its name and what comes after.
func next(s string) (literal, field, rest string, found bool) {
	i := strings.IndexByte(s, '{')
	if i < 0 {
		return s, "", "", false
	}
	end := i + 1
	for end < len(s) {
		r, n := utf8.DecodeRuneInString(s[end:])
		first := end == i+1
		if r != '_' && !unicode.IsLetter(r) && (first || (!unicode.IsDigit(r) && r != '.' && r != '-' && r != '$')) {
			break
		}
		end += n
	}
	if end == i+1 || end >= len(s) || s[end] != '}' {
		return s[:i], "", s[i:], true
	}
	return s[:i], s[i+1 : end], s[end+1:], true
}

// parse reads a template. position is asked for the escape of each field and is
// given the text before it, fields left out. If loose, braces that hold no field
// are text.
func (p parser) parse(s string, loose bool, position func(before string) (func(string, value) (string, error), error)) (template, error) {
	var t template
	var faults []error
	var before strings.Builder
	add := func(text string) {
		before.WriteString(text)
		if n := len(t); n > 0 && t[n-1].escape == nil {
			t[n-1].literal += text
		} else if text != "" {
			t = append(t, piece{literal: text})
		}
	}
	for s != "" {
		literal, field, rest, brace := next(s)
		add(literal)
		s = rest
		switch {
		case field != "":
			escape, err := position(before.String())
			faults = append(faults, err, p.known(field))
			t = append(t, piece{field: field, escape: escape})
		case brace && loose:
			add("{")
			s = s[1:]
		case brace && strings.HasPrefix(s, "{{"):
			add("{")
			s = s[2:]
		case brace:
			return nil, errors.New("a { begins a field such as {key}; write {{ for the character itself")
		}
	}
	return t, errors.Join(faults...)
}

// known refuses fields that no item has.
func (p parser) known(field string) error {
	name, payload := strings.CutPrefix(field, payloadPrefix)
	if (!payload && slices.Contains(itemFields[:], name)) || slices.Contains(p.columns, name) {
		return nil
	}
	all := slices.Concat(itemFields[:], p.columns)
	if near := nearest(name, all); near != "" {
		return fmt.Errorf("there is no field {%s}; did you mean {%s}?", field, near)
	}
	return fmt.Errorf("there is no field {%s}; there are %s, and the job's selected columns", field, strings.Join(itemFields[:], ", "))
}
