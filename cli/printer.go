package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// printer tells people how runs go, line by line, and, on a terminal, with one
// line at the bottom that is written over. It is called from several
// goroutines at once.
type printer struct {
	out    *output
	json   bool
	many   bool // several jobs: each line names its own
	where  string
	works  map[string]*work
	warned *slog.Logger

	mu     sync.Mutex
	live   *liveLine
	holder dibs.Holder
	runs   map[string]*shown
	due    map[string]int64 // rows due when the command began, for the live line
}

// shown is what the printer remembers of a running run.
type shown struct {
	began time.Time // by this process's clock, for rates and sums
	// offset takes this process's clock to the database's, for showing only.
	offset  time.Duration
	claimed map[int]int
	failed  []runner.Event
	counts  dibs.Counts
	until   time.Time // end of the lease as last heard of, by this process's clock
	// head waits to be written: a run narrowed to one row has not begun before
	// the row is won.
	head []string
}

func (a *app) newPrinter(works []*work, asJSON bool) *printer {
	p := &printer{
		out: a.out, json: asJSON, many: len(works) > 1, where: a.opened.url.String(),
		works: map[string]*work{}, runs: map[string]*shown{}, due: map[string]int64{},
		warned: slog.New(newLogHandler(a)),
	}
	for _, w := range works {
		p.works[w.Name] = w
	}
	if a.out.tty && !asJSON {
		p.live = &liveLine{out: a.out}
	}
	return p
}

// logger receives the runner's warnings.
func (p *printer) logger() *slog.Logger { return p.warned }

func (p *printer) begin(h dibs.Holder) { p.holder = h }

// line writes one line above the live one.
func (p *printer) line(job, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.many && job != "" {
		if text == "" {
			return // what divides the parts of one run only confuses two
		}
		text = p.out.paint(faint, job) + "  " + text
	}
	p.live.clear()
	p.out.line("%s", text)
}

// observe is the runner's ear.
func (p *printer) observe(e runner.Event) {
	if p.json {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.runs[e.Job]
	if s == nil {
		s = &shown{began: time.Now(), claimed: map[int]int{}}
		p.runs[e.Job] = s
	}
	if !e.Now.IsZero() {
		s.offset = time.Until(e.Now)
	}
	switch e.Kind {
	case runner.EventDecided:
		p.decided(s, e)
	case runner.EventClaimed:
		p.begun(s)
		s.claimed[e.Batch] = e.N
		s.counts.Selected += int64(e.N)
		s.until = time.Now().Add(e.LeaseLeft)
	case runner.EventRenewed:
		s.until = time.Now().Add(e.LeaseLeft)
	case runner.EventTookOver:
		p.line(e.Job, "took over %s of %s: lease ended %s, claimed %s, not before", plural(int64(e.N), "row"), dibs.ShortID(e.From),
			p.exact(e.Job, e.Until), p.exact(e.Job, e.Now))
	case runner.EventItem:
		s.counts = e.Counts
		if e.Outcome != dibs.OutcomeCompleted && e.Outcome != dibs.OutcomeAlreadyDone && e.Outcome != dibs.OutcomeReleased {
			s.failed = append(s.failed, e)
		}
	case runner.EventBatch:
		p.batch(s, e)
	case runner.EventBeatFail:
		p.line(e.Job, "%s  %s", p.out.paint(warn, "a renewal failed, lease "+span(e.LeaseLeft)+" left"), e.Err)
	case runner.EventLost:
		p.lost(e)
	case runner.EventStopping:
		if e.N > 0 {
			p.line(e.Job, "stopping (%s): %s still at work", e.Reason, plural(int64(e.N), "handler"))
		}
	}
	p.live.show(p.status())
}

// decided writes the head of a run, or why there is none.
func (p *printer) decided(s *shown, e runner.Event) {
	w, t := p.works[e.Job], e.Trigger
	if t.Decision != dibs.DecisionStarted {
		return // ended says it
	}
	s.began, s.offset = time.Now(), time.Until(e.Run.StartedAt)
	s.head = []string{
		fmt.Sprintf("%s  started %s   origin %s, %s", p.out.paint(bold, e.Job), p.out.paint(good, dibs.ShortID(e.Run.ID)), t.Origin, whyStarted(w, t)),
		fmt.Sprintf("holder    %s   %s   %s", p.holder, leaseText(w), p.where), "",
	}
	if t.Key == "" {
		p.begun(s)
	}
}

// begun writes the head of a run, once.
func (p *printer) begun(s *shown) {
	p.live.clear()
	for _, line := range s.head {
		p.out.line("%s", line)
	}
	s.head = nil
}

// whyStarted puts the decision's reason into words.
func whyStarted(w *work, t dibs.Trigger) string {
	switch t.Reason {
	case dibs.ReasonAllowed:
		return fmt.Sprintf("overlap %s: rows exclude one another", w.Overlap)
	case dibs.ReasonFree:
		return fmt.Sprintf("overlap %s: nobody had the lock", w.Overlap)
	case dibs.ReasonTookOver:
		return "the former run's lease had ended"
	case dibs.ReasonKey:
		return "key " + t.Key + " alone"
	}
	return string(t.Reason)
}

func leaseText(w *work) string {
	lease := w.Lease
	if lease == 0 {
		lease = defaultLease
	}
	if w.NoHeartbeat {
		return "lease " + span(lease) + ", not renewed"
	}
	return "lease " + span(lease) + ", renewed every " + span(min(lease/3, 30*time.Second))
}

// batch writes one batch's line and, below it, the items that went wrong.
func (p *printer) batch(s *shown, e runner.Event) {
	c := e.Counts
	line := fmt.Sprintf("  batch %-3d %4d claimed  %4d completed", e.Batch, s.claimed[e.Batch], c.Completed+c.AlreadyDone)
	for _, part := range []struct {
		n    int64
		word string
	}{{c.Failed, "failed"}, {c.Rejected, "rejected"}, {c.Uncertain, "uncertain"}, {c.Held, "held"}, {c.Released, "released"}, {c.Lost, "lost"}} {
		if part.n > 0 {
			line += fmt.Sprintf("  %d %s", part.n, part.word)
		}
	}
	p.line(e.Job, "%-60s %7s", line, span(e.Took))
	delete(s.claimed, e.Batch)
	kept := s.failed[:0]
	for _, f := range s.failed {
		if f.Batch != e.Batch {
			kept = append(kept, f)
			continue
		}
		p.item(s, f)
	}
	s.failed = kept
}

// item writes what became of an item that did not complete.
func (p *printer) item(s *shown, e runner.Event) {
	again := "not again by itself"
	if e.DueIn != nil {
		again = "again after " + p.instant(e.Job, time.Now().Add(s.offset).Add(*e.DueIn))
	}
	word := strings.ToUpper(string(e.Outcome))
	p.line(e.Job, "             %s  %s  %s; %s", e.Key, p.out.paint(bad, word), firstLine(e.Err, 100), again)
}

func (p *printer) lost(e runner.Event) {
	what := "the run's lease: everything in hand is stopped"
	if e.Key != nil {
		what = "the lease of " + e.Key.String() + ": its handler is stopped"
	}
	p.line(e.Job, "%s %s", p.out.paint(bad, "lost"), what)
}

// instant writes a database time in the job's zone.
func (p *printer) instant(job string, t time.Time) string {
	zone := time.Local
	if w := p.works[job]; w != nil {
		zone = w.zone()
	}
	return clock(t, time.Now(), zone)
}

// exact is instant with milliseconds, where it matters what came first.
func (p *printer) exact(job string, t time.Time) string {
	return p.instant(job, t) + t.Format(".000")
}

// firstLine keeps errors on one line of bearable length, fit for a terminal.
func firstLine(s string, limit int) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	s = visible(s)
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// toneOf colours a row's state.
func toneOf(s dibs.Status) tone {
	switch s {
	case dibs.StatusFailed:
		return warn
	case dibs.StatusQuarantined:
		return bad
	case dibs.StatusInProgress:
		return good
	}
	return plain
}

// ended writes the end of one job's trigger.
func (p *printer) ended(ctx context.Context, store Store, r result) {
	if p.json {
		return
	}
	elsewhere := ""
	if r.report.Run != nil && r.err == nil && r.work.Overlap == dibs.Allow {
		elsewhere = p.elsewhere(ctx, store, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.runs[r.work.Name]
	delete(p.runs, r.work.Name)
	p.live.clear()
	defer func() { p.live.show(p.status()) }()
	if r.report.Run == nil {
		p.refused(r)
		return
	}
	for _, f := range s.failed { // of batches that never became whole
		p.item(s, f)
	}
	switch {
	case r.err != nil && r.report.Run.Counts.Selected == 0: // the error says it all
	case r.report.Run.Kind == dibs.KindItems:
		p.line(r.work.Name, "")
		p.line(r.work.Name, "%s   %s", sum(r.report.Run.Counts), span(time.Since(s.began)))
	default:
		p.line(r.work.Name, "%s   %s", r.report.Run.State, span(time.Since(s.began)))
	}
	if elsewhere != "" {
		p.line(r.work.Name, "%s", elsewhere)
	}
	if text := p.verdict(r); text != "" {
		p.line(r.work.Name, "%s", text)
	}
}

// sum writes the counts as an equation, with the parts that people look for
// always there.
func sum(c dibs.Counts) string {
	text := fmt.Sprintf("claimed %d = %d completed", c.Selected, c.Completed)
	for _, part := range []struct {
		n      int64
		word   string
		always bool
	}{
		{c.AlreadyDone, "already done", false}, {c.Failed, "failed", true}, {c.Rejected, "rejected", false},
		{c.Uncertain, "uncertain", true}, {c.Held, "held", false}, {c.Released, "released", true}, {c.Lost, "lost", false},
	} {
		if part.n > 0 || part.always {
			text += fmt.Sprintf(" + %d %s", part.n, part.word)
		}
	}
	if c.Remaining > 0 {
		text += fmt.Sprintf(", %d remaining", c.Remaining)
	}
	return text
}
