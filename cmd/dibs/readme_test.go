package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/testdb"
)

// TestReadmeCommands runs every command that the README shows, in order, in a
// folder like a reader's: a table of accounts, a script that syncs one, and the
// README's own dibs.yaml.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 200 {
		t.Errorf("README.md has %d lines, 200 is the limit", n)
	}
	w := &world{t: t, binary: buildBinary(t), dir: t.TempDir()}
	w.db = testdb.Open(t, "sqlite:"+filepath.Join(w.dir, "app.db"))
	w.exec("CREATE TABLE account_config (account_id TEXT PRIMARY KEY, name TEXT, external_ref TEXT, enabled INTEGER NOT NULL DEFAULT 1)")
	w.exec("INSERT INTO account_config (account_id, name) VALUES ('acct-0001', 'Anna'), ('acct-0007', 'Bert')")
	w.file("sync-one", 0o700, "#!/bin/sh\ncat > /dev/null\n")
	w.file("dibs.yaml", 0o600, block(string(text), "```yaml"))

	ran := 0
	for _, line := range commands(string(text)) {
		fields := strings.Fields(line)
		switch fields[0] {
		case "make":
			if len(fields) > 1 {
				dry := exec.Command("make", "-C", "../..", "-n", fields[1])
				if out, err := dry.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", line, err, out)
				}
			}
		case "dibs":
			if out, code := w.run(fields[1:]...); code != 0 {
				t.Errorf("%s: exit %d\n%s", line, code, out)
			}
		default:
			t.Errorf("the README shows a command that this test does not run: %s", line)
		}
		ran++
	}
	if ran < 8 {
		t.Errorf("found only %d commands: the test looks in the wrong place", ran)
	}
}

// block is the content of the first fenced block that opens with fence.
func block(text, fence string) string {
	_, rest, _ := strings.Cut(text, fence+"\n")
	body, _, _ := strings.Cut(rest, "\n```")
	return body + "\n"
}

// commands lists what a reader would type: the lines of sh blocks, and indented
// or prompted lines that begin with a command's name. Comments are cut.
func commands(text string) (list []string) {
	inside := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			inside = line == "```sh"
			continue
		}
		typed := inside
		code, _, _ := strings.Cut(line, " #")
		code = strings.TrimSpace(code)
		if indented, ok := strings.CutPrefix(line, "    "); ok {
			typed = strings.HasPrefix(indented, "make")
		}
		if typed && code != "" {
			list = append(list, code)
		}
	}
	return list
}
