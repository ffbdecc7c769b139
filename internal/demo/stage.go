package demo

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The files on the stage.
const (
	fileDatabase = "app.db"
	fileCRM      = "crm.ndjson"
	fileConfig   = "dibs.yaml"
)

// stage is the folder of the demo and the processes in it. It is used by one
// goroutine.
type stage struct {
	exe  string
	open func(ctx context.Context, path string) (*sql.DB, error)
	dir  string
	kept bool // the folder stays
	// local is the flag that lets a database live in a container's own layer,
	// when that is needed here.
	local bool

	processes []*process
	crm       *process
	crmInput  io.Closer // its end is the CRM's
	db        *sql.DB
}

// process is a program of the demo that may be running.
type process struct {
	cmd    *exec.Cmd
	output string // the file with its standard output and error
	ended  chan struct{}
	code   int
	err    error // it could not be waited for
}

func newStage(ctx context.Context, c Config, o options) (*stage, error) {
	s := &stage{exe: c.Executable, open: c.Open, kept: o.keep || o.dir != ""}
	var err error
	switch {
	case o.dir != "":
		s.dir, err = o.dir, os.Mkdir(o.dir, 0o700)
	case o.keep:
		s.dir, err = os.MkdirTemp(".", "demo-"+time.Now().Format("20060102-150405")+"-")
	default:
		s.dir, err = os.MkdirTemp("", "dibs-demo-")
	}
	if err == nil {
		s.dir, err = filepath.Abs(s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	return s, nil
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// close ends what is running and removes the folder unless it is to stay.
func (s *stage) close(keep bool) error {
	if s.crmInput != nil {
		_ = s.crmInput.Close()
	}
	var err error
	for _, p := range s.processes {
		if !p.running() {
			continue
		}
		if p != s.crm {
			_ = p.cmd.Process.Kill()
		}
		select {
		case <-p.ended:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
	if s.db != nil {
		err = s.db.Close()
	}
	if s.kept = s.kept || keep; s.kept {
		return err
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// wait waits for the end and answers with the exit code.
func (p *process) wait(ctx context.Context) (int, error) {
	select {
	case <-p.ended:
		return p.code, p.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// environment is the demo's own, without anything that would lead a command to
// another database or file.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DIBS_") })
}

// start runs the program with args. Its output goes to a file of that name.
func (s *stage) start(args []string, output string, stdin io.Reader, stdout io.Writer, files ...*os.File) (*process, error) {
	f, err := os.Create(s.path(output))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	defer f.Close()                     // the process has it
	cmd := exec.Command(s.exe, args...) //nolint:noctx // stage.close ends it, and waits
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = s.dir, environment(), stdin, f, f, files
	if stdout != nil {
		cmd.Stdout = stdout
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	p := &process{cmd: cmd, output: f.Name(), ended: make(chan struct{})}
	s.processes = append(s.processes, p)
	go func() {
		p.code, p.err = exitCode(cmd.Wait())
		close(p.ended)
	}()
	return p, nil
}

// command runs one command of the program to its end.
func (s *stage) command(ctx context.Context, output string, args ...string) (code int, text string, err error) {
	p, err := s.start(s.flags(args), output, nil, nil)
	if err != nil {
		return 0, "", err
	}
	if code, err = p.wait(ctx); err != nil {
		return 0, "", fmt.Errorf("%s: %w", args[0], err)
	}
	text, err = p.text()
	return code, text, err
}

// flags adds what every command needs here.
func (s *stage) flags(args []string) []string {
	if s.local {
		return append([]string{"--allow-local-db"}, args...)
	}
	return args
}

// text is what the process has written.
func (p *process) text() (string, error) {
	text, err := os.ReadFile(p.output)
	if err != nil {
		return "", fmt.Errorf("read the output of a command: %w", err)
	}
	return string(bytes.TrimRight(text, "\n")), nil
}

// startCRM starts the CRM as a process and answers with its address.
func (s *stage) startCRM(ctx context.Context, rules string) (string, error) {
	in, crmIn, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("start the CRM: %w", err)
	}
	s.crmInput = crmIn
	defer in.Close()
	out, crmOut, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("start the CRM: %w", err)
	}
	defer out.Close()
	s.crm, err = s.start([]string{"demo", "crm", "--file", s.path(fileCRM), "--rules", rules}, "crm.txt", in, crmOut)
	_ = crmOut.Close()
	if err != nil {
		return "", err
	}
	address := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n') // empty: it ended
		address <- strings.TrimSpace(text)
	}()
	select {
	case url := <-address:
		if url == "" {
			return "", errors.New("start the CRM: it ended at once; see crm.txt")
		}
		return url, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// startTogether starts the program n times, and lets all of them go at the same
// instant once all stand at the gate.
func (s *stage) startTogether(ctx context.Context, n int, output string, args ...string) ([]*process, error) {
	goR, goW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the gate: %w", err)
	}
	defer goR.Close()
	defer goW.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the gate: %w", err)
	}
	defer readyR.Close()
	stop := context.AfterFunc(ctx, func() { _ = readyR.Close() })
	defer stop()
	all := make([]*process, n)
	gated := append([]string{"demo", "gate", "--"}, s.flags(args)...)
	for i := range all {
		if all[i], err = s.start(gated, fmt.Sprintf("%s-%d.txt", output, i+1), nil, nil, goR, readyW); err != nil {
			break
		}
	}
	_ = readyW.Close()
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(readyR, make([]byte, n)); err != nil {
		return nil, fmt.Errorf("wait for %d processes at the gate: %w", n, err)
	}
	if _, err := goW.Write(bytes.Repeat([]byte{'g'}, n)); err != nil {
		return nil, fmt.Errorf("open the gate: %w", err)
	}
	return all, nil
}
