package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func utc(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// wantSlots compares the slots in (after, upTo] with instants in UTC.
func wantSlots(t *testing.T, s *Schedule, after, upTo string, want ...string) {
	t.Helper()
	slots, more := s.Between(utc(t, after), utc(t, upTo), 1000)
	if more {
		t.Fatalf("%s: more than 1000 slots", s)
	}
	var got []string
	for _, slot := range slots {
		got = append(got, slot.Format(time.RFC3339))
	}
	if g, w := strings.Join(got, " "), strings.Join(want, " "); g != w {
		t.Errorf("%s\n got %s\nwant %s", s, g, w)
	}
}

// B40: no number of missed slots stops a schedule, and counting them jumps.
func TestCaseB40ManyMissedSlots(t *testing.T) {
	s := mustParse(t, "* * * * *", "Europe/Berlin")
	now := utc(t, "2027-01-01T00:00:30Z")
	missed := s.Count(now.AddDate(-100, 0, 0), now)
	if want := int64(now.Sub(now.AddDate(-100, 0, 0)) / time.Minute); missed != want {
		t.Errorf("100 years have %d slots, want %d", missed, want)
	}
	if slot, ok := s.Prev(now); !ok || slot != utc(t, "2027-01-01T00:00:00Z") {
		t.Errorf("latest missed slot is %s", slot)
	}
	if slot, ok := s.Next(now); !ok || slot != utc(t, "2027-01-01T00:01:00Z") {
		t.Errorf("next slot is %s", slot)
	}
	if slots, more := s.Between(now.AddDate(-100, 0, 0), now, 100); len(slots) != 100 || !more {
		t.Errorf("Between gave %d slots, more %v", len(slots), more)
	}
	// Going through these one by one would outlast any test: it must jump.
	seconds, err := Parse(Spec{Cron: "* * * * * *", Seconds: true, Zone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	from, upTo := utc(t, "0002-01-01T00:00:00Z"), utc(t, "9998-01-01T00:00:00Z")
	if got, want := seconds.Count(from, upTo), upTo.Unix()-from.Unix(); got != want {
		t.Errorf("9996 years have %d seconds, want %d", got, want)
	}
}

// B45: a fixed time fires once, at the first instant after the gap.
func TestCaseB45MissingTimes(t *testing.T) {
	for _, c := range []struct {
		zone, expr, after, upTo string
		want                    []string
	}{
		{"America/Santiago", "0 0 * * *", "2027-09-04T04:00:00Z", "2027-09-06T03:00:00Z", []string{"2027-09-05T04:00:00Z", "2027-09-06T03:00:00Z"}},
		{"Africa/Cairo", "0 0 * * *", "2027-04-28T22:00:00Z", "2027-04-30T21:00:00Z", []string{"2027-04-29T22:00:00Z", "2027-04-30T21:00:00Z"}},
		{"Asia/Beirut", "0 0 * * *", "2027-03-26T22:00:00Z", "2027-03-28T21:00:00Z", []string{"2027-03-27T22:00:00Z", "2027-03-28T21:00:00Z"}},
		{"America/Havana", "0 0 * * *", "2027-03-13T05:00:00Z", "2027-03-15T04:00:00Z", []string{"2027-03-14T05:00:00Z", "2027-03-15T04:00:00Z"}},
		{"America/Sao_Paulo", "0 0 * * *", "2018-11-03T03:00:00Z", "2018-11-05T02:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"America/New_York", "30 2 * * *", "2027-03-13T07:30:00Z", "2027-03-15T06:30:00Z", []string{"2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"}},
		{"Europe/London", "30 1 * * *", "2027-03-27T01:30:00Z", "2027-03-29T00:30:00Z", []string{"2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"}},
		{"Australia/Lord_Howe", "15 2 * * *", "2027-10-01T15:45:00Z", "2027-10-03T15:15:00Z", []string{"2027-10-02T15:30:00Z", "2027-10-03T15:15:00Z"}},
		{"Africa/Casablanca", "30 2 * * *", "2027-02-06T01:30:00Z", "2027-02-08T02:30:00Z", []string{"2027-02-07T01:30:00Z", "2027-02-08T02:30:00Z"}},
		{"Africa/Casablanca", "30 2 * * *", "2027-03-13T02:30:00Z", "2027-03-15T01:30:00Z", []string{"2027-03-14T02:00:00Z", "2027-03-15T01:30:00Z"}},
		{"Pacific/Apia", "0 12 * * *", "2011-12-29T22:00:00Z", "2011-12-31T22:00:00Z", []string{"2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"}},
		// Several missing times of one gap, and the regular time at its end, are one slot.
		{"Europe/Berlin", "0,20,40 2,3 * * *", "2027-03-28T00:00:00Z", "2027-03-28T02:00:00Z", []string{"2027-03-28T01:00:00Z", "2027-03-28T01:20:00Z", "2027-03-28T01:40:00Z"}},
		// Steps go on as time passes; a step that would leave a hole does not.
		{"America/New_York", "0 */2 * * *", "2027-03-14T04:59:00Z", "2027-03-14T08:00:00Z", []string{"2027-03-14T05:00:00Z", "2027-03-14T08:00:00Z"}},
		{"America/New_York", "*/15 * * * *", "2027-03-14T06:30:00Z", "2027-03-14T07:15:00Z", []string{"2027-03-14T06:45:00Z", "2027-03-14T07:00:00Z", "2027-03-14T07:15:00Z"}},
		{"America/Santiago", "0 */6 * * *", "2027-09-04T21:00:00Z", "2027-09-05T09:00:00Z", []string{"2027-09-04T22:00:00Z", "2027-09-05T04:00:00Z", "2027-09-05T09:00:00Z"}},
	} {
		t.Run(c.zone+" "+c.expr, func(t *testing.T) {
			wantSlots(t, mustParse(t, c.expr, c.zone), c.after, c.upTo, c.want...)
		})
	}
	s := mustParse(t, "30 2 * * *", "America/New_York")
	if e := s.Effect(utc(t, "2027-03-14T07:00:00Z")); e.Missing != "2027-03-14 02:30:00" || e.Pass != 0 {
		t.Errorf("the effect on the shifted slot is %+v", e)
	}
	skip, err := Parse(Spec{Cron: "30 2 * * *", Zone: "America/New_York", DST: DST{Missing: MissingSkip}})
	if err != nil {
		t.Fatal(err)
	}
	wantSlots(t, skip, "2027-03-13T07:30:00Z", "2027-03-15T06:30:00Z", "2027-03-15T06:30:00Z")
}

// B47: the repeated hour fires as time passes for a wildcard, once for a fixed time.
func TestCaseB47RepeatedHour(t *testing.T) {
	every := mustParse(t, "* * * * *", "Europe/Berlin")
	from, to := utc(t, "2027-10-30T23:59:59Z"), utc(t, "2027-10-31T01:59:59Z")
	slots, _ := every.Between(from, to, 1000)
	if len(slots) != 120 || every.Count(from, to) != 120 {
		t.Errorf("the two hours have %d slots, counted %d, want 120", len(slots), every.Count(from, to))
	}
	passes := map[int]int{}
	for _, slot := range slots {
		passes[every.Effect(slot).Pass]++
	}
	if passes[1] != 60 || passes[2] != 60 {
		t.Errorf("slots by pass: %v, want 60 of each", passes)
	}
	for rule, want := range map[Repeated][]string{
		"":            {"2027-10-31T00:30:00Z"},
		RepeatedFirst: {"2027-10-31T00:30:00Z"},
		RepeatedLast:  {"2027-10-31T01:30:00Z"},
		RepeatedBoth:  {"2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z"},
	} {
		s, err := Parse(Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", DST: DST{Repeated: rule}})
		if err != nil {
			t.Fatal(err)
		}
		wantSlots(t, s, "2027-10-30T12:00:00Z", "2027-10-31T12:00:00Z", want...)
	}
	// West of Greenwich the same, and the Monday after is not repeated.
	wantSlots(t, mustParse(t, "30 1 * * *", "America/New_York"), "2027-11-06T12:00:00Z", "2027-11-08T12:00:00Z", "2027-11-07T05:30:00Z", "2027-11-08T06:30:00Z")
	wantSlots(t, mustParse(t, "0 9 * * MON", "Europe/Berlin"), "2027-10-30T00:00:00Z", "2027-11-07T00:00:00Z", "2027-11-01T08:00:00Z")
}

// B51: a leading star makes both day fields count; the warning shows it.
func TestCaseB51StepAndStar(t *testing.T) {
	from, to := utc(t, "2026-12-31T23:59:59Z"), utc(t, "2027-01-31T23:59:59Z")
	wantSlots(t, mustParse(t, "0 0 */2 * 1", "UTC"), "2026-12-31T23:59:59Z", "2027-01-31T23:59:59Z", "2027-01-11T00:00:00Z", "2027-01-25T00:00:00Z")
	union := mustParse(t, "0 0 1-31/2 * 1", "UTC")
	if n := union.Count(from, to); n != 18 {
		t.Errorf("%s fires on %d days of January 2027, want 18", union, n)
	}
	third := "30 18 15-21 * 6"
	both, err := Parse(Spec{Cron: third, Zone: "UTC", Days: DaysBoth})
	if err != nil {
		t.Fatal(err)
	}
	wantSlots(t, both, "2026-12-31T23:59:59Z", "2027-02-28T23:59:59Z", "2027-01-16T18:30:00Z", "2027-02-20T18:30:00Z")
	if w := both.Warnings(from); len(w) != 0 {
		t.Errorf("days: both is a choice, yet there is a warning: %q", w)
	}
	w := strings.Join(mustParse(t, third, "UTC").Warnings(from), "\n")
	for _, part := range []string{"2027-01-02, 2027-01-09, 2027-01-15, …", "days: both", "2027-01-16, 2027-02-20, 2027-03-20, …"} {
		if !strings.Contains(w, part) {
			t.Errorf("the warning %q does not contain %q", w, part)
		}
	}
	if w := mustParse(t, "0 0 */2 * 1", "UTC").Warnings(from); len(w) != 1 || !strings.Contains(w[0], "2027-01-11, 2027-01-25") {
		t.Errorf("warnings for a leading star: %q", w)
	}
}

// B52: the impossible is refused with its reason, after a search that ends, and
// the rare is found. BenchmarkRefuse tells how long that takes.
func TestCaseB52NeverFires(t *testing.T) {
	for expr, reason := range map[string]string{
		"0 0 31 4 *":     "APR has at most 30 days",
		"0 0 30 2 *":     "FEB has at most 29 days",
		"0 0 31 2,4,6 *": "FEB or APR or JUN has at most 30 days",
		"0 0 31W 2 *":    "at most 29 days",
		"0 0 L-30 FEB *": "at most 29 days",
	} {
		_, err := ParseExpr(expr, "UTC")
		var fault *Error
		if !errors.As(err, &fault) || fault.Field != "day-of-month" || !strings.Contains(fault.Reason, reason) {
			t.Errorf("%s: %v, want a refusal saying %q", expr, err, reason)
		}
	}
	if _, err := Parse(Spec{Cron: "0 0 1-7 * MON#3", Zone: "UTC", Days: DaysBoth}); err == nil || !strings.Contains(err.Error(), "400 years") {
		t.Errorf("the third Monday within the first week: %v", err)
	}
	wantSlots(t, mustParse(t, "0 0 29 2 *", "UTC"), "2097-01-01T00:00:00Z", "2104-12-31T00:00:00Z", "2104-02-29T00:00:00Z")
	sunday, err := Parse(Spec{Cron: "0 0 29 2 0", Zone: "UTC", Days: DaysBoth})
	if err != nil {
		t.Fatal(err)
	}
	wantSlots(t, sunday, "2027-01-01T00:00:00Z", "2130-01-01T00:00:00Z", "2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z", "2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z")
	if slot, ok := mustParse(t, "0 0 29 2 *", "America/New_York").Prev(utc(t, "2027-02-28T12:00:00Z")); !ok || slot != utc(t, "2024-02-29T05:00:00Z") {
		t.Errorf("back from a year without the day: %s", slot)
	}
}

// B55: a zone is the exact name, and nothing stands in for it.
func TestCaseB55UnknownZone(t *testing.T) {
	for name, hint := range map[string]string{
		"": "none is assumed", "Local": "every host", "local": "every host", "europe/berlin": "Europe/Berlin", "EUROPE/BERLIN": "Europe/Berlin",
		"Berlin": "Europe/Berlin", "Europe/Berlyn": "Europe/Berlin", "Mars/Phobos": "IANA", "+02:00": "IANA", "right/UTC": "is not a time zone",
		"posix/Europe/Berlin": "Europe/Berlin", "localtime": "is not a time zone", "../zoneinfo/UTC": "is not a time zone",
		"Europe/Berlin\n": "is not a time zone", "Europe": "is not a time zone", "Factory": "every host",
	} {
		_, err := ParseExpr("@daily", name)
		var fault *Error
		if !errors.As(err, &fault) || fault.Field != "zone" || !strings.Contains(err.Error(), hint) {
			t.Errorf("zone %q: %v, want a refusal saying %q", name, err, hint)
		}
	}
	if _, err := ParseExpr("CRON_TZ=Nowhere @daily", ""); err == nil || !strings.Contains(err.Error(), "at byte 8") {
		t.Errorf("CRON_TZ=Nowhere: %v", err)
	}
	if _, err := ParseExpr("TZ=0 * * * * *", ""); err == nil || !strings.Contains(err.Error(), `zone "0" at byte 3`) {
		t.Errorf("TZ=0: %v", err)
	}
	if _, err := ParseExpr("@every 90s", "Nowhere"); err == nil {
		t.Error("an unknown zone beside @every was accepted")
	}
}

// B56, its pure half: what comes next depends on the reference alone, so an
// edit that takes the moment of the edit as reference cannot fire at once.
func TestCaseB56EditDoesNotFire(t *testing.T) {
	edited := utc(t, "2027-05-05T15:00:00Z")
	nine := mustParse(t, "0 9 * * *", "UTC")
	if slot, _ := nine.Next(edited); slot != utc(t, "2027-05-06T09:00:00Z") {
		t.Errorf("after the edit the next slot is %s", slot)
	}
	if n := nine.Count(edited, edited); n != 0 {
		t.Errorf("%d slots are due at the moment of the edit", n)
	}
	// An @every keeps its stored anchor: another process, another start, the same slots.
	for _, anchor := range []string{"2027-05-05T14:59:30Z", "2030-01-01T00:00:00Z"} {
		s, err := Parse(Spec{Cron: "@every 90s", Anchor: utc(t, anchor)})
		if err != nil {
			t.Fatal(err)
		}
		slot, _ := s.Next(edited)
		if gap := slot.Sub(utc(t, anchor)); gap%(90*time.Second) != 0 || slot.Sub(edited) > 90*time.Second || !slot.After(edited) {
			t.Errorf("anchor %s: next slot %s", anchor, slot)
		}
	}
}
