package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRunCommandPassesOnTheExitCode(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137} {
		code, err := runCommand(t.Context(), []string{"sh", "-c", script}, os.Environ(), nil)
		if code != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", script, code, err, want)
		}
	}
	if code, err := runCommand(t.Context(), []string{"/no/such/program"}, nil, nil); code != exitFailure || err == nil {
		t.Errorf("a missing program: %d, %v", code, err)
	}
}

func TestRunCommandPassesOnSignals(t *testing.T) {
	for script, want := range map[string]int{
		"touch $UP; exec tail -f /dev/null":                                 128 + int(syscall.SIGTERM),
		"trap 'exit 9' TERM; touch $UP; while true; do read x <$PIPE; done": 9,
	} {
		folder := t.TempDir()
		up, pipe := filepath.Join(folder, "up"), filepath.Join(folder, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		signals := make(chan os.Signal, 1)
		go func() {
			waitFor(t, func() bool { _, err := os.Stat(up); return err == nil })
			signals <- syscall.SIGTERM
		}()
		code, err := runCommand(t.Context(), []string{"sh", "-c", script}, append(os.Environ(), "UP="+up, "PIPE="+pipe), signals)
		if code != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", script, code, err, want)
		}
	}
}

func TestRunCommandLeavesNobodyBehind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	script := "tail -f /dev/null >/dev/null 2>&1 & echo $! >$FILE"
	if _, err := runCommand(t.Context(), []string{"sh", "-c", script}, append(os.Environ(), "FILE="+file), nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stat := filepath.Join("/proc", strings.TrimSpace(string(text)), "stat")
	waitFor(t, func() bool {
		now, err := os.ReadFile(stat)
		// Ended, but perhaps not yet noticed by whoever inherited it.
		return errors.Is(err, os.ErrNotExist) || strings.Contains(string(now), ") Z ")
	})
}

func TestServersAreThereForTheCommandAndGoneAfterIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	t.Setenv("FILE", file)
	code, err := between(t.Context(), []string{"sh", "-c", "env >$FILE; exit 3"}, make(chan os.Signal))
	if code != 3 || err != nil {
		t.Fatalf("%d, %v; want the command's 3", code, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	for _, prefix := range []string{"DIBS_TEST_POSTGRES", "DIBS_TEST_MYSQL"} {
		pid, err := strconv.Atoi(env[prefix+"_PID"])
		if err != nil || env[prefix] == "" {
			t.Fatalf("%s=%q, pid %v", prefix, env[prefix], err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d of %s still runs (%v)", pid, prefix, err)
		}
		if _, err := os.Stat(filepath.Dir(env[prefix+"_DATA"])); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder of %s is still there (%v)", prefix, err)
		}
	}
}

func TestSignalDuringTheStart(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	code, err := between(t.Context(), []string{"true"}, signals)
	if code != 128+int(syscall.SIGTERM) || err == nil {
		t.Errorf("%d, %v", code, err)
	}
}

// waitFor polls until the condition holds.
func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Error("waited in vain")
			return
		}
	}
}
