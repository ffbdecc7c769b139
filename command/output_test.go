//go:build unix

package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/command"
)

func TestOutputIsUnchangedAndTheTailMarked(t *testing.T) {
	want := append(bytes.Repeat(bytes.Repeat([]byte{'x', 0, 0xff, 0xc3}, 1<<18), 3), "end"...)
	var out bytes.Buffer
	res := run(t, command.Config{
		Argv: []string{selfPath(t), "3"}, Env: helperEnviron("flood"), Stdout: &out, TailBytes: 1000, CaptureStdout: 10,
	})
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%d bytes came through of %d, or changed", out.Len(), len(want))
	}
	mark := fmt.Sprintf("[dibs: %d bytes cut]\n", len(want)-1000)
	if got := string(res.Tail); got != mark+string(want[len(want)-1000:]) || !res.Truncated {
		t.Errorf("tail of %d bytes starts %.40q, truncated %v", len(got), got, res.Truncated)
	}
	if got := string(res.Stdout); got != string(want[len(want)-10:]) || res.StdoutDropped != int64(len(want)-10) {
		t.Errorf("captured %q after %d", got, res.StdoutDropped)
	}
	if res.OutputCut || res.OutputErr != nil {
		t.Errorf("cut %v, error %v", res.OutputCut, res.OutputErr)
	}
}

func TestCaseB72OneLineOf100MB(t *testing.T) {
	var n counter
	res := run(t, command.Config{Argv: []string{selfPath(t), "100"}, Env: helperEnviron("flood"), Stdout: &n, TailBytes: 64 << 10})
	if n != 100<<20+3 || res.ExitCode != 0 {
		t.Errorf("%d bytes came through, code %d", n, res.ExitCode)
	}
	if len(res.Tail) > 64<<10+64 || !bytes.HasSuffix(res.Tail, []byte("end")) {
		t.Errorf("tail has %d bytes", len(res.Tail))
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func TestGigabytesNeedNoMemory(t *testing.T) {
	res := run(t, command.Config{Argv: []string{"head", "-c", "2147483648", "/dev/zero"}, TailBytes: 4096})
	mark := fmt.Sprintf("[dibs: %d bytes cut]\n", 2<<30-4096)
	if !bytes.HasPrefix(res.Tail, []byte(mark)) || len(res.Tail) != len(mark)+4096 {
		t.Errorf("tail %.40q of %d bytes", res.Tail, len(res.Tail))
	}
}

func TestBothStreamsShareTheTailInOrder(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done"
	res := run(t, command.Config{Argv: []string{"sh", "-c", script}, Stdout: f, Stderr: f, TailBytes: 1000})
	want := "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\no6\ne6\no7\ne7\no8\ne8\no9\ne9\n"
	if string(res.Tail) != want || res.Truncated {
		t.Errorf("tail %q", res.Tail)
	}
	data, err := os.ReadFile(f.Name())
	if err != nil || string(data) != want {
		t.Errorf("file %q, %v", data, err)
	}
}

func TestOneDestinationMeansOnePipe(t *testing.T) {
	argv := []string{"sh", "-c", "[ /proc/self/fd/1 -ef /proc/self/fd/2 ]"}
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if res := run(t, command.Config{Argv: argv, Stdout: f, Stderr: f, TailBytes: 9}); res.ExitCode != 0 {
		t.Error("stdout and stderr of one file go through two pipes, which loses their order")
	}
	if res := run(t, command.Config{Argv: argv, Stdout: f, Stderr: f, TailBytes: 9, CaptureStdout: 9}); res.ExitCode != 1 {
		t.Error("stdout cannot be captured alone from one pipe")
	}
	if res := run(t, command.Config{Argv: argv, Stdout: f, Stderr: os.Stderr, TailBytes: 9}); res.ExitCode != 1 {
		t.Error("two destinations share one pipe")
	}
}

func TestCapturedStdoutIsStdoutAlone(t *testing.T) {
	res := run(t, command.Config{Argv: []string{"sh", "-c", "echo noise >&2; echo receipt"}, CaptureStdout: 100, TailBytes: 100})
	if string(res.Stdout) != "receipt\n" || res.StdoutDropped != 0 {
		t.Errorf("captured %q", res.Stdout)
	}
	if got := string(res.Tail); !strings.Contains(got, "noise\n") || !strings.Contains(got, "receipt\n") {
		t.Errorf("tail %q", got)
	}
}

func TestFailingWriterNeverStopsTheChild(t *testing.T) {
	full := errors.New("disk full")
	res := run(t, command.Config{Argv: []string{selfPath(t), "4"}, Env: helperEnviron("flood"), Stdout: failing{full}, TailBytes: 3})
	if res.ExitCode != 0 || !errors.Is(res.OutputErr, full) || !bytes.HasSuffix(res.Tail, []byte("end")) {
		t.Errorf("result code %d, error %v", res.ExitCode, res.OutputErr)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestClosedStdoutOfOursNeverStopsTheChild(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(selfPath(t), selfPath(t), "2")
	cmd.Env = helperEnviron("wrapper", "CHILD_HELPER=flood", "TAIL=100", "REPORT="+report)
	cmd.Stdout = w
	_ = r.Close() // nobody reads: EPIPE and SIGPIPE
	if err := cmd.Run(); err != nil {
		t.Fatalf("wrapper: %v", err)
	}
	_ = w.Close()
	if got := readReport(t, report); !strings.Contains(got, "code=0") || !strings.Contains(got, "broken pipe") {
		t.Errorf("report %s", got)
	}
}

func TestChildOfAWrapperKeepsDefaultSIGPIPE(t *testing.T) {
	cmd := exec.Command(selfPath(t), "bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}")
	cmd.Env = helperEnviron("wrapper", "TAIL=100")
	out, err := cmd.Output()
	if err != nil || string(out) != "y\n141\n" {
		t.Errorf("printed %q, %v", out, err)
	}
}

// gate is a destination that takes nothing until opened.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.got.Write(p)
}

func TestBlockedWriterHidesNeitherOutcomeNorOutput(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	res := run(t, command.Config{
		Argv:   []string{"sh", "-c", "echo first; sleep 0.1; echo second; echo third; exit 4"},
		Stdout: g, TailBytes: 100, OutputGrace: 50 * time.Millisecond,
	})
	if res.ExitCode != 4 || string(res.Tail) != "first\nsecond\nthird\n" {
		t.Errorf("code %d, tail %q", res.ExitCode, res.Tail)
	}
	if res.OutputCut {
		t.Error("nothing was lost, yet the output counts as cut")
	}
	select {
	case <-res.Flushed:
		t.Error("flushed before the writer took anything")
	default:
	}
	close(g.open)
	select {
	case <-res.Flushed:
	case <-time.After(10 * time.Second):
		t.Fatal("never flushed")
	}
	if got := g.got.String(); got != "first\nsecond\nthird\n" {
		t.Errorf("delivered %q", got)
	}
}

func TestNothingRecordedMeansNoCopies(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	res := run(t, command.Config{Argv: []string{"readlink", "/proc/self/fd/1"}, Stdout: w})
	_ = w.Close()
	got, err := io.ReadAll(r)
	if err != nil || len(res.Tail) > 0 {
		t.Fatalf("%v, tail %q", err, res.Tail)
	}
	if !strings.HasPrefix(string(got), "pipe:") {
		t.Errorf("child's stdout is %q, want our own pipe", got)
	}
	select {
	case <-res.Flushed:
	default:
		t.Error("not flushed although nothing is copied")
	}
}

func TestCaseB28DaemonHoldingThePipe(t *testing.T) {
	for _, wrapper := range []bool{false, true} {
		t.Run(fmt.Sprintf("wrapper=%v", wrapper), func(t *testing.T) {
			dir := t.TempDir()
			file, report := filepath.Join(dir, "pid"), filepath.Join(dir, "report")
			start := time.Now()
			if wrapper {
				cmd := exec.Command(selfPath(t), selfPath(t), file)
				cmd.Env = helperEnviron("wrapper", "CHILD_HELPER=daemon", "TAIL=100", "REPORT="+report, "OUTPUT_GRACE=100ms")
				if err := cmd.Run(); err != nil {
					t.Fatal(err)
				}
				if got := readReport(t, report); !strings.Contains(got, "code=0") || !strings.Contains(got, "left=1 cut=true") {
					t.Errorf("report %s", got)
				}
			} else {
				var out bytes.Buffer
				res := run(t, command.Config{
					Argv: []string{selfPath(t), file}, Env: helperEnviron("daemon"), Stdout: &out, TailBytes: 100, OutputGrace: 100 * time.Millisecond,
				})
				if res.ExitCode != 0 || !res.OutputCut || string(res.Tail) != "started\n" || out.String() != "started\n" {
					t.Errorf("result %+v", res)
				}
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("the run lasted %v: as long as the daemon", took)
			}
			pid := pidIn(t, file)
			if gone(pid) {
				t.Error("a daemon left behind on purpose was killed")
			}
			killAndWait(t, pid)
		})
	}
}

func TestCaseB28LeftoverOfTheGroupIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := command.Run(ctx, command.Config{
		Argv: []string{"sh", "-c", `"$0" "$1" & while ! [ -e "$1" ]; do sleep 0.01; done; exit 3`, selfPath(t), file},
		Env:  helperEnviron("sleep"), OutputGrace: 50 * time.Millisecond, TailBytes: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, file)
	if res.ExitCode != 3 || res.Killed || len(res.LeftBehind) != 1 || res.LeftBehind[0] != pid || !res.OutputCut {
		t.Errorf("result %+v, want %d left behind", res, pid)
	}
	killAndWait(t, pid)
}
