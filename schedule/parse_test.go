package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCanonicalText(t *testing.T) {
	for expr, want := range map[string]string{
		"*/5 * * * *":             "*/5 * * * *",
		" 05  09\t* JAN mon-Fri ": "5 9 * 1 1-5",
		"@daily":                  "0 0 * * *",
		"@WEEKLY":                 "0 0 * * 0",
		"0 0 ? * 7":               "0 0 * * 0",
		"*/1 0-23/1 * * *":        "* 0-23/1 * * *",
		"0 22-2 28-3 NOV-FEB 5-7": "0 22-2 28-3 11-2 5-7",
		"0 0 l-3,15w,lw * *":      "0 0 L-3,15W,LW * *",
		"0 0 * * fri#2,7#1,SUNL":  "0 0 * * 5#2,0#1,0L",
		"5/15 * * * *":            "5/15 * * * *",
	} {
		s := mustParse(t, expr, "UTC")
		if got := s.String(); got != "CRON_TZ=UTC "+want {
			t.Errorf("%q: canonical text is %q, want %q", expr, got, want)
		}
		again := mustParse(t, s.String(), "")
		if again.String() != s.String() || again.clock != s.clock {
			t.Errorf("%q: parsed again it is %q", expr, again)
		}
	}
	s, err := Parse(Spec{Cron: "30 */5 * * * *", Zone: "UTC", Seconds: true, Days: DaysBoth, DST: DST{MissingSkip, RepeatedLast}, Jitter: time.Second, Name: "j"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.String(), "CRON_TZ=UTC 30 */5 * * * * days=both dst.missing=skip dst.repeated=last jitter=1s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFieldSets(t *testing.T) {
	set := func(values ...int) (bits uint64) {
		for _, v := range values {
			bits |= 1 << uint(v)
		}
		return bits
	}
	for _, c := range []struct {
		field int
		text  string
		want  uint64
	}{
		{fieldHour, "22-2", set(22, 23, 0, 1, 2)},
		{fieldHour, "22-4/3", set(22, 1, 4)},
		{fieldHour, "20/2", set(20, 22)},
		{fieldDom, "30-2", set(30, 31, 1, 2)},
		{fieldMonth, "NOV-FEB", set(11, 12, 1, 2)},
		{fieldDow, "5-7", set(5, 6, 0)},
		{fieldDow, "FRI-MON", set(5, 6, 0, 1)},
		{fieldDow, "7-2", set(0, 1, 2)},
		{fieldDow, "7-7", set(0)},
		{fieldDow, "0-7", set(0, 1, 2, 3, 4, 5, 6)},
		{fieldDow, "*/2", set(0, 2, 4, 6)},
		{fieldMinute, "1,3-5,50/5", set(1, 3, 4, 5, 50, 55)},
	} {
		var bad faults
		if f := parseField(&fieldDefs[c.field], c.text, 0, &bad); f.set != c.want || len(bad) > 0 {
			t.Errorf("%s %q: %b, want %b, faults %v", fieldDefs[c.field].name, c.text, f.set, c.want, bad)
		}
	}
}

func TestRefusals(t *testing.T) {
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		spec  Spec
		field string
		pos   int
		text  string
		says  string
	}{
		{Spec{Cron: "*/90 * * * *"}, "minute", 0, "*/90", `"@every 90m"`},
		{Spec{Cron: "*/60 * * * *"}, "minute", 0, "*/60", "only one value"},
		{Spec{Cron: "0 */24 * * *"}, "hour", 2, "*/24", `"@every 24h"`},
		{Spec{Cron: "60 * * * *"}, "minute", 0, "60", "write 0"},
		{Spec{Cron: "0 24 * * *"}, "hour", 2, "24", "midnight is hour 0"},
		{Spec{Cron: "0 0 0 * *"}, "day-of-month", 4, "0", "between 1 and 31"},
		{Spec{Cron: "0 0 * 13 *"}, "month", 6, "13", "order is"},
		{Spec{Cron: "0 0 * * 8"}, "day-of-week", 8, "8", "0 and 7 are Sunday"},
		{Spec{Cron: "0 0 * * MONDAY"}, "day-of-week", 8, "MONDAY", "write MON"},
		{Spec{Cron: "0 0 * * 1,,2"}, "day-of-week", 10, "", "extra comma"},
		{Spec{Cron: "0 1,x * * *"}, "hour", 4, "x", "0 to 23"},
		{Spec{Cron: "0 1-+3 * * *"}, "hour", 4, "+3", "not a value"},
		{Spec{Cron: "0/0 * * * *"}, "minute", 1, "/0", "at least 1"},
		{Spec{Cron: "*/-5 * * * *"}, "minute", 1, "/-5", "at least 1"},
		{Spec{Cron: "-5 * * * *"}, "minute", 0, "", "not a value"},
		{Spec{Cron: "? * * * *"}, "minute", 0, "?", "write *"},
		{Spec{Cron: "0 0 ?/2 * *"}, "day-of-month", 4, "?/2", "write */2"},
		{Spec{Cron: "0 0 5L * *"}, "day-of-month", 4, "5L", "day-of-week field"},
		{Spec{Cron: "0 0 L-31 * *"}, "day-of-month", 4, "L-31", "1 to 30"},
		{Spec{Cron: "0 0 W * *"}, "day-of-month", 4, "W", "15W"},
		{Spec{Cron: "0 0 * * L"}, "day-of-week", 8, "L", "two meanings"},
		{Spec{Cron: "0 0 * * 5#6"}, "day-of-week", 8, "5#6", "1 to 5"},
		{Spec{Cron: "0 0 * * 5W"}, "day-of-week", 8, "5W", "MON-FRI"},
		{Spec{Cron: "0 0 * * * *"}, "cron", 0, "0 0 * * * *", "seconds: true"},
		{Spec{Cron: "0 0 * * *", Seconds: true}, "cron", 0, "0 0 * * *", "put the seconds first"},
		{Spec{Cron: "0 0 0 1 1 * 2027"}, "cron", 12, "2027", "no year field"},
		{Spec{Cron: "*/5 README.md doc src"}, "cron", 0, "*/5 README.md doc src", "quote the schedule"},
		{Spec{Cron: `"*/5 * * * *"`}, "cron", 0, `"*/5 * * * *"`, "quote it once"},
		{Spec{Cron: "   "}, "cron", 0, "   ", "empty"},
		{Spec{}, "cron", -1, "", "empty"},
		{Spec{Cron: "@reboot"}, "cron", 0, "@reboot", "no notion of a boot"},
		{Spec{Cron: "@dayly"}, "cron", 0, "@dayly", "@daily"},
		{Spec{Cron: "@daily 5"}, "cron", 7, "5", "stands alone"},
		{Spec{Cron: "TZ=UTC"}, "cron", 0, "TZ=UTC", "no schedule after the zone"},
		{Spec{Cron: "CRON_TZ=Europe/Paris @daily"}, "zone", 8, "Europe/Paris", "contradicts"},
		{Spec{Cron: "@every 10ms"}, "every", 7, "10ms", "at least one"},
		{Spec{Cron: "@every 1.5s"}, "every", 7, "1.5s", "whole number"},
		{Spec{Cron: "@every -1m"}, "every", 7, "-1m", "at least one"},
		{Spec{Cron: "@every 1d"}, "every", 7, "1d", "24h"},
		{Spec{Cron: "@every"}, "every", 0, "@every", "one duration"},
		{Spec{Every: -time.Second}, "every", -1, "-1s", "at least one"},
		{Spec{Cron: "at 2027-01-01 00:00"}, "at", 0, "at", "one instant"},
		{Spec{Cron: "at 2027-01-01T00:00:00"}, "at", 3, "2027-01-01T00:00:00", "with its offset"},
		{Spec{At: at.Add(1)}, "at", -1, "2027-01-01T00:00:00.000000001Z", "whole seconds"},
		{Spec{Cron: "@daily", Every: time.Hour}, "cron", -1, "", "exclude one another"},
		{Spec{Cron: "@daily", Days: "and"}, "days", -1, "and", "classic or both"},
		{Spec{Cron: "@daily", DST: DST{Missing: "run"}}, "dst.missing", -1, "run", "shift or skip"},
		{Spec{Cron: "@daily", DST: DST{Repeated: "twice"}}, "dst.repeated", -1, "twice", "first, last or both"},
		{Spec{Cron: "@hourly", Jitter: time.Hour, Name: "x"}, "jitter", -1, "1h0m0s", "overtake"},
		{Spec{Cron: "@hourly", Jitter: -time.Second, Name: "x"}, "jitter", -1, "-1s", "negative"},
		{Spec{Cron: "@hourly", Jitter: time.Minute}, "jitter", -1, "1m0s", "job's name"},
		{Spec{Every: time.Hour, Anchor: at.AddDate(9000, 0, 0)}, "anchor", -1, "", "1 to 9999"},
		{Spec{Cron: strings.Repeat("1,", 600) + "1 * * * *"}, "cron", 0, "", "1024 bytes"},
	} {
		c.spec.Zone = "UTC"
		s, err := Parse(c.spec)
		var fault *Error
		if !errors.As(err, &fault) || s != nil {
			t.Errorf("%+v: accepted or no *Error: %v", c.spec, err)
			continue
		}
		if fault.Field != c.field || fault.Pos != c.pos || c.text != "" && fault.Text != c.text || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: field %s, byte %d, text %q, message %q\nwant %s, %d, %q, saying %q", c.spec.Cron, fault.Field, fault.Pos, fault.Text, err, c.field, c.pos, c.text, c.says)
		}
		if fault.Fix == "" || strings.ContainsAny(strings.ReplaceAll(err.Error(), `\n`, ""), "\n\r") {
			t.Errorf("%q: no fix, or more than a line: %q", c.spec.Cron, err)
		}
	}
}

// All faults are told at once.
func TestAllFaults(t *testing.T) {
	_, err := Parse(Spec{Cron: "61 * 32 * XYZ", Zone: "Nowhere", Days: "x"})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 5 {
		t.Errorf("want 5 faults, got %v", err)
	}
}

func TestInterval(t *testing.T) {
	for expr, want := range map[string]time.Duration{
		"* * * * *": time.Minute, "*/7 * * * *": 4 * time.Minute, "0 */5 * * *": 4 * time.Hour, "30 2 * * *": 24 * time.Hour,
		"0 0,23 * * *": time.Hour, "0 0,23 * * 1,3": 23 * time.Hour, "0 9 * * 1-5": 24 * time.Hour, "0 9 * * 1": 7 * 24 * time.Hour,
		"0 0 1 * *": 28 * 24 * time.Hour, "0 0 31 * *": 31 * 24 * time.Hour, "0 0 1 1 *": 365 * 24 * time.Hour, "0 0 29 2 *": 1461 * 24 * time.Hour,
		"@every 90s": 90 * time.Second, "at 2027-01-01T00:00:00Z": 0, "50,10 23,0 * * *": 20 * time.Minute,
	} {
		if got := mustParse(t, expr, "UTC").Interval(); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
	s, err := Parse(Spec{Cron: "58/1 59 23 * * *", Zone: "UTC", Seconds: true})
	if err != nil || s.Interval() != time.Second {
		t.Errorf("seconds: %v %v", s, err)
	}
}

func TestDescribe(t *testing.T) {
	for expr, want := range map[string]string{
		"*/5 * * * *":             "every 5 minutes, UTC",
		"30 2 * * *":              "at 02:30, UTC",
		"0 9,17 * * 1-5":          "at 09:00, 17:00 on MON-FRI, UTC",
		"0 * * * *":               "every hour, UTC",
		"15 * * * *":              "minute 15 of every hour, UTC",
		"*/15 8-18 * * *":         "every 15 minutes of hours 8-18, UTC",
		"0 0 L 1,7 *":             "at 00:00 on day L of the month in JAN,JUL, UTC",
		"0 0 13 * 5":              "at 00:00 on day 13 of the month or on FRI, UTC",
		"0 9 * * FRI#2":           "at 09:00 on FRI#2, UTC",
		"@every 90s":              "every 1m30s",
		"at 2027-01-01T00:00:00Z": "once, at 2027-01-01T00:00:00Z",
	} {
		if got := mustParse(t, expr, "UTC").Describe(); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
