package dibs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxWorkID is the most bytes that a work ID may have: what every database can
// keep unique.
const MaxWorkID = 2048

// Identity is a parsed identity template. Each part between two "/" holds at
// most one field, with fixed text around it, and is escaped by itself: different
// values never make the same work ID.
type Identity struct {
	parts []identityPart
}

type identityPart struct {
	before, after string
	field         string // empty: fixed text alone
	index         int    // of a key part, from 0; -1: none
}

// identityFields are the fields that every job has.
func identityFields() []string {
	return []string{"job", "operation", "key", "cycle", "slot", "trigger"}
}

// IdentityOf parses the job's identity template, or makes the default. byTrigger
// says that recurring rows have no cycle: the slot or the trigger ends their
// work IDs.
func IdentityOf(j *Job, byTrigger bool) (Identity, error) {
	text := j.Identity
	table, isTable := j.Source.(Table)
	if text == "" {
		text = "{job}/{operation}/{key}"
		switch {
		case isTable && table.OneShot:
		case byTrigger:
			text += "/{slot or trigger}"
		default:
			text += "/{cycle}"
		}
	}
	var id Identity
	for _, part := range strings.Split(text, "/") {
		p, err := parsePart(part, table)
		if err != nil {
			return Identity{}, err
		}
		id.parts = append(id.parts, p)
	}
	return id, nil
}

func parsePart(text string, table Table) (identityPart, error) {
	p := identityPart{index: -1}
	before, rest, found := strings.Cut(text, "{")
	if !found {
		if text == "" {
			return p, fmt.Errorf("a part is empty; write something between the slashes")
		}
		if strings.Contains(text, "}") {
			return p, fmt.Errorf("part %q has } without {", text)
		}
		p.before = text
		return p, nil
	}
	field, after, found := strings.Cut(rest, "}")
	switch {
	case !found:
		return p, fmt.Errorf("part %q has { without }", text)
	case strings.ContainsAny(after, "{}"):
		return p, fmt.Errorf("part %q has two fields, whose values could run together; separate them by /", text)
	}
	p.before, p.after, p.field = before, after, field
	known := append(identityFields(), "slot or trigger")
	if slices.Contains(known, field) {
		return p, nil
	}
	keys := table.KeyColumns()
	known = known[:len(known)-1]
	for i, column := range keys {
		n := "key." + strconv.Itoa(i+1)
		if field == n || field == "key."+column || field == column {
			p.field, p.index = n, i
			return p, nil
		}
		known = append(known, n, "key."+column, column)
	}
	known = append(known, table.Select...)
	if slices.Contains(table.Select, field) {
		return p, nil
	}
	return p, fmt.Errorf("{%s} is not a field: did you mean {%s}? A column of the row must be among the selected ones", field, nearest(field, known))
}

// Has tells whether the template uses a field of that name.
func (id Identity) Has(field string) bool {
	return slices.ContainsFunc(id.parts, func(p identityPart) bool { return p.field == field })
}

// Versioned tells whether the template uses a selected column: a version.
func (id Identity) Versioned() bool {
	return slices.ContainsFunc(id.parts, func(p identityPart) bool { return p.column() })
}

// Scoped tells whether no other job can make the same work IDs unless it copies
// a fixed text: the template begins with {job} or with a fixed part.
func (id Identity) Scoped() bool {
	return len(id.parts) > 0 && (id.parts[0].field == "job" || id.parts[0].field == "")
}

func (p identityPart) column() bool {
	return p.field != "" && p.index < 0 && p.field != "slot or trigger" && !slices.Contains(identityFields(), p.field)
}

// Subject is what a work ID is made of.
type Subject struct {
	Job, Operation string
	Key            Key
	Cycle          int64
	Slot           time.Time
	Trigger        string
	Payload        json.RawMessage
}

// WorkID names the business action. An empty or NULL part is refused: it would
// make two actions one.
func (id Identity) WorkID(s Subject) (string, error) {
	var columns map[string]json.RawMessage
	if id.Versioned() {
		if err := json.Unmarshal(s.Payload, &columns); err != nil {
			return "", fmt.Errorf("work id: read the selected columns: %w", err)
		}
	}
	parts := make([]string, 0, len(id.parts)+len(s.Key))
	for _, p := range id.parts {
		if p.field == "" {
			parts = append(parts, p.before)
			continue
		}
		values, err := p.values(s, columns)
		if err != nil {
			return "", fmt.Errorf("work id: %w", err)
		}
		for _, v := range values {
			if v == "" {
				return "", fmt.Errorf("work id: {%s} is empty", p.field)
			}
		}
		values[0] = p.before + values[0]
		values[len(values)-1] += p.after
		parts = append(parts, values...)
	}
	work, err := JoinWorkID(parts...)
	if err == nil && len(work) > MaxWorkID {
		err = fmt.Errorf("work id: %d bytes long, %d is the most", len(work), MaxWorkID)
	}
	return work, err
}

// values are what a part's field stands for: one, or all parts of a key.
func (p identityPart) values(s Subject, columns map[string]json.RawMessage) ([]string, error) {
	one := ""
	switch {
	case p.index >= 0:
		if p.index < len(s.Key) {
			one = s.Key[p.index]
		}
	case p.field == "key":
		if len(s.Key) == 0 {
			return nil, fmt.Errorf("{key} is empty")
		}
		return append([]string(nil), s.Key...), nil
	case p.column():
		return column(p.field, columns)
	default:
		one = s.field(p.field)
	}
	return []string{one}, nil
}

// field is the text of a field that every job has.
func (s Subject) field(name string) string {
	slot := ""
	if !s.Slot.IsZero() {
		slot = s.Slot.UTC().Format(time.RFC3339)
	}
	switch name {
	case "job":
		return s.Job
	case "operation":
		return s.Operation
	case "slot":
		return slot
	case "trigger":
		return s.Trigger
	case "cycle":
		return strconv.FormatInt(s.Cycle, 10)
	case "slot or trigger":
		if slot == "" {
			return s.Trigger
		}
		return slot
	}
	return ""
}

// column is a selected column's value as text.
func column(name string, columns map[string]json.RawMessage) ([]string, error) {
	raw := bytes.TrimSpace(columns[name])
	if len(raw) == 0 || string(raw) == "null" {
		return nil, fmt.Errorf("{%s} is NULL", name)
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("{%s}: %w", name, err)
		}
		return []string{text}, nil
	}
	return []string{string(raw)}, nil
}

// nearest is the known name with the fewest differences.
func nearest(name string, known []string) string {
	best, least := "", 1<<30
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions and changes between two texts.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
