package runner

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs"
)

// window tells an item which slots its run covers, and the time that they stand
// for: from the slot before the first to the run's own.
func (s *shift) window(item *dibs.Item) {
	if item.Slot.IsZero() {
		return
	}
	first := item.Slot
	if len(s.trigger.Covered) > 0 {
		item.Covered = append(slices.Clone(s.trigger.Covered), s.trigger.Slot)
		slices.SortFunc(item.Covered, time.Time.Compare)
		item.Covered = slices.CompactFunc(item.Covered, time.Time.Equal)
		first = item.Covered[0]
	}
	if s.job.Schedule == nil {
		return
	}
	if before, ok := s.job.Schedule.Prev(first.Add(-1)); ok {
		item.WindowStart, item.WindowEnd = before, item.Slot
	}
}
