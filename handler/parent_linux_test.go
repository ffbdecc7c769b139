package handler_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/handler"
)

// TestExecChildDiesWithUs kills the process that runs a handler, which is this
// test's own binary, started a second time.
func TestExecChildDiesWithUs(t *testing.T) {
	const where = "HANDLER_TEST_DIR"
	if dir := os.Getenv(where); dir != "" {
		c := handler.ExecConfig{Argv: []string{"/bin/sh", "-c", "echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 30"}, Dir: dir}
		_, err := mustExec(t, c)(t.Context(), item())
		t.Fatal("the handler came back: ", err)
	}
	dir := t.TempDir()
	self := exec.Command(os.Args[0], "-test.run=^TestExecChildDiesWithUs$")
	self.Env = append(os.Environ(), where+"="+dir)
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the handler's process starts", func() bool { _, err := os.Stat(filepath.Join(dir, "pid")); return err == nil })
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, dir, "pid")))
	if err != nil {
		t.Fatal(err)
	}
	if gone(pid) {
		t.Fatal("the handler's process has ended by itself")
	}
	if err := self.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = self.Wait() // "signal: killed"
	eventually(t, "the handler's process has died too", func() bool { return gone(pid) })
}
