package runner

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/dibs-run/dibs"
)

func TestTimingDefaultsFollowTheLease(t *testing.T) {
	for _, tt := range []struct{ lease, beat, grace, margin time.Duration }{
		{60 * time.Second, 20 * time.Second, 10 * time.Second, 12 * time.Second},
		{10 * time.Second, 10 * time.Second / 3, 2500 * time.Millisecond, 3500 * time.Millisecond},
		{5 * time.Minute, 30 * time.Second, 10 * time.Second, 12 * time.Second},
	} {
		got, err := timingOf(&dibs.Job{Name: "j", Lease: tt.lease})
		if err != nil {
			t.Fatalf("lease %s: %v", tt.lease, err)
		}
		if got.beat != tt.beat || got.grace != tt.grace || got.margin != tt.margin {
			t.Errorf("lease %s: %+v, want beat %s, grace %s, margin %s", tt.lease, got, tt.beat, tt.grace, tt.margin)
		}
	}
}

func TestCaseB22TimingRefusesWhatCannotFit(t *testing.T) {
	for name, tt := range map[string]struct {
		job  dibs.Job
		want string
	}{
		"grace as long as the lease":         {dibs.Job{Lease: 10 * time.Second, Grace: 10 * time.Second}, "lengthen lease or shorten grace"},
		"grace and beat together":            {dibs.Job{Lease: 30 * time.Second, Grace: 19 * time.Second}, "cannot hold"},
		"no heartbeat and no limit":          {dibs.Job{Lease: time.Minute, NoHeartbeat: true}, "time limit"},
		"no heartbeat, a limit past the end": {dibs.Job{Lease: 6 * time.Minute, NoHeartbeat: true, Timeout: 9 * time.Minute}, "does not fit"},
		"negative":                           {dibs.Job{Lease: -time.Second}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := timingOf(&tt.job)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error that says %q", err, tt.want)
			}
		})
	}
}

func TestCaseB07DeadlineIsTheSmallerOfBothClocks(t *testing.T) {
	sent := time.Now()
	d := deadlineFrom(sent, 60*time.Second, 12*time.Second)
	if got := d.left(sent); got != 48*time.Second {
		t.Fatalf("at the send: %s left, want 48s", got)
	}
	now := slept(sent.Add(5*time.Second), 10*time.Minute)
	if got := now.Sub(sent); got != 5*time.Second {
		t.Fatalf("the monotonic clock says %s, want 5s", got)
	}
	if d.monotonic(now) <= 0 {
		t.Error("the monotonic clock alone has not passed the deadline")
	}
	if d.wall(now) > 0 || d.left(now) > 0 {
		t.Error("the wall clock has passed the deadline")
	}
}

// slept is what a process reads as now after its host slept: the wall clock has
// gone on by d, the monotonic one stood still.
func slept(now time.Time, d time.Duration) time.Time {
	const nanoBits = 30 // below the seconds in the first word of a reading with both clocks
	*(*uint64)(unsafe.Pointer(&now)) += uint64(d/time.Second) << nanoBits
	return now
}

// TestCaseB07WakeProvesBeforeAnythingElse: when only the wall clock has passed a
// deadline, nothing is given up and nothing new is started: the heartbeat asks
// first.
func TestCaseB07WakeProvesBeforeAnythingElse(t *testing.T) {
	sent := time.Now()
	d := deadlineFrom(sent, 60*time.Second, 12*time.Second)
	for name, tt := range map[string]struct {
		run, item deadline
		now       time.Time
		asks      bool
	}{
		"awake":             {d, d, sent.Add(5 * time.Second), false},
		"slept":             {d, d, slept(sent.Add(5*time.Second), 10*time.Minute), true},
		"only the item's":   {deadlineFrom(sent, time.Hour, 0), d, slept(sent.Add(5*time.Second), 10*time.Minute), true},
		"slept for a blink": {d, d, slept(sent.Add(5*time.Second), time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			it := &inHand{held: dibs.Held{Key: dibs.Key{"a"}}, stage: running, until: tt.item,
				cancel: func(err error) { t.Errorf("the handler was cancelled: %v", err) }}
			s := &shift{nudge: make(chan struct{}, 1), wake: make(chan struct{}, 1), moved: make(chan struct{}, 1),
				believe: tt.run, hand: map[string]*inHand{"a": it}, job: &job{}}
			s.watch(tt.now)
			if asked := len(s.nudge) == 1; asked != tt.asks || s.lost || it.stage != running {
				t.Errorf("asked: %t, want %t; lost: %t", asked, tt.asks, s.lost)
			}
		})
	}
	asleep := &inHand{stage: queued, until: deadline{slept(d.at, -10*time.Minute)}} // as seen after the sleep
	s := &shift{nudge: make(chan struct{}, 1), queue: []*inHand{asleep}, job: &job{}}
	if unit := s.nextUnit(); len(unit) != 0 || len(s.nudge) != 1 || len(s.queue) != 1 {
		t.Errorf("%d items were started before their lease was proved", len(unit))
	}
}
