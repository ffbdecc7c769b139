package runner

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// timing is a job's lease arithmetic (design: law 4). All in durations; the
// process's own clock is read only by [deadline].
type timing struct {
	lease  time.Duration
	beat   time.Duration // between renewals; 0: no heartbeat
	grace  time.Duration // for a cancelled handler to stop
	margin time.Duration // before the lease's end, when we stop believing
}

// Bounds of the defaults.
const (
	defaultLease = 60 * time.Second
	maxGrace     = 10 * time.Second
	maxSlack     = 2 * time.Second // kill and one write
	maxBeat      = 30 * time.Second
)

func timingOf(j *dibs.Job) (timing, error) {
	t := timing{lease: j.Lease, grace: j.Grace}
	if t.lease == 0 {
		t.lease = defaultLease
	}
	if t.grace == 0 {
		t.grace = min(maxGrace, t.lease/4)
	}
	t.margin = t.grace + min(maxSlack, t.lease/10)
	if !j.NoHeartbeat {
		t.beat = min(t.lease/3, maxBeat)
	}
	fault := func(field, problem, fix string) error {
		return &dibs.ConfigError{Subject: "job " + j.Name, Field: field, Problem: problem, Fix: fix}
	}
	switch {
	case t.lease < 0 || t.grace < 0:
		return t, fault("lease", "a duration is negative", "use a positive one")
	case t.margin+t.beat >= t.lease:
		return t, fault("lease", fmt.Sprintf("%s cannot hold a beat of %s and a margin of %s (grace %s to stop a handler, and the rest to write)",
			t.lease, t.beat, t.margin, t.grace), "lengthen lease or shorten grace")
	case t.beat == 0 && j.Timeout == 0:
		return t, fault("timeout", "without a heartbeat a handler must have a time limit, or its lease ends under it", "set timeout, or leave the heartbeat on")
	case t.beat == 0 && j.Timeout > t.lease-t.margin:
		return t, fault("timeout", fmt.Sprintf("%s does not fit into a lease of %s without a heartbeat (margin %s)", j.Timeout, t.lease, t.margin),
			"lengthen lease, shorten timeout, or leave the heartbeat on")
	}
	return t, nil
}

// deadline is an instant at which this process stops believing in a lease. It
// keeps both readings of the process's clock: the monotonic one stands still
// while the host sleeps, the wall one can be stepped, so the smaller decides.
type deadline struct{ at time.Time }

// deadlineFrom counts from the instant before the first send of the claim or
// renewal: left is what the database said was left of the lease, which is never
// more than was asked for.
func deadlineFrom(sent time.Time, left, margin time.Duration) deadline {
	return deadline{sent.Add(left - margin)}
}

func (d deadline) isZero() bool { return d.at.IsZero() }

// monotonic is the time left by the monotonic clock.
func (d deadline) monotonic(now time.Time) time.Duration { return d.at.Sub(now) }

// wall is the time left by the wall clock.
func (d deadline) wall(now time.Time) time.Duration { return d.at.Round(0).Sub(now.Round(0)) }

// left is the smaller of both.
func (d deadline) left(now time.Time) time.Duration { return min(d.monotonic(now), d.wall(now)) }
