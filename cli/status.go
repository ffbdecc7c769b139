package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs"
)

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [JOB…]",
		Short: "See how the jobs are, worst first",
		Long: "One line for each job: its health, what it does now, when it was last good, how\n" +
			"long its runs take. Below it, what needs a person or an eye, with the command for\n" +
			"it. !! needs a person, ~ is to be watched, -- is paused.",
		Example:           "  dibs status\n  dibs status crm-sync\n  dibs status --json",
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command(groupSee, c, func(cmd *cobra.Command, args []string) error {
		return a.status(cmd.Context(), args, asJSON)
	})
}

// condition is how a job is.
type condition string

// The kinds of health, from the gravest.
const (
	needsYou condition = "needs_you"
	watch    condition = "watch"
	well     condition = "ok"
	paused   condition = "paused"
)

var healths = [...]struct {
	health condition
	mark   string
	tone   tone
}{{needsYou, "!!", bad}, {watch, "~", warn}, {well, "ok", good}, {paused, "--", faint}}

func (h condition) rank() int {
	for i, one := range healths {
		if one.health == h {
			return i
		}
	}
	return len(healths)
}

// statusLine is one remark about a job.
type statusLine struct {
	// Kind names the remark for programs.
	Kind    string    `json:"kind"`
	Health  condition `json:"health"`
	Text    string    `json:"text"`
	Command string    `json:"command,omitempty"`
}

// jobStatus is how one job is.
type jobStatus struct {
	Job    string    `json:"job"`
	Health condition `json:"health"`
	// Defined tells whether this program's file or code has the job.
	Defined bool `json:"defined"`
	// State is what the database knows of the job; absent before its first run.
	State *dibs.JobState `json:"state,omitempty"`
	// Live are the runs that go on, Last is the newest of all.
	Live     []dibs.Run `json:"live"`
	Last     *dibs.Run  `json:"last_run,omitempty"`
	LastGood time.Time  `json:"last_good,omitzero"`
	// Next is the next slot of the job's schedule; zero when it has none.
	Next time.Time `json:"next,omitzero"`
	// Durations of the last runs over everything, oldest first.
	P50US       int64        `json:"p50_us,omitempty"`
	P95US       int64        `json:"p95_us,omitempty"`
	DurationsUS []int64      `json:"durations_us"`
	Rows        *rowCounts   `json:"rows,omitempty"`
	Waiting     int          `json:"waiting"`
	Skipped     int          `json:"skipped_behind"`
	Lines       []statusLine `json:"lines"`

	durations []time.Duration
}

// rowCounts counts the rows of a job's table.
type rowCounts struct {
	Idle        int64 `json:"idle"`
	InProgress  int64 `json:"in_progress"`
	Expired     int64 `json:"expired"`
	Failed      int64 `json:"failed"`
	Done        int64 `json:"done"`
	Quarantined int64 `json:"quarantined"`
	Unknown     int64 `json:"unknown"`
	Due         int64 `json:"due"`
	// Orphaned rows wait for a sweep; counted up to a bound.
	Orphaned int64 `json:"orphaned"`
	// Bounded is true when the table was too large to count: then every count
	// here stops at the bound, and idle, done, unknown and due are not known.
	Bounded bool `json:"bounded,omitempty"`
}

// statusReport is the whole answer.
type statusReport struct {
	Database string    `json:"database"`
	Source   string    `json:"source"`
	Now      time.Time `json:"now"`
	// SkewUS is by how much this host's clock is ahead of the database's.
	SkewUS int64       `json:"skew_us"`
	Jobs   []jobStatus `json:"jobs"`
}

func (a *app) status(ctx context.Context, names []string, asJSON bool) error {
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	works, err := a.works(ctx)
	if err != nil {
		a.complain(err) // one job's fault must not hide the others
	}
	states, err := l.store.Jobs(ctx)
	if err != nil {
		return err
	}
	list, err := l.jobsOf(ctx, names, works, states)
	if err != nil {
		return err
	}
	if err := l.gather(ctx, list); err != nil {
		return err
	}
	url, source, err := a.database(ctx)
	if err != nil {
		return err
	}
	report := statusReport{Database: url.String(), Source: source, Now: l.now, SkewUS: l.skew.Microseconds(), Jobs: []jobStatus{}}
	for _, j := range list {
		report.Jobs = append(report.Jobs, *j.status)
	}
	slices.SortStableFunc(report.Jobs, func(x, y jobStatus) int {
		return cmp.Or(x.Health.rank()-y.Health.rank(), strings.Compare(x.Job, y.Job))
	})
	if asJSON {
		return a.out.json(report)
	}
	a.statusHead(l, report)
	l.writeStatus(report.Jobs)
	return nil
}

// jobLook is a job to be looked at.
type jobLook struct {
	status *jobStatus
	work   *work // nil: this program cannot run it
}

// jobsOf lists the jobs of the file, of the program, and of the database.
func (l *look) jobsOf(ctx context.Context, names []string, works []*work, states []dibs.JobState) ([]jobLook, error) {
	var list []jobLook
	add := func(name string, defined bool) *jobLook {
		i := slices.IndexFunc(list, func(j jobLook) bool { return j.status.Job == name })
		if i < 0 {
			i = len(list)
			list = append(list, jobLook{status: &jobStatus{Job: name, Health: well, Live: []dibs.Run{}, DurationsUS: []int64{}, Lines: []statusLine{}}})
		}
		list[i].status.Defined = list[i].status.Defined || defined
		return &list[i]
	}
	for _, w := range works {
		add(w.Name, true).work = w
	}
	if l.file != nil {
		for _, j := range l.file.Jobs {
			add(j.Name, true)
		}
	}
	for _, s := range states {
		add(s.Name, false).status.State = &s
	}
	if len(names) == 0 {
		return list, nil
	}
	var faults []error
	chosen := list[:0:0]
	for _, name := range names {
		i := slices.IndexFunc(list, func(j jobLook) bool { return j.status.Job == name })
		if i < 0 {
			faults = append(faults, l.app.unknownJob(visible(name)))
		} else if !slices.ContainsFunc(chosen, func(j jobLook) bool { return j.status.Job == name }) {
			chosen = append(chosen, list[i])
		}
	}
	return chosen, cmp.Or(errors.Join(faults...), ctx.Err())
}

// lookedAtOnce is how many jobs are looked at side by side: fewer than there are
// connections.
const lookedAtOnce = 4

// gather fills every job's status.
func (l *look) gather(ctx context.Context, list []jobLook) error {
	waiting, err := l.store.ListTriggers(ctx, dibs.TriggerFilter{Decision: dibs.DecisionWaiting, Limit: countedTriggers})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookedAtOnce)
	for _, j := range list {
		group.Go(func() error {
			g := gathering{look: l, jobLook: j}
			if err := g.all(ctx, waiting); err != nil {
				return fmt.Errorf("job %s: %w", visible(j.status.Job), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// statusHead names the database and sums up.
func (a *app) statusHead(l *look, r statusReport) {
	count := map[condition]int{}
	for _, j := range r.Jobs {
		count[j.Health]++
	}
	parts := []string{visible(r.Database), l.now.In(time.Local).Format("15:04:05 -07:00")}
	if a.opened.url.Kind != "sqlite" { // there it is the same clock
		skew := "skew " + span(l.skew.Abs())
		if l.skew.Abs() > clockDiffers {
			skew = a.out.paint(warn, skew)
		}
		parts = append(parts, skew)
	}
	sum := plural(int64(len(r.Jobs)), "job")
	var said []string
	switch n := count[needsYou]; {
	case n == 1:
		said = append(said, a.out.paint(bad, "1 needs you"))
	case n > 1:
		said = append(said, a.out.paint(bad, fmt.Sprintf("%d need you", n)))
	}
	if n := count[watch]; n > 0 {
		said = append(said, a.out.paint(warn, fmt.Sprintf("%d to watch", n)))
	}
	if n := count[paused]; n > 0 {
		said = append(said, fmt.Sprintf("%d paused", n))
	}
	if len(said) == 0 && len(r.Jobs) > 0 {
		said = append(said, "all well")
	}
	if len(said) > 0 {
		sum += ": " + strings.Join(said, ", ")
	}
	a.out.line("%s", strings.Join(append(parts, sum), "   "))
}

// writeStatus writes the jobs, each with its remarks below it.
func (l *look) writeStatus(jobs []jobStatus) {
	o := l.app.out
	if len(jobs) == 0 {
		o.line("no job is defined here, and none has run in this database")
		return
	}
	t := table{right: map[int]bool{5: true, 6: true}}
	next := ""
	if slices.ContainsFunc(jobs, func(j jobStatus) bool { return !j.Next.IsZero() }) {
		next = "NEXT" // else nothing here has a schedule
	}
	t.head("  ", "JOB", "NOW", "LAST GOOD", next, "P50", "P95")
	for _, j := range jobs {
		h := healths[j.Health.rank()]
		row := []cell{{h.mark, h.tone}, {cutTo(visible(j.Job), 32), bold}, l.doing(j)}
		if j.Health != paused {
			row = append(row, l.lastGood(j), l.nextSlot(j, next != ""))
			if len(j.durations) > 0 {
				row = append(row, text("%s", span(time.Duration(j.P50US)*time.Microsecond)),
					text("%s", span(time.Duration(j.P95US)*time.Microsecond)), cell{spark(j.durations), faint})
			}
		}
		t.add(row...)
	}
	t.narrow(o.width())
	var buf bytes.Buffer
	t.write(&output{w: &buf, colour: o.colour}, "")
	lines := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
	o.line("\n%s", lines[0])
	for i, j := range jobs {
		o.line("%s", lines[i+1])
		for _, remark := range j.Lines {
			l.writeRemark(remark)
		}
	}
}

// writeRemark puts the command behind the text, or below it where a terminal
// has no room.
func (l *look) writeRemark(r statusLine) {
	o := l.app.out
	tone := plain
	if r.Health.rank() < len(healths) && r.Health != well {
		tone = healths[r.Health.rank()].tone
	}
	command := ""
	if r.Command != "" {
		command = "→ " + r.Command
	}
	if w := o.width(); w > 0 && command != "" && 6+utf8.RuneCountInString(r.Text)+2+utf8.RuneCountInString(command) > w {
		o.line("      %s\n        %s", o.paint(tone, r.Text), command)
		return
	}
	o.line("%s", strings.TrimRight("      "+o.paint(tone, r.Text)+"  "+command, " "))
}

// narrow leaves out what a terminal has no room for, the least important first.
func (t *table) narrow(width int) {
	for _, column := range []int{7, 5, 6, 4} {
		if width == 0 || t.width() <= width {
			return
		}
		for i, row := range t.rows {
			if column < len(row) {
				t.rows[i][column] = cell{}
			}
		}
	}
}

// width is how wide the table is.
func (t *table) width() int {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	sum := 0
	for _, w := range widths {
		if w > 0 {
			sum += w + 2
		}
	}
	return sum - 2
}
