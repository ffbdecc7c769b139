package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/crontab"
)

// mostCommand is the longest command that cron takes.
const mostCommand = 998

// wrapped prints each crontab with its commands wrapped. Everything else of a
// line, and every other line, stays as it was.
func (m *importer) wrapped() {
	for _, t := range m.files {
		if t.host != "" {
			m.app.out.line("# crontab of %s", t.host)
		}
		for i, l := range t.lines {
			if l.Kind == crontab.Bad {
				m.leave(t, l, "%s", l.Problem)
			}
			if text, ok := m.wrappedLine(t, i); ok {
				m.app.out.line("%s", text)
			} else {
				m.app.out.line("%s", l.Raw)
			}
		}
	}
}

func (m *importer) wrappedLine(t *tabFile, i int) (string, bool) {
	l := t.lines[i]
	if l.Kind != crontab.Entry || strings.HasPrefix(l.Command, m.app.program.Name+" ") {
		return "", false
	}
	flags := []string{m.app.program.Name, "run", m.nameOf(l)}
	if m.f.db != "" {
		flags = append(flags, "--db", quoteShell(strings.ReplaceAll(m.f.db, "%", `\%`)))
	}
	if m.f.perHost {
		flags = append(flags, "--per-host")
	}
	if l.Schedule != crontab.Reboot {
		if !m.check(t, i) {
			return "", false
		}
		flags = append(flags, "--schedule", quoteShell(l.Schedule), "--time-zone", t.zones[i])
	}
	command := l.Command
	if !simple(command) {
		command = `"$SHELL" -c ` + quoteShell(command)
	}
	text := strings.Join(append(flags, "--", command), " ")
	if l.HasInput {
		text += "%" + l.Input
	}
	if len(text) > mostCommand {
		m.leave(t, l, "the wrapped command has %d characters, and cron takes %d: put it into a script", len(text), mostCommand)
		return "", false
	}
	when := l.Schedule
	if l.User != "" {
		when += " " + l.User
	}
	return when + " " + text, true
}

// quoteShell quotes a text for a shell. Text from a crontab keeps its \%.
func quoteShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// simple tells whether a command needs no shell: words without anything that a
// shell would look at, the first of which is a program.
func simple(command string) bool {
	for _, r := range command {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(" _-./:,@+=", r) {
			return false
		}
	}
	first, _, _ := strings.Cut(command, " ")
	return first != "" && !strings.Contains(first, "=") && !slices.Contains(builtins(), first)
}

// builtins are what a shell does by itself.
func builtins() []string {
	return []string{
		".", ":", "alias", "bg", "break", "builtin", "case", "cd", "command", "continue", "declare", "do", "eval", "exec", "exit", "export", "fg", "for",
		"function", "hash", "if", "jobs", "let", "local", "pushd", "popd", "read", "readonly", "return", "select", "set", "shift", "source",
		"time", "times", "trap", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait", "while",
	}
}

// jobs prints the jobs of a dibs.yaml.
func (m *importer) jobs() {
	o := m.app.out
	o.line("# From %s. Overlap: cron itself would start a second run beside a slow one.", m.sources())
	o.line("defaults: {overlap: skip, on_uncertain: replay}")
	o.line("jobs:")
	done := map[string]bool{}
	empty := true
	for _, t := range m.files {
		for i, l := range t.lines {
			switch l.Kind {
			case crontab.Bad:
				m.leave(t, l, "%s", l.Problem)
			case crontab.Variable:
				if slices.Contains([]string{"RANDOM_DELAY", "START_HOURS_RANGE"}, l.Name) {
					m.leave(t, l, "%s has no counterpart; see jitter", l.Name)
				}
			case crontab.Entry:
				empty = !m.oneJob(t, i, done) && empty
			}
		}
	}
	if empty {
		o.line("  {}")
	}
}

func (m *importer) sources() string {
	var names []string
	for _, t := range m.files {
		name := t.name()
		if name == "-" {
			name = "a crontab"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// oneJob prints the job of a line, once for all hosts or once for each.
func (m *importer) oneJob(t *tabFile, i int, done map[string]bool) bool {
	l, o := t.lines[i], m.app.out
	switch {
	case l.Schedule == crontab.Reboot:
		m.leave(t, l, "@reboot is not a schedule: start it from an init system, or keep the line and wrap it (--wrap)")
		return false
	case strings.HasPrefix(l.Command, m.app.program.Name+" "):
		m.leave(t, l, "it calls %s already", m.app.program.Name)
		return false
	case l.User != "":
		m.leave(t, l, "it runs as %s, and a job runs as whoever runs dibs: import it into a file of that user's, or wrap it (--wrap)", l.User)
		return false
	case !m.check(t, i):
		return false
	}
	name := m.nameOf(l)
	if m.f.perHost && t.host != "" {
		name += "@" + t.host
	}
	if done[name] {
		return false
	}
	done[name] = true
	o.line("  %s:  # %s line %d", quoteYAML(name), t.name(), l.Number)
	o.line("    schedule: %s", quoteYAML(l.Schedule))
	o.line("    time_zone: %s", quoteYAML(t.zones[i]))
	script := m.script(t, i)
	if shell := t.shell[i]; shell != "" && shell != "/bin/sh" {
		o.line("    handler: {exec: [%s, \"-c\", %s]}", quoteYAML(shell), quoteYAML(script))
	} else {
		o.line("    handler: {shell: %s}", quoteYAML(script))
	}
	return true
}

// script is what cron would have done for a line: its variables, its folder, and
// what the command reads.
func (m *importer) script(t *tabFile, i int) string {
	l := t.lines[i]
	var b strings.Builder
	for _, v := range t.lines[:i] {
		if v.Kind == crontab.Variable && !slices.Contains([]string{"SHELL", "MAILTO", "MAILFROM", "CRON_TZ", "RANDOM_DELAY", "START_HOURS_RANGE"}, v.Name) && identifier(v.Name) {
			fmt.Fprintf(&b, "export %s=%s; ", v.Name, quoteShell(v.Value))
		}
	}
	b.WriteString(`cd "$HOME" || exit; `)
	if l.HasInput {
		fmt.Fprintf(&b, "printf %%s %s | { %s\n}", quoteShell(l.Stdin()), l.Shell())
	} else {
		b.WriteString(l.Shell())
	}
	return b.String()
}

func identifier(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// quoteYAML quotes a text for dibs.yaml, in which ${…} would be replaced.
func quoteYAML(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.ReplaceAll(s, "${", "$${")); err != nil { // a string always encodes
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
