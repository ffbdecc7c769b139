package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs"
)

// skipped ends an invocation that started nothing. Cron mails what is printed,
// so that an expected skip is silent without a terminal until it has happened
// too often behind one run.
func (s *session) skipped(ctx context.Context) error {
	code := s.skipCode()
	text := s.skipText()
	switch {
	case s.held():
		s.app.say("%s: what became of %s is not known, and --on-uncertain hold leaves it to a person", s.w.job.Name, dibs.ShortID(s.spent.ID))
		return exitWith(exitRefused)
	case s.trigger.Decision == "":
		if isTerminal(s.app.log) {
			s.app.say("%s: nothing is due; the next slot is %s", s.w.job.Name, s.next.Format(time.RFC3339))
		}
		return exitWith(code)
	case code != exitOK, isTerminal(s.app.log):
		s.app.say("%s", text)
	default:
		if n := s.skipsBehind(ctx); loud(n, s.w.f.complainAfter) {
			s.app.say("%s; %s skip behind it%s; %s show %s", text, ordinal(n), s.usually(ctx), s.app.program.Name, shortName(s.trigger.BlockingRun))
		}
	}
	return exitWith(code)
}

// held tells whether the work waits for a person: an earlier run of it left no
// outcome that can be relied on.
func (s *session) held() bool {
	return s.w.f.oncePer != "" && s.trigger.Decision == dibs.DecisionDuplicate && s.spent != nil &&
		s.spent.State != dibs.RunSucceeded && s.spent.State != dibs.RunRunning
}

func (s *session) skipCode() int {
	switch {
	case s.trigger.Decision == dibs.DecisionDuplicate, s.trigger.Decision == "":
		return exitOK
	case s.w.f.failOnSkip:
		return exitRefused
	}
	return s.w.f.skipCode
}

// skipText says why nothing was started.
func (s *session) skipText() string {
	t := s.trigger
	text := fmt.Sprintf("%s: %s (%s)", t.Job, t.Decision, t.Reason)
	if t.BlockingRun != "" {
		text += ": held by " + dibs.ShortID(t.BlockingRun)
		if h, err := dibs.ParseHolder(t.BlockingHolder); err == nil {
			text += fmt.Sprintf(" on %s, pid %d", h.Host, h.PID)
		}
		if !t.BlockingUntil.IsZero() && t.BlockingUntil.After(s.now) {
			text += ", lease ends in " + span(t.BlockingUntil.Sub(s.now))
		}
	}
	if t.Detail != "" {
		text += ": " + oneLine(t.Detail, 120)
	}
	return text
}

// skipsBehind counts the skips behind the same run, this one among them.
func (s *session) skipsBehind(ctx context.Context) int {
	if s.w.f.complainAfter == 0 || s.trigger.BlockingRun == "" {
		return 0
	}
	list, err := s.store.ListTriggers(ctx, dibs.TriggerFilter{
		Job: s.w.job.Name, Decision: dibs.DecisionSkipped, Blocking: s.trigger.BlockingRun, Limit: mostSkips,
	})
	if err != nil {
		return 0 // the decision is on record; counting is a courtesy
	}
	return len(list)
}

// mostSkips bounds the count; the last number that is loud.
const mostSkips = 10_000

// loud tells whether the n-th skip is said: the first that is one too many, and
// then ever more rarely, at powers of ten.
func loud(n, after int) bool {
	if after == 0 || n < after {
		return false
	}
	if n == after {
		return true
	}
	for n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// ordinal writes 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// usually compares how long the blocking run has been running with what is
// usual for the job.
func (s *session) usually(ctx context.Context) string {
	run, err := s.store.Run(ctx, s.trigger.BlockingRun)
	if err != nil {
		return ""
	}
	text := ", running for " + span(s.now.Sub(run.StartedAt))
	good, err := s.store.ListRuns(ctx, dibs.RunFilter{Job: run.Job, State: dibs.RunSucceeded, Limit: 21})
	if err != nil || len(good) == 0 {
		return text
	}
	took := make([]time.Duration, 0, len(good))
	for _, r := range good {
		took = append(took, r.EndedAt.Sub(r.StartedAt))
	}
	slices.Sort(took)
	return text + ", usually " + span(took[len(took)/2])
}

// shortName is the suffix by which commands find a run.
func shortName(id string) string { return id[max(0, len(id)-4):] }
