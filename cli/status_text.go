package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// doing is what a job does now.
func (l *look) doing(j jobStatus) cell {
	if j.Health == paused {
		return cell{l.pauseText(*j.State), warn}
	}
	if len(j.Live) == 0 {
		return cell{"idle", faint}
	}
	var done, selected int64
	oldest := j.Live[0]
	for _, r := range j.Live {
		done += r.Counts.Completed + r.Counts.AlreadyDone
		selected += r.Counts.Selected
		if r.StartedAt.Before(oldest.StartedAt) {
			oldest = r
		}
	}
	var parts []string
	if oldest.Kind == dibs.KindItems && selected > 0 { // counts come with the first renewal or settle
		parts = append(parts, fmt.Sprintf("%d/%d", done, selected))
	}
	parts = append(parts, span(l.took(oldest)))
	if len(j.Live) > 1 {
		parts = append(parts, fmt.Sprintf("%d runs", len(j.Live)))
	} else {
		parts = append(parts, cutTo(visible(oldest.Holder.Host), 20)+" "+dibs.ShortID(oldest.ID))
	}
	return cell{strings.Join(parts, "  "), good}
}

// pauseText says until when.
func (l *look) pauseText(s dibs.JobState) string {
	text := "PAUSED"
	if !s.PausedUntil.IsZero() && s.PausedUntil.Year() < 9000 {
		text += " until " + l.at(s.PausedUntil, s.Name)
	}
	return text
}

func (l *look) lastGood(j jobStatus) cell {
	if j.LastGood.IsZero() {
		return cell{"never", faint}
	}
	return text("%s", l.at(j.LastGood, j.Job))
}

// nextSlot is when the job's schedule is due next; blank when no job has one.
func (l *look) nextSlot(j jobStatus, any bool) cell {
	switch {
	case !any:
		return cell{}
	case j.Next.IsZero():
		return cell{"–", faint}
	}
	return text("%s", l.at(j.Next, j.Job))
}

// quantile is the smallest of the values that p percent do not exceed.
func quantile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(float64(len(sorted)*p)/100))-1)]
}

// spark draws the last durations, the longest as a full block.
func spark(values []time.Duration) string {
	values = values[max(0, len(values)-shownTimes):]
	levels := []rune("▁▂▃▄▅▆▇█")
	most := slices.Max(values)
	var b strings.Builder
	for _, v := range values {
		level := 0
		if most > 0 {
			level = int(math.Round(float64(v) / float64(most) * float64(len(levels)-1)))
		}
		b.WriteRune(levels[level])
	}
	return b.String()
}

// word writes a name as a shell takes it.
func word(s string) string {
	plain := s != "" && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("@%+=:,./_-", r) && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(visible(s), "'", `'\''`) + "'"
}
