//go:build unix

package demo

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds the real program once for all tests here.
func program(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "dibs")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", exe, "../../cmd/dibs").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}

// inFolder is the demo in an empty folder of its own, temporary files included,
// in an environment that points elsewhere.
func inFolder(t *testing.T, exe string, args ...string) (cmd *exec.Cmd, folder string) {
	t.Helper()
	folder = t.TempDir()
	cmd = exec.Command(exe, append([]string{"demo"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "TMPDIR="+folder, "DIBS_DATABASE_URL=sqlite:/nowhere/else.db", "DIBS_CONFIG=/nowhere/dibs.yaml")
	return cmd, folder
}

func TestDemo(t *testing.T) {
	exe := program(t)
	t.Run("comes out as it should", func(t *testing.T) {
		t.Parallel()
		wholeDemo(t, exe)
	})
	t.Run("clears up when it is stopped", func(t *testing.T) {
		t.Parallel()
		stoppedDemo(t, exe)
	})
}

func wholeDemo(t *testing.T, exe string) {
	cmd, folder := inFolder(t, exe, "--dir", "stage")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		t.Fatalf("%v after %s\n%s", err, took, out)
	}
	if took > time.Minute {
		t.Errorf("took %s", took)
	}
	for _, want := range []string{
		`(?m)^two sides   accounts 300   notes in CRM 299$`,
		`(?m)^  exactly once +299$`,
		`(?m)^  twice +0$`,
		`(?m)^  missing +1   acct-0113 \(fails on purpose; FAILED, as it should be\)$`,
		`(?m)^  held by two runs at once +0$`,
		`(?m)^ +refused +held by .*lease ends in \d.* +exit 75$`,
		`(?m)^   \$ kill -9 \d+ .*\d+ done, \d+ rows in hand$`,
		`(?m)^ +took over \d+ rows of `,
		`(?m)^   \d+ rows changed hands, the first \d.* after the end of its lease$`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no line matches %s", want)
		}
	}
	if bytes.Contains(out, []byte("\x1b[")) {
		t.Error("colour, although this is no terminal")
	}
	checkNotes(t, filepath.Join(folder, "stage", fileCRM))
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// checkNotes looks at the CRM's file with no help of the comparison: one note for
// each enabled account, with its name as it was.
func checkNotes(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile("data/accounts.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, l := range lines[1:] {
		if l[3] == "1" && l[0] != failing {
			names[l[0]] = l[1]
		}
	}
	requests, err := ReadRequests(file)
	if err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{} // account → note
	for _, r := range requests {
		if r.Note == "" {
			continue
		}
		var body struct{ Account, Name string }
		if err := json.Unmarshal([]byte(r.Content), &body); err != nil {
			t.Fatal(err)
		}
		name, expected := names[body.Account]
		if !expected || name != body.Name || r.Run == "" || r.WorkID == "" {
			t.Errorf("unexpected note %+v", r)
		}
		if other, there := notes[body.Account]; there && other != r.Note {
			t.Errorf("%s has two notes", body.Account)
		}
		notes[body.Account] = r.Note
	}
	if len(notes) != len(names) || len(notes) != 299 {
		t.Errorf("%d notes", len(notes))
	}
}

// growing is output that is looked at while it is written.
type growing struct {
	mu   sync.Mutex
	text strings.Builder
}

func (g *growing) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

func stoppedDemo(t *testing.T, exe string) {
	cmd, folder := inFolder(t, exe)
	var out growing
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := regexp.MustCompile(`pids ([\d ]+)`)
	eventually(t, "five processes", func() bool { return pids.MatchString(out.String()) })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a demo that was stopped ended with 0")
	}
	for _, field := range strings.Fields(pids.FindStringSubmatch(out.String())[1]) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(out.String())
	if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		c.Close()
		t.Errorf("the CRM still listens on %s", address)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if t.Failed() {
		t.Logf("%s", out.String())
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
