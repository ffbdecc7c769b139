//go:build unix

package command_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/command"
)

func TestCaseB71ExitCodesPassExactly(t *testing.T) {
	for code := range 256 {
		res := run(t, command.Config{Argv: []string{"sh", "-c", "exit " + strconv.Itoa(code)}})
		if res.ExitCode != code || res.Signal != 0 {
			t.Errorf("exit %d: got code %d, signal %v", code, res.ExitCode, res.Signal)
		}
	}
}

func TestCaseB71DeathBySignal(t *testing.T) {
	// 19 to 22 stop, 17, 18, 23 and 28 are ignored by default; 32 to 34 belong
	// to the C library.
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 29, 31, 40, 64} {
		res := run(t, command.Config{Argv: []string{selfPath(t), strconv.Itoa(n)}, Env: helperEnviron("die")})
		if res.ExitCode != 128+n || int(res.Signal) != n {
			t.Errorf("signal %d: got code %d, signal %d", n, res.ExitCode, res.Signal)
		}
	}
}

func TestCommandsThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "echo", 0o644)
	write("binary", "\x00\x01", 0o755)
	write("interpreter", "#!/nope/sh\n", 0o755)
	tests := []struct {
		argv []string
		code int
		is   error
	}{
		{[]string{"no-such-command-here"}, 127, fs.ErrNotExist},
		{[]string{"./missing"}, 127, fs.ErrNotExist},
		{[]string{"./plain"}, 126, fs.ErrPermission},
		{[]string{"plain"}, 126, fs.ErrPermission},
		{[]string{"./binary"}, 126, syscall.ENOEXEC},
		{[]string{"./interpreter"}, 127, fs.ErrNotExist},
		{[]string{dir}, 126, syscall.EISDIR},
		{[]string{"sh", strings.Repeat("x", 4<<20)}, 126, syscall.E2BIG},
	}
	for _, tt := range tests {
		res, err := command.Run(t.Context(), command.Config{Argv: tt.argv, Dir: dir, Env: []string{"PATH=/bin:/usr/bin:" + dir}})
		var se *command.StartError
		if !errors.As(err, &se) || !errors.Is(err, tt.is) {
			t.Errorf("%.40q: error %v, want a StartError of %v", tt.argv, err, tt.is)
		}
		if res.ExitCode != tt.code || res.PID != 0 {
			t.Errorf("%.40q: code %d, pid %d, want %d, 0", tt.argv, res.ExitCode, res.PID, tt.code)
		}
		<-res.Flushed // closed, so that a caller may always wait for it
	}
}

func TestStartFaults(t *testing.T) {
	if _, err := command.Run(t.Context(), command.Config{TailBytes: -1, CaptureStdout: -1}); err == nil ||
		strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("faults of an empty config: %v, want three", err)
	}
	if _, err := command.Run(t.Context(), command.Config{Argv: []string{"true"}, Dir: "/no/such"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	if _, err := command.Run(t.Context(), command.Config{Argv: []string{"true"}, Dir: "/dev/null"}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("file as directory: %v", err)
	}
	cause := errors.New("lease lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if res, err := command.Run(ctx, command.Config{Argv: []string{"true"}}); !errors.Is(err, cause) || res.PID != 0 {
		t.Errorf("context over before the start: %v, pid %d", err, res.PID)
	}
}

func TestLookupFollowsTheChildsPathAndDirectory(t *testing.T) {
	dir := t.TempDir()
	// No first line: the kernel refuses it and the shell runs it.
	if err := os.WriteFile(filepath.Join(dir, "own-script"), []byte("echo \"$1 $PWD\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	realDir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path string }{
		{"own-script", dir}, {"own-script", "/bin::/usr/bin"}, {"./own-script", ""}, {"own-script", "/bin:."},
	} {
		res := run(t, command.Config{Argv: []string{tt.name, "a b"}, Dir: dir, Env: []string{"PATH=" + tt.path}, CaptureStdout: 1 << 10})
		if got := string(res.Stdout); got != "a b "+realDir+"\n" {
			t.Errorf("%s in %q printed %q", tt.name, tt.path, got)
		}
	}
}

func TestEnvironmentIsExactlyTheGivenOne(t *testing.T) {
	env := []string{helperEnv + "=env", "A=1", "B=x=y", "A=2"}
	res := run(t, command.Config{Argv: []string{selfPath(t)}, Env: env, CaptureStdout: 1 << 10})
	if got := string(res.Stdout); got != helperEnv+"=env\nB=x=y\nA=2" {
		t.Errorf("child saw %q", got)
	}
}

func TestStdinIsPassedOn(t *testing.T) {
	exe := selfPath(t)
	big := bytes.Repeat([]byte("0123456789"), 50_000)
	res := run(t, command.Config{Argv: []string{exe}, Env: helperEnviron("count"), Stdin: bytes.NewReader(big), CaptureStdout: 64})
	if string(res.Stdout) != "500000" {
		t.Errorf("reader: child counted %q", res.Stdout)
	}
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, big[:1234], 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	res = run(t, command.Config{Argv: []string{exe}, Env: helperEnviron("count"), Stdin: f, CaptureStdout: 64})
	if string(res.Stdout) != "1234" {
		t.Errorf("file: child counted %q", res.Stdout)
	}
	res = run(t, command.Config{Argv: []string{exe}, Env: helperEnviron("count"), CaptureStdout: 64})
	if string(res.Stdout) != "0" {
		t.Errorf("nothing: child counted %q", res.Stdout)
	}
	// A child that never reads must not hold us up.
	res = run(t, command.Config{Argv: []string{"true"}, Stdin: bytes.NewReader(big)})
	if res.ExitCode != 0 {
		t.Errorf("unread stdin: code %d", res.ExitCode)
	}
}

func TestTimesAreMonotonicAndOrdered(t *testing.T) {
	res := run(t, command.Config{Argv: []string{"sleep", "0.05"}})
	if d := res.Ended.Sub(res.Started); d < 50*time.Millisecond || d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	for _, at := range []time.Time{res.Started, res.Ended} {
		if !strings.Contains(at.String(), "m=") {
			t.Errorf("%v has no monotonic reading", at)
		}
	}
}
