package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
)

// environment is what the files of testdata may refer to. Its values must never
// show in a message or a definition.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"CRM_TOKEN": "tok-5ecret", "BATCH": "50", "LEASE": "5ecret", "WHERE": "true\n    overlap: allow",
		"DATABASE_URL": "", "BAD_URL": "postgres://u:5ecret@/", "LINES": "5ecret\r\nX-Evil: 1",
	}[name]
	return value, ok
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files at %s: %v", pattern, err)
	}
	return paths
}

func write(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dibs.yaml")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Bad files give the messages that stand beside them.
func TestBadFiles(t *testing.T) {
	for _, path := range files(t, "testdata/bad/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Load(context.Background(), path, environment)
			if err == nil || f != nil {
				t.Fatal("the file was accepted")
			}
			var fault *dibs.ConfigError
			if !errors.As(err, &fault) {
				t.Errorf("not a ConfigError: %v", err)
			}
			if strings.Contains(err.Error(), "5ecret") {
				t.Errorf("the message shows a secret: %v", err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", []byte(err.Error()+"\n"))
		})
	}
}

// Good files give the jobs that stand beside them.
func TestGoodFiles(t *testing.T) {
	for _, path := range files(t, "testdata/good/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Load(context.Background(), path, environment)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			for _, j := range f.Jobs {
				d, err := j.Dibs()
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(d.Definition, "5ecret") || !json.Valid([]byte(d.Definition)) {
					t.Errorf("the definition is not fit for history: %s", d.Definition)
				}
				fmt.Fprintf(&out, "== %s\n%s\n", j.Name, d.Definition)
				d.Definition = ""
				fmt.Fprintf(&out, "dibs: %+v\n", d)
				if d.Source != nil {
					fmt.Fprintf(&out, "table: %+v\n", plainJSON(t, d.Source))
				}
				fmt.Fprintf(&out, "schedule: %s zone %q\nhandler: %s\n", plainJSON(t, j.Schedule), j.TimeZone, plainJSON(t, j.Handler))
				if s := j.ParsedSchedule(); s != nil {
					fmt.Fprintf(&out, "parsed: %s\n", s)
				}
			}
			for _, warning := range f.Warnings(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)) {
				fmt.Fprintf(&out, "warning: %s\n", warning)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".txt", []byte(out.String()))
		})
	}
}

func plainJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestValuesCannotAddStructure(t *testing.T) {
	f, err := Load(context.Background(), write(t, `
jobs:
  a:
    overlap: skip
    on_uncertain: replay
    source: {table: t, key: id, every: 0s, where: "${WHERE}"}
    handler: {exec: ["${CRM_TOKEN}", "$$HOME", $HOME]}
`), environment)
	if err != nil {
		t.Fatal(err)
	}
	j := f.Job("a")
	if j.Overlap != dibs.Skip || j.Source.Where != "true\n    overlap: allow" {
		t.Errorf("overlap %q, where %q", j.Overlap, j.Source.Where)
	}
	if got := fmt.Sprint(j.Handler.Exec); got != "[tok-5ecret $HOME $HOME]" {
		t.Errorf("exec %s", got)
	}
	shown, err := json.Marshal(j)
	if err != nil || strings.Contains(string(shown), "5ecret") {
		t.Errorf("json shows a secret: %s %v", shown, err)
	}
	if got := f.Redact("dial with tok-5ecret failed"); got != "dial with *** failed" {
		t.Errorf("Redact: %s", got)
	}
}

func TestHashIsOfTheTextBeforeInterpolation(t *testing.T) {
	const body = "jobs: {a: {overlap: skip, on_uncertain: replay, owner: \"${WHO:-x}\"}}"
	hash := func(body string, env map[string]string) string {
		f, err := Load(context.Background(), write(t, body), func(k string) (string, bool) { v, ok := env[k]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		return f.Jobs[0].Hash()
	}
	first := hash(body, nil)
	if hash(body, map[string]string{"WHO": "ops"}) != first {
		t.Error("another environment made another definition")
	}
	if hash("# note\njobs:\n  a:\n    on_uncertain: replay\n    owner: ${WHO:-x}\n    overlap: skip\n", nil) != first {
		t.Error("order and layout made another definition")
	}
	if hash("defaults: {overlap: skip, on_uncertain: replay}\njobs: {a: {owner: \"${WHO:-x}\"}}", nil) != first {
		t.Error("defaults that say the same made another definition")
	}
	if hash(strings.Replace(body, "skip", "allow", 1), nil) == first {
		t.Error("another overlap made the same definition")
	}
}

func TestSecretFile(t *testing.T) {
	path := write(t, "jobs: {a: {overlap: skip, on_uncertain: replay, handler: {exec: [x, \"${file:key}\"]}}}")
	key := filepath.Join(filepath.Dir(path), "key")
	if _, err := Load(context.Background(), path, environment); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing file: %v", err)
	}
	for text, want := range map[string]string{"k1\n": "k1", "k2": "k2", "k3\r\n": "k3", "k4\n\n": "k4\n"} {
		if err := os.WriteFile(key, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Load(context.Background(), path, environment)
		if err != nil || f.Jobs[0].Handler.Exec[1] != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := os.WriteFile(key, make([]byte, maxSecretFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(context.Background(), path, environment); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("large file: %v", err)
	}
}

func TestUnreadableAndHostileFiles(t *testing.T) {
	long := "jobs:\n" + strings.Repeat("  # "+strings.Repeat("x", 96)+"\n", maxFile/100)
	doubling := "a0: &a0 {x: y}\n"
	for i := range 40 {
		doubling += fmt.Sprintf("a%d: &a%d {p: *a%d, q: *a%d}\n", i+1, i+1, i, i)
	}
	repeated := "defaults: {overlap: skip, on_uncertain: replay}\njobs:\n  j: {handler: {exec: &e [" + strings.Repeat("x,", 4000) + "x]}}\n"
	for i := range 100 {
		repeated += fmt.Sprintf("  j%d: {handler: {exec: *e}}\n", i)
	}
	for name, c := range map[string]struct{ body, want string }{
		"too large":        {long, "more than 1048576"},
		"brackets":         {"a: " + strings.Repeat("[", 100_000), "nested too deeply"},
		"dashes":           {strings.Repeat("- ", 100_000), "nested too deeply"},
		"not utf-8":        {"a: b\nc: \xff", ":2:4: the file holds text that is not UTF-8"},
		"nul":              {"a: b\x00", ":1:5: the file holds a NUL byte"},
		"nothing":          {"", "the file is empty"},
		"comments only":    {"# nothing\n", "the file is empty"},
		"a list":           {"- a\n", "must be a mapping, this is a list"},
		"doubling aliases": {doubling + "defaults: {labels: *a40}\njobs: {j: {labels: *a40}}", "must be one value"},
		"repeated aliases": {repeated, "aliases make it too large"},
	} {
		_, err := Load(context.Background(), write(t, c.body), environment)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	if _, err := Load(context.Background(), filepath.Join(t.TempDir(), "none.yaml"), nil); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("no file: %v", err)
	}
	if _, err := Load(context.Background(), t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a folder: %v", err)
	}
}

// All faults come in one answer, at most maxFaults of them.
func TestManyFaultsAreCut(t *testing.T) {
	body := "jobs:\n"
	for i := range 80 {
		body += fmt.Sprintf("  j%d: {overlap: skip, on_uncertain: replay, batsh: 1}\n", i)
	}
	_, err := Load(context.Background(), write(t, body), environment)
	if err == nil || !strings.Contains(err.Error(), "30 more faults") || strings.Count(err.Error(), "did you mean batch?") != maxFaults {
		t.Errorf("%v", err)
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(ctx, "testdata/good/include.yaml", environment); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestFailWhen(t *testing.T) {
	for _, c := range []struct {
		text            string
		failed, claimed int
		want            bool
	}{
		{"any", 0, 10, false}, {"any", 1, 10, true}, {"all", 9, 10, false}, {"all", 10, 10, true}, {"all", 0, 0, false},
		{"5%", 4, 100, false}, {"5%", 5, 100, true}, {"0.5%", 1, 200, true}, {"", 1, 10, true},
	} {
		var f FailWhen
		if c.text != "" {
			if err := f.parse(c.text); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.Failed(c.failed, c.claimed); got != c.want {
			t.Errorf("%s of %d/%d: %v", c.text, c.failed, c.claimed, got)
		}
	}
}

// FuzzLoad: any text gives a file or faults, never a panic; a file that loads
// converts, its definitions are JSON, and no secret shows anywhere.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if body, err := os.ReadFile(path); err == nil {
				f.Add(string(body))
			}
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, body string) {
		path := filepath.Join(dir, fmt.Sprintf("%d.yaml", os.Getpid()))
		if strings.Contains(body, "file:") || strings.Contains(body, "include") || strings.Contains(body, "5ecret") {
			return // would read other files, or hold the word itself
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Load(context.Background(), path, environment)
		if err != nil {
			if strings.Contains(err.Error(), "5ecret") {
				t.Fatalf("shows a secret: %v", err)
			}
			return
		}
		for _, j := range file.Jobs {
			d, err := j.Dibs()
			if err != nil || !json.Valid([]byte(d.Definition)) || strings.Contains(d.Definition, "5ecret") {
				t.Fatalf("job %q: %v\n%s", j.Name, err, d.Definition)
			}
		}
	})
}
