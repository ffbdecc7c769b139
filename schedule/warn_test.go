package schedule

import (
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func TestWarnings(t *testing.T) {
	from := date(2027, 1, 1)
	for _, c := range []struct {
		expr, zone string
		want       []string // one part of each warning
	}{
		{"*/5 * * * *", "Europe/Berlin", nil},
		{"@every 7m", "Europe/Berlin", nil},
		{"0 9 * * 1-5", "Europe/Berlin", nil},
		{"30 2 * * *", "UTC", nil},
		{"*/45 * * * *", "UTC", []string{`the last distance is 15m; "@every 45m"`}},
		{"*/7 */5 * * *", "UTC", []string{"is not every 7m", "is not every 5h"}},
		{"0 0 31 * *", "UTC", []string{"FEB, APR, JUN, SEP, NOV"}},
		{"0 0 29 * *", "UTC", []string{"in every FEB"}},
		{"0 0 28 * *", "UTC", nil},
		{"30 2 * * *", "Europe/Berlin", []string{"2027-03-28 02:30 does not exist in Europe/Berlin: it fires at 2027-03-28T03:00:00+02:00 instead",
			"2027-10-31 02:30 occurs twice in Europe/Berlin: it fires at the first pass"}},
		{"0 */2 * * *", "America/New_York", []string{"2027-03-14 02:00 does not exist in America/New_York: it is skipped"}},
		{"0 0 * * *", "America/Havana", []string{"2027-03-14 00:00 does not exist", "2027-11-07 00:00 occurs twice"}},
	} {
		got := mustParse(t, c.expr, c.zone).Warnings(from)
		if len(got) != len(c.want) {
			t.Errorf("%s in %s: %d warnings %q, want %d", c.expr, c.zone, len(got), got, len(c.want))
			continue
		}
		for i, part := range c.want {
			if !strings.Contains(got[i], part) {
				t.Errorf("%s in %s: %q does not say %q", c.expr, c.zone, got[i], part)
			}
		}
	}
	for rule, part := range map[Repeated]string{RepeatedLast: "second pass", RepeatedBoth: "both passes"} {
		s, err := Parse(Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", DST: DST{Missing: MissingSkip, Repeated: rule}})
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(s.Warnings(from), "\n"); !strings.Contains(text, part) || !strings.Contains(text, "it is skipped") {
			t.Errorf("%s: %q", s, text)
		}
	}
}

func TestClockWarningsAreTheLast(t *testing.T) {
	from := utc(t, "2027-01-01T00:00:00Z")
	s := mustParse(t, "*/7 2 1-31 * 5", "Europe/Berlin")
	all, clock := s.Warnings(from), s.ClockWarnings(from)
	if len(clock) == 0 || len(all) <= len(clock) || !slices.Equal(all[len(all)-len(clock):], clock) {
		t.Errorf("all %q, of the clock %q", all, clock)
	}
	if got := mustParse(t, "@every 90s", "").ClockWarnings(from); got != nil {
		t.Errorf("elapsed time knows no clock: %q", got)
	}
}

func TestEffectText(t *testing.T) {
	s := mustParse(t, "*/30 * * * *", "Europe/Berlin")
	for at, want := range map[string]string{
		"2027-10-31T00:30:00Z": "first pass of a repeated hour",
		"2027-10-31T01:30:00Z": "second pass of a repeated hour",
		"2027-10-31T02:00:00Z": "",
		"2027-10-30T23:30:00Z": "",
		"2027-03-28T01:00:00Z": "",
	} {
		if got := s.Effect(utc(t, at)).String(); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}

// Ten thousand schedules must fit beside a program: half a kilobyte each.
func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Schedule{}); size > 640 {
		t.Errorf("a Schedule takes %d bytes", size)
	} else {
		t.Logf("%d bytes", size)
	}
}
