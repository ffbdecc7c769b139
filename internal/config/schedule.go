package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs/schedule"
)

// ParsedSchedule is the job's schedule, compiled; nil when the file gives none.
// Its Anchor is left open: whoever knows the stored one parses its Spec again
// with it.
func (j *Job) ParsedSchedule() *schedule.Schedule { return j.schedule }

// Warnings says what the file's schedules allow but often do not mean, each
// with its place: FILE:LINE:COLUMN: jobs.NAME.schedule: …. Dates in the texts
// are the next ones after the instant given.
func (f *File) Warnings(after time.Time) []string {
	var list []string
	for _, j := range f.Jobs {
		if j.schedule == nil {
			continue
		}
		at := j.node.place("schedule", "cron")
		for _, text := range j.schedule.Warnings(after) {
			list = append(list, fmt.Sprintf("%s:%d:%d: jobs.%s.schedule: %s", at.src.name, at.line, at.column, j.Name, text))
		}
	}
	return list
}

// spec is the schedule in its package's terms; false when it is not complete,
// which has been reported then.
func (c *checker) spec(s *Schedule) (schedule.Spec, bool) {
	spec := schedule.Spec{
		Cron: strings.TrimRight(s.Cron, "\n"), Every: time.Duration(s.Every), Zone: c.job.TimeZone, Seconds: s.Seconds,
		Days: schedule.Days(s.Days), Jitter: time.Duration(s.Jitter), Name: c.job.Name,
	}
	if s.DST != nil {
		spec.DST = schedule.DST{Missing: schedule.Missing(s.DST.Missing), Repeated: schedule.Repeated(s.DST.Repeated)}
	}
	if s.At != "" {
		var err error
		if spec.At, err = time.Parse(time.RFC3339, s.At); err != nil {
			return spec, false
		}
	}
	given := 0
	for _, has := range []bool{spec.Cron != "", spec.Every != 0, !spec.At.IsZero()} {
		if has {
			given++
		}
	}
	return spec, given == 1
}

// parseSchedule compiles the job's schedule and turns each of its faults into
// one of the file, at the field inside the expression where there is one.
func (c *checker) parseSchedule(s *Schedule) {
	spec, complete := c.spec(s)
	if !complete {
		return
	}
	// A zone inside the expression is nearer than one of defaults.
	if named, ok := zoneInside(spec.Cron); ok && !c.ownZone {
		spec.Zone = named
	}
	parsed, err := c.zones.Parse(spec)
	for _, fault := range scheduleErrors(err) {
		c.scheduleFault(spec, fault)
	}
	if err == nil {
		c.job.schedule, c.job.TimeZone = parsed, spec.Zone
	}
}

// zoneInside is the zone that an expression names itself; false if it names
// none.
func zoneInside(expr string) (zone string, ok bool) {
	words := strings.Fields(expr)
	if len(words) == 0 {
		return "", false
	}
	name, zone, found := strings.Cut(words[0], "=")
	return zone, found && (name == "CRON_TZ" || name == "TZ")
}

// checkZone refuses a zone that no schedule has judged.
func checkZone(zones *schedule.Zones, f *faults, n *node, zone, path string) {
	if zone == "" {
		return // missing or empty, which has been said
	}
	_, err := zones.Parse(schedule.Spec{Every: time.Hour, Zone: zone})
	for _, fault := range scheduleErrors(err) {
		problem, fix := scheduleWords(n, zone, fault)
		f.node(n, path, problem, fix)
	}
}

// scheduleErrors takes apart what package schedule answers.
func scheduleErrors(err error) []*schedule.Error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*schedule.Error
		for _, part := range joined.Unwrap() {
			all = append(all, scheduleErrors(part)...)
		}
		return all
	}
	var one *schedule.Error
	if errors.As(err, &one) {
		return []*schedule.Error{one}
	}
	return nil
}

// scheduleFault places one fault of a schedule in the file.
func (c *checker) scheduleFault(spec schedule.Spec, fault *schedule.Error) {
	if fault.Field == "zone" && fault.Pos < 0 {
		if spec.Zone != "" { // a missing one is an open choice
			n := c.job.node.place("time_zone")
			problem, fix := scheduleWords(n, spec.Zone, fault)
			c.faults.node(n, join(c.path, "time_zone"), problem, fix)
		}
		return
	}
	place := []string{"schedule"}
	switch {
	case fault.Pos >= 0:
		if c.has("schedule", "cron") {
			place = append(place, "cron")
		}
	case c.has(append(place, strings.Split(fault.Field, ".")...)...):
		place = append(place, strings.Split(fault.Field, ".")...)
	}
	n := c.job.node.place(place...)
	whole := strings.TrimRight(n.text, "\n")
	if fault.Pos >= 0 {
		whole = spec.Cron
	}
	problem, fix := scheduleWords(n, whole, fault)
	path := join(c.path, strings.Join(place, "."))
	c.faults.at(n.src, n.line, n.columnOf(whole, fault.Pos), path, problem, fix)
}

// scheduleWords are a fault's problem and fix. Of a text that ${…} has filled in
// nothing is repeated: it may be a secret.
func scheduleWords(n *node, filled string, fault *schedule.Error) (problem, fix string) {
	if n.kind == scalar && strings.TrimRight(n.text, "\n") != filled {
		return fmt.Sprintf("%s: its %s is refused once ${…} is filled in", shown(n), fault.Field),
			"correct the value behind it; dibs next EXPR says what is wrong with an expression"
	}
	text := fault.Text
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:60], "") + "…"
	}
	switch fault.Field {
	case "minute", "hour", "day-of-month", "month", "day-of-week", "second":
		problem = fault.Field + " "
	}
	if text != "" {
		problem += strconv.Quote(text)
	}
	if problem = strings.TrimSpace(problem); problem == "" {
		return fault.Reason, fault.Fix
	}
	if fault.Pos >= 0 && problem == fault.Field {
		return problem + ": " + fault.Reason, fault.Fix
	}
	return problem + " " + fault.Reason, fault.Fix
}

// columnOf is the column of a byte inside a scalar's text, as far as the text
// stands in the file as it is: not with escapes, nor over several lines. Else
// it is the scalar's own.
func (n *node) columnOf(text string, pos int) int {
	runes := []rune(n.src.line(n.line))
	if pos < 0 || pos > len(text) || n.text != text || n.column < 1 || n.column > len(runes) {
		return n.column
	}
	rest := string(runes[n.column-1:])
	at := strings.Index(rest, text)
	if text == "" || at < 0 || at > 1 { // one for the quote
		return n.column
	}
	return n.column + utf8.RuneCountInString(rest[:at+pos])
}
