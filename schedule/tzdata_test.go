package schedule

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The table of built-in versions is checked against the release that compiles
// the binary: lib/time/update.bash names the data it was made from.
func TestBuiltinVersion(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "update.bash"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(script), "\nDATA=")
	want, _, _ := strings.Cut(rest, "\n")
	if got := builtin[runtime.Version()]; got != want || want == "" {
		t.Errorf("%s embeds zone data %q, the table says %q: put it into builtin", runtime.Version(), want, got)
	}
}

func TestTZDataVersionFollowsTheLookup(t *testing.T) {
	host, other, none := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(host, "Europe/Berlin", "TZif2")
	write(host, "tzdata.zi", "# version 2026a\n# more\n")
	write(other, "Europe/Berlin", "TZif2")
	write(other, "+VERSION", "2024b\n")
	write(none, "Europe/Berlin", "TZif2")
	write(none, "zones.zip", "PK")
	zip := filepath.Join(none, "zones.zip")
	inBinary := TZData{builtin[runtime.Version()], "in the binary, " + runtime.Version()}
	for _, c := range []struct {
		zone, env string
		dirs      []string
		want      TZData
	}{
		{"Europe/Berlin", "", []string{host, other}, TZData{"2026a", host}},
		{"Europe/Berlin", other, []string{host}, TZData{"2024b", other}},
		{"Europe/Berlin", "", []string{none}, TZData{"unknown", none}},
		{"Europe/Berlin", zip, []string{host}, TZData{"unknown", zip}},
		{"Asia/Tokyo", "", []string{host}, inBinary},
		{"Europe/Berlin", "", nil, inBinary},
	} {
		if got := tzDataVersion(c.zone, c.env, c.dirs); got != c.want {
			t.Errorf("%s, ZONEINFO=%s, %v: %v, want %v", c.zone, c.env, c.dirs, got, c.want)
		}
	}
	if v := TZDataVersion("Europe/Berlin"); v.Version == "" || v.String() != v.Version+" ("+v.Source+")" {
		t.Errorf("reported %q", v)
	}
}

func TestZonesAreShared(t *testing.T) {
	var zones Zones
	a, err := zones.Parse(Spec{Cron: "@daily", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := zones.Parse(Spec{Cron: "@hourly", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	if a.Location() != b.Location() {
		t.Error("two schedules of one Zones hold two copies of the zone")
	}
}

func TestDelay(t *testing.T) {
	parse := func(name string) *Schedule {
		s, err := Parse(Spec{Cron: "*/5 * * * *", Zone: "UTC", Jitter: time.Minute, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, again, b := parse("crm-sync"), parse("crm-sync"), parse("billing")
	var sum time.Duration
	same, at := 0, date(2027, 1, 1)
	const n = 2000
	for range n {
		slot, _ := a.Next(at)
		d := a.Delay(slot)
		if d < 0 || d >= time.Minute || d%time.Microsecond != 0 {
			t.Fatalf("delay %s is outside [0, 1m)", d)
		}
		if d != again.Delay(slot) {
			t.Fatal("another process would compute another delay")
		}
		if d == b.Delay(slot) {
			same++
		}
		if slot.Second() != 0 || !slot.Equal(slot.Truncate(5*time.Minute)) {
			t.Fatalf("jitter moved the slot itself to %s", slot)
		}
		sum += d
		at = slot
	}
	if mean := sum / n; mean < 28*time.Second || mean > 32*time.Second {
		t.Errorf("the mean delay is %s, want about 30s", mean)
	}
	if same > 3 {
		t.Errorf("two jobs share %d of %d delays", same, n)
	}
	// Fixed for ever: a new release must not move the starts of the old one.
	if d := a.Delay(date(2027, 1, 1)); d != fixedDelay {
		t.Errorf("the delay of crm-sync at 2027-01-01 is %d µs, it was %d", d.Microseconds(), fixedDelay.Microseconds())
	}
	if d := mustParse(t, "@daily", "UTC").Delay(date(2027, 1, 1)); d != 0 {
		t.Errorf("without jitter the delay is %s", d)
	}
}

const fixedDelay = 20616310 * time.Microsecond

func TestEveryAndAt(t *testing.T) {
	s := mustParse(t, "@every 90s", "")
	wantSlots(t, s, "1969-12-31T23:57:00Z", "1970-01-01T00:01:30Z", "1969-12-31T23:58:30Z", "1970-01-01T00:00:00Z", "1970-01-01T00:01:30Z")
	if n := s.Count(date(2027, 1, 1), date(2027, 1, 2)); n != 960 {
		t.Errorf("a day has %d slots, want 960", n)
	}
	if slot, ok := s.Prev(date(2027, 1, 1).Add(89 * time.Second)); !ok || !slot.Equal(date(2027, 1, 1)) {
		t.Errorf("Prev is %s", slot)
	}
	once := mustParse(t, "at 2027-01-01T01:00:00+01:00", "")
	at := date(2027, 1, 1)
	if slot, ok := once.Next(at.Add(-1)); !ok || !slot.Equal(at) || slot.Location() != time.UTC {
		t.Errorf("Next is %s, %v", slot, ok)
	}
	if slot, ok := once.Next(at); ok {
		t.Errorf("fires again at %s", slot)
	}
	if _, ok := once.Prev(at.Add(-1)); ok {
		t.Error("fired before its time")
	}
	if slot, ok := once.Prev(at); !ok || !slot.Equal(at) {
		t.Errorf("Prev is %s", slot)
	}
	if a, b := once.Count(at.Add(-time.Second), at), once.Count(at, at.Add(time.Hour)); a != 1 || b != 0 {
		t.Errorf("counts %d and %d, want 1 and 0", a, b)
	}
}

// TestEndsOfTime: neither end makes a search loop or overflow.
func TestEndsOfTime(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York", "Pacific/Apia"} {
		for _, expr := range []string{"* * * * *", "0 0 29 2 *", "@every 90s"} {
			s := mustParse(t, expr, zone)
			if slot, ok := s.Next(time.Time{}); !ok || slot.Year() > 8 {
				t.Errorf("%s: first slot of time %s, %v", s, slot, ok)
			}
			if slot, ok := s.Next(time.Unix(1<<40, 0)); ok {
				t.Errorf("%s: Next after the year 9999 is %s", s, slot)
			}
			if slot, ok := s.Prev(time.Unix(1<<40, 0)); !ok || slot.Year() < 9996 {
				t.Errorf("%s: last slot of time %s, %v", s, slot, ok)
			}
			if slot, ok := s.Prev(time.Unix(-1<<40, 0)); ok {
				t.Errorf("%s: Prev before the year 1 is %s", s, slot)
			}
			if s.Effect(time.Unix(1<<40, 0)) != (Effect{}) {
				t.Errorf("%s: an effect after the year 9999", s)
			}
		}
	}
	if n := mustParse(t, "0 12 * * *", "UTC").Count(time.Time{}, time.Unix(1<<40, 0)); n != 3652055 {
		t.Errorf("noons of all time: %d", n)
	}
}
