package sqlstore

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
)

// record is one row as the database sent it: texts by the names that the
// statement gave its columns. Everything is read as text, so that no driver's
// idea of a type comes between. It is valid until the next row.
type record struct {
	names  []string
	values []sql.NullString
}

// recordScan reads the rows of one result.
type recordScan struct {
	rec  record
	into []any
	fn   func(record) error
}

func (x *recordScan) row(rows *sql.Rows) error {
	if x.into == nil {
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		x.rec = record{names: names, values: make([]sql.NullString, len(names))}
		x.into = make([]any, len(names))
		for i := range x.into {
			x.into[i] = &x.rec.values[i]
		}
	}
	if err := rows.Scan(x.into...); err != nil {
		return err
	}
	return x.fn(x.rec)
}

// records hands every row of a result to fn.
func (t *Tx) records(ctx context.Context, st Statement, b Binds, fn func(record) error) error {
	scan := recordScan{fn: fn}
	return t.Query(ctx, st, b, scan.row)
}

// get is the value of a column, NULL when there is no such column.
func (r record) get(name string) sql.NullString {
	for i, n := range r.names {
		if n == name {
			return r.values[i]
		}
	}
	return sql.NullString{}
}

func (r record) text(name string) string { return r.get(name).String }

// number reads an integer; NULL and a column that is not there are zero.
func (r record) number(name string) (int64, error) {
	v := r.get(name)
	if !v.Valid || v.String == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v.String, 10, 64)
	if err == nil {
		return n, nil
	}
	if f, ferr := strconv.ParseFloat(v.String, 64); ferr == nil && f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f), nil
	}
	return 0, fmt.Errorf("%s is %q, not an integer", name, v.String)
}

// instant reads microseconds; NULL is the zero time. Go's zero time itself, which
// some programs store, is moved by a microsecond so that it stays a time.
func (r record) instant(name string) (time.Time, error) {
	if !r.get(name).Valid {
		return time.Time{}, nil
	}
	n, err := r.number(name)
	if err != nil {
		return time.Time{}, err
	}
	t := time.UnixMicro(n).UTC()
	if t.IsZero() {
		t = t.Add(time.Microsecond)
	}
	return t, nil
}

// reader collects the first thing that could not be read.
type reader struct {
	rec record
	err error
}

func (r *reader) number(name string) int64 {
	n, err := r.rec.number(name)
	r.note(err)
	return n
}

func (r *reader) instant(name string) time.Time {
	t, err := r.rec.instant(name)
	r.note(err)
	return t
}

func (r *reader) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (m *mapping) key(rec record) dibs.Key {
	key := make(dibs.Key, len(m.keys))
	for i := range m.keys {
		key[i] = rec.text("k" + strconv.Itoa(i))
	}
	return key
}

// held reads a row that a claim has taken. What cannot be read is the row's own
// problem.
func (m *mapping) held(rec record, token dibs.Token, lease time.Duration) dibs.Held {
	r := reader{rec: rec}
	h := dibs.Held{
		Key: m.key(rec), Token: token,
		Stamp:    r.instant("stamp"),
		Attempts: int(r.number("attempts")),
		Prior: dibs.Prior{
			Status:      m.state(rec.text("status")),
			StartedAt:   r.instant("started"),
			ClaimableAt: r.instant("claimable"),
			Token:       dibs.Token(rec.text("token")),
			Fence:       dibs.Fence(r.number("fence")),
			Expirations: int(r.number("expirations")),
		},
		LastSuccess: r.instant("success"),
	}
	if m.two {
		h.Fence, h.EndsAt = dibs.Fence(h.Stamp.UnixMicro()), h.Stamp.Add(lease)
	} else {
		h.Fence, h.EndsAt = dibs.Fence(r.number("new_fence")), r.instant("ends")
		h.Expirations, h.Cycle = int(r.number("new_expirations")), r.number("new_cycle")
	}
	payload, err := m.payload(rec)
	r.note(err)
	if h.Payload = payload; r.err != nil {
		h.Problem = r.err.Error()
	}
	return h
}

// row reads a row that was only looked at.
func (m *mapping) row(rec record) dibs.Row {
	r := reader{rec: rec}
	row := dibs.Row{
		Key: m.key(rec), Label: rec.text("status"), Status: m.state(rec.text("status")),
		StartedAt: r.instant("started"), ClaimableAt: r.instant("claimable"),
		Token: dibs.Token(rec.text("token")), Fence: dibs.Fence(r.number("fence")),
		Attempts: int(r.number("attempts")), Expirations: int(r.number("expirations")),
		Cycle: r.number("cycle"), LastSuccess: r.instant("success"), LastError: rec.text("last_error"),
		Filtered: r.number("filtered") != 0, Now: r.instant("now"),
	}
	row.Run = row.Token.Run()
	if m.two {
		row.Fence = dibs.Fence(max(0, row.StartedAt.UnixMicro()))
	}
	payload, err := m.payload(rec)
	r.note(err)
	if row.Payload = payload; r.err != nil && row.LastError == "" {
		row.LastError = r.err.Error()
	}
	return row
}

// payload makes the JSON object of the selected columns.
func (m *mapping) payload(rec record) (json.RawMessage, error) {
	if len(m.selects) == 0 {
		return nil, nil
	}
	var b strings.Builder
	for i, c := range m.selects {
		name, err := json.Marshal(c.Name)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		value := "null"
		if v := rec.get("p" + strconv.Itoa(i)); v.Valid {
			if value, err = decodePayload(v.String); err != nil {
				return nil, fmt.Errorf("column %s: %w", c.Name, err)
			}
		}
		b.WriteString([]string{"{", ","}[min(i, 1)])
		b.Write(name)
		b.WriteByte(':')
		b.WriteString(value)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String()), nil
}

// decodePayload turns a value, marked with its kind by the first byte, into
// JSON:
//
//	n number, kept digit by digit     t text        b bytes in hex → base64
//	o boolean (0, 1, t, f)            j JSON        u microseconds → RFC 3339, UTC
//	f floating point
func decodePayload(v string) (string, error) {
	if v == "" {
		return "", fmt.Errorf("has no kind")
	}
	kind, rest := v[0], v[1:]
	switch kind {
	case 'n', 'f':
		if json.Valid([]byte(rest)) {
			return rest, nil
		}
		if f, err := strconv.ParseFloat(rest, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return jsonText(f)
		}
		return "", fmt.Errorf("%q is no number in JSON", rest)
	case 't':
		if !utf8.ValidString(rest) {
			return "", fmt.Errorf("is not valid UTF-8")
		}
		return jsonText(rest)
	case 'o':
		return strconv.FormatBool(rest == "1" || strings.HasPrefix(rest, "t")), nil
	case 'j':
		if !json.Valid([]byte(rest)) {
			return "", fmt.Errorf("is not valid JSON")
		}
		return rest, nil
	case 'u':
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%q is no time", rest)
		}
		return jsonText(time.UnixMicro(n).UTC().Format(time.RFC3339Nano))
	case 'b':
		raw, err := hex.DecodeString(rest)
		if err != nil {
			return "", fmt.Errorf("is not hex: %w", err)
		}
		return jsonText(base64.StdEncoding.EncodeToString(raw))
	}
	return "", fmt.Errorf("has an unknown kind %q", string(kind))
}

func jsonText(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// item is one element of the JSON array in which a batch travels: texts only,
// so that no number loses digits on the way. A field that is absent is NULL.
type item []field

type field struct{ name, value string }

func (it *item) set(name, value string) { *it = append(*it, field{name, value}) }

func (it *item) number(name string, n int64) { it.set(name, strconv.FormatInt(n, 10)) }

func (it *item) instant(name string, t time.Time) {
	if !t.IsZero() {
		it.number(name, t.UnixMicro())
	}
}

// get is a field's value, and whether it is there.
func (it item) get(name string) (string, bool) {
	for _, f := range it {
		if f.name == name {
			return f.value, true
		}
	}
	return "", false
}

// keyed begins an item with the fields of its key.
func keyed(key dibs.Key) item {
	it := make(item, 0, 24)
	for i, part := range key {
		it.set("k"+strconv.Itoa(i), part)
	}
	return it
}

// share takes out of the items the fields that have one value in all of them.
// The fields of the key stay.
func share(items []item) (rest []item, same item) {
	if len(items) < 2 {
		return items, nil
	}
	for _, f := range items[0] {
		all := !strings.HasPrefix(f.name, "k")
		for _, it := range items[1:] {
			if v, ok := it.get(f.name); !all || !ok || v != f.value {
				all = false
				break
			}
		}
		if all {
			same = append(same, f)
		}
	}
	rest = make([]item, len(items))
	for i, it := range items {
		own := make(item, 0, len(it))
		for _, f := range it {
			if _, shared := same.get(f.name); !shared {
				own = append(own, f)
			}
		}
		rest[i] = own
	}
	return rest, same
}

// encodeItems makes the one parameter of a batch.
func encodeItems(items []item) (string, error) {
	out := make([]byte, 0, 256*len(items)+2)
	out = append(out, '[')
	for i, it := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '{')
		for n, f := range it {
			if n > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, '"'), f.name...), `":`...)
			var err error
			if out, err = appendText(out, f.value); err != nil {
				return "", fmt.Errorf("encode items: %s: %w", f.name, err)
			}
		}
		out = append(out, '}')
	}
	return string(append(out, ']')), nil
}

// appendText appends a JSON text; most need no escapes.
func appendText(out []byte, v string) ([]byte, error) {
	for i := range len(v) {
		if c := v[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			b, err := json.Marshal(v)
			return append(out, b...), err
		}
	}
	return append(append(append(out, '"'), v...), '"'), nil
}

// fields names the fields that items of a statement may have.
func (m *mapping) fields(more ...string) []string {
	var out []string
	for i := range m.keys {
		out = append(out, "k"+strconv.Itoa(i))
	}
	return append(out, more...)
}
