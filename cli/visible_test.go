package cli

import (
	"slices"
	"testing"
	"time"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 日本 |": "plain é 日本 |",
		"\x1b[31mred":  `\x1b[31mred`,
		"a\nb\tc\r":    `a\nb\tc\r`,
		"\x00\x7f":     `\x00\x7f`,
		"\u009b2J":     `\u009b2J`,
		"a\u202eb":     `a\u202eb`,
		"a\u200bb":     `a\u200bb`,
		"\U000e0041":   `\U000e0041`,
		"bad \xff utf": `bad \xff utf`,
		`\x1b`:         `\x1b`,
	} {
		if got := visible(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if got := visible(visible(in)); got != want {
			t.Errorf("%q: twice gives %q", in, got)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"  first\r\nsecond": "first", "0123456789": "0123456…", "": "", "\x1b[0m": `\x1b[0m`,
	} {
		if got := oneLine(in, 8); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestQuantileAndSpark(t *testing.T) {
	var values []time.Duration
	for i := range 20 {
		values = append(values, time.Duration(20-i)*time.Second)
	}
	before := slices.Clone(values)
	if p50, p95 := quantile(values, 50), quantile(values, 95); p50 != 10*time.Second || p95 != 19*time.Second {
		t.Errorf("p50 %s, p95 %s", p50, p95)
	}
	if !slices.Equal(values, before) {
		t.Error("quantile sorted its argument")
	}
	if quantile(nil, 50) != 0 {
		t.Error("a quantile of nothing")
	}
	if got := spark([]time.Duration{0, time.Second, 2 * time.Second}); got != "▁▅█" {
		t.Errorf("spark %s", got)
	}
	if got := spark(values); len([]rune(got)) != shownTimes {
		t.Errorf("spark %s", got)
	}
	if got := spark([]time.Duration{0, 0}); got != "▁▁" {
		t.Errorf("spark of nothing %s", got)
	}
}

func TestWordIsOneWordForAShell(t *testing.T) {
	for in, want := range map[string]string{
		"crm-sync": "crm-sync", "backup@db2": "backup@db2", "a b": "'a b'", "it's": `'it'\''s'`, "-x": "'-x'", "": "''", "a;b": "'a;b'",
	} {
		if got := word(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestTableKeepsWithinATerminal(t *testing.T) {
	var table table
	table.add(text("ok"), text("job"), text("idle"), text("12:00:00"), text("12:05:00"), text("1s"), text("2s"), text("▁▂▃"))
	if w := table.width(); w != 2+2+3+2+4+2+8+2+8+2+2+2+2+2+3 {
		t.Fatalf("width %d", w)
	}
	table.narrow(40)
	if got := table.rows[0]; got[7].text != "" || got[5].text != "" || got[6].text != "2s" || got[4].text == "" {
		t.Errorf("left out the wrong columns: %+v", got)
	}
}
