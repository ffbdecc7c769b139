package schedule

import (
	"errors"
	"testing"
	"time"
)

// FuzzParse: whatever the text, an error names its field and place, or the
// schedule keeps the laws and its canonical text means the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"*/5 * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 31 2 *", "0 0 */2 * 1", "0 22-2 28-3 NOV-FEB 5-7", "0 0 L-3,15W,LW * FRI#2,5L",
		"@daily", "@every 90s", "@every 1h30m", "at 2027-01-01T00:00:00Z", "CRON_TZ=Europe/Berlin 0 9 * * 1-5", "TZ=0", "TZ= * * * * *",
		"? ? ? ? ?", "*/90 * * * *", "* * * * * *", "0 0 * * 7-7", "5/15 * * * *", "0 0 * * L", "0 0 \xff * *", "1-2-3 * * * *", "0 0 W * #",
		"99999999999999999999 * * * *", "@every 9223372036s", "at 9999-12-31T23:59:59Z", "0 0 31W 2-4/2 *", "0 9 1 1 5",
	} {
		f.Add(seed, int64(1_800_000_000))
	}
	zones := builtinZones(f)
	f.Fuzz(func(t *testing.T, expr string, sec int64) {
		s, err := zones.Parse(Spec{Cron: expr, Zone: "Europe/Berlin"})
		if err != nil {
			var fault *Error
			if !errors.As(err, &fault) || fault.Field == "" || fault.Reason == "" || fault.Fix == "" || fault.Pos > len(expr) {
				t.Fatalf("%q: %#v", expr, err)
			}
			return
		}
		checkLaws(t, s, time.Unix(sec, 0))
		if again, err := zones.Parse(Spec{Cron: s.String()}); s.kind == kindCron && (err != nil || again.String() != s.String() || again.clock != s.clock) {
			t.Fatalf("%q: canonical text %q does not parse to the same: %v", expr, s, err)
		}
		_, _, _ = s.Describe(), s.Interval(), s.Warnings(time.Unix(sec, 0))
	})
}

func checkLaws(t *testing.T, s *Schedule, at time.Time) {
	t.Helper()
	next, ok := s.Next(at)
	if ok && !next.After(at) {
		t.Fatalf("%s: Next(%s) = %s", s, at, next)
	}
	prev, before := s.Prev(at)
	if before && prev.After(at) {
		t.Fatalf("%s: Prev(%s) = %s", s, at, prev)
	}
	if !ok {
		return
	}
	if n := s.Count(at, next); n != 1 {
		t.Fatalf("%s: Count up to the next slot %s is %d", s, next, n)
	}
	if self, _ := s.Prev(next); !self.Equal(next) {
		t.Fatalf("%s: Prev(%s) = %s", s, next, self)
	}
	if back, found := s.Prev(next.Add(-1)); found != before || found && !back.Equal(prev) {
		t.Fatalf("%s: before %s lies %s, and before %s lies %s", s, at, prev, next, back)
	}
}
