package cli

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
)

// liveLine is the line at the bottom of a terminal that is written over. A nil
// line shows nothing, which is what everything but a terminal gets.
type liveLine struct {
	out   *output
	shown bool
	last  time.Time
}

// redraw is the least time between two drawings.
const redraw = 100 * time.Millisecond

// show writes the line over the last one, not more often than people can read.
func (l *liveLine) show(text string) {
	if l == nil || text == "" || l.shown && time.Since(l.last) < redraw {
		return
	}
	if w := l.out.width(); w > 1 && utf8.RuneCountInString(text) > w-1 {
		text = string([]rune(text)[:w-2]) + "…"
	}
	fmt.Fprint(l.out.w, "\r\x1b[K"+l.out.paint(faint, text))
	l.shown, l.last = true, time.Now()
}

// clear removes the line, so that another can be written in its place.
func (l *liveLine) clear() {
	if l == nil || !l.shown {
		return
	}
	fmt.Fprint(l.out.w, "\r\x1b[K")
	l.shown = false
}

// countDue counts once what is due, so that the live line can say what remains.
// Others may take of it meanwhile: it is a hint, and nobody but a person at a
// terminal waits for it.
func (p *printer) countDue(ctx context.Context, store Store, works []*work) {
	if p.live == nil {
		return
	}
	now, err := store.Now(ctx)
	if err != nil {
		return // the run itself will say what is wrong
	}
	for _, w := range works {
		t, ok := w.Source.(dibs.Table)
		if !ok {
			continue
		}
		claims, err := store.Claims(ctx, t)
		if err != nil {
			continue
		}
		scope, err := scopeOf(w, t, now, "")
		if err != nil {
			continue
		}
		if n, err := claims.Remaining(ctx, scope, dryDue); err == nil && n < dryDue {
			p.due[w.Name] = n
		}
	}
}

// status is the live line's text: what is done, how fast, and what is left of
// the lease. Called under mu.
func (p *printer) status() string {
	var parts []string
	for name, s := range p.runs {
		c := s.counts
		if c.Selected == 0 {
			continue
		}
		done := c.Ended()
		took := max(time.Since(s.began), time.Millisecond)
		text := fmt.Sprintf("  %d/%d done", done, c.Selected)
		if bad := c.Failed + c.Rejected + c.Uncertain + c.Held; bad > 0 {
			text += fmt.Sprintf(", %d failed", bad)
		}
		if due := p.due[name]; due > done {
			text += fmt.Sprintf(", %d remaining", due-done)
		}
		text += fmt.Sprintf("  %.1f/s", float64(done)/took.Seconds())
		if !s.until.IsZero() {
			text += "  lease " + span(max(time.Until(s.until), 0)) + " left"
		}
		if p.many {
			text = "  " + name + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "  |")
}
