package sqlstore

import (
	"strconv"
	"strings"
	"testing"
)

func testDialect(text string, numbered bool) *Dialect {
	d := &Dialect{Name: "test", Statements: Files{}.With("s", text), Placeholder: func(int) string { return "?" }, Numbered: numbered}
	if numbered {
		d.Placeholder = func(n int) string { return "$" + strconv.Itoa(n) }
	}
	return d
}

func TestStatementsAreCompiled(t *testing.T) {
	for name, test := range map[string]struct {
		text     string
		fr       Fragments
		numbered bool
		sql      string
		binds    string
	}{
		"binds":             {"SELECT :a, :b, :a", nil, false, "SELECT ?, ?, ?", "a b a"},
		"numbered binds":    {"SELECT :a, :b, :a", nil, true, "SELECT $1, $2, $1", "a b"},
		"casts":             {"SELECT :a::bigint, x::text", nil, true, "SELECT $1::bigint, x::text", "a"},
		"quoted":            {"SELECT ':a', \":b\", `:c`, 'it''s :d', :e", nil, true, "SELECT ':a', \":b\", `:c`, 'it''s :d', $1", "e"},
		"fragment":          {"SELECT {what} FROM t;", Fragments{"what": "{\"a\"}"}, true, "SELECT {\"a\"} FROM t", ""},
		"kept line":         {"SELECT 1\nFROM t -- if from\n", Fragments{"from": "x"}, true, "SELECT 1\nFROM t", ""},
		"dropped line":      {"SELECT 1\nFROM t -- if from\n", nil, true, "SELECT 1", ""},
		"empty is absent":   {"SELECT 1\nFROM t -- if from\n", Fragments{"from": ""}, true, "SELECT 1", ""},
		"negation":          {"SELECT 1 -- if !x\nSELECT 2 -- if x", nil, true, "SELECT 1", ""},
		"comments":          {"-- says why: :a {b}\nSELECT 1 -- and how\n", nil, true, "SELECT 1", ""},
		"dropped with bind": {"SELECT 1\nWHERE a = :a -- if a", nil, true, "SELECT 1", ""},
	} {
		st, err := testDialect(test.text, test.numbered).Compile("s", test.fr)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if st.SQL != test.sql || strings.Join(st.binds, " ") != test.binds {
			t.Errorf("%s: %q with %v, want %q with %s", name, st.SQL, st.binds, test.sql, test.binds)
		}
	}
}

func TestFaultyStatementsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT {none}":       "no fragment {none}",
		"SELECT {a":           "unclosed {",
		"SELECT 1 -- if a b ": "want one name",
	} {
		if _, err := testDialect(text, true).Compile("s", nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "s") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := testDialect("", true).Compile("other", nil); err == nil {
		t.Error("an unknown statement was compiled")
	}
	st, err := testDialect("SELECT :a", true).Compile("s", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.args(Binds{"b": 1}); err == nil || !strings.Contains(err.Error(), ":a") {
		t.Errorf("a missing bind: %v", err)
	}
}

func TestSchemaFilesAreNumberedWithoutGaps(t *testing.T) {
	const head = "-- oldest_compatible: 1\n"
	for what, files := range map[string]Files{
		"a gap":      Files{}.With("0001_a", head).With("0003_b", head),
		"no number":  Files{}.With("first", head),
		"no version": Files{}.With("0001_a", "CREATE TABLE a ();"),
	} {
		if list, err := (&Dialect{Migrations: files}).migrations(); err == nil {
			t.Errorf("%s was accepted: %v", what, list)
		}
	}
	list, err := (&Dialect{Migrations: Files{}.With("0000_meta", "").With("0001_a", head).With("0002_b", "-- oldest_compatible: 2\n")}).migrations()
	if err != nil || len(list) != 2 || list[1].oldest != 2 || list[1].number != 2 {
		t.Errorf("read %+v, %v", list, err)
	}
}
