package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/adhocore/gronx"
	"github.com/robfig/cron/v3"
)

// randomField writes a field that robfig/cron, gronx and we read alike.
func randomField(r *rand.Rand, lo, hi int, star bool) string {
	switch n := r.IntN(8); {
	case star && n < 3:
		return "*"
	case star && n == 3 && hi > 20:
		return fmt.Sprintf("*/%d", 2+r.IntN(hi/2))
	case n == 4 && hi > 20:
		a := lo + r.IntN(5)
		return fmt.Sprintf("%d-%d/%d", a, a+10, 1+r.IntN(9))
	case n == 5:
		return fmt.Sprintf("%d,%d", lo+r.IntN(hi-lo+1), lo+r.IntN(hi-lo+1))
	case n == 6:
		a := lo + r.IntN(hi-lo)
		return fmt.Sprintf("%d-%d", a, a+1+r.IntN(hi-a))
	}
	return fmt.Sprint(lo + r.IntN(hi-lo+1))
}

// oracleWindows are stretches without a change of the clock.
var oracleWindows = []struct {
	zone     string
	from, to time.Time
}{
	{"UTC", date(2026, 1, 1), date(2034, 1, 1)},
	{"Asia/Kolkata", date(2026, 1, 1), date(2034, 1, 1)},
	{"Europe/Berlin", date(2027, 4, 1), date(2027, 10, 20)},
	{"America/New_York", date(2027, 11, 10), date(2028, 3, 1)},
}

// TestAgainstRobfig and gronx: away from the changes of the clock, three
// independent programs must agree on random expressions.
func TestAgainstOracles(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	compared := 0
	for range 1500 {
		dom, dow := randomField(r, 1, 31, true), randomField(r, 0, 6, true)
		if dom[0] == '*' && dom != "*" && dow != "*" {
			dow = "*" // robfig/cron has no classic rule for */n: it is compared by case B51
		}
		expr := strings.Join([]string{randomField(r, 0, 59, true), randomField(r, 0, 23, true), dom, randomField(r, 1, 12, true), dow}, " ")
		w := oracleWindows[r.IntN(len(oracleWindows))]
		s, err := ParseExpr(expr, w.zone)
		if err != nil {
			if strings.Contains(err.Error(), "can never fire") {
				continue
			}
			t.Fatal(err)
		}
		theirs, err := cron.ParseStandard("CRON_TZ=" + w.zone + " " + expr)
		if err != nil {
			t.Fatal(err)
		}
		at := w.from.Add(time.Duration(r.Int64N(int64(w.to.Sub(w.from)))))
		for range 10 {
			got, _ := s.Next(at)
			want := theirs.Next(at.In(s.Location()))
			if want.IsZero() || want.After(w.to) {
				break
			}
			if !got.Equal(want) {
				t.Fatalf("%s after %s: %s, robfig/cron says %s", s, at, got.In(s.loc), want)
			}
			compared++
			at = got
		}
		if compared%5 == 0 {
			againstGronx(t, s, expr, at)
		}
	}
	if compared < 5000 {
		t.Errorf("only %d slots were compared", compared)
	}
}

func againstGronx(t *testing.T, s *Schedule, expr string, at time.Time) {
	t.Helper()
	if s.loc != time.UTC {
		return
	}
	want, err := gronx.NextTickAfter(expr, at, false)
	if got, _ := s.Next(at); err == nil && !got.Equal(want) {
		t.Fatalf("%s after %s: %s, gronx says %s", s, at, got, want)
	}
}

// TestDayExtrasAgainstGronx: robfig/cron knows no L, W and #.
func TestDayExtrasAgainstGronx(t *testing.T) {
	for _, expr := range []string{"0 0 L * *", "30 12 15W * *", "0 0 1W * *", "0 0 31W * *", "0 9 * * 5#2", "0 9 * * 1#5", "0 9 * * 5L", "0 9 * * 0#1", "0 0 28,29W * *"} {
		s, at := mustParse(t, expr, "UTC"), date(2026, 1, 1)
		for range 40 {
			got, _ := s.Next(at)
			want, err := gronx.NextTickAfter(expr, at, false)
			if err != nil {
				t.Fatal(expr, err)
			}
			if !got.Equal(want) {
				t.Fatalf("%s after %s: %s, gronx says %s", expr, at, got, want)
			}
			at = got
		}
	}
}

// TestDayExtras fixes what no oracle knows, by hand from a calendar of 2027.
func TestDayExtras(t *testing.T) {
	wantSlots(t, mustParse(t, "0 0 LW 5,10 *", "UTC"), "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "2027-05-31T00:00:00Z", "2027-10-29T00:00:00Z")
	wantSlots(t, mustParse(t, "0 0 L-3 2 *", "UTC"), "2027-01-01T00:00:00Z", "2028-12-31T00:00:00Z", "2027-02-25T00:00:00Z", "2028-02-26T00:00:00Z")
	wantSlots(t, mustParse(t, "0 0 1W 5 *", "UTC"), "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "2027-05-03T00:00:00Z")
	wantSlots(t, mustParse(t, "0 0 * 2 SUNL", "UTC"), "2027-01-01T00:00:00Z", "2027-12-31T00:00:00Z", "2027-02-28T00:00:00Z")
}
