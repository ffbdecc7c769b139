package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/crontab"
	"github.com/dibs-run/dibs/schedule"
)

// importFlags are the choices of import crontab.
type importFlags struct {
	wrap, shared, perHost, system bool
	zone, db                      string
}

func (a *app) importCommand() *cobra.Command {
	var f importFlags
	tab := &cobra.Command{
		Use:   "crontab [HOST=FILE…]",
		Short: "Turn crontabs into jobs, or wrap each of their lines",
		Long: "Prints the jobs of a dibs.yaml, or with --wrap the same crontab with dibs run in\n" +
			"front of each command and the schedule written into it, so that a line that fires\n" +
			"twice runs once. Reads standard input when no file is named; HOST= tells the files\n" +
			"of several hosts apart. Nothing is changed. What cannot be carried over is named by\n" +
			"its line number on standard error, and the exit code is then 3.",
		Example: "  crontab -l | dibs import crontab --wrap --time-zone Europe/Amsterdam\n" +
			"  dibs import crontab web1=web1.tab web2=web2.tab --shared --time-zone UTC",
	}
	s := tab.Flags()
	s.BoolVar(&f.wrap, "wrap", false, "print the crontab with each command wrapped")
	s.BoolVar(&f.shared, "shared", false, "a line of several hosts is one job: whichever host comes first runs it")
	s.BoolVar(&f.perHost, "per-host", false, "a line of several hosts runs on each of them")
	s.BoolVar(&f.system, "system", false, "the lines name a user, as in /etc/crontab (found out by the file's path)")
	s.StringVar(&f.zone, "time-zone", "", "zone in which cron reads the fields (default: CRON_TZ in the file, else this host's)")
	c := &cobra.Command{
		Use:     "import",
		Short:   "Turn crontabs into jobs, or wrap each of their lines",
		Long:    "Reads what another scheduler knows and prints what dibs would need. Nothing is changed.",
		Example: "  dibs import",
		Args:    cobra.NoArgs,
	}
	c.AddCommand(command("", tab, func(_ *cobra.Command, args []string) error { return a.importCrontab(args, f) }))
	return command(groupSetup, c, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
}

// tabFile is one crontab and where it is from.
type tabFile struct {
	host, path string
	lines      []crontab.Line
	// zones is the zone that each line is read in; "" is not known.
	zones []string
	shell []string // SHELL at each line
}

// name is how people know the file.
func (t *tabFile) name() string {
	if t.host != "" {
		return t.host + "=" + t.path
	}
	return t.path
}

func (a *app) importCrontab(args []string, f importFlags) error {
	if f.shared && f.perHost {
		return usageError("--shared and --per-host exclude one another")
	}
	f.db = a.flags.db
	files, err := a.readTabs(args, f)
	if err != nil {
		return err
	}
	m := &importer{app: a, f: f, files: files, names: map[string]string{}, taken: map[string]bool{}}
	if err := m.repeated(); err != nil {
		return err
	}
	if f.wrap {
		m.wrapped()
	} else {
		m.jobs()
	}
	for _, text := range m.left {
		a.say("%s", text)
	}
	if len(m.left) > 0 {
		return exitWith(exitFailed)
	}
	return nil
}

// readTabs reads the files, or standard input.
func (a *app) readTabs(args []string, f importFlags) ([]*tabFile, error) {
	if len(args) == 0 {
		args = []string{"-"}
	}
	var files []*tabFile
	var faults []error
	for _, arg := range args {
		t := &tabFile{path: arg}
		if host, path, ok := strings.Cut(arg, "="); ok {
			t.host, t.path = host, path
		}
		if err := a.readTab(t, f); err != nil {
			faults = append(faults, err)
		}
		files = append(files, t)
	}
	return files, errors.Join(faults...)
}

func (a *app) readTab(t *tabFile, f importFlags) error {
	var r io.Reader = a.in
	if t.path != "-" {
		file, err := os.Open(t.path)
		if err != nil {
			return usageError("%v", err)
		}
		defer func() { _ = file.Close() }() // only read
		r = file
	}
	lines, err := crontab.Read(r, f.system || systemForm(t.path))
	if err != nil {
		return usageError("%s: %v", t.path, err)
	}
	zone, shell := f.zone, ""
	if zone == "" && t.host == "" {
		zone = hostZone(a.env)
	}
	for _, l := range lines {
		if l.Kind == crontab.Variable && l.Name == "CRON_TZ" {
			zone = l.Value
		}
		if l.Kind == crontab.Variable && l.Name == "SHELL" {
			shell = l.Value
		}
		t.zones, t.shell = append(t.zones, zone), append(t.shell, shell)
	}
	t.lines = lines
	return nil
}

// systemForm tells whether a path is one whose lines name a user.
func systemForm(path string) bool {
	return path == "/etc/crontab" || filepath.Base(filepath.Dir(path)) == "cron.d"
}

// hostZone is the name of this host's zone, or "" when it has none that others
// would understand.
func hostZone(env func(string) string) string {
	if tz := strings.TrimPrefix(env("TZ"), ":"); tz != "" {
		return tz
	}
	target, err := os.Readlink("/etc/localtime")
	if err != nil {
		return ""
	}
	if _, name, ok := strings.Cut(target, "zoneinfo/"); ok {
		return name
	}
	return ""
}

// importer carries lines over.
type importer struct {
	app   *app
	f     importFlags
	files []*tabFile
	names map[string]string // of what a line does
	taken map[string]bool
	left  []string // what could not be carried over
}

// identity is what makes two lines the same work.
func identity(l crontab.Line) string {
	return strings.Join([]string{l.Schedule, l.User, l.Command, l.Input}, "\x00")
}

// repeated refuses lines that several hosts have until somebody says what is
// meant.
func (m *importer) repeated() error {
	if m.f.shared || m.f.perHost || len(m.files) < 2 {
		return nil
	}
	seen := map[string][]string{}
	var order []string
	for _, t := range m.files {
		for _, l := range t.lines {
			if l.Kind != crontab.Entry {
				continue
			}
			id := identity(l)
			if len(seen[id]) == 0 {
				order = append(order, id)
			}
			seen[id] = append(seen[id], fmt.Sprintf("%s line %d", t.name(), l.Number))
		}
	}
	var faults []error
	for _, id := range order {
		if where := seen[id]; len(where) > 1 {
			faults = append(faults, usageError("%s are the same: say --shared (one of the hosts runs it) or --per-host (each does)", strings.Join(where, " and ")))
		}
	}
	return errors.Join(faults...)
}

// leave notes that a line is not carried over.
func (m *importer) leave(t *tabFile, l crontab.Line, format string, args ...any) {
	m.left = append(m.left, fmt.Sprintf("%s line %d: %s", t.name(), l.Number, fmt.Sprintf(format, args...)))
}

// check tells whether a schedule can be kept; otherwise it says why not.
func (m *importer) check(t *tabFile, i int) bool {
	l, zone := t.lines[i], t.zones[i]
	if zone == "" {
		m.leave(t, l, "the zone that cron reads it in is not known here: give --time-zone")
		return false
	}
	if _, err := schedule.ParseExpr(l.Schedule, zone); err != nil {
		m.leave(t, l, "%v", strings.ReplaceAll(err.Error(), "\n", "; "))
		return false
	}
	return true
}

// nameOf is the job's name for a line: the same for the same work.
func (m *importer) nameOf(l crontab.Line) string {
	id := identity(l)
	if name, ok := m.names[id]; ok {
		return name
	}
	base := jobName(l.Shell())
	name := base
	for n := 2; m.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	m.taken[name], m.names[id] = true, name
	return name
}

// jobName makes a name of the program that a command is about.
func jobName(command string) string {
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t;&|()<>{}\"'`$", r) })
	for i, w := range words {
		base := filepath.Base(w)
		switch {
		case strings.HasPrefix(w, "-"), strings.Contains(w, "="), strings.HasPrefix(w, "/dev/"), strings.HasSuffix(w, ".lock"):
		case slices.Contains(wrappers(), base), i > 0 && words[i-1] == "cd", isNumber(w):
		default:
			if ext := filepath.Ext(base); ext != "" && ext != base {
				base = strings.TrimSuffix(base, ext)
			}
			if name := plainName(base); name != "" {
				return name
			}
		}
	}
	return "job"
}

// wrappers are programs that run another one, which is the one to be named.
func wrappers() []string {
	return []string{
		"sh", "bash", "dash", "zsh", "ksh", "env", "nice", "ionice", "timeout", "flock", "sudo", "su", "cd", "test", "[", "]", "exec",
		"python", "python3", "perl", "php", "ruby", "node", "java", "chronic", "time", "command", "nohup", "setsid", "if", "then", "true", "set", ".",
	}
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789.smhd") == "" }

// plainName keeps what needs no quoting anywhere.
func plainName(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, s), "-.")
}
