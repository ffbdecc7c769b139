package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

func (a *app) checkCommand() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check [JOB…] | check --crontab [FILE…]",
		Short: "Prove that a job can work here; change nothing",
		Long: "Looks at the server, our tables and each job: its file, its lease arithmetic, its\n" +
			"table's columns, indexes, privileges, row security, times and states. A claim and\n" +
			"a settle are tried on rows that are due, in a transaction that is rolled back, and\n" +
			"compared with what was meant. Exits with 2 on errors.\n\n" +
			"With --crontab it looks at crontabs instead: an unescaped % above all.",
		Example:           "  dibs check\n  dibs check crm-sync --strict\n  dibs check --json\n  crontab -l | dibs check --crontab",
		ValidArgsFunction: a.completeJobs,
	}
	c.Flags().BoolVar(&f.strict, "strict", false, "treat warnings as errors")
	c.Flags().StringSliceVar(&f.allow, "allow", nil, allowUsage)
	c.Flags().BoolVar(&f.json, "json", false, "write JSON")
	c.Flags().BoolVar(&f.crontab, "crontab", false, "check crontabs (or standard input) instead of jobs")
	return command(groupProve, c, func(cmd *cobra.Command, args []string) error {
		if f.crontab {
			return a.checkCrontabs(args, f)
		}
		return a.check(cmd.Context(), args, f)
	})
}

type checkFlags struct {
	strict, json, crontab bool
	allow                 []string
}

// checked is what was found about one thing.
type checked struct {
	// Job is empty for what concerns all.
	Job      string             `json:"job,omitempty"`
	Findings []sqlstore.Finding `json:"findings"`
}

func (c *checked) add(sev sqlstore.Severity, code, subject, problem, why, fix string) {
	c.Findings = append(c.Findings, sqlstore.Finding{Severity: sev, Code: code, Subject: subject, Problem: problem, Why: why, Fix: fix})
}

func (a *app) check(ctx context.Context, names []string, f checkFlags) error {
	if err := checkAllowed(f.allow); err != nil {
		return err
	}
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	works, broken, err := a.toCheck(ctx, names)
	if err != nil {
		return err
	}
	server, err := l.store.CheckServer(ctx)
	if err != nil {
		return err
	}
	sqlstore.AllowSettings(server, f.allow)
	all := []checked{{Findings: server}}
	all[0].clock(l)
	all[0].names(works)
	all[0].Findings = append(all[0].Findings, broken...)
	for _, w := range works {
		c, err := l.checkJob(ctx, w)
		if err != nil {
			return fmt.Errorf("job %s: %w", w.Name, err)
		}
		all = append(all, c)
	}
	return a.concludeCheck(all, f)
}

// toCheck lists the jobs; faults of the file's jobs are findings like others,
// unless the job was asked for by a name that nobody has.
func (a *app) toCheck(ctx context.Context, names []string) ([]*work, []sqlstore.Finding, error) {
	if len(names) > 0 {
		works, err := a.choose(ctx, names)
		return works, nil, err
	}
	works, err := a.works(ctx)
	var c checked
	for _, fault := range faultsOf(err) {
		var config *dibs.ConfigError
		switch {
		case fault == nil:
		case errors.As(fault, &config):
			c.config(config)
		default:
			return nil, nil, err
		}
	}
	return works, c.Findings, nil
}

// config is a fault of configuration as a finding.
func (c *checked) config(e *dibs.ConfigError) {
	subject := e.Subject
	if e.Field != "" {
		subject += ", " + e.Field
	}
	c.add(sqlstore.Wrong, "config", subject, e.Problem, "the job cannot start", e.Fix)
}

// clock compares this host's clock with the database's.
func (c *checked) clock(l *look) {
	if l.app.opened.url.Kind == "sqlite" {
		return // it is the same clock
	}
	skew := l.skew.Abs()
	problem := "this host's clock differs from the database's by " + span(skew)
	switch {
	case skew > time.Minute:
		c.add(sqlstore.Doubtful, "clock_skew", "clock", problem, "leases follow the database's clock alone, but logs and schedules elsewhere do not", "let NTP set this host's clock, or the server's")
	case skew > clockDiffers:
		c.add(sqlstore.Noted, "clock_skew", "clock", problem, "leases follow the database's clock alone", "")
	default:
		c.add(sqlstore.Fine, "clock_skew", "clock", problem, "", "")
	}
}

// names finds jobs that people would take for one.
func (c *checked) names(works []*work) {
	seen := map[string]string{}
	for _, w := range works {
		folded := strings.ToLower(w.Name)
		if other, ok := seen[folded]; ok {
			c.add(sqlstore.Doubtful, "names", "job "+w.Name, "its name differs from "+other+" only in the case of letters",
				"they are two jobs with two locks here, and people will mix them up", "rename one")
		}
		seen[folded] = w.Name
	}
}

// checkJob looks at one job.
func (l *look) checkJob(ctx context.Context, w *work) (checked, error) {
	c := checked{Job: w.Name}
	c.arithmetic(w)
	c.zone(w)
	c.schedule(w, l.now)
	c.handler(w)
	t, ok := w.Source.(dibs.Table)
	if !ok {
		return c, nil
	}
	scope, err := scopeOf(w, t, l.now, "")
	if err != nil {
		return c, err
	}
	found, err := l.store.CheckTable(ctx, t, scope)
	if err != nil {
		return c, err
	}
	c.Findings = append(c.Findings, found...)
	return c, nil
}

// concludeCheck writes what was found and ends with the exit code.
func (a *app) concludeCheck(all []checked, f checkFlags) error {
	count := map[sqlstore.Severity]int{}
	for i, c := range all {
		for _, one := range c.Findings {
			count[one.Severity]++
		}
		slices.SortStableFunc(all[i].Findings, func(x, y sqlstore.Finding) int { return gravity(x.Severity) - gravity(y.Severity) })
	}
	failed := count[sqlstore.Wrong] > 0 || f.strict && count[sqlstore.Doubtful] > 0
	code := exitOK
	if failed {
		code = exitUsage
	}
	if f.json {
		if err := a.out.json(struct {
			OK       bool      `json:"ok"`
			Errors   int       `json:"errors"`
			Warnings int       `json:"warnings"`
			Notes    int       `json:"notes"`
			Checked  []checked `json:"checked"`
		}{!failed, count[sqlstore.Wrong], count[sqlstore.Doubtful], count[sqlstore.Noted], all}); err != nil {
			return err
		}
		return exitWith(code)
	}
	for i, c := range all {
		if i > 0 {
			a.out.line("")
		}
		a.writeChecked(c)
	}
	a.out.line("\n%s, %s, %s", plural(int64(count[sqlstore.Wrong]), "error"), plural(int64(count[sqlstore.Doubtful]), "warning"), plural(int64(count[sqlstore.Noted]), "note"))
	return exitWith(code)
}

// gravity orders findings, the worst first.
func gravity(s sqlstore.Severity) int {
	return slices.Index([]sqlstore.Severity{sqlstore.Wrong, sqlstore.Doubtful, sqlstore.Noted, sqlstore.Fine}, s)
}

// writeChecked writes the faults in full and what is fine on few lines.
func (a *app) writeChecked(c checked) {
	o := a.out
	title := visible(a.opened.url.String())
	if c.Job != "" {
		title = "job " + visible(c.Job)
	}
	o.line("%s", o.paint(bold, title))
	for _, f := range c.Findings {
		problem := visible(a.opened.redact(f.Problem))
		if f.Severity == sqlstore.Fine {
			o.line("  %s       %s", o.paint(good, "ok"), problem)
			continue
		}
		about := a.about(c, f)
		tone := map[sqlstore.Severity]tone{sqlstore.Wrong: bad, sqlstore.Doubtful: warn}[f.Severity]
		o.wrapped(o.paint(tone, fmt.Sprintf("%-7s", f.Severity)), about+problem)
		if f.Why != "" {
			o.wrapped("       ", "why: "+visible(f.Why))
		}
		if f.Fix != "" {
			o.wrapped("       ", "fix: "+visible(a.opened.redact(f.Fix)))
		}
	}
}

// about is what a finding is about, unless the title above it says so.
func (a *app) about(c checked, f sqlstore.Finding) string {
	subject := f.Subject
	switch c.Job {
	case "":
		if subject == "database" || subject == "clock" || f.Code == "durability" {
			return ""
		}
	default:
		subject = strings.TrimPrefix(strings.TrimPrefix(subject, "job "+c.Job), ", ")
	}
	if subject == "" {
		return ""
	}
	return visible(subject) + ": "
}

// wrapped writes a text behind a label of seven columns, broken between words
// where a terminal ends.
func (o *output) wrapped(label, s string) {
	const indent = 11
	width := o.width() - indent
	var line string
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case o.width() > 0 && len([]rune(line))+1+len([]rune(word)) > max(width, 30):
			o.line("  %s  %s", label, line)
			label, line = "       ", word
		default:
			line += " " + word
		}
	}
	o.line("  %s  %s", label, line)
}
