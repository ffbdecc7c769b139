package runner

import (
	"strings"
	"testing"
	"time"

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

func TestTimingRefusesWhatCannotFit(t *testing.T) {
	for name, tt := range map[string]struct {
		job  dibs.Job
		want string
	}{
		"grace as long as the lease":              {dibs.Job{Lease: 10 * time.Second, Grace: 10 * time.Second}, "lengthen lease or shorten grace"},
		"grace and beat together":                 {dibs.Job{Lease: 30 * time.Second, Grace: 19 * time.Second}, "cannot hold"},
		"no heartbeat and no limit":               {dibs.Job{Lease: time.Minute, NoHeartbeat: true}, "time limit"},
		"B22: no heartbeat, a limit past the end": {dibs.Job{Lease: 6 * time.Minute, NoHeartbeat: true, Timeout: 9 * time.Minute}, "does not fit"},
		"negative": {dibs.Job{Lease: -time.Second}, "negative"},
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
	// The host slept for ten minutes: the monotonic clock says five seconds.
	slept := sent.Add(5 * time.Second)
	wall := time.Date(sent.Year(), sent.Month(), sent.Day(), sent.Hour(), sent.Minute()+10, sent.Second(), sent.Nanosecond(), sent.Location())
	if d.monotonic(slept) <= 0 {
		t.Error("the monotonic clock alone has not passed the deadline")
	}
	if d.wall(wall) > 0 {
		t.Error("the wall clock has passed the deadline")
	}
}
