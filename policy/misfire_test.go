package policy

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/schedule"
)

func TestMisfiresDecideEachSlotExactlyOnce(t *testing.T) {
	s, err := schedule.ParseExpr("0 * * * *", "UTC")
	if err != nil {
		t.Fatal(err)
	}
	hour := func(n int) time.Time { return time.Date(2027, 3, 1, n, 0, 0, 0, time.UTC) }
	for _, tt := range []struct {
		name   string
		c      dibs.CatchUp
		after  int
		slot   int
		late   time.Duration
		asked  bool
		fire   []int
		missed int64
		reason dibs.Reason
	}{
		{"on time", dibs.CatchUp{}, 5, 6, time.Second, false, []int{6}, 0, ""},
		{"latest", dibs.CatchUp{}, 0, 6, 30 * time.Minute, false, []int{6}, 5, dibs.ReasonCatchUp},
		{"latest, too old", dibs.CatchUp{Window: 20 * time.Minute}, 0, 6, 30 * time.Minute, false, nil, 6, dibs.ReasonWindow},
		{"latest, too old but asked for", dibs.CatchUp{Window: 20 * time.Minute}, 0, 6, 30 * time.Minute, true, []int{6}, 5, dibs.ReasonCatchUp},
		{"none, on time", dibs.CatchUp{Mode: dibs.CatchUpNone}, 0, 6, 9 * time.Minute, false, []int{6}, 5, dibs.ReasonCatchUp},
		{"none, late", dibs.CatchUp{Mode: dibs.CatchUpNone}, 0, 6, 11 * time.Minute, false, nil, 6, dibs.ReasonCatchUp},
		{"all", dibs.CatchUp{Mode: dibs.CatchUpAll}, 3, 6, 30 * time.Minute, false, []int{4, 5, 6}, 0, ""},
		{"all, limited", dibs.CatchUp{Mode: dibs.CatchUpAll, Limit: 2}, 0, 6, 30 * time.Minute, false, []int{5, 6}, 4, dibs.ReasonLimit},
		{"all, within a window", dibs.CatchUp{Mode: dibs.CatchUpAll, Window: 100 * time.Minute}, 0, 6, 30 * time.Minute, false, []int{5, 6}, 4, dibs.ReasonWindow},
	} {
		m := Misfires(s, tt.c, hour(tt.after), hour(tt.slot), hour(tt.slot).Add(tt.late), tt.asked)
		if len(m.Fire) != len(tt.fire) {
			t.Errorf("%s: fires %v, want hours %v", tt.name, m.Fire, tt.fire)
			continue
		}
		for i, n := range tt.fire {
			if !m.Fire[i].Equal(hour(n)) {
				t.Errorf("%s: fires %v, want hours %v", tt.name, m.Fire, tt.fire)
			}
		}
		var missed int64
		for _, r := range m.Missed {
			missed += r.Count
			if r.Reason != tt.reason {
				t.Errorf("%s: missed for %s, want %s", tt.name, r.Reason, tt.reason)
			}
		}
		if missed != tt.missed || int(missed)+len(m.Fire) != tt.slot-tt.after {
			t.Errorf("%s: %d missed, want %d", tt.name, missed, tt.missed)
		}
	}
}

// A thousand years of minutes are decided in no time.
func TestMisfiresJump(t *testing.T) {
	s, err := schedule.ParseExpr("* * * * *", "Europe/Amsterdam")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	now := from.AddDate(1000, 0, 0)
	began := time.Now()
	m := Misfires(s, dibs.CatchUp{Mode: dibs.CatchUpAll}, from, now, now, false)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	if len(m.Fire) != DefaultCatchUpLimit || len(m.Missed) != 1 || m.Missed[0].Count < 500_000_000 {
		t.Errorf("fires %d, missed %+v", len(m.Fire), m.Missed)
	}
}
