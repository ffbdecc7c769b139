package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/schedule"
)

func TestLooksLikeSchedule(t *testing.T) {
	for what, want := range map[string]bool{
		"*/5 * * * *": true, "@daily": true, "@nonsense": true, "CRON_TZ=UTC @daily": true, "tz=UTC": true, "*": true, "": true, " ": true,
		"at 2027-01-01T00:00:00Z": true, "0 9": true, "MON 9 * * *": true, "?": true,
		"crm-sync": false, "by hand": false, "at home today": false, "7zip": false, "läuft": false, "TZ": false,
	} {
		if got := looksLikeSchedule(what); got != want {
			t.Errorf("%q: %v", what, got)
		}
	}
}

func TestCaret(t *testing.T) {
	for _, c := range []struct {
		expr string
		pos  int
		want string
	}{
		{"61 * * * *", 0, "  61 * * * *\n  ^"},
		{"ü 61", 3, "  ü 61\n    ^"},
		{"0\t61", 2, "  0\\t61\n     ^"},
		{"0 9", 3, "  0 9\n     ^"},
		{"0 9", -1, ""},
		{strings.Repeat("1,", 100), 4, ""},
	} {
		if got := caret(c.expr, c.pos); got != c.want {
			t.Errorf("%q at %d:\n%s\nwant\n%s", c.expr, c.pos, got, c.want)
		}
	}
}

func TestNextOfAJobWrittenInGo(t *testing.T) {
	s, err := schedule.Parse(schedule.Spec{Cron: "0 9 * * *", Zone: "Europe/Paris"})
	if err != nil {
		t.Fatal(err)
	}
	p := Program{Env: noEnv, Jobs: []dibs.Job{{Name: "in go", Schedule: s}, {Name: "bare"}}}
	for _, c := range []struct {
		args      []string
		code      int
		out, errs string
	}{
		{[]string{"in go"}, 0, "in go  at 09:00, Europe/Paris", ""},
		{[]string{"in go", "--zone", "Asia/Kolkata"}, 0, "in go  at 09:00, Asia/Kolkata", ""},
		{[]string{"in go", "--seconds"}, 2, "", "--seconds is for an expression"},
		{[]string{"bare"}, 2, "", "job bare: has no schedule"},
		{[]string{"other"}, 2, "", "there is no such job"},
	} {
		var out, log bytes.Buffer
		code := Main(context.Background(), p, append([]string{"next"}, c.args...), strings.NewReader(""), &out, &log)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(log.String(), c.errs) {
			t.Errorf("%q: code %d\n%s%s", c.args, code, out.String(), log.String())
		}
	}
}
