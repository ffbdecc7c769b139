package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// events is a run with two batches, one row of which fails.
func events(now time.Time) []runner.Event {
	due := 14 * time.Second
	run := dibs.Run{ID: "run_k3v9", Job: "sync", StartedAt: now}
	e := func(kind runner.EventKind, edit func(e *runner.Event)) runner.Event {
		out := runner.Event{Kind: kind, Job: "sync", Run: run}
		edit(&out)
		return out
	}
	return []runner.Event{
		e(runner.EventDecided, func(e *runner.Event) {
			e.Trigger = dibs.Trigger{Decision: dibs.DecisionStarted, Reason: dibs.ReasonAllowed, Origin: dibs.OriginExternal}
		}),
		e(runner.EventClaimed, func(e *runner.Event) { e.Batch, e.N, e.LeaseLeft, e.Now = 1, 2, 10*time.Second, now }),
		e(runner.EventTookOver, func(e *runner.Event) { e.From, e.N, e.Until, e.Now = "run_m2q8", 1, now.Add(-time.Second), now }),
		e(runner.EventItem, func(e *runner.Event) {
			e.Batch, e.Key, e.Outcome = 1, dibs.Key{"a"}, dibs.OutcomeCompleted
			e.Counts = dibs.Counts{Selected: 2, Completed: 1}
		}),
		e(runner.EventItem, func(e *runner.Event) {
			e.Batch, e.Key, e.Outcome, e.DueIn, e.Err = 1, dibs.Key{"b"}, dibs.OutcomeFailed, &due, "CRM 500 \"try later\"\nand more"
			e.Counts = dibs.Counts{Selected: 2, Completed: 1, Failed: 1}
		}),
		e(runner.EventBatch, func(e *runner.Event) {
			e.Batch, e.Counts, e.Took = 1, dibs.Counts{Selected: 2, Completed: 1, Failed: 1}, 1200*time.Millisecond
		}),
	}
}

func newTestPrinter(tty bool) (*printer, *bytes.Buffer) {
	var b bytes.Buffer
	a := &app{program: Program{}.withDefaults(), log: &bytes.Buffer{}}
	a.out = &output{w: &b, tty: tty}
	return a.newPrinter([]*work{{Job: dibs.Job{Name: "sync", Overlap: dibs.Allow, Lease: 10 * time.Second}}}, false), &b
}

func TestPrinterTellsLineByLine(t *testing.T) {
	p, out := newTestPrinter(false)
	now := time.Now()
	for _, e := range events(now) {
		p.observe(e)
	}
	for _, want := range []string{
		"sync  started …k3v9   origin external, overlap allow: rows exclude one another\n",
		"lease 10s, renewed every 3.3s",
		"took over 1 row of …m2q8: lease ended ",
		"  batch 1      2 claimed     1 completed  1 failed ", " 1.2s\n",
		"             b  FAILED  CRM 500 \"try later\"; again after " + now.Add(14 * time.Second).Local().Format(time.TimeOnly)[:6],
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("control characters although it is no terminal: %q", out)
	}
	if strings.Contains(out.String(), "and more") {
		t.Errorf("an error took more than its line:\n%s", out)
	}
}

func TestPrinterKeepsALiveLineOnATerminal(t *testing.T) {
	p, out := newTestPrinter(true)
	p.due["sync"] = 40
	for _, e := range events(time.Now()) {
		p.observe(e)
		p.live.last = time.Time{} // as if time had passed
	}
	p.mu.Lock()
	status := p.status()
	p.mu.Unlock()
	for _, want := range []string{"2/2 done", "1 failed", "38 remaining", "/s", "lease 9.9s left"} {
		if !strings.Contains(status, want) {
			t.Errorf("no %q in %q", want, status)
		}
	}
	if !strings.Contains(out.String(), "\r\x1b[K") {
		t.Errorf("nothing was written over: %q", out)
	}
	if err := p.finish(nil, 0); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "\r\x1b[K") {
		t.Errorf("the live line is left behind: %q", out)
	}
}

func TestRefusalsAreWordedForEachReason(t *testing.T) {
	for reason, want := range map[dibs.Reason]string{
		dibs.ReasonAbsent: "no row has the key a", dibs.ReasonFiltered: "a is excluded by the job's where", dibs.ReasonDone: "a is done",
		dibs.ReasonQuarantined: "a is quarantined: poison", dibs.ReasonHeld: "a is set aside and does not come again by itself: poison",
		dibs.ReasonLocked: "a is locked by somebody's transaction",
	} {
		if got := refusedText(&dibs.RefusedError{Key: dibs.Key{"a"}, Reason: reason, Detail: "poison"}); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}
