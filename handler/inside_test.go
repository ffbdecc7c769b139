package handler

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzQuote: whatever a destination writes becomes one bounded, harmless line.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a\x1b[31", "ö\x1b[", "\x00\xff\n\r\n", "\u202egpj.exe", strings.Repeat("ö", 50)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range []string{quoteStart(b, 20), quoteEnd(b, 20)} {
			if len(s) > 20+len("…") || !plain(s) || !utf8.ValidString(s) || strings.ContainsRune(s, '\u202e') {
				t.Errorf("%q became %q", b, s)
			}
		}
	})
}

// FuzzJSONBody: no value of a column can change the shape of a JSON body.
func FuzzJSONBody(f *testing.F) {
	body, err := parser{}.jsonBody(`{"a": "x{key}y", "b": {key}, "c": 1}`)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`", "c": 2, "d": "`)
	f.Add("\\")
	f.Add("\x00\xff{key}")
	f.Fuzz(func(t *testing.T, key string) {
		v := &values{}
		v.item.Key = []string{key}
		text, err := body.render(v)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := decodeJSON([]byte(text))
		object, _ := doc.(map[string]any)
		clean := strings.ToValidUTF8(key, "")
		if err != nil || len(object) != 3 || scalarText(object["c"]) != "1" ||
			(clean == key && (object["a"] != "x"+key+"y" || object["b"] != key)) {
			t.Errorf("%q became %s (%v)", key, text, err)
		}
	})
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		writes []string
		line   string
		whole  bool
	}{
		{nil, "", true},
		{[]string{"abc"}, "abc", true},
		{[]string{"abcdefgh"}, "abcdefgh", true},
		{[]string{"abcdefghi"}, "bcdefghi", false},
		{[]string{"abcd", "efgh", "i"}, "bcdefghi", false},
		{[]string{"a\nbc\n", "\r\n "}, "bc", true},
		{[]string{strings.Repeat("x", 100) + "\n", "bc"}, "bc", true},
		{[]string{"a\n" + strings.Repeat("x", 8)}, "xxxxxxxx", false},
	} {
		kept := &tail{limit: 8}
		for _, w := range c.writes {
			if n, err := kept.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%q: %d, %v", w, n, err)
			}
		}
		line, whole := kept.lastLine()
		if string(line) != c.line || whole != c.whole {
			t.Errorf("%q: %q, %t", c.writes, line, whole)
		}
	}
}

func TestPointer(t *testing.T) {
	doc, err := decodeJSON([]byte(`{"a":[{"b/c":{"~":1}}],"":2,"n":null}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"/a/0/b~1c/~0": "1", "/": "2", "/n": "", "/a/1": "none", "/a/00": "none", "/a/-": "none", "/a/0/b~1c/~0/x": "none",
		"/a/99999999999999999999": "none", "/x": "none",
	} {
		p, err := parsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if v, ok := p.find(doc); ok {
			got = scalarText(v)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
