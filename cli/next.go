package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/config"
	"github.com/dibs-run/dibs/schedule"
)

// maxNext bounds -n.
const maxNext = 10_000

// nextFlags are the choices of next.
type nextFlags struct {
	zone    string
	count   int
	after   string
	seconds bool
	json    bool
}

func (a *app) nextCommand() *cobra.Command {
	var f nextFlags
	c := &cobra.Command{
		Use:   "next JOB|EXPR",
		Short: "Show when a job or an expression is due",
		Long: "Shows the next slots of a job of the file, or of a schedule expression, by the\n" +
			"code that runs them: in the schedule's zone and in UTC, with what changes of the\n" +
			"clock do to each. No database is needed.\n\n" +
			"An expression is one argument, in quotes. With cron fields it needs --zone, or\n" +
			"CRON_TZ=ZONE before it. With a job --zone shows what the job would do there.",
		Example: "  dibs next crm-sync\n" +
			"  dibs next '30 2 * * *' --zone America/New_York --after 2027-03-12T00:00:00Z\n" +
			"  dibs next 'CRON_TZ=Europe/Paris 0 9 * * MON-FRI' -n 10\n" +
			"  dibs next '@every 90s'",
		ValidArgsFunction: a.completeJobs,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageError("name a job, or write an expression in quotes")
			case len(args) > 1:
				return usageError("next takes one argument and got %d: quote the expression, the shell changes its stars", len(args))
			}
			return nil
		},
	}
	c.Flags().StringVar(&f.zone, "zone", "", "IANA name of the zone in which cron fields are read (default: the job's)")
	c.Flags().IntVarP(&f.count, "number", "n", 5, "how many slots to show")
	c.Flags().StringVar(&f.after, "after", "", "show slots after this instant, RFC 3339 (default: now)")
	c.Flags().BoolVar(&f.seconds, "seconds", false, "the expression has six fields, seconds first")
	c.Flags().BoolVar(&f.json, "json", false, "write JSON")
	return command(groupSee, c, func(cmd *cobra.Command, args []string) error {
		return a.next(cmd.Context(), args[0], f, cmd.Flags().Changed("zone"))
	})
}

func (a *app) next(ctx context.Context, what string, f nextFlags, zoned bool) error {
	if f.count < 1 || f.count > maxNext {
		return usageError("-n %d: use a number from 1 to %d", f.count, maxNext)
	}
	after := time.Now()
	if f.after != "" {
		var err error
		if after, err = time.Parse(time.RFC3339, f.after); err != nil {
			return usageError("--after %s: write an instant with its offset, such as 2027-03-01T09:00:00Z", visible(f.after))
		}
	}
	if zoned && f.zone == "" {
		return usageError("--zone is empty: write an IANA name such as Europe/Amsterdam, or UTC")
	}
	job, s, err := a.scheduleOf(ctx, what, f)
	if err != nil {
		return err
	}
	r := slotsOf(s, after, f.count)
	r.Job = job
	if f.json {
		return a.out.json(r)
	}
	r.write(a.out, s)
	return nil
}

// scheduleOf finds the schedule that a person means: a job's, else the
// expression itself. The file is not needed for an expression, so its faults
// count only where a job is asked for.
func (a *app) scheduleOf(ctx context.Context, what string, f nextFlags) (job string, s *schedule.Schedule, err error) {
	file, err := a.config(ctx)
	if file != nil {
		if j := file.Job(what); j != nil {
			s, err := scheduleOfJob(j, f)
			return j.Name, s, err
		}
	}
	for _, j := range a.program.Jobs {
		if s, ok := j.Schedule.(*schedule.Schedule); ok && j.Name == what {
			s, err := inZone(s, j.Name, f)
			return j.Name, s, err
		}
	}
	if looksLikeSchedule(what) {
		s, err := parseExpr(schedule.Spec{Cron: what, Zone: f.zone, Seconds: f.seconds}, "schedule")
		return "", s, err
	}
	if err != nil {
		return "", nil, err
	}
	return "", nil, a.noSchedule(what)
}

// scheduleOfJob is the schedule of a job of the file.
func scheduleOfJob(j *config.Job, f nextFlags) (*schedule.Schedule, error) {
	s := j.ParsedSchedule()
	if s == nil {
		return nil, &dibs.ConfigError{Subject: "job " + visible(j.Name), Problem: "has no schedule: something else says when it is due", Fix: "add schedule: to it"}
	}
	return inZone(s, j.Name, f)
}

// inZone is a job's schedule, with --zone as it would be there.
func inZone(s *schedule.Schedule, job string, f nextFlags) (*schedule.Schedule, error) {
	switch {
	case f.seconds:
		return nil, usageError("--seconds is for an expression; a job says itself that it has them")
	case f.zone == "":
		return s, nil
	}
	spec := s.Spec()
	spec.Zone = f.zone
	return parseExpr(spec, "job "+visible(job))
}

// looksLikeSchedule tells an expression from a job's name that has been
// mistyped.
func looksLikeSchedule(what string) bool {
	words := strings.Fields(what)
	if len(words) == 0 {
		return true // empty: the parser says so
	}
	first := strings.ToLower(words[0])
	switch {
	case strings.HasPrefix(first, "@"), strings.HasPrefix(first, "tz="), strings.HasPrefix(first, "cron_tz="):
		return true
	case first == "at" && len(words) == 2, len(words) >= 5:
		return true
	}
	return strings.ContainsAny(first[:1], "*?") || len(words) > 1 && strings.ContainsAny(first[:1], "0123456789")
}

// noSchedule answers for what is neither a job with a schedule nor an expression.
func (a *app) noSchedule(what string) error {
	e := &dibs.ConfigError{Subject: "job " + visible(what), Problem: "there is no such job", Fix: `name a job, or write an expression such as "*/5 * * * *"`}
	for _, j := range a.program.Jobs {
		if j.Name == what {
			e.Problem, e.Fix = "has no schedule of package schedule", "set its Schedule, or write an expression"
			return e
		}
	}
	switch file := a.opened.file; {
	case file != nil:
		e.Problem += " in " + file.Path
		if near := file.Nearest(what); near != "" {
			e.Fix = "did you mean " + near + "?"
		}
	case len(a.program.Jobs) == 0:
		e.Problem = "there is no " + config.FileName + ", so there is no job"
	}
	return e
}

// nextReport is the answer as JSON has it.
type nextReport struct {
	Job string `json:"job,omitempty"`
	// Schedule is the canonical text, Means the same in English.
	Schedule string     `json:"schedule"`
	Means    string     `json:"means"`
	Zone     string     `json:"zone"`
	ZoneData zoneData   `json:"zone_data"`
	After    time.Time  `json:"after"`
	JitterUS int64      `json:"jitter_us,omitempty"`
	Anchor   *time.Time `json:"anchor,omitempty"`
	Slots    []nextSlot `json:"slots"`
	Warnings []string   `json:"warnings"`
}

type zoneData struct {
	Version string `json:"version"`
	Source  string `json:"source"`
}

// nextSlot is one slot.
type nextSlot struct {
	Slot  time.Time `json:"slot"`  // in UTC: what the slot is known by
	Local time.Time `json:"local"` // the same instant in the zone
	// Missing is the wall time that does not exist and fires here instead; Pass
	// is 1 or 2 where the wall time occurs twice.
	Missing string `json:"missing,omitempty"`
	Pass    int    `json:"pass,omitempty"`
	Remark  string `json:"remark,omitempty"`
	// DelayUS is the jitter of this slot, Start when its run begins with it.
	DelayUS int64      `json:"delay_us,omitempty"`
	Start   *time.Time `json:"start,omitempty"`
}

// slotsOf asks a schedule for its slots and for what is odd about them.
func slotsOf(s *schedule.Schedule, after time.Time, count int) nextReport {
	spec, zone := s.Spec(), s.Location()
	data := schedule.TZDataVersion(zone.String())
	r := nextReport{
		Schedule: s.String(), Means: s.Describe(), Zone: zone.String(),
		ZoneData: zoneData{data.Version, data.Source}, After: after.UTC().Truncate(time.Microsecond), JitterUS: spec.Jitter.Microseconds(),
		Slots: []nextSlot{}, Warnings: append([]string{}, s.Warnings(after)...),
	}
	if strings.HasPrefix(r.Schedule, "@every") {
		anchor := spec.Anchor.UTC()
		if spec.Anchor.IsZero() {
			anchor = time.Unix(0, 0).UTC()
		}
		r.Anchor = &anchor
	}
	for t := after; len(r.Slots) < count; {
		slot, ok := s.Next(t)
		if !ok {
			break
		}
		t = slot
		effect := s.Effect(slot)
		n := nextSlot{Slot: slot.UTC(), Local: slot.In(zone), Missing: effect.Missing, Pass: effect.Pass, Remark: effect.String()}
		if spec.Jitter > 0 {
			delay := s.Delay(slot)
			start := slot.UTC().Add(delay)
			n.DelayUS, n.Start = delay.Microseconds(), &start
		}
		r.Slots = append(r.Slots, n)
	}
	return r
}

// write shows the answer to people.
func (r nextReport) write(o *output, s *schedule.Schedule) {
	title := r.Means
	if r.Job != "" {
		title = visible(r.Job) + "  " + title
	}
	o.line("%s", o.paint(bold, title))
	f := fields{out: o}
	f.add("schedule", "%s", r.Schedule)
	f.add("zone", "%s, zone data %s", r.Zone, schedule.TZData{Version: r.ZoneData.Version, Source: r.ZoneData.Source})
	if r.Anchor != nil {
		f.add("counted from", "%s", r.Anchor.Format(time.RFC3339))
	}
	jitter := s.Spec().Jitter
	if jitter > 0 {
		f.add("jitter", "each start is delayed by less than %s; the slot stays the same", jitter)
	}
	f.write()
	o.line("")
	if len(r.Slots) == 0 {
		o.line("  there is no slot after %s", r.After.Format(time.RFC3339))
	} else {
		r.table(o, jitter > 0)
	}
	for _, w := range r.Warnings {
		o.line("%s %s", o.paint(warn, "warning:"), visible(w))
	}
}

func (r nextReport) table(o *output, jitter bool) {
	var t table
	head := []string{"IN " + r.Zone, "UTC"}
	if jitter {
		head = append(head, "DELAY")
	}
	t.head(append(head, "CHANGE OF THE CLOCK")...)
	for _, n := range r.Slots {
		row := []cell{text("%s", n.Local.Format("Mon 2006-01-02 15:04:05 -07:00")), text("%s", n.Slot.Format(time.RFC3339))}
		if jitter {
			row = append(row, text("+%s", time.Duration(n.DelayUS)*time.Microsecond))
		}
		t.add(append(row, cell{n.Remark, warn})...)
	}
	t.write(o, "  ")
	o.line("")
}
