package sqlstore

import (
	"strconv"
	"time"
)

// Kind is what a column's values are, whatever the database calls its type.
type Kind int

// The kinds of columns.
const (
	KindOther Kind = iota
	KindText
	KindInt
	KindUint
	KindDecimal
	KindUUID
	KindBytes
	KindDate
	KindEnum
	KindTime
	KindBool
	KindFloat
	KindJSON
)

// String names the kind for people.
func (k Kind) String() string {
	names := [...]string{"other", "text", "integer", "unsigned integer", "decimal", "uuid", "bytes", "date",
		"enum", "time", "boolean", "floating point", "json"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[KindOther]
}

// CatalogColumn is a column as the catalogue describes it.
type CatalogColumn struct {
	Name string
	// Type is the base type's plain name, Full the type with its modifiers, ready
	// to be used in a cast.
	Type string
	Full string
	// Length is the most characters or bytes of a text, zero when unlimited.
	Length int
	// Precision is the number of decimals of a second that a time column keeps,
	// negative when it does not say.
	Precision int
	NotNull   bool
	// Generated is true for a column that the database computes.
	Generated bool
	// OnUpdate is what the database writes by itself when the row changes.
	OnUpdate  string
	Charset   string
	Collation string
	// Labels are an enum's labels, as a JSON array; empty when it is none.
	Labels string
}

// Column is a column resolved: what it holds and how.
type Column struct {
	Name string
	Kind Kind
	// Type is the type as people read it; Cast is the type as a cast needs it.
	Type string
	Cast string
	// Unit is the smallest step of a time column; what lies between two steps is
	// rounded by us, never by the database.
	Unit time.Duration
	// Form is the dialect's own note of how values are stored.
	Form string
	// Shape is the one form in which a time is written, where the type leaves a
	// choice.
	Shape string
	// Loose is true when values may be written in several shapes, so that as they
	// are stored they cannot be compared.
	Loose     bool
	Length    int
	Bytes     int // of an integer
	NotNull   bool
	Generated bool
	OnUpdate  string
	Charset   string
	Collation string
	Labels    []string
}

// ColumnSQL writes a dialect's SQL around columns. Every expression it returns
// is self-contained: it may stand anywhere in a larger one. All instants are
// integer microseconds since 1970 UTC on our side, whatever the session's zone.
type ColumnSQL interface {
	// Resolve says what a catalogue's column is.
	Resolve(CatalogColumn) Column
	// TimeShape settles how a time column whose type leaves a choice is written,
	// from values found in it ("type:text" each). It may say what is wrong.
	TimeShape(c Column, found []string) (Column, error)
	// Text turns a value into its canonical text, Value turns such a text back
	// into a value that an index on the column can be asked for.
	Text(c Column, expr string) string
	Value(c Column, text string) string
	// Literal is a quoted text as the column's type.
	Literal(c Column, quoted string) string
	// Target is a column as SET and RETURNING want it named; both parts are
	// quoted already.
	Target(table, column string) string
	// Payload turns any value into a text whose first byte tells its kind, see
	// decodePayload; NULL stays NULL.
	Payload(c Column, expr string) string
	// Micros reads a time column; Time writes one from microseconds that are a
	// multiple of its unit already. Again writes one from what Micros read, be it
	// an instant or one of the infinities that a database may have.
	Micros(c Column, expr string) string
	Time(c Column, micros string) string
	Again(c Column, micros string) string
	// Before is a condition that an index serves: expr, a time column, lies at or
	// before (or, when strict, before) the instant.
	Before(c Column, expr, micros string, strict bool) string
	// AtOrAfter is a condition that an index on the columns serves: their values
	// come at or after the given ones, the first column deciding first.
	AtOrAfter(columns, values []string) string
	// NowMicros is the time, the same throughout a statement. ClockMicros is the
	// time when it is evaluated.
	NowMicros() string
	ClockMicros() string
	// Int reads an integer out of a text.
	Int(text string) string
	// Div divides integers, rounding towards zero.
	Div(a, b string) string
	// Greatest and Least of two integers that are not NULL.
	Greatest(a, b string) string
	Least(a, b string) string
	// BindText and BindInt are binds whose type the database cannot mistake.
	BindText(bind string) string
	BindInt(bind string) string
	// Field reads a field of the JSON items, called dibs_r, as text; Fields
	// declares the fields where that is needed.
	Field(name string) string
	Fields(names []string) string
	// Among narrows a single key column to the keys that a list of rows has,
	// where a planner needs to be told; empty where it does not.
	Among(key, column, rows string) string
	// Hint follows a table's name to make an index serve; the name is quoted. It
	// is asked only where the catalogue query tells the names of indexes.
	Hint(index string) string
	// SameName tells whether the database takes two column names for one.
	SameName(a, b string) bool
	// Where are the rules by which a where fragment is tokenised.
	Where() WhereRules
}

// alignDown and alignUp round microseconds to a column's unit. Lease ends are
// rounded up, so that no lease is shorter than it was asked for.
func alignDown(q ColumnSQL, c *Column, micros string) string {
	unit := c.Unit.Microseconds()
	if unit <= 1 {
		return micros
	}
	u := itoa(unit)
	return "(" + q.Div("("+micros+")", u) + " * " + u + ")"
}

func alignUp(q ColumnSQL, c *Column, micros string) string {
	unit := c.Unit.Microseconds()
	if unit <= 1 {
		return micros
	}
	return alignDown(q, c, "("+micros+" + "+itoa(unit-1)+")")
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
