package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

// columns writes PostgreSQL's SQL around columns.
type columns struct{}

// kinds of the types that can be told by name.
func kindOf(name string) (sqlstore.Kind, int) {
	switch name {
	case "text", "varchar", "bpchar", "citext", "name":
		return sqlstore.KindText, 0
	case "int2":
		return sqlstore.KindInt, 2
	case "int4":
		return sqlstore.KindInt, 4
	case "int8":
		return sqlstore.KindInt, 8
	case "numeric":
		return sqlstore.KindDecimal, 0
	case "uuid":
		return sqlstore.KindUUID, 0
	case "bytea":
		return sqlstore.KindBytes, 0
	case "date":
		return sqlstore.KindDate, 0
	case "timestamptz", "timestamp":
		return sqlstore.KindTime, 0
	case "bool":
		return sqlstore.KindBool, 0
	case "float4", "float8":
		return sqlstore.KindFloat, 0
	case "json", "jsonb":
		return sqlstore.KindJSON, 0
	}
	return sqlstore.KindOther, 0
}

func (columns) Resolve(c sqlstore.CatalogColumn) sqlstore.Column {
	out := sqlstore.Column{
		Name: c.Name, Type: c.Full, Cast: c.Full, Length: c.Length, NotNull: c.NotNull, Generated: c.Generated,
	}
	out.Kind, out.Bytes = kindOf(c.Type)
	if c.Labels != "" {
		out.Kind = sqlstore.KindEnum
		if err := json.Unmarshal([]byte(c.Labels), &out.Labels); err != nil {
			out.Kind = sqlstore.KindOther
		}
	}
	if out.Kind == sqlstore.KindTime {
		out.Form, out.Unit = c.Type, time.Microsecond
		for range 6 - c.Precision {
			out.Unit *= 10
		}
	}
	return out
}

func (columns) TimeShape(c sqlstore.Column, _ []string) (sqlstore.Column, error) {
	if c.Kind != sqlstore.KindTime {
		return c, fmt.Errorf("has type %s, not a time; make it timestamptz", c.Type)
	}
	return c, nil
}

func (columns) Text(c sqlstore.Column, expr string) string {
	switch c.Kind {
	case sqlstore.KindBytes:
		return "encode(" + expr + ", 'hex')"
	case sqlstore.KindDate:
		return "to_char(" + expr + ", 'YYYY-MM-DD')"
	}
	return expr + "::text"
}

func (columns) Value(c sqlstore.Column, text string) string {
	if c.Kind == sqlstore.KindBytes {
		return "decode(" + text + ", 'hex')"
	}
	return "CAST(" + text + " AS " + c.Cast + ")"
}

func (q columns) Literal(c sqlstore.Column, quoted string) string { return q.Value(c, quoted) }

func (columns) Target(_, column string) string { return column }

func (q columns) Payload(c sqlstore.Column, expr string) string {
	kind, value := "j", "to_json("+expr+")::text"
	switch c.Kind {
	case sqlstore.KindInt, sqlstore.KindDecimal:
		kind, value = "n", expr+"::text"
	case sqlstore.KindFloat:
		kind, value = "f", expr+"::text"
	case sqlstore.KindText, sqlstore.KindUUID, sqlstore.KindDate, sqlstore.KindEnum:
		kind, value = "t", q.Text(c, expr)
	case sqlstore.KindBytes:
		kind, value = "b", q.Text(c, expr)
	case sqlstore.KindBool:
		kind, value = "o", expr+"::text"
	case sqlstore.KindJSON:
		value = expr + "::text"
	case sqlstore.KindTime:
		kind, value = "u", q.Micros(c, expr)+"::text"
	}
	return "('" + kind + "' || " + value + ")"
}

// Micros: date_part reads a timestamp without a zone as UTC, whatever the
// session's zone. It is many times faster than extract, which computes decimals,
// and as exact for the next two centuries. The two infinities are the ends of
// time.
func (columns) Micros(_ sqlstore.Column, expr string) string {
	return "(CASE WHEN isfinite(" + expr + ") THEN (date_part('epoch', " + expr + ") * 1000000)::bigint" +
		" WHEN " + expr + " = 'infinity' THEN 9223372036854775807" +
		" WHEN " + expr + " = '-infinity' THEN -9223372036854775808 END)"
}

// Time adds to the epoch, which names the same moment in every session. Now and
// now plus something, by far the commonest instants, are said plainly: a planner
// that has to think about each costs more than the claim's scan.
func (q columns) Time(c sqlstore.Column, us string) string {
	more, ok := strings.CutPrefix(us, q.NowMicros())
	if ok && (more == "" || len(more) > 3 && !strings.ContainsAny(more[3:], "+-")) {
		now := "statement_timestamp()"
		if c.Form == "timestamp" {
			now = "(statement_timestamp() AT TIME ZONE 'UTC')"
		}
		if more == "" {
			return now
		}
		return "(" + now + more[:3] + "(" + more[3:] + ") * interval '1 microsecond')"
	}
	return "('epoch'::" + c.Form + " + (" + us + ") * interval '1 microsecond')"
}

func (q columns) Again(c sqlstore.Column, us string) string {
	return "(CASE (" + us + ") WHEN 9223372036854775807 THEN 'infinity'::" + c.Form +
		" WHEN -9223372036854775808 THEN '-infinity'::" + c.Form + " ELSE " + q.Time(c, us) + " END)"
}

// Among keeps the planner from reading the whole table, which it may well do
// for a join with rows it knows nothing about.
func (columns) Among(key, column, rows string) string {
	return key + " = ANY (ARRAY(SELECT " + column + " FROM " + rows + "))"
}

func (q columns) Before(c sqlstore.Column, expr, us string, strict bool) string {
	if strict {
		return "(" + expr + " < " + q.Time(c, us) + ")"
	}
	return "(" + expr + " <= " + q.Time(c, us) + ")"
}

func (columns) AtOrAfter(columns, values []string) string {
	return "((" + strings.Join(columns, ", ") + ") >= (" + strings.Join(values, ", ") + "))"
}

func (columns) NowMicros() string {
	return "(date_part('epoch', statement_timestamp()) * 1000000)::bigint"
}

func (columns) ClockMicros() string {
	return "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"
}

func (columns) Int(text string) string       { return "CAST(" + text + " AS bigint)" }
func (columns) Div(a, b string) string       { return a + " / " + b }
func (columns) Greatest(a, b string) string  { return "greatest(" + a + ", " + b + ")" }
func (columns) Least(a, b string) string     { return "least(" + a + ", " + b + ")" }
func (columns) BindText(bind string) string  { return ":" + bind + "::text" }
func (columns) BindInt(bind string) string   { return ":" + bind + "::bigint" }
func (columns) Field(name string) string     { return "dibs_r." + name }
func (columns) Fields(names []string) string { return strings.Join(names, " text, ") + " text" }
func (columns) SameName(a, b string) bool    { return a == b }

func (columns) Hint(_ string) string { return "" }

func (columns) Where() sqlstore.WhereRules {
	return sqlstore.WhereRules{
		Backslash: true, EscapeStrings: true, DollarQuotes: true, Comments: []string{"--", "/*"},
	}
}
