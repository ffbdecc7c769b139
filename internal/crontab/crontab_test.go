package crontab

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadKnowsEveryKindOfLine(t *testing.T) {
	for _, tt := range []struct {
		text   string
		system bool
		want   Line
	}{
		{text: "", want: Line{}},
		{text: "  # */5 * * * * not a line", want: Line{}},
		{text: "MAILTO=ops@example", want: Line{Kind: Variable, Name: "MAILTO", Value: "ops@example"}},
		{text: ` PATH = "/a b:/c" `, want: Line{Kind: Variable, Name: "PATH", Value: "/a b:/c"}},
		{text: `"ODD NAME"='x'`, want: Line{Kind: Variable, Name: "ODD NAME", Value: "x"}},
		{text: "EMPTY=", want: Line{Kind: Variable, Name: "EMPTY"}},
		{text: "*/5 * * * * /srv/export.sh --all", want: Line{Kind: Entry, Schedule: "*/5 * * * *", Command: "/srv/export.sh --all"}},
		{text: "\t0\t9  * * 1-5   A=1 run  it  ", want: Line{Kind: Entry, Schedule: "0 9 * * 1-5", Command: "A=1 run  it"}},
		{text: "@daily backup", want: Line{Kind: Entry, Schedule: "@daily", Command: "backup"}},
		{text: "@reboot agent", want: Line{Kind: Entry, Schedule: "@reboot", Command: "agent"}},
		{text: "17 * * * * root run-parts /etc/cron.hourly", system: true,
			want: Line{Kind: Entry, Schedule: "17 * * * *", User: "root", Command: "run-parts /etc/cron.hourly"}},
		{text: `0 0 * * * date +\%F`, want: Line{Kind: Entry, Schedule: "0 0 * * *", Command: `date +\%F`}},
		{text: "0 0 * * * mail ops%Hello%all \\% of you", want: Line{Kind: Entry, Schedule: "0 0 * * *", Command: "mail ops",
			Input: `Hello%all \% of you`, HasInput: true}},
		{text: "0 0 * * * cat%", want: Line{Kind: Entry, Schedule: "0 0 * * *", Command: "cat", HasInput: true}},
		{text: "* * * *", want: Line{Kind: Bad, Problem: "want five fields of time, or a word such as @daily, and a command"}},
		{text: "@sometimes x", want: Line{Kind: Bad, Schedule: "@sometimes", Problem: "@sometimes is not a word that cron knows"}},
		{text: "* * * * *", want: Line{Kind: Bad, Schedule: "* * * * *", Problem: "there is no command"}},
		{text: "* * * * * root", system: true, want: Line{Kind: Bad, Schedule: "* * * * *", User: "root", Problem: "there is no command"}},
	} {
		lines, err := Read(strings.NewReader(tt.text+"\n"), tt.system)
		if err != nil || len(lines) != 1 {
			t.Fatalf("%q: %d lines, %v", tt.text, len(lines), err)
		}
		tt.want.Number, tt.want.Raw = 1, tt.text
		if diff := cmp.Diff(tt.want, lines[0]); diff != "" {
			t.Errorf("%q (-want +got)\n%s", tt.text, diff)
		}
	}
}

func TestPercentSigns(t *testing.T) {
	lines, err := Read(strings.NewReader(`0 0 * * * mail -s "\% done" ops%Hello%100\% of you`), false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := lines[0].Shell(), `mail -s "% done" ops`; got != want {
		t.Errorf("command %q, want %q", got, want)
	}
	if got, want := lines[0].Stdin(), "Hello\n100% of you\n"; got != want {
		t.Errorf("input %q, want %q", got, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("*/5 * * * * a%b\nX=1\n@daily c", true)
	f.Fuzz(func(t *testing.T, text string, system bool) {
		lines, err := Read(strings.NewReader(text), system)
		if err != nil {
			return
		}
		for i, l := range lines {
			if l.Number != i+1 || l.Kind == Entry && (l.Command == "" || l.Schedule == "") {
				t.Errorf("line %d of %q: %+v", i+1, text, l)
			}
		}
	})
}
