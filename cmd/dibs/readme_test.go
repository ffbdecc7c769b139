package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/testdb"
)

// TestReadmeCommands does what the README shows, from top to bottom, in a
// folder like a reader's: a table of accounts and a script that syncs one. A
// yaml block becomes dibs.yaml when the reader meets it.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 200 {
		t.Errorf("README.md has %d lines, 200 is the limit", n)
	}
	r := newReader(t)
	for _, s := range steps(string(text)) {
		r.do(s)
	}
	for kind, least := range map[string]int{"sh": 7, "cron": 1, "prompt": 1, "make": 4, "yaml": 1} {
		if r.did[kind] < least {
			t.Errorf("%d steps of kind %s, want %d at least: the test looks in the wrong place", r.did[kind], kind, least)
		}
	}
}

// reader is somebody who follows the README.
type reader struct {
	*world
	did map[string]int
}

func newReader(t *testing.T) reader {
	w := &world{t: t, binary: buildBinary(t), dir: t.TempDir()}
	w.db = testdb.Open(t, "sqlite:"+filepath.Join(w.dir, "app.db"))
	w.exec("CREATE TABLE account_config (account_id TEXT PRIMARY KEY, name TEXT, external_ref TEXT, enabled INTEGER NOT NULL DEFAULT 1)")
	w.exec("INSERT INTO account_config (account_id, name) VALUES ('acct-0001', 'Anna'), ('acct-0007', 'Bert')")
	w.file("sync-one", 0o700, "#!/bin/sh\ncat > /dev/null\n")
	w.file("export.sh", 0o700, "#!/bin/sh\necho exported\n")
	return reader{w, map[string]int{}}
}

// step is something that the README shows: a command, or a file.
type step struct{ kind, text string }

func (r reader) do(s step) {
	r.t.Helper()
	r.did[s.kind]++
	switch s.kind {
	case "yaml":
		r.file("dibs.yaml", 0o600, s.text)
	case "make":
		if out, err := exec.Command("sh", "-c", "cd ../.. && make -n "+strings.TrimPrefix(s.text, "make")).CombinedOutput(); err != nil {
			r.t.Errorf("%s: %v\n%s", s.text, err, out)
		}
	default:
		line := strings.ReplaceAll(s.text, "/srv/", r.dir+"/")
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = r.dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(r.binary)+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+filepath.Join(r.dir, "state"))
		out, err := cmd.CombinedOutput()
		if err != nil && s.kind != "prompt" { // what is shown after a prompt needs the moment that it was shown at
			r.t.Errorf("%s: %v\n%s", line, err, out)
		}
		if s.kind == "prompt" && strings.Contains(string(out), "Usage:") {
			r.t.Errorf("%s is not a command of this program\n%s", line, out)
		}
	}
}

// steps reads the sh and yaml blocks, and of the indented lines the crontab
// lines with dibs, the prompted commands and the calls of make.
func steps(text string) (list []step) {
	fence, body := "", ""
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			if fence == "yaml" {
				list = append(list, step{"yaml", body})
			}
			fence, body = strings.TrimPrefix(line, "```"), ""
			continue
		}
		body += line + "\n"
		code, _, _ := strings.Cut(line, " #")
		code = strings.TrimSpace(code)
		indented := strings.HasPrefix(line, "    ")
		const every = "*/5 * * * *  "
		switch {
		case fence == "sh" && code != "":
			list = append(list, step{"sh", code})
		case indented && strings.HasPrefix(code, every+"dibs "):
			list = append(list, step{"cron", strings.TrimPrefix(code, every)})
		case indented && strings.HasPrefix(code, "$ dibs "):
			list = append(list, step{"prompt", strings.TrimPrefix(code, "$ ")})
		case indented && (code == "make" || strings.HasPrefix(code, "make ")):
			list = append(list, step{"make", code})
		}
	}
	return list
}
