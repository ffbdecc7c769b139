package schedule

import (
	"archive/zip"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// border is one change of the offset.
type border struct{ at, before, after int64 }

// eachZones runs a test with the zones as this host has them, and as Go puts
// them into a binary: those have short tables and leave the years after to a
// rule, which package time evaluates by other code.
func eachZones(t *testing.T, test func(t *testing.T, zones *Zones)) {
	t.Helper()
	t.Run("host", func(t *testing.T) { test(t, new(Zones)) })
	t.Run("builtin", func(t *testing.T) { test(t, builtinZones(t)) })
}

func builtinZones(t testing.TB) *Zones {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	zones := &Zones{loaded: map[string]*time.Location{"UTC": time.UTC}}
	for name := range strings.FieldsSeq(zoneNames) {
		f, err := data.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		if zones.loaded[name], err = time.LoadLocationFromTZData(name, text); err != nil {
			t.Fatal(err)
		}
	}
	return zones
}

// TestSegments walks through all zones from 1880 to 2140: segments touch, and
// within one the offset does not change.
func TestSegments(t *testing.T) {
	eachZones(t, func(t *testing.T, zones *Zones) {
		for zone := range strings.FieldsSeq(zoneNames) {
			if zone == "Factory" {
				continue
			}
			loc, fault := zones.load(zone)
			if fault != nil {
				t.Fatal(fault)
			}
			s := &Schedule{loc: loc}
			for at := date(1880, 1, 1).Unix(); at < date(2140, 1, 1).Unix(); {
				g := s.segmentAt(at)
				if g.start > at || g.end <= at {
					t.Fatalf("%s: segment %v does not contain %s", zone, g, time.Unix(at, 0).UTC())
				}
				for x := max(g.start, at); x < min(g.end, at+400*daySeconds); x += 5 * daySeconds {
					if s.offsetAt(x) != g.off {
						t.Fatalf("%s: offset at %s is not that of its segment %v", zone, time.Unix(x, 0).UTC(), g)
					}
				}
				if g.start != alwaysStart && s.offsetAt(g.start) != g.off || g.end != alwaysEnd && s.offsetAt(g.end-1) != g.off {
					t.Fatalf("%s: segment %v around %s is wrong at an end", zone, g, time.Unix(at, 0).UTC())
				}
				at = g.end
			}
		}
	})
}

// borders lists the changes of a zone between 2020 and 2040.
func borders(loc *time.Location) (list []border) {
	s := &Schedule{loc: loc}
	for t := date(2020, 1, 1).Unix(); ; {
		g := s.segmentAt(t)
		if g.end >= date(2040, 1, 1).Unix() {
			return list
		}
		if t = g.end; s.offsetAt(t) != g.off {
			list = append(list, border{t, g.off, s.offsetAt(t)})
		}
	}
}

// TestEveryChangeOfEveryZone holds the invariants around each change of the
// clock in each zone from 2020 to 2040. Zones with equal changes are tried once.
func TestEveryChangeOfEveryZone(t *testing.T) {
	cases := []struct {
		expr    string
		largest time.Duration // regular distance
		span    time.Duration // looked at on both sides
	}{
		{"* * * * *", time.Minute, 75 * time.Minute},
		{"*/15 * * * *", 15 * time.Minute, 4 * time.Hour},
		{"*/7 * * * *", 7 * time.Minute, 3 * time.Hour},
		{"30 * * * *", time.Hour, 5 * time.Hour},
		{"0 */2 * * *", 2 * time.Hour, 12 * time.Hour},
		{"0 */6 * * *", 6 * time.Hour, 30 * time.Hour},
		{"30 2 * * *", 24 * time.Hour, 72 * time.Hour},
		{"0 0 * * *", 24 * time.Hour, 72 * time.Hour},
		{"15 0-3 * * *", 21 * time.Hour, 48 * time.Hour},
		{"*/20 1,2 * * *", 22*time.Hour + 20*time.Minute, 48 * time.Hour},
		{"0 3 * * 0", 7 * 24 * time.Hour, 16 * 24 * time.Hour},
	}
	eachZones(t, func(t *testing.T, zones *Zones) {
		tried, changes, slots := map[string]bool{}, 0, 0
		for zone := range strings.FieldsSeq(zoneNames) {
			if zone == "Factory" {
				continue
			}
			loc, fault := zones.load(zone)
			if fault != nil {
				t.Fatal(fault)
			}
			list := borders(loc)
			key := fmt.Sprint(list)
			if tried[key] {
				continue
			}
			tried[key] = true
			changes += len(list)
			for _, c := range cases {
				s, err := zones.Parse(Spec{Cron: c.expr, Zone: zone})
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range list {
					slots += invariants(t, s, time.Unix(b.at, 0), c.span, c.largest, shiftsNear(list, b.at, c.span+c.largest))
				}
			}
		}
		t.Logf("%d different zones, %d changes, %d slots", len(tried), changes, slots)
		if len(tried) < 40 || changes < 1000 {
			t.Errorf("only %d zones with %d changes were tried", len(tried), changes)
		}
	})
}

// shiftsNear adds up the changes that may lengthen a distance.
func shiftsNear(list []border, at int64, span time.Duration) (sum time.Duration) {
	for _, b := range list {
		if d := b.at - at; max(d, -d) <= int64(span/time.Second) {
			d := b.after - b.before
			sum += time.Duration(max(d, -d)) * time.Second
		}
	}
	return sum
}

// invariants walks over [at-span, at+span].
func invariants(t *testing.T, s *Schedule, at time.Time, span, largest, shift time.Duration) (n int) {
	t.Helper()
	from, to := at.Add(-span), at.Add(span)
	prev, ok := s.Prev(from)
	if !ok {
		t.Fatalf("%s: nothing before %s", s, from)
	}
	for {
		slot, ok := s.Next(prev)
		if !ok || !slot.After(prev) {
			t.Fatalf("%s: Next(%s) = %s, %v", s, prev, slot, ok)
		}
		if slot.Sub(prev) > largest+shift {
			t.Errorf("%s: hole of %s between %s and %s, at most %s allowed", s, slot.Sub(prev), prev.In(s.loc), slot.In(s.loc), largest+shift)
		}
		if back, ok := s.Prev(slot.Add(-1)); !ok || !back.Equal(prev) {
			t.Fatalf("%s: Prev before %s = %s, want %s", s, slot, back, prev)
		}
		if self, ok := s.Prev(slot); !ok || !self.Equal(slot) {
			t.Fatalf("%s: Prev(%s) = %s, want itself", s, slot, self)
		}
		if slot.After(to) {
			break
		}
		prev = slot
		n++
	}
	if c := s.Count(from, to); c != int64(n) {
		t.Errorf("%s: Count(%s, %s) = %d, want %d", s, from, to, c, n)
	}
	return n
}

// TestTwoOffsetResolver checks the segments against the rule with two offsets:
// of the offsets in force 26 hours before and after a wall time, those whose
// instant shows that wall time: none in a gap, two in a fold.
func TestTwoOffsetResolver(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Antarctica/Troll"} {
		s := mustParse(t, "*/5 * * * *", zone)
		both, err := Parse(Spec{Cron: "*/5 * * * *", Zone: zone, DST: DST{Missing: MissingSkip, Repeated: RepeatedBoth}})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range borders(s.loc)[:4] {
			for wall := floorDiv(b.at, 300)*300 - 30*3600; wall < b.at+30*3600; wall += 300 {
				want := map[int64]bool{}
				for _, off := range []int64{s.offsetAt(wall - maxShift), s.offsetAt(wall + maxShift)} {
					if s.offsetAt(wall-off) == off {
						want[wall-off] = true
					}
				}
				for at := range want {
					if slot, ok := both.Prev(time.Unix(at, 0)); !ok || slot.Unix() != at {
						t.Fatalf("%s: wall time %s should fire at %s, the slot before is %s", zone, time.Unix(wall, 0).UTC(), time.Unix(at, 0).UTC(), slot)
					}
				}
				pass := 0
				for at := range want {
					pass += both.Effect(time.Unix(at, 0)).Pass
				}
				if len(want) == 2 && pass != 3 || len(want) == 1 && pass != 0 {
					t.Fatalf("%s: wall time %s has %d instants, passes add up to %d", zone, time.Unix(wall, 0).UTC(), len(want), pass)
				}
			}
		}
	}
}

// TestOneDateAtEveryChange fires a yearly schedule at the very wall time that
// each change repeats or leaves out: its next match is a year away, but the
// second pass is not.
func TestOneDateAtEveryChange(t *testing.T) { eachZones(t, oneDateAtEveryChange) }

func oneDateAtEveryChange(t *testing.T, zones *Zones) {
	for zone := range strings.FieldsSeq(zoneNames) {
		if zone == "Factory" {
			continue
		}
		loc, fault := zones.load(zone)
		if fault != nil {
			t.Fatal(fault)
		}
		list := borders(loc)
		for _, b := range list[:min(len(list), 6)] {
			wall := time.Unix(b.at+min(b.before, b.after), 0).UTC() // first missing or repeated
			expr := fmt.Sprintf("%d %d %d %d *", wall.Minute(), wall.Hour(), wall.Day(), wall.Month())
			s, err := zones.Parse(Spec{Cron: expr, Zone: zone, DST: DST{Repeated: RepeatedBoth}})
			if err != nil {
				t.Fatal(err)
			}
			want := []int64{b.at}
			if b.after < b.before {
				want = []int64{b.at - (b.before - b.after), b.at}
			}
			at := time.Unix(b.at, 0).AddDate(0, -2, 0)
			for _, w := range want {
				slot, ok := s.Next(at)
				if !ok || slot.Unix() != w {
					t.Fatalf("%s: Next(%s) = %s, want %s", s, at, slot, time.Unix(w, 0).UTC())
				}
				at = slot
			}
			if next, ok := s.Next(at); !ok || next.Sub(at) < 300*24*time.Hour {
				t.Fatalf("%s: fires again at %s, after %s", s, next, at)
			}
			at = time.Unix(b.at, 0).AddDate(0, 2, 0)
			for i := len(want) - 1; i >= 0; i-- {
				slot, ok := s.Prev(at)
				if !ok || slot.Unix() != want[i] {
					t.Fatalf("%s: Prev(%s) = %s, want %s", s, at, slot, time.Unix(want[i], 0).UTC())
				}
				at = slot.Add(-1)
			}
		}
	}
}

// TestBackOverARepeatedHour asks, early in the second pass, for the slot late in
// the first: its wall time lies ahead of the one asked at.
func TestBackOverARepeatedHour(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Africa/Casablanca"} {
		s := mustParse(t, "@daily", zone)
		for _, b := range borders(s.loc) {
			if b.after > b.before {
				continue
			}
			wall := time.Unix(b.at+b.before-60, 0).UTC() // the last minute of the first pass
			once := mustParse(t, fmt.Sprintf("%d %d %d %d *", wall.Minute(), wall.Hour(), wall.Day(), wall.Month()), zone)
			if slot, ok := once.Prev(time.Unix(b.at+1, 0)); !ok || slot.Unix() != b.at-60 {
				t.Fatalf("%s: Prev(%s) = %s, want %s", once, time.Unix(b.at+1, 0).UTC(), slot, time.Unix(b.at-60, 0).UTC())
			}
		}
	}
}
