package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// elsewhere says how many rows other live runs of the job have in hand.
func (p *printer) elsewhere(ctx context.Context, store Store, r result) string {
	runs, err := store.ListRuns(context.WithoutCancel(ctx), dibs.RunFilter{Job: r.work.Name, State: dibs.RunRunning, Limit: 20})
	if err != nil {
		return "" // a courtesy, not worth an error
	}
	var held int64
	var who []string
	var first time.Time
	for _, run := range runs {
		n := run.Counts.Selected - run.Counts.Ended()
		if run.ID == r.report.Run.ID || n <= 0 {
			continue
		}
		held += n
		who = append(who, dibs.ShortID(run.ID))
		if first.IsZero() || run.Lease.Before(first) {
			first = run.Lease
		}
	}
	if held == 0 {
		return ""
	}
	return fmt.Sprintf("elsewhere %s held by %s (first lease ends %s)", plural(held, "row"), strings.Join(who, " "), p.instant(r.work.Name, first))
}

// refused says why no run was started, or why its one row could not be won.
func (p *printer) refused(r result) {
	end := ""
	if r.code != exitOK {
		end = fmt.Sprintf("   exit %d", r.code)
	}
	t := r.report.Trigger
	var held *dibs.HeldError
	var refused *dibs.RefusedError
	switch {
	case errors.As(r.err, &held):
		p.line(r.work.Name, "%s   held by %s, lease ends in %s%s", p.out.paint(warn, "refused"), runAndHolder(held.Run, held.Holder), span(held.ExpiresAt.Sub(held.Now)), end)
	case errors.As(r.err, &refused):
		p.line(r.work.Name, "%s   %s%s", p.out.paint(warn, "refused"), refusedText(refused), end)
	case r.err != nil:
		return // the error itself is written as such
	case t.Decision == "":
		text := "nothing is due"
		if next := r.report.Next; !next.IsZero() {
			text += "   the next slot is " + p.instant(r.work.Name, next)
		}
		p.line(r.work.Name, "%s%s", p.named(r.work.Name), text)
	default:
		p.line(r.work.Name, "%s%s   %s%s", p.named(r.work.Name), p.out.paint(warn, string(t.Decision)), p.skipText(r.work.Name, t), end)
	}
}

// named begins a line with the job's name where the lines of several jobs do not
// do so anyway.
func (p *printer) named(job string) string {
	if p.many {
		return ""
	}
	return job + "  "
}

func runAndHolder(run string, h dibs.Holder) string {
	if h.Host == "" {
		return dibs.ShortID(run)
	}
	return dibs.ShortID(run) + " on " + h.String()
}

// refusedText puts the refusal of one row into words.
func refusedText(e *dibs.RefusedError) string {
	text := map[dibs.Reason]string{
		dibs.ReasonAbsent:      "no row has the key " + e.Key.String(),
		dibs.ReasonFiltered:    e.Key.String() + " is excluded by the job's where",
		dibs.ReasonDone:        e.Key.String() + " is done",
		dibs.ReasonQuarantined: e.Key.String() + " is quarantined",
		dibs.ReasonHeld:        e.Key.String() + " is set aside and does not come again by itself",
		dibs.ReasonLocked:      e.Key.String() + " is locked by somebody's transaction",
	}[e.Reason]
	if text == "" {
		return e.Error()
	}
	if e.Detail != "" && (e.Reason == dibs.ReasonQuarantined || e.Reason == dibs.ReasonHeld) {
		text += ": " + firstLine(e.Detail, 100)
	}
	return text
}

// skipText says what a skipped trigger stood back for.
func (p *printer) skipText(job string, t dibs.Trigger) string {
	switch t.Reason {
	case dibs.ReasonRunning:
		holder, err := dibs.ParseHolder(t.BlockingHolder)
		if err != nil {
			return "another run has it"
		}
		return fmt.Sprintf("held by %s, lease ends %s", runAndHolder(t.BlockingRun, holder), p.instant(job, t.BlockingUntil))
	case dibs.ReasonPaused:
		text := "paused"
		if !t.BlockingUntil.IsZero() {
			text += " until " + p.instant(job, t.BlockingUntil)
		}
		if t.Detail != "" {
			text += ": " + t.Detail
		}
		return text
	case dibs.ReasonSlotSpent:
		if t.Slot.IsZero() {
			return fmt.Sprintf("a request %s was decided before: %s", t.ExternalID, t.Detail)
		}
		return fmt.Sprintf("the slot %s was decided before: %s", p.instant(job, t.Slot), t.Detail)
	case dibs.ReasonWaitersLeft:
		return "others have waited longer"
	case dibs.ReasonEnqueued:
		return "whoever has the job runs it next"
	case dibs.ReasonNoHost:
		return "for a host that may run it"
	case dibs.ReasonQueueFull:
		return "the queue is full"
	case dibs.ReasonNotWithin:
		return "the last run that succeeded is too recent (not_within)"
	case dibs.ReasonRecovery:
		return "a recovery run has it: " + dibs.ShortID(t.BlockingRun)
	}
	if t.Detail != "" {
		return string(t.Reason) + ": " + t.Detail
	}
	return string(t.Reason)
}

// verdict is the last line of a run that a person should look at.
func (p *printer) verdict(r result) string {
	c, name := r.report.Run.Counts, r.work.Name
	items := r.report.Run.Kind == dibs.KindItems
	var text, next string
	switch r.code {
	case exitOK:
		return ""
	case exitFailed:
		bad := c.Failed + c.Rejected + c.Lost
		if !items || bad == 0 {
			text = "the run failed"
			if r.report.Run.State == dibs.RunCancelled {
				text = "the run was stopped before its end"
			}
			if e := r.report.Run.Error; e != "" {
				text += ": " + firstLine(e, 200)
			}
			break
		}
		text, next = plural(bad, "row")+" failed", "dibs items "+name+" --failed"
		if c.Failed > 0 && c.Rejected == 0 {
			text += ", a later tick tries again"
		}
	case exitUncertain:
		text, next = plural(c.Uncertain+c.Held, "row")+" uncertain or held", "dibs items "+name
	case exitLost:
		text, next = "the run's lease was lost: a successor has the rest", "dibs show "+r.report.Run.ID[max(0, len(r.report.Run.ID)-4):]
	case exitRefused:
		text = "the run was asked to stop"
	default:
		return ""
	}
	line := fmt.Sprintf("exit %d    %s", r.code, text)
	if next != "" {
		line += "   → " + next
	}
	return p.out.paint(warn, line)
}

// jobResult is one job's part of tick's JSON.
type jobResult struct {
	Job      string        `json:"job"`
	Decision dibs.Decision `json:"decision,omitempty"`
	Reason   dibs.Reason   `json:"reason,omitempty"`
	Trigger  *dibs.Trigger `json:"trigger,omitempty"`
	Run      *dibs.Run     `json:"run,omitempty"`
	Error    string        `json:"error,omitempty"`
	Exit     int           `json:"exit"`
}

// finish ends the output: nothing is left of the live line, and JSON is
// written as one document.
func (p *printer) finish(results []result, code int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live.clear()
	if !p.json {
		return nil
	}
	list := make([]jobResult, len(results))
	for i, r := range results {
		list[i] = jobResult{Job: r.work.Name, Run: r.report.Run, Exit: r.code}
		if t := r.report.Trigger; t.ID != "" {
			list[i].Trigger, list[i].Decision, list[i].Reason = &t, t.Decision, t.Reason
		}
		if r.err != nil {
			list[i].Error = r.err.Error()
		}
	}
	return p.out.json(struct {
		Jobs []jobResult `json:"jobs"`
		Exit int         `json:"exit"`
	}{list, code})
}
