package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

func noEnv(string) (string, bool) { return "", false }

// call runs one command of a program without a database.
func call(args ...string) (code int, stdout, stderr string) {
	var out, log bytes.Buffer
	code = Main(context.Background(), Program{Env: noEnv, Version: "v1"}, args, strings.NewReader(""), &out, &log)
	return code, out.String(), log.String()
}

func TestEachCommandHasItsPlaceAndAnExample(t *testing.T) {
	a := &app{program: Program{}.withDefaults()}
	a.out = newOutput(&bytes.Buffer{}, a.env)
	root := a.root(nil)
	root.InitDefaultCompletionCmd()
	groups := []string{groupRun, groupSee, groupAct, groupProve, groupSetup}
	for _, c := range root.Commands() {
		if c.Hidden {
			continue
		}
		if !slices.Contains(groups, c.GroupID) {
			t.Errorf("%s is in no group", c.Name())
		}
		if c.Name() == "completion" {
			continue // cobra's own
		}
		if c.Example == "" || c.Short == "" || c.Long == "" && c.Name() != "version" {
			t.Errorf("%s lacks an example, or words", c.Name())
		}
		if strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short texts end without a full stop", c.Name())
		}
		if len(c.Short) > 60 {
			t.Errorf("%s: its short text does not fit the list", c.Name())
		}
		for _, line := range strings.Split(c.Long, "\n") {
			if len([]rune(line)) > 88 {
				t.Errorf("%s: a line of %d characters: %s", c.Name(), len(line), line)
			}
		}
		examplesParse(t, root, c)
	}
}

// examplesParse checks that the flags of each example exist.
func examplesParse(t *testing.T, root, c *cobra.Command) {
	for _, line := range strings.Split(c.Example, "\n") {
		line, _, _ = strings.Cut(line, "  #")
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "sudo "))
		if len(words) == 0 || words[0] != "dibs" {
			continue
		}
		found, rest, err := root.Find(words[1:])
		if err != nil || found != c {
			t.Errorf("%s: its example %q calls %q", c.Name(), line, found.Name())
			continue
		}
		for _, w := range rest {
			name, isFlag := strings.CutPrefix(w, "--")
			name, _, _ = strings.Cut(name, "=")
			if isFlag && name != "" && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
				t.Errorf("%s: its example has an unknown flag --%s", c.Name(), name)
			}
		}
	}
}

func TestExitCodes(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("around it: %w", err) }
	for _, tt := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{wrap(&dibs.ConfigError{Subject: "x"}), 2},
		{wrap(dibs.ErrNotFound), 2},
		{wrap(dibs.ErrPoolTooSmall), 2},
		{usageError("no"), 2},
		{wrap(dibs.ErrUnavailable), 69},
		{wrap(dibs.ErrSchema), 69},
		{wrap(dibs.ErrForeign), 69},
		{errors.New("what nobody foresaw"), 69},
		{wrap(&dibs.HeldError{}), 75},
		{wrap(&dibs.RefusedError{}), 75},
		{wrap(dibs.ErrPaused), 75},
		{wrap(dibs.ErrLeaseLost), 76},
		{errors.Join(wrap(dibs.ErrLeaseLost), wrap(dibs.ErrUnavailable)), 76},
		{exitWith(4), 4},
	} {
		if got := codeOf(tt.err); got != tt.code {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.code)
		}
	}
}

func TestTheGraverCodeWins(t *testing.T) {
	order := []int{0, 75, 3, 4, 2, 69, 76}
	for i, a := range order {
		for j, b := range order {
			if want := order[max(i, j)]; graver(a, b) != want {
				t.Errorf("graver(%d, %d) = %d, want %d", a, b, graver(a, b), want)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	w := &work{Job: dibs.Job{Name: "x"}}
	run := func(state dibs.RunState, c dibs.Counts) dibs.Report {
		return dibs.Report{Trigger: dibs.Trigger{Decision: dibs.DecisionStarted}, Run: &dibs.Run{State: state, Counts: c}}
	}
	skipped := dibs.Report{Trigger: dibs.Trigger{Decision: dibs.DecisionSkipped}}
	for _, tt := range []struct {
		name   string
		report dibs.Report
		err    error
		strict bool
		code   int
	}{
		{"all done", run(dibs.RunSucceeded, dibs.Counts{Selected: 2, Completed: 2}), nil, false, 0},
		{"one failed", run(dibs.RunPartial, dibs.Counts{Selected: 2, Completed: 1, Failed: 1}), nil, false, 3},
		{"one rejected", run(dibs.RunPartial, dibs.Counts{Selected: 2, Completed: 1, Rejected: 1}), nil, false, 3},
		{"uncertain is graver", run(dibs.RunPartial, dibs.Counts{Selected: 2, Uncertain: 1, Failed: 1}), nil, false, 4},
		{"held", run(dibs.RunPartial, dibs.Counts{Selected: 1, Held: 1}), nil, false, 4},
		{"lost is gravest", run(dibs.RunLost, dibs.Counts{Selected: 1, Uncertain: 1}), dibs.ErrLeaseLost, false, 76},
		{"released is fine", run(dibs.RunCancelled, dibs.Counts{Selected: 1, Released: 1}), nil, false, 0},
		{"skipped for a timer", skipped, nil, false, 0},
		{"skipped for a person", skipped, nil, true, 75},
		{"refused for a person", skipped, &dibs.HeldError{}, true, 75},
		{"refused for a timer", skipped, &dibs.HeldError{}, false, 0},
		{"nothing was run", dibs.Report{}, dibs.ErrUnavailable, false, 69},
		{"the database went away in a run", run(dibs.RunFailed, dibs.Counts{}), dibs.ErrUnavailable, false, 69},
	} {
		if got := judge(w, tt.report, tt.err, tt.strict).code; got != tt.code {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.code)
		}
	}
}

func TestEachFaultHasALineOfItsOwn(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	got := faultsOf(errors.Join(one, errors.Join(two, fmt.Errorf("%w, then %w", one, two))))
	if len(got) != 3 || !errors.Is(got[0], one) || !errors.Is(got[1], two) || got[2].Error() != "one, then two" {
		t.Errorf("faults: %q", got)
	}
	if got := faultsOf(fmt.Errorf("job x: %w", errors.Join(one, two))); len(got) != 1 {
		t.Errorf("a sentence around a list was cut: %q", got)
	}
}

func TestUsageErrorsSayWhatToTry(t *testing.T) {
	for _, args := range [][]string{{"nonsense"}, {"tick", "--nope"}, {"version", "extra"}, {"adopt", "t"}, {"print", "nothing"}} {
		code, out, log := call(args...)
		if code != 2 || out != "" || !strings.HasPrefix(log, "dibs: ") || !strings.Contains(log, "\nTry: dibs") {
			t.Errorf("%q: code %d, stdout %q, stderr %q", args, code, out, log)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", 350 * time.Millisecond: "350ms", 6200 * time.Millisecond: "6.2s", 6 * time.Second: "6s",
		59 * time.Second: "59s", 271 * time.Second: "4m31s", 2*time.Hour + 5*time.Minute: "2h05m",
		76 * time.Hour: "3d04h", -time.Second: "-1s",
		math.MinInt64: "-106751d23h", math.MaxInt64: "106751d23h",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestClockNamesTheDayOnlyWhenItIsAnother(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Amsterdam")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 29, 23, 30, 0, 0, time.UTC) // 00:30 on the 30th in Amsterdam
	for _, tt := range []struct {
		at   time.Time
		want string
	}{
		{now, "00:30:00"}, {now.Add(-time.Hour), "Sun 23:30:00"}, {now.Add(-30 * 24 * time.Hour), "2026-10-31 00:30:00"}, {time.Time{}, "–"},
	} {
		if got := clock(tt.at, now, zone); got != tt.want {
			t.Errorf("clock(%v) = %q, want %q", tt.at, got, tt.want)
		}
	}
}

func TestTableAlignsByWhatPeopleSee(t *testing.T) {
	var b bytes.Buffer
	o := newOutput(&b, func(string) string { return "" })
	var tb table
	tb.head("JOB", "NOW", "NEXT")
	tb.add(text("crm–sync"), text("läuft"), text(""))
	tb.add(text("x"), text(""), text("14:00"))
	tb.write(o, "  ")
	want := "  JOB       NOW    NEXT\n  crm–sync  läuft\n  x                14:00\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestSuffixOf(t *testing.T) {
	for in, want := range map[string]string{"…k3v9": "k3v9", "...K3V9": "k3v9", " run_x ": "run_x", "…": ""} {
		if got := suffixOf(in); got != want {
			t.Errorf("suffixOf(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestYAMLText(t *testing.T) {
	for in, want := range map[string]string{
		"name": "name", "": "''", "on": "'on'", "1st": "'1st'", "it's": "'it''s'", "a: b": "'a: b'", "${X}": "'$${X}'", "a.b": "'a.b'",
	} {
		if got := yamlText(in); got != want {
			t.Errorf("yamlText(%q) = %s, want %s", in, got, want)
		}
	}
}
