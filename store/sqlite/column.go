package sqlite

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

// columns writes SQLite's SQL around columns. SQLite keeps values, not types:
// what a time column holds is learned from its values.
type columns struct{}

// The forms in which a time column may hold its times.
const (
	formInteger = "integer"
	formText    = "text"
)

// Resolve follows SQLite's rules of affinity, and takes hints from type names
// that SQLite itself ignores.
func (columns) Resolve(c sqlstore.CatalogColumn) sqlstore.Column {
	out := sqlstore.Column{
		Name: c.Name, Type: c.Type, NotNull: c.NotNull, Generated: c.Generated, Collation: c.Collation,
	}
	name := strings.ToUpper(c.Type)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(name, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("BOOL"):
		out.Kind = sqlstore.KindBool
	case has("INT"):
		out.Kind, out.Bytes = sqlstore.KindInt, 8
	case has("CHAR", "CLOB", "TEXT"):
		out.Kind = sqlstore.KindText
	case has("BLOB"):
		out.Kind = sqlstore.KindBytes
	case has("REAL", "FLOA", "DOUB"):
		out.Kind = sqlstore.KindFloat
	case has("DATETIME", "TIMESTAMP"):
		out.Kind = sqlstore.KindTime
	case has("DATE"):
		out.Kind = sqlstore.KindDate
	case has("UUID"):
		out.Kind = sqlstore.KindUUID
	case has("JSON"):
		out.Kind = sqlstore.KindJSON
	case has("DEC", "NUM"):
		out.Kind = sqlstore.KindDecimal
	}
	return out
}

// Suffixes of column names that say what an integer counts, asked only while a
// column has no values that tell.
var unitSuffixes = []struct {
	suffix string
	unit   time.Duration
}{
	{"_ms", time.Millisecond}, {"_millis", time.Millisecond}, {"_msec", time.Millisecond},
	{"_us", time.Microsecond}, {"_micros", time.Microsecond}, {"_usec", time.Microsecond},
	{"_s", time.Second}, {"_sec", time.Second}, {"_secs", time.Second}, {"_seconds", time.Second},
	{"_unix", time.Second}, {"_epoch", time.Second},
}

// TimeShape finds out how a column's times are written. Integers are seconds,
// milliseconds or microseconds by their size; without a telling value the
// column's name decides, and else they are microseconds, as in our own tables.
// Texts are written in the shape found most often, or as SQLite's own functions
// would.
func (columns) TimeShape(c sqlstore.Column, found []string) (sqlstore.Column, error) {
	if c.Kind == sqlstore.KindFloat || c.Kind == sqlstore.KindBytes || c.Kind == sqlstore.KindBool ||
		c.Kind == sqlstore.KindJSON || c.Kind == sqlstore.KindUUID || c.Kind == sqlstore.KindOther {
		return c, fmt.Errorf("has type %q, which cannot hold an exact time; make it INTEGER or TEXT", c.Type)
	}
	shapes := map[string]int{}
	var most string
	for _, value := range found {
		shape, err := shapeOf(value)
		if err != nil {
			return c, err
		}
		if shape == "" {
			continue
		}
		if shapes[shape]++; shapes[shape] > shapes[most] {
			most = shape
		}
	}
	textual := c.Kind != sqlstore.KindInt
	c.Kind = sqlstore.KindTime
	if most == "" {
		most = emptyShape(c.Name, textual)
	}
	if unit, ok := integerUnits[most]; ok {
		c.Unit, c.Form, c.Shape = unit, formInteger, most
		if textual && strings.Contains(strings.ToUpper(c.Type), "TEXT") {
			return c, fmt.Errorf("holds numbers as text, which sort wrongly; make it INTEGER")
		}
		return c, nil
	}
	c.Form, c.Shape, c.Unit, c.Loose = formText, most, time.Millisecond, true
	if !strings.Contains(most, "%f") {
		c.Unit = time.Second
	}
	return c, nil
}

var integerUnits = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond}

func emptyShape(name string, textual bool) string {
	for _, s := range unitSuffixes {
		if strings.HasSuffix(strings.ToLower(name), s.suffix) && !textual {
			switch s.unit {
			case time.Second:
				return "s"
			case time.Millisecond:
				return "ms"
			}
		}
	}
	if textual {
		return "%Y-%m-%d %H:%M:%f"
	}
	return "us"
}

// textTime is compiled when it is first needed: few programs look at values, and
// all of them start.
var textTime = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\d{4}-\d\d-\d\d([ T])\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$`)
})

// shapeOf says in which shape a value "type:text" is written: a unit of
// integers, or a strftime format. It is empty when the value does not tell.
func shapeOf(value string) (string, error) {
	kind, text, _ := strings.Cut(value, ":")
	digits := strings.TrimLeft(text, "0")
	if kind == "integer" || kind == "text" && text != "" && strings.Trim(text, "0123456789") == "" {
		switch n := len(digits); {
		case n < 9:
			return "", nil // too close to 1970 to tell
		case n <= 11:
			return "s", nil
		case n <= 14:
			return "ms", nil
		default:
			return "us", nil
		}
	}
	if kind == "text" && text == "" {
		return "", nil
	}
	m := textTime().FindStringSubmatch(text)
	if kind != "text" || m == nil {
		return "", fmt.Errorf("holds %q (%s), which is not a time that SQLite understands", text, kind)
	}
	shape := "%Y-%m-%d" + m[1] + "%H:%M:"
	switch fraction := len(m[3]); {
	case fraction == 0:
		shape += "%S"
	case fraction <= 4:
		shape += "%f"
	default:
		shape += "%f" + strings.Repeat("0", min(fraction, 10)-4)
	}
	switch {
	case m[4] == "Z":
		shape += "Z"
	case m[4] != "":
		shape += "+00:00"
	}
	return shape, nil
}

func (columns) Text(c sqlstore.Column, expr string) string {
	if c.Kind == sqlstore.KindBytes {
		return "lower(hex(" + expr + "))"
	}
	return "CAST(" + expr + " AS TEXT)"
}

func (columns) Value(c sqlstore.Column, text string) string {
	switch c.Kind {
	case sqlstore.KindBytes:
		return "unhex(" + text + ")"
	case sqlstore.KindInt, sqlstore.KindBool:
		return "CAST(" + text + " AS INTEGER)"
	}
	return "(" + text + ")"
}

func (columns) Literal(_ sqlstore.Column, quoted string) string { return quoted }

func (columns) Target(_, column string) string { return column }

func (q columns) Payload(c sqlstore.Column, expr string) string {
	integer, text := "'n'||"+expr, "'t'||"+expr
	switch c.Kind {
	case sqlstore.KindBool:
		integer = "CASE WHEN " + expr + " IN (0,1) THEN 'o' ELSE 'n' END||" + expr
	case sqlstore.KindJSON:
		text = "CASE WHEN json_valid(" + expr + ") THEN 'j' ELSE 't' END||" + expr
	case sqlstore.KindTime:
		text = "coalesce('u'||" + micros(expr) + ", " + text + ")"
	}
	return "(CASE typeof(" + expr + ") WHEN 'integer' THEN " + integer +
		" WHEN 'real' THEN 'f'||printf('%!.17g'," + expr + ")" +
		" WHEN 'blob' THEN 'b'||hex(" + expr + ") WHEN 'text' THEN " + text + " END)"
}

// micros reads a time in any shape: a text with or without a zone, or an
// integer whose size tells its unit.
func micros(expr string) string {
	n := "CAST(" + expr + " AS INTEGER)"
	return "(CASE WHEN " + expr + " GLOB '*[^0-9]*' THEN CAST(round(unixepoch(" + expr + ",'subsec')*1000) AS INTEGER)*1000" +
		" WHEN " + expr + " = '' THEN NULL WHEN " + n + " < 100000000000 THEN " + n + "*1000000 WHEN " + n + " < 100000000000000 THEN " +
		n + "*1000 ELSE " + n + " END)"
}

func (columns) Micros(c sqlstore.Column, expr string) string {
	if c.Form == formText {
		return micros(expr)
	}
	if f := c.Unit.Microseconds(); f > 1 {
		return fmt.Sprintf("(CAST(%s AS INTEGER)*%d)", expr, f)
	}
	return "CAST(" + expr + " AS INTEGER)"
}

func (columns) Time(c sqlstore.Column, us string) string {
	if c.Form == formText {
		return "strftime('" + c.Shape + "', (" + us + ")/1000000.0, 'unixepoch')"
	}
	if f := c.Unit.Microseconds(); f > 1 {
		return fmt.Sprintf("((%s)/%d)", us, f)
	}
	return "(" + us + ")"
}

func (q columns) Again(c sqlstore.Column, us string) string { return q.Time(c, us) }

func (columns) Among(_, _, _ string) string { return "" }

// Before compares integers as they are stored. Texts are compared by what they
// mean; that no shape of an earlier time sorts behind the day after tomorrow
// lets an index skip the rest.
func (q columns) Before(c sqlstore.Column, expr, us string, strict bool) string {
	op := " <= "
	if strict {
		op = " < "
	}
	if c.Form != formText {
		if f := c.Unit.Microseconds(); f > 1 && strict {
			us = fmt.Sprintf("(%s) + %d", us, f-1)
		}
		return "(" + expr + op + q.Time(c, us) + ")"
	}
	return "(" + expr + " < strftime('%Y-%m-%d', (" + us + ")/1000000 + 172800, 'unixepoch') AND " +
		micros(expr) + op + "(" + us + "))"
}

func (columns) AtOrAfter(columns, values []string) string {
	return "((" + strings.Join(columns, ", ") + ") >= (" + strings.Join(values, ", ") + "))"
}

func (columns) NowMicros() string {
	return "(CAST(round(unixepoch('now','subsec')*1000) AS INTEGER)*1000)"
}

// ClockMicros is NowMicros: under an immediate transaction nothing waits after
// the statement has begun.
func (q columns) ClockMicros() string { return q.NowMicros() }

func (columns) Int(text string) string       { return "CAST(" + text + " AS INTEGER)" }
func (columns) Div(a, b string) string       { return a + " / " + b }
func (columns) Greatest(a, b string) string  { return "max(" + a + ", " + b + ")" }
func (columns) Least(a, b string) string     { return "min(" + a + ", " + b + ")" }
func (columns) BindText(bind string) string  { return ":" + bind }
func (columns) BindInt(bind string) string   { return ":" + bind }
func (columns) Field(name string) string     { return "(dibs_r.j ->> '$." + name + "')" }
func (columns) Fields(names []string) string { return strings.Join(names, ", ") }
func (columns) SameName(a, b string) bool    { return strings.EqualFold(a, b) }

func (columns) Hint(_ string) string { return "" }

func (columns) Where() sqlstore.WhereRules {
	return sqlstore.WhereRules{
		Backtick: true, Bracket: true, Comments: []string{"--", "/*"}, Placeholders: "?:@$",
	}
}
