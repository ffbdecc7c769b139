package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// printer tells the story.
type printer struct {
	w      io.Writer
	colour bool
}

// newPrinter uses colour on a terminal only, and not when NO_COLOR is set.
func newPrinter(w io.Writer) *printer {
	f, ok := w.(*os.File)
	return &printer{w: w, colour: ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// tone is a colour by its meaning.
type tone string

// The tones.
const (
	good  tone = "32"
	bad   tone = "31"
	faint tone = "2"
	bold  tone = "1"
)

func (p *printer) paint(t tone, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

// act begins a part of the story.
func (p *printer) act(n int, title string) {
	p.line("\n%s", p.paint(bold, fmt.Sprintf("%d  %s", n, title)))
}

// say writes a line of the story.
func (p *printer) say(format string, args ...any) { p.line("   "+format, args...) }

// prompt shows a command as it would be typed, with a remark.
func (p *printer) prompt(command, remark string) {
	if remark == "" {
		p.say("%s", p.paint(bold, "$ "+command))
		return
	}
	p.say("%s", p.paint(bold, fmt.Sprintf("$ %-36s", command))+" "+p.paint(faint, "# "+remark))
}

// quote shows what a command wrote.
func (p *printer) quote(text string) {
	for l := range strings.SplitSeq(text, "\n") {
		if l == "" {
			p.line("")
			continue
		}
		p.line("     %s", l)
	}
}

// sides writes the comparison. failing is the account that was made to fail.
func (p *printer) sides(s Sides, failing string) {
	count := func(n, want int) string {
		if n == want {
			return p.paint(good, fmt.Sprintf("%3d", n))
		}
		return p.paint(bad, fmt.Sprintf("%3d", n))
	}
	p.line("")
	p.line("%s   accounts %d   notes in CRM %d", p.paint(bold, "two sides"), s.Accounts, s.Notes)
	p.line("  exactly once              %s", count(s.ExactlyOnce, s.Accounts-1))
	p.line("  twice                     %s%s", count(len(s.Twice), 0), list(s.Twice))
	why := list(s.Missing)
	if len(s.Missing) == 1 && s.Missing[0] == failing && len(s.Failed) == 1 && s.Failed[0] == failing {
		why = "   " + failing + " (fails on purpose; FAILED, as it should be)"
	}
	p.line("  missing                   %s%s", count(len(s.Missing), 1), why)
	p.line("  held by two runs at once  %s", count(len(s.HeldTwice), 0))
	p.line("  sent again                %3d%s", s.SentAgain, sentAgain(s))
}

// sentAgain explains the number.
func sentAgain(s Sides) string {
	if s.SentAgain == 0 || len(s.Twice) > 0 {
		return ""
	}
	return "   in flight when the run died; the CRM keeps one note per work ID"
}

func list(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return "   " + names(keys)
}

// plural writes "1 row", "3 rows".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
