package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// openChoice is a job that leaves choices open which have no default.
type openChoice struct {
	job   string
	place *node
	lines []string // the stanza's lines
	names []string
}

// meaning explains one word of a choice.
type meaning struct{ word, text string }

// overlapHelp and uncertainHelp explain the words; those that this version
// refuses are marked by the tags of Settings.
func overlapHelp() string {
	return explain("overlap", "a trigger arrives while a run has the lock", []meaning{
		{"skip", "it is skipped: the next slot covers the work"},
		{"queue", "it waits its turn: every trigger is a distinct window"},
		{"coalesce", "one more run covers all that arrived: refresh jobs"},
		{"replace", "the run is stopped for it: only the newest matters"},
		{"allow", "it starts too: items exclude one another by their own claims"},
	})
}

func uncertainHelp() string {
	return explain("on_uncertain", "an earlier attempt at an item began and left no outcome", []meaning{
		{"replay", "the handler is idempotent: run it again"},
		{"lookup", "ask the destination what arrived"},
		{"hold", "a person decides"},
	})
}

func explain(field, when string, words []meaning) string {
	_, tag, _ := lookupField(reflect.TypeFor[Settings](), field)
	later := strings.Split(tag.Get("later"), ",")
	text := field + ": " + when + ":"
	for _, m := range words {
		text += fmt.Sprintf("\n  %-9s %s", m.word, m.text)
		if slices.Contains(later, m.word) {
			text += " (not in this version)"
		}
	}
	return text
}

const againHelp = `source: a completed row may come again: with the job's schedule, or
  every: D       D after its success
  not_within: D  when something else fires the job, but not within D of its success
                 (0s means: I know that it may)
  one_shot: true never`

// findOpen notes the choices that a job leaves open.
func (l *loader) findOpen(j *Job, place *node) {
	o := openChoice{job: j.Name, place: place}
	add := func(name, line string) {
		o.names = append(o.names, name)
		o.lines = append(o.lines, line)
	}
	has := j.node.has
	if !has("time_zone") && needsZone(j.Schedule) {
		add("time_zone", "time_zone: UTC         # the zone in which the cron fields are read")
	}
	if !has("overlap") {
		add("overlap", "overlap: skip          # or allow")
	}
	if !has("on_uncertain") {
		add("on_uncertain", "on_uncertain: replay   # only if the handler is idempotent")
	}
	if has("source") && !has("schedule") && !has("source", "every") && !has("source", "not_within") && !has("source", "one_shot") {
		add("when a row may come again", "source:                # beside what is there\n      not_within: 0s       # or every: D, one_shot: true; or give the job a schedule")
	}
	if len(o.names) > 0 {
		l.open = append(l.open, o)
	}
}

// needsZone is true for schedules with cron fields that name no zone.
func needsZone(s *Schedule) bool {
	if s == nil || s.Cron == "" {
		return false
	}
	text := strings.ToLower(strings.TrimSpace(s.Cron))
	for _, prefix := range []string{"@every", "at ", "@at ", "cron_tz=", "tz="} {
		if strings.HasPrefix(text, prefix) {
			return false
		}
	}
	return true
}

// reportOpen makes one fault of all open choices: who leaves what open, the
// stanza to paste, and what the words mean.
func (l *loader) reportOpen() {
	if len(l.open) == 0 {
		return
	}
	var problem, stanza strings.Builder
	var all string
	problem.WriteString("choices that have no default are missing")
	stanza.WriteString("add what fits:\n\njobs:")
	for _, o := range l.open {
		where := ""
		if o.place.src != l.open[0].place.src {
			where = " in " + o.place.src.name
		}
		fmt.Fprintf(&problem, "\n  %s%s%s: %s", o.job, where, lineRef(o.place.line), strings.Join(o.names, ", "))
		fmt.Fprintf(&stanza, "\n  %s:", o.job)
		for _, line := range o.lines {
			stanza.WriteString("\n    " + line)
		}
		all += strings.Join(o.names, ",")
	}
	for _, help := range []struct{ name, text string }{
		{"overlap", overlapHelp()}, {"on_uncertain", uncertainHelp()}, {"again", againHelp},
	} {
		if strings.Contains(all, help.name) {
			stanza.WriteString("\n\n" + help.text)
		}
	}
	if n := len(l.open); n > 1 {
		stanza.WriteString("\n\nA block defaults: {overlap: …, on_uncertain: …} chooses for all jobs at once.")
	}
	l.faults.node(l.open[0].place, "", problem.String(), stanza.String())
	l.faults.list[len(l.faults.list)-1].Excerpt = ""
}
