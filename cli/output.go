package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// output writes for people or, as one document, for programs.
type output struct {
	w      io.Writer
	tty    bool
	colour bool
}

// newOutput finds out whether w is a terminal. Colour is for terminals only,
// and NO_COLOR turns it off.
func newOutput(w io.Writer, env func(string) string) *output {
	o := &output{w: w, tty: isTerminal(w)}
	o.colour = o.tty && env("NO_COLOR") == "" && env("TERM") != "dumb"
	return o
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is the terminal's width in columns; 0 when there is no terminal.
func (o *output) width() int {
	f, ok := o.w.(*os.File)
	if !ok || !o.tty {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// line writes one line.
func (o *output) line(format string, args ...any) { fmt.Fprintf(o.w, format+"\n", args...) }

// json writes v as one indented document.
func (o *output) json(v any) error {
	e := json.NewEncoder(o.w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// tone is a colour by its meaning.
type tone string

// The tones.
const (
	plain tone = ""
	good  tone = "32"
	warn  tone = "33"
	bad   tone = "31"
	faint tone = "2"
	bold  tone = "1"
)

// paint colours text on a terminal.
func (o *output) paint(t tone, text string) string {
	if !o.colour || t == plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// cell is a table's cell.
type cell struct {
	text string
	tone tone
}

// text is a plain cell.
func text(format string, args ...any) cell { return cell{text: fmt.Sprintf(format, args...)} }

// table aligns rows of cells; the first may be a heading. Cells after the last
// filled one cost nothing, and no line ends in spaces.
type table struct {
	rows  [][]cell
	right map[int]bool // columns that align right
}

// add adds a row; what a terminal must not see of it is made visible.
func (t *table) add(cells ...cell) {
	for i := range cells {
		cells[i].text = visible(cells[i].text)
	}
	t.rows = append(t.rows, cells)
}

// head adds a row of faint words.
func (t *table) head(words ...string) {
	row := make([]cell, len(words))
	for i, w := range words {
		row[i] = cell{w, faint}
	}
	t.rows = append(t.rows, row)
}

// write aligns the columns by the widest cell of each.
func (t *table) write(o *output, indent string) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		pending := ""
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			before, after := "", pad
			if t.right[i] {
				before, after = pad, ""
			}
			if c.text != "" {
				b.WriteString(pending + before + o.paint(c.tone, c.text))
				pending = after + "  "
			} else {
				pending += pad + "  "
			}
		}
		if b.Len() == 0 {
			fmt.Fprintln(o.w)
			continue
		}
		fmt.Fprintln(o.w, indent+b.String())
	}
}

// span writes a length of time for people, two units at most: 350ms, 6.2s, 4m31s, 2h05m,
// 3d04h.
func span(d time.Duration) string {
	if d < 0 {
		return "-" + span(d.Abs()) // which, unlike -d, exists for the least duration too
	}
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// clock writes an instant for people beside others of the same day: the time
// alone, with the day where it is another one than now's.
func clock(t, now time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "–"
	}
	t, now = t.In(zone), now.In(zone)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	if since := now.Sub(t); since.Abs() < 6*24*time.Hour {
		return t.Format("Mon 15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// stamp writes an instant in full, with its zone's offset.
func stamp(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(zone).Format("2006-01-02 15:04:05 -07:00")
}

// plural writes "1 row", "3 rows".
func plural(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
