//go:build unix

package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/command"
)

// helperEnv selects what the test binary does instead of testing. Children and
// wrappers of the tests are this binary, so that no odd tool is needed.
const (
	helperEnv    = "COMMAND_TEST_HELPER"
	inheritedEnv = "COMMAND_TEST_INHERITED"
)

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if name == "" {
		// What we inherited ourselves is not ours, and is passed on like by any shell.
		os.Setenv(inheritedEnv, strings.Join(openFDs(), " "))
		os.Setenv("GORACE", "atexit_sleep_ms=0") // for the children, under -race
		os.Exit(m.Run())
	}
	helper, ok := helpers[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no helper", name)
		os.Exit(99)
	}
	os.Exit(helper(os.Args[1:]))
}

// wrapperHelper is a small `dibs run`: it wraps its arguments and reports on
// descriptor 3, if it was given one.
func wrapperHelper(args []string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, command.Forwardable()...)
	ctx := context.Background()
	cfg := command.Config{
		Argv: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: childEnv(),
		Signals: signals, Wrapper: true, Grace: envDuration("GRACE"), OutputGrace: envDuration("OUTPUT_GRACE"),
	}
	if n, err := strconv.Atoi(os.Getenv("TAIL")); err == nil {
		cfg.TailBytes = n
	}
	if d := envDuration("TIMEOUT"); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, errors.New("timed out"))
		defer cancel()
	}
	res, err := command.Run(ctx, cfg)
	if report := os.Getenv("REPORT"); report != "" {
		_ = os.WriteFile(report, fmt.Appendf(nil,
			"code=%d interrupted=%v stopped=%v killed=%v swept=%d left=%d cut=%v outerr=%v tail=%d err=%v",
			res.ExitCode, res.Interrupted, res.Stopped, res.Killed, len(res.Swept), len(res.LeftBehind),
			res.OutputCut, res.OutputErr, len(res.Tail), err), 0o600)
	}
	return res.ExitCode
}

func childEnv() []string {
	return append(os.Environ(), helperEnv+"="+os.Getenv("CHILD_HELPER"))
}

func envDuration(key string) time.Duration {
	d, err := time.ParseDuration(os.Getenv(key))
	if err != nil {
		return 0
	}
	return d
}

// self is the test binary, absolute.
func selfPath(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// helperEnviron is our environment with a helper chosen.
func helperEnviron(helper string, more ...string) []string {
	return append(append(os.Environ(), helperEnv+"="+helper), more...)
}

// run runs argv with a generous bound so that a fault is a failure, not a hang.
func run(t testing.TB, cfg command.Config) command.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	res, err := command.Run(ctx, cfg)
	if err != nil {
		t.Fatalf("run %q: %v", cfg.Argv, err)
	}
	return res
}

// eventually polls until ok or the deadline.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		<-tick.C
	}
}

// pidIn reads a pid that a child wrote to a file, once it is there.
func pidIn(t testing.TB, file string) int {
	t.Helper()
	pid := 0
	eventually(t, "pid in "+file, func() bool {
		data, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(data), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	})
	return pid
}
