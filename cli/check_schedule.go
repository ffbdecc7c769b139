package cli

import (
	"time"

	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/schedule"
)

// schedule says when the job is due, by which zone data, and what its schedule
// allows but often does not mean. Changes of the clock are notes: they are part
// of every fixed time in such a zone, and no way of writing it removes them.
func (c *checked) schedule(w *work, now time.Time) {
	s, ok := w.Schedule.(*schedule.Schedule)
	if !ok {
		return
	}
	subject := "job " + w.Name + ", schedule"
	due := "due " + s.Describe()
	if slot, ok := s.Next(now); ok {
		due += "; next " + stamp(slot, s.Location())
	} else {
		c.add(sqlstore.Doubtful, "schedule", subject, "there is no slot left", "the job will not be due again", "change its schedule or remove the job")
	}
	c.add(sqlstore.Fine, "schedule", "job "+w.Name, due+"; zone data "+schedule.TZDataVersion(s.Location().String()).String(), "", "")
	all, clock := s.Warnings(now), s.ClockWarnings(now)
	for i, text := range all {
		severity := sqlstore.Doubtful
		if i >= len(all)-len(clock) {
			severity = sqlstore.Noted
		}
		c.add(severity, "schedule", subject, text, "", "")
	}
}
