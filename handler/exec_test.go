//go:build unix

package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/handler"
)

func shell(script string) handler.ExecConfig {
	return handler.ExecConfig{Argv: []string{"/bin/sh", "-c", script}}
}

func mustExec(t *testing.T, c handler.ExecConfig) dibs.Handle {
	t.Helper()
	h, err := handler.Exec(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestExecVerdicts(t *testing.T) {
	for _, c := range []struct {
		script string
		want   dibs.Verdict
		text   string
	}{
		{"exit 0", dibs.Verdict{Outcome: dibs.OutcomeCompleted}, ""},
		{"exit 65", dibs.Verdict{Outcome: dibs.OutcomeRejected}, "exit status 65"},
		{"exit 75", dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}, "exit status 75"},
		{"exit 126", dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}, "exit status 126"},
		{"no-such-command-here", dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}, "not found"},
		{"echo boom >&2; exit 1", dibs.Verdict{Outcome: dibs.OutcomeUncertain}, "sh: exit status 1: boom"},
		{"exit 143", dibs.Verdict{Outcome: dibs.OutcomeUncertain}, "143"},
		{"kill -KILL $$", dibs.Verdict{Outcome: dibs.OutcomeUncertain}, "signal: killed"},
	} {
		t.Run(c.script, func(t *testing.T) {
			_, err := mustExec(t, shell(c.script))(t.Context(), item())
			if got := dibs.VerdictOf(err); got != c.want {
				t.Errorf("verdict %+v, want %+v (%v)", got, c.want, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q does not say %q", err, c.text)
			}
		})
	}
}

func TestExecThatCannotStartIsNotApplied(t *testing.T) {
	dir := t.TempDir()
	notExecutable := filepath.Join(dir, "file")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(dibs.ErrLeaseLost)
	for name, c := range map[string]struct {
		ctx    context.Context
		config handler.ExecConfig
	}{
		"missing":        {t.Context(), handler.ExecConfig{Argv: []string{"/no/such/command"}}},
		"not in PATH":    {t.Context(), handler.ExecConfig{Argv: []string{"no-such-command-here"}}},
		"not executable": {t.Context(), handler.ExecConfig{Argv: []string{notExecutable}}},
		"missing dir":    {t.Context(), handler.ExecConfig{Argv: []string{"/bin/sh"}, Dir: "/no/such/dir"}},
		"ended context":  {ended, shell("exit 0")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mustExec(t, c.config)(c.ctx, item())
			if got := dibs.VerdictOf(err); got != (dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}) {
				t.Errorf("verdict %+v (%v)", got, err)
			}
		})
	}
}

func TestExecReceivesTheItem(t *testing.T) {
	dir := t.TempDir()
	c := shell(`cat > stdin; env > env; printf '%s' "$1" > arg`)
	c.Argv = append(c.Argv, "sh", `{key} $(rm -rf /); "`)
	c.Dir, c.Env = dir, []string{"EXTRA=a=b", "HOME=/elsewhere"}
	t.Setenv("DIBS_WINDOW_END", "inherited")
	t.Setenv("DIBS_LAST_SUCCESS", "inherited")
	if _, err := mustExec(t, c)(t.Context(), item()); err != nil {
		t.Fatal(err)
	}
	env := "\n" + read(t, dir, "env")
	for _, want := range []string{
		"DIBS_JOB=crm-sync", "DIBS_RUN_ID=run_1", "DIBS_WORK_ID=crm-sync/sync-note/42/7", "DIBS_KEY=42", "DIBS_FENCE=3",
		"DIBS_ATTEMPT=2", "DIBS_CYCLE=7", "DIBS_ORIGIN=schedule", "DIBS_SLOT=2026-03-01T08:00:00Z",
		"DIBS_WINDOW_START=2026-03-01T07:55:00Z", "DIBS_WINDOW_END=2026-03-01T08:00:00Z", "DIBS_LAST_SUCCESS=",
		"DIBS_COVERED_SLOTS=2026-03-01T08:00:00Z", "DIBS_PREVIOUS=lost:run_0", "DIBS_DEADLINE=2026-03-01T08:01:00Z",
		"EXTRA=a=b", "HOME=/elsewhere",
	} {
		if !strings.Contains(env, "\n"+want+"\n") {
			t.Errorf("environment lacks %s", want)
		}
	}
	if got := read(t, dir, "arg"); got != c.Argv[4] {
		t.Errorf("argument arrived as %q", got)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(read(t, dir, "stdin")), &got); err != nil {
		t.Fatal(err)
	}
	if got["key"] != "42" || got["work_id"] != "crm-sync/sync-note/42/7" || got["slot"] != "2026-03-01T08:00:00Z" {
		t.Errorf("item arrived as %v", got)
	}
	if !strings.Contains(read(t, dir, "stdin"), "9007199254740993") {
		t.Error("a big number lost its last digit")
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestExecReceipts(t *testing.T) {
	for _, c := range []struct{ script, id, problem string }{
		{`echo '{"id":"n-1"}'`, "n-1", ""},
		{`echo hello; printf '{"id": 9007199254740993}\n\n  \n'`, "9007199254740993", ""},
		{`echo hello`, "", ""},
		{`echo '{"level":"info"}'`, "", ""},
		{`echo '{"id":"n-1"'`, "", "not JSON"},
		{`echo '{"id":"n-1"} trailing'`, "", "follows"},
		{`echo '{"id":{}}'`, "", "id: neither"},
		{`echo '{"id":""}'`, "", "id: empty"},
		{`printf '{"id":"a\\u0000b"}\n'`, "", "id: not plain"},
		{`printf '\000\377\n{"id":"n-1"}'`, "n-1", ""},
		{`exec >&-; exit 0`, "", ""},
		{`exec <&-; echo '{"id":"n-1"}'`, "n-1", ""},
		{`head -c 100000000 /dev/zero | tr '\0' x`, "", "too long"},
		{`head -c 100000000 /dev/zero; echo; echo '{"id":"n-1"}'`, "n-1", ""},
	} {
		t.Run(c.script, func(t *testing.T) {
			it := item() // far more than a pipe holds, and nobody reads it
			it.Payload, _ = json.Marshal(map[string]string{"big": strings.Repeat("x", 1<<20)})
			r, err := mustExec(t, shell(c.script))(t.Context(), it)
			if err != nil || r.ID != c.id {
				t.Errorf("receipt %+v, error %v", r, err)
			}
			if got := r.Evidence["problem"]; (got == "") != (c.problem == "") || !strings.Contains(got, c.problem) {
				t.Errorf("problem %q, want %q", got, c.problem)
			}
		})
	}
}

func TestExecEvidenceIsBounded(t *testing.T) {
	fields := map[string]any{"long": strings.Repeat("x", 5000), "nested": []int{1}, "esc": "a\x1b[31mb\nc"}
	for i := range 100 {
		fields[fmt.Sprintf("z%03d", i)] = i
	}
	line, _ := json.Marshal(map[string]any{"id": "n-1", "evidence": fields})
	r, err := mustExec(t, handler.ExecConfig{Argv: []string{"printf", "%s", string(line)}})(t.Context(), item())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Evidence) != 32 || len(r.Evidence["long"]) > 1010 || r.Evidence["nested"] != "[1]" || r.Evidence["esc"] != "ab | c" {
		t.Errorf("%d fields: %v", len(r.Evidence), r.Evidence)
	}
}

func TestExecErrorTextIsBoundedAndClean(t *testing.T) {
	_, err := mustExec(t, shell(`head -c 3000000 /dev/zero >&2; printf 'ö\033[31mred\033[0m\rline\n\nend\007\377' >&2; exit 1`))(t.Context(), item())
	text := err.Error()
	if len(text) > 2200 || strings.ContainsAny(text, "\x00\x1b\r\n\a") || !strings.HasSuffix(text, "öred | line | end\uFFFD\uFFFD") {
		t.Errorf("%d bytes: …%q", len(text), text[max(0, len(text)-100):])
	}
}

func TestExecRejectsWhatNoEnvironmentCanHold(t *testing.T) {
	it := item()
	it.Key = dibs.Key{"a\x00b"}
	if _, err := mustExec(t, shell("exit 0"))(t.Context(), it); dibs.VerdictOf(err).Outcome != dibs.OutcomeRejected {
		t.Errorf("NUL in a key: %v", err)
	}
	it = item()
	it.Payload = json.RawMessage("{broken")
	if _, err := mustExec(t, shell("exit 0"))(t.Context(), it); dibs.VerdictOf(err).Outcome != dibs.OutcomeRejected {
		t.Errorf("broken payload: %v", err)
	}
	it = item()
	it.Covered = make([]time.Time, 100_000)
	for i := range it.Covered {
		it.Covered[i] = slot.Add(time.Duration(i) * time.Minute)
	}
	if _, err := mustExec(t, shell("exit 0"))(t.Context(), it); err != nil {
		t.Errorf("many covered slots: %v", err)
	}
}

// TestExecStopsTheGroup: the shell's child must not survive, whether it heeds
// TERM or not.
func TestExecStopsTheGroup(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		atOnce bool
	}{
		"heeds TERM":               {"sleep 30 & echo $! > pid.tmp; mv pid.tmp pid; wait", 20 * time.Second, true},
		"child ignores TERM":       {"(trap '' TERM; exec sleep 30) & echo $! > pid.tmp; mv pid.tmp pid; wait", 300 * time.Millisecond, false},
		"all ignore TERM":          {"trap '' TERM; sleep 30 & echo $! > pid.tmp; mv pid.tmp pid; wait; wait", 300 * time.Millisecond, false},
		"no grace":                 {"trap '' TERM; sleep 30 & echo $! > pid.tmp; mv pid.tmp pid; wait; wait", -1, true},
		"child's output elsewhere": {"(trap '' TERM; exec sleep 30) >/dev/null 2>&1 & echo $! > pid.tmp; mv pid.tmp pid; wait", 300 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config := shell(c.script)
			config.Dir, config.Grace, config.OutputGrace = dir, c.grace, 50*time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			handle, result := mustExec(t, config), make(chan error, 1)
			go func() { _, err := handle(ctx, item()); result <- err }()
			eventually(t, "the script starts", func() bool { _, err := os.Stat(filepath.Join(dir, "pid")); return err == nil })
			pid, err := strconv.Atoi(strings.TrimSpace(read(t, dir, "pid")))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			cancel(dibs.ErrLeaseLost)
			err = <-result
			if !errors.Is(err, dibs.ErrLeaseLost) || dibs.VerdictOf(err).Outcome != dibs.OutcomeUncertain {
				t.Errorf("verdict %+v: %v", dibs.VerdictOf(err), err)
			}
			if took := time.Since(began); !c.atOnce && took < c.grace {
				t.Errorf("returned after %s, before the grace was over", took)
			}
			if took := time.Since(began); c.atOnce && took > 10*time.Second {
				t.Errorf("returned after %s although all was over at once", took)
			}
			eventually(t, "the shell's child is gone", func() bool { return gone(pid) })
		})
	}
}

// gone tells whether a process has ended, waited for by its parent or not.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}

func TestExecBelievesAnExitCodeGivenDuringAStop(t *testing.T) {
	dir := t.TempDir()
	config := shell(`trap 'exit 75' TERM; : > up; while :; do sleep 0.01; done`)
	config.Dir = dir
	ctx, cancel := context.WithCancelCause(t.Context())
	handle, result := mustExec(t, config), make(chan error, 1)
	go func() { _, err := handle(ctx, item()); result <- err }()
	eventually(t, "the script starts", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	cancel(dibs.ErrTimeout)
	if err := <-result; !dibs.VerdictOf(err).Free || !errors.Is(err, dibs.ErrTimeout) {
		t.Errorf("%v", err)
	}
}

func TestExecDoesNotWaitForADaemon(t *testing.T) {
	dir := t.TempDir()
	config := shell(`sleep 30 & echo $! > pid; echo '{"id":"n-1"}'`)
	config.Dir, config.OutputGrace = dir, 50*time.Millisecond
	r, err := mustExec(t, config)(t.Context(), item())
	if err != nil || r.ID != "n-1" {
		t.Errorf("receipt %+v, error %v", r, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, dir, "pid")))
	if err != nil {
		t.Fatal(err)
	}
	if gone(pid) {
		t.Error("what was left behind on purpose has been killed")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestExecConfigFaultsComeTogether(t *testing.T) {
	_, err := handler.Exec(handler.ExecConfig{Env: []string{"DIBS_KEY=1", "novalue", "=x"}, Dir: "a\x00"})
	for _, want := range []string{"argv: no command", "NUL", "DIBS_KEY is set", `"novalue"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

func TestLookupExec(t *testing.T) {
	for _, c := range []struct {
		script string
		want   dibs.Presence
		ids    int
		text   string
	}{
		{`echo '{"id":"n-1","evidence":{"at":"noon"}}'`, dibs.PresenceFound, 0, ""},
		{`echo '{"ids":["n-2","n-1"]}'`, dibs.PresenceDuplicate, 2, ""},
		{`echo '{"ids":["n-1","n-1"]}'`, dibs.PresenceFound, 0, ""},
		{`exit 3`, dibs.PresenceAbsent, 0, ""},
		{`exit 0`, "", 0, "gives no id"},
		{`echo '{"id":[]}'`, "", 0, "id: neither"},
		{`echo down >&2; exit 1`, "", 0, "exit status 1: down"},
		{`kill -TERM $$`, "", 0, "signal: terminated"},
		{`no-such-command-here`, "", 0, "exit status 127"},
	} {
		t.Run(c.script, func(t *testing.T) {
			look, err := handler.LookupExec(shell(c.script))
			if err != nil {
				t.Fatal(err)
			}
			got, err := look(t.Context(), item())
			if got.Presence != c.want || len(got.IDs) != c.ids || (err == nil) != (c.text == "") {
				t.Errorf("%+v, %v", got, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q does not say %q", err, c.text)
			}
			if c.want == dibs.PresenceFound && got.Receipt.ID != "n-1" {
				t.Errorf("receipt %+v", got.Receipt)
			}
		})
	}
}
