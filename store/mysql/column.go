package mysql

import (
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

// columns writes the SQL around columns that MariaDB and MySQL both understand.
type columns struct{}

// epoch is a DATETIME: no session's zone is asked about it.
const epoch = "TIMESTAMP'1970-01-01 00:00:00.000000'"

// kinds of the types that can be told by name.
func kindOf(name string) (sqlstore.Kind, int) {
	switch name {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return sqlstore.KindText, 0
	case "tinyint":
		return sqlstore.KindInt, 1
	case "smallint":
		return sqlstore.KindInt, 2
	case "mediumint":
		return sqlstore.KindInt, 3
	case "int":
		return sqlstore.KindInt, 4
	case "bigint":
		return sqlstore.KindInt, 8
	case "decimal":
		return sqlstore.KindDecimal, 0
	case "uuid":
		return sqlstore.KindUUID, 0
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return sqlstore.KindBytes, 0
	case "date":
		return sqlstore.KindDate, 0
	case "enum":
		return sqlstore.KindEnum, 0
	case "datetime", "timestamp":
		return sqlstore.KindTime, 0
	case "float", "double":
		return sqlstore.KindFloat, 0
	case "json":
		return sqlstore.KindJSON, 0
	}
	return sqlstore.KindOther, 0
}

func (columns) Resolve(c sqlstore.CatalogColumn) sqlstore.Column {
	out := sqlstore.Column{
		Name: c.Name, Type: c.Full, Length: c.Length, NotNull: c.NotNull, Generated: c.Generated,
		OnUpdate: c.OnUpdate, Charset: c.Charset, Collation: c.Collation,
	}
	out.Kind, out.Bytes = kindOf(c.Type)
	switch out.Kind {
	case sqlstore.KindInt:
		if strings.Contains(c.Full, "unsigned") {
			out.Kind = sqlstore.KindUint
		}
	case sqlstore.KindEnum:
		out.Labels = enumLabels(c.Full)
	case sqlstore.KindBytes:
		out.Charset = "binary"
	case sqlstore.KindTime:
		out.Form, out.Unit = c.Type, time.Microsecond
		if c.Type == "timestamp" {
			out.Form = sqlstore.FormSessionZone
		}
		for range 6 - max(0, c.Precision) {
			out.Unit *= 10
		}
	}
	return out
}

// enumLabels reads enum('a','b”c').
func enumLabels(full string) []string {
	var out []string
	var label strings.Builder
	inside := false
	for i := 0; i < len(full); i++ {
		switch c := full[i]; {
		case c == '\'' && inside && i+1 < len(full) && full[i+1] == '\'':
			label.WriteByte(c)
			i++
		case c == '\'' && inside:
			out = append(out, label.String())
			label.Reset()
			inside = false
		case c == '\'':
			inside = true
		case inside:
			label.WriteByte(c)
		}
	}
	return out
}

func (columns) TimeShape(c sqlstore.Column, _ []string) (sqlstore.Column, error) {
	if c.Kind != sqlstore.KindTime {
		return c, fmt.Errorf("has type %s, not a time; make it DATETIME(6)", c.Type)
	}
	return c, nil
}

func (columns) Text(c sqlstore.Column, expr string) string {
	switch c.Kind {
	case sqlstore.KindBytes:
		return "LOWER(HEX(" + expr + "))"
	case sqlstore.KindDate:
		return "DATE_FORMAT(" + expr + ", '%Y-%m-%d')"
	case sqlstore.KindText, sqlstore.KindEnum:
		return "CONVERT(" + expr + " USING utf8mb4)"
	}
	return "CAST(" + expr + " AS CHAR CHARACTER SET utf8mb4)"
}

// Value gives a text the column's own character set and collation, so that an
// index on the column serves.
func (columns) Value(c sqlstore.Column, text string) string {
	switch c.Kind {
	case sqlstore.KindBytes:
		return "UNHEX(" + text + ")"
	case sqlstore.KindInt:
		return "CAST(" + text + " AS SIGNED)"
	case sqlstore.KindUint:
		return "CAST(" + text + " AS UNSIGNED)"
	case sqlstore.KindDecimal:
		return "CAST(" + text + " AS DECIMAL(65,30))"
	case sqlstore.KindDate:
		return "CAST(" + text + " AS DATE)"
	case sqlstore.KindUUID:
		return "CAST(" + text + " AS UUID)"
	}
	if c.Charset == "" || c.Collation == "" {
		return "CAST(" + text + " AS BINARY)" // VARBINARY holding text
	}
	return "CONVERT(" + text + " USING " + c.Charset + ") COLLATE " + c.Collation
}

func (columns) Literal(_ sqlstore.Column, quoted string) string { return quoted }

func (q columns) Payload(c sqlstore.Column, expr string) string {
	kind, value := "t", "CONVERT("+expr+" USING utf8mb4)"
	switch c.Kind {
	case sqlstore.KindInt, sqlstore.KindUint, sqlstore.KindDecimal:
		kind, value = "n", q.Text(c, expr)
		if c.Type == "tinyint(1)" {
			kind = "o"
		}
	case sqlstore.KindFloat:
		kind, value = "f", q.Text(c, expr)
	case sqlstore.KindText, sqlstore.KindUUID, sqlstore.KindDate, sqlstore.KindEnum:
		value = q.Text(c, expr)
	case sqlstore.KindBytes:
		kind, value = "b", q.Text(c, expr)
	case sqlstore.KindJSON:
		kind = "j"
	case sqlstore.KindTime:
		kind, value = "u", q.Micros(c, expr)
	}
	return "CONCAT('" + kind + "', " + value + ")"
}

// lastTimestamp is the end of a TIMESTAMP column's time, in 2038.
const lastTimestamp = "2147483646000000"

// Micros reads a DATETIME as UTC. A TIMESTAMP says its epoch by itself.
func (columns) Micros(c sqlstore.Column, expr string) string {
	if c.Form == sqlstore.FormSessionZone {
		return "CAST(UNIX_TIMESTAMP(" + expr + ") * 1000000 AS SIGNED)"
	}
	return "TIMESTAMPDIFF(MICROSECOND, " + epoch + ", " + expr + ")"
}

func (columns) Time(c sqlstore.Column, us string) string {
	if c.Form == sqlstore.FormSessionZone {
		return "FROM_UNIXTIME(LEAST(" + us + ", " + lastTimestamp + ") * 0.000001)"
	}
	return "TIMESTAMPADD(MICROSECOND, " + us + ", " + epoch + ")"
}

func (q columns) Again(c sqlstore.Column, us string) string { return q.Time(c, us) }

func (columns) Among(_, _, _ string) string { return "" }

func (q columns) Before(c sqlstore.Column, expr, us string, strict bool) string {
	op := " <= "
	if strict {
		op = " < "
	}
	return "(" + expr + op + q.Time(c, us) + ")"
}

// AtOrAfter is spelled out: a comparison of rows would not use an index.
func (columns) AtOrAfter(columns, values []string) string {
	last := len(columns) - 1
	cond := columns[last] + " >= " + values[last]
	for i := last - 1; i >= 0; i-- {
		cond = columns[i] + " > " + values[i] + " OR " + columns[i] + " = " + values[i] + " AND (" + cond + ")"
	}
	return "(" + columns[0] + " >= " + values[0] + " AND (" + cond + "))"
}

func (columns) NowMicros() string {
	return "TIMESTAMPDIFF(MICROSECOND, " + epoch + ", UTC_TIMESTAMP(6))"
}

// ClockMicros: only SYSDATE tells the time while a statement runs, and it tells
// the session's; NOW and UTC_TIMESTAMP, being one instant, tell how far that is
// from UTC.
func (columns) ClockMicros() string {
	return "(TIMESTAMPDIFF(MICROSECOND, " + epoch + ", SYSDATE(6)) - TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), NOW(6)))"
}

func (columns) Int(text string) string      { return "CAST(" + text + " AS SIGNED)" }
func (columns) Div(a, b string) string      { return a + " DIV " + b }
func (columns) Greatest(a, b string) string { return "GREATEST(" + a + ", " + b + ")" }
func (columns) Least(a, b string) string    { return "LEAST(" + a + ", " + b + ")" }
func (columns) BindText(bind string) string { return ":" + bind }
func (columns) BindInt(bind string) string  { return ":" + bind }
func (columns) Field(name string) string    { return "dibs_r." + name }
func (columns) SameName(a, b string) bool   { return strings.EqualFold(a, b) }

// Target is qualified: an UPDATE that joins the items knows their names too.
func (columns) Target(table, column string) string { return table + "." + column }

// Fields declares every field as text; free texts may be long.
func (columns) Fields(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		kind := "VARCHAR(2100)"
		switch n {
		case "le", "oe", "ev":
			kind = "LONGTEXT"
		}
		out[i] = n + " " + kind + " CHARACTER SET utf8mb4 PATH '$." + n + "'"
	}
	return strings.Join(out, ", ")
}

// Hint keeps a locking statement from reading, and so locking, every row of a
// table that the optimizer thinks small, or that it would rather sort.
func (columns) Hint(index string) string { return " FORCE INDEX (" + index + ")" }

func (columns) Where() sqlstore.WhereRules {
	return sqlstore.WhereRules{
		Backslash: true, DoubleIsString: true, Backtick: true,
		Comments: []string{"--", "/*", "#"}, Placeholders: "?@:",
	}
}
