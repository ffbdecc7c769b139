package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/schedule"
)

// Bounds of what status looks at, so that it is quick on a large database.
const (
	recentRuns    = 30
	shownTimes    = 8
	countedRows   = 101
	lookPatience  = 3 * time.Second
	countPatience = time.Second
	// nobodyCame is how long something may wait for the next trigger before a
	// person should ask whether the timer is alive.
	nobodyCame = 15 * time.Minute
	// clockDiffers is a difference of clocks worth telling.
	clockDiffers = 2 * time.Second
)

// gathering reads one job's status. Few statements, all of them bounded.
type gathering struct {
	*look
	jobLook
	claims dibs.Claims
	oldest time.Time // when the first lease ended that nobody took
}

// remark adds a line; the gravest decides the job's health.
func (g *gathering) remark(kind string, h condition, command, format string, args ...any) {
	if command != "" {
		command = g.app.program.Name + " " + command
	}
	g.status.Lines = append(g.status.Lines, statusLine{Kind: kind, Health: h, Text: fmt.Sprintf(format, args...), Command: command})
	if g.status.Health != paused && h.rank() < g.status.Health.rank() {
		g.status.Health = h
	}
}

func (g *gathering) all(ctx context.Context, waiting []dibs.Trigger) error {
	if s := g.status.State; s != nil && s.Paused {
		g.status.Health = paused
		g.remark("paused", paused, "", "by %s%s", cmp.Or(visible(s.PausedBy), "somebody"), said(s.PausedWhy))
	}
	recent, err := g.store.ListRuns(ctx, dibs.RunFilter{Job: g.status.Job, Limit: recentRuns})
	if err != nil {
		return err
	}
	if err := g.runs(ctx, recent); err != nil {
		return err
	}
	g.next()
	g.definitions(recent)
	if err := g.rows(ctx); err != nil {
		return err
	}
	if err := g.behind(ctx); err != nil {
		return err
	}
	g.waiting(waiting)
	if s := g.status.State; s != nil && !s.RetiredAt.IsZero() && !g.status.Defined {
		g.remark("retired", well, "", "retired %s: no longer in the definitions of its server, and fires no more", g.at(s.RetiredAt, g.status.Job))
	} else if !g.status.Defined && (g.file != nil || len(g.app.program.Jobs) > 0) {
		g.remark("undefined", well, "", "not defined here: another program or a wrapper runs it")
	}
	return nil
}

// next asks the job's schedule, if there is one, for the next slot.
func (g *gathering) next() {
	var s *schedule.Schedule
	if g.work != nil {
		s, _ = g.work.Schedule.(*schedule.Schedule)
	}
	if s == nil && g.file != nil {
		if j := g.file.Job(g.status.Job); j != nil {
			s = j.ParsedSchedule()
		}
	}
	if s == nil {
		return
	}
	if slot, ok := s.Next(g.now); ok {
		g.status.Next = slot.UTC()
	}
}

// runs reads the newest runs: what goes on, what was good, how long it takes.
func (g *gathering) runs(ctx context.Context, recent []dibs.Run) error {
	s := g.status
	for i, r := range recent {
		switch {
		case g.live(r):
			s.Live = append(s.Live, recent[i])
		case r.State == dibs.RunRunning:
			g.silent(r)
		case r.State == dibs.RunSucceeded && s.LastGood.IsZero():
			s.LastGood = r.EndedAt
		}
		if r.Key == "" && (r.State == dibs.RunSucceeded || r.State == dibs.RunPartial) {
			s.durations = append(s.durations, g.took(r))
		}
	}
	if len(recent) > 0 {
		s.Last = &recent[0]
	}
	slices.Reverse(s.durations)
	for _, d := range s.durations {
		s.DurationsUS = append(s.DurationsUS, d.Microseconds())
	}
	s.P50US, s.P95US = quantile(s.durations, 50).Microseconds(), quantile(s.durations, 95).Microseconds()
	if s.LastGood.IsZero() && len(recent) == recentRuns {
		older, err := g.store.ListRuns(ctx, dibs.RunFilter{Job: s.Job, State: dibs.RunSucceeded, Limit: 1})
		if err != nil {
			return err
		}
		if len(older) > 0 {
			s.LastGood = older[0].EndedAt
		}
	}
	i := slices.IndexFunc(recent, func(r dibs.Run) bool { return !r.EndedAt.IsZero() })
	if i >= 0 {
		g.lastEnd(recent[i])
	}
	return nil
}

// silent is a run that still says "running" although its lease has ended.
func (g *gathering) silent(r dibs.Run) {
	h, ago := watch, g.now.Sub(r.Lease)
	text := "the next trigger takes over"
	if ago > nobodyCame {
		h, text = needsYou, "no trigger since; is the timer alive?"
	}
	g.remark("lease_ended", h, "show "+dibs.ShortID(r.ID), "run %s on %s: its lease ended %s ago; %s", dibs.ShortID(r.ID), visible(r.Holder.Host), span(ago), text)
}

// lastEnd says how the newest run that has ended went, unless it went well.
func (g *gathering) lastEnd(r dibs.Run) {
	command := "show " + dibs.ShortID(r.ID)
	at := g.at(r.EndedAt, r.Job)
	why := ""
	if r.Error != "" {
		why = ": " + oneLine(r.Error, 80)
	} else if r.Reason != "" {
		why = " (" + visible(string(r.Reason)) + ")"
	}
	switch r.State {
	case dibs.RunFailed:
		g.remark("run_failed", needsYou, command, "the last run failed at %s%s", at, why)
	case dibs.RunLost:
		g.remark("run_lost", watch, command, "the last run was lost at %s: its holder %s did not end it", at, visible(r.Holder.Host))
	case dibs.RunPartial:
		if r.Kind != dibs.KindItems {
			g.remark("run_partial", watch, command, "the last run, at %s, did a part%s", at, why)
		}
	}
	if n := r.Counts.Uncertain + r.Counts.Held; n > 0 {
		g.remark("uncertain", needsYou, command, "%d uncertain or held since %s: sent or not is unknown", n, at)
	}
}

// said is a reason behind a colon, if there is one.
func said(why string) string {
	if why == "" {
		return ""
	}
	return ": " + oneLine(why, 80)
}

// definitions notices that two versions of the job take turns.
func (g *gathering) definitions(recent []dibs.Run) {
	seen := map[string]bool{}
	previous := ""
	for _, r := range recent { // newest first
		if r.Definition == "" || r.Definition == previous {
			continue
		}
		if seen[r.Definition] {
			g.remark("definitions", watch, "runs "+word(g.status.Job), "two definitions take turns (%s, %s): an old program or file is still in use, such as on %s",
				cutTo(visible(previous), 9), cutTo(visible(r.Definition), 9), visible(r.Holder.Host))
			return
		}
		seen[r.Definition] = true
		previous = r.Definition
	}
}

// behind counts the triggers that stood back for a run that goes on.
func (g *gathering) behind(ctx context.Context) error {
	for _, r := range g.status.Live {
		list, err := g.store.ListTriggers(ctx, dibs.TriggerFilter{Blocking: r.ID, Limit: countedTriggers})
		if err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		g.status.Skipped += len(list)
		g.remark("skipped", well, "triggers "+word(g.status.Job), "%s stood back for %s, the last at %s", atLeast(len(list), countedTriggers, "trigger"),
			dibs.ShortID(r.ID), g.at(list[0].CreatedAt, r.Job))
	}
	return nil
}

func (g *gathering) waiting(all []dibs.Trigger) {
	var oldest time.Time
	for _, t := range all { // newest first
		if t.Job == g.status.Job {
			g.status.Waiting++
			oldest = t.CreatedAt
		}
	}
	if g.status.Waiting == 0 {
		return
	}
	h := well
	if g.now.Sub(oldest) > nobodyCame {
		h = watch
	}
	g.remark("waiting", h, "triggers "+word(g.status.Job)+" --decision waiting", "%s waiting since %s for somebody who can run it",
		plural(int64(g.status.Waiting), "trigger"), g.at(oldest, g.status.Job))
}

// rows looks at the job's rows, for as long as patience lasts.
func (g *gathering) rows(ctx context.Context) error {
	if g.work == nil {
		return nil
	}
	t, ok := g.work.Source.(dibs.Table)
	if !ok {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	err := g.count(bounded, t)
	var fault *dibs.ConfigError
	switch {
	case err == nil:
		return g.exact(ctx, t)
	case bounded.Err() != nil && ctx.Err() == nil:
		g.remark("not_counted", watch, "check "+word(g.status.Job), "the table did not answer within %s: has it an index?", span(lookPatience))
		return nil
	case errors.As(err, &fault):
		g.remark("table", needsYou, "check "+word(g.status.Job), "%s", oneLine(err.Error(), 160))
		return nil
	}
	return err
}

// count looks for what needs somebody; no list is longer than a bound.
func (g *gathering) count(ctx context.Context, t dibs.Table) error {
	claims, err := g.store.Claims(ctx, t)
	if err != nil {
		return err
	}
	scope, err := scopeOf(g.work, t, g.now, "")
	if err != nil {
		return err
	}
	c := &rowCounts{Bounded: true}
	var busy []dibs.Row
	for _, one := range []struct {
		filter dibs.RowFilter
		keep   func(rows []dibs.Row)
	}{
		{dibs.RowFilter{Status: dibs.StatusQuarantined}, func(rows []dibs.Row) { c.Quarantined = int64(len(rows)) }},
		{dibs.RowFilter{Status: dibs.StatusFailed}, func(rows []dibs.Row) { c.Failed = int64(len(rows)) }},
		{dibs.RowFilter{Status: dibs.StatusInProgress}, func(rows []dibs.Row) { busy = rows }},
		{dibs.RowFilter{Orphaned: true}, func(rows []dibs.Row) { c.Orphaned = int64(len(rows)) }},
	} {
		one.filter.Limit = countedRows
		rows, err := claims.Rows(ctx, one.filter)
		if err != nil {
			return err
		}
		one.keep(rows)
	}
	g.status.Rows, g.claims = c, claims
	g.expired(busy, scope)
	return nil
}

// expired finds when the first lease ended that nobody has taken since.
func (g *gathering) expired(busy []dibs.Row, scope dibs.Scope) {
	c := g.status.Rows
	for _, r := range busy {
		end := r.ClaimableAt
		if g.claims.TwoColumn() && !r.StartedAt.IsZero() {
			end = r.StartedAt.Add(scope.Lease)
		}
		if end.IsZero() || end.After(r.Now) {
			c.InProgress++
			continue
		}
		c.Expired++
		if g.oldest.IsZero() || end.Before(g.oldest) {
			g.oldest = end
		}
	}
}

// exact counts every row, unless the table is too large for that.
func (g *gathering) exact(ctx context.Context, t dibs.Table) error {
	bounded, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	s, err := g.claims.Stats(bounded)
	c := g.status.Rows
	switch {
	case err == nil:
		expired, busy := s.Expired, s.InProgress
		if g.claims.TwoColumn() { // it has no count of its own
			expired, busy = c.Expired, s.InProgress-c.Expired
		}
		*c = rowCounts{Idle: s.Idle, InProgress: busy, Expired: expired, Failed: s.Failed, Done: s.Done,
			Quarantined: s.Quarantined, Unknown: s.Other, Due: s.Due, Orphaned: c.Orphaned}
	case bounded.Err() == nil || ctx.Err() != nil:
		return fmt.Errorf("count the rows of table %s: %w", t, err)
	}
	g.rowRemarks(c, g.oldest)
	return nil
}

func (g *gathering) rowRemarks(c *rowCounts, oldest time.Time) {
	items := "items " + word(g.status.Job)
	if c.Quarantined > 0 {
		g.remark("quarantined", needsYou, items+" --quarantined", "%s quarantined: the budget is spent, or rejected for good", c.say(c.Quarantined))
	}
	if c.Failed > 0 {
		g.remark("failed", watch, items+" --failed", "%s failed: tried again when due", c.say(c.Failed))
	}
	if c.Unknown > 0 {
		g.remark("unknown_label", needsYou, "check "+word(g.status.Job), "%s in a state that stands for none of ours: never claimed", plural(c.Unknown, "row"))
	}
	if c.Orphaned > 0 {
		g.remark("orphaned", watch, items+" --orphaned", "%s without a lease or a due time: the next tick's sweep repairs that",
			atLeast(int(c.Orphaned), countedRows, "row"))
	}
	if c.Expired > 0 && !oldest.IsZero() {
		h, text := watch, "the next tick takes them"
		if g.now.Sub(oldest) > nobodyCame {
			h, text = needsYou, "no tick since; is the timer alive?"
		}
		g.remark("expired", h, items+" --in-progress", "%s whose lease ended, the first %s ago: %s", c.say(c.Expired), span(g.now.Sub(oldest)), text)
	}
}

// say writes a count, which may have stopped at the bound.
func (c *rowCounts) say(n int64) string {
	if c.Bounded {
		return atLeast(int(n), countedRows, "row")
	}
	return plural(n, "row")
}
