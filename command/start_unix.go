//go:build unix

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// event is what the waiter saw of the direct child.
type event struct {
	exited bool // else it was stopped
	status unix.WaitStatus
	at     time.Time
}

// plumbing holds the child's three descriptors and what carries their bytes.
type plumbing struct {
	child   [3]*os.File
	ours    []*os.File // opened here, to be closed once the child has its copy
	streams []*stream
	feed    *os.File // the write end of stdin, if we feed it
	tail    *tail
	capture *tail
}

// plumb opens what the child reads and writes. No goroutine is started yet.
func plumb(cfg Config) (p *plumbing, err error) {
	p = &plumbing{tail: newTail(cfg.TailBytes), capture: newTail(cfg.CaptureStdout)}
	defer func() {
		if err != nil {
			p.abandon()
		}
	}()
	if p.child[0], err = p.input(cfg.Stdin); err != nil {
		return nil, err
	}
	if p.child[1], err = p.output(cfg.Stdout, p.tail, p.capture); err != nil {
		return nil, err
	}
	if sameOutput(cfg.Stdout, cfg.Stderr) && p.capture == nil {
		p.child[2] = p.child[1]
		return p, nil
	}
	p.child[2], err = p.output(cfg.Stderr, p.tail)
	return p, err
}

// sameOutput reports whether both writers lead to one place, as with 2>&1.
func sameOutput(a, b io.Writer) bool {
	fa, aok := a.(*os.File)
	fb, bok := b.(*os.File)
	if !aok || !bok {
		return false
	}
	ia, aerr := fa.Stat()
	ib, berr := fb.Stat()
	return aerr == nil && berr == nil && os.SameFile(ia, ib)
}

func (p *plumbing) input(r io.Reader) (*os.File, error) {
	if f, ok := r.(*os.File); ok && f != nil {
		return f, nil
	}
	if r == nil {
		return p.null(os.O_RDONLY)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open stdin pipe: %w", err)
	}
	p.ours = append(p.ours, pr)
	p.feed = pw
	return pr, nil
}

func (p *plumbing) output(w io.Writer, records ...*tail) (*os.File, error) {
	recording := false
	for _, r := range records {
		recording = recording || r != nil
	}
	if f, ok := w.(*os.File); ok && f != nil && !recording {
		return f, nil
	}
	if w == nil && !recording {
		return p.null(os.O_WRONLY)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open output pipe: %w", err)
	}
	p.ours = append(p.ours, pw)
	p.streams = append(p.streams, newStream(pr, w, records...))
	return pw, nil
}

func (p *plumbing) null(flag int) (*os.File, error) {
	f, err := os.OpenFile(os.DevNull, flag, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	p.ours = append(p.ours, f)
	return f, nil
}

// closeChildEnds drops our copies of what the child got.
func (p *plumbing) closeChildEnds() {
	for _, f := range p.ours {
		_ = f.Close()
	}
	p.ours = nil
}

// abandon closes everything after a start that failed.
func (p *plumbing) abandon() {
	p.closeChildEnds()
	for _, s := range p.streams {
		_ = s.src.Close()
	}
	if p.feed != nil {
		_ = p.feed.Close()
	}
}

// carry starts the copiers; stdin counts as delivered when the child has gone.
func (p *plumbing) carry(stdin io.Reader) {
	for _, s := range p.streams {
		go s.copy()
	}
	if p.feed != nil {
		go func() {
			_, _ = io.Copy(p.feed, stdin) // a child may stop reading at any time
			_ = p.feed.Close()
		}()
	}
}

// spawned is the answer of the waiter's goroutine to a start.
type spawned struct {
	pid int
	err error
}

// spawn starts the child and waits for it on a thread of its own. On Linux the
// child is killed when the *thread* that started it ends, so the thread must
// stay for the child's life; waiting there makes it stay. In a wrapper the same
// wait reaps every orphan: one waiter, so nobody's exit code is taken away.
func spawn(cfg Config, file string, fds [3]*os.File) (int, <-chan event, error) {
	started := make(chan spawned, 1)
	events := make(chan event, 4)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		pid, err := forkExec(cfg, file, fds)
		started <- spawned{pid, err}
		if err == nil {
			watch(pid, cfg.Wrapper, events)
		}
	}()
	s := <-started
	return s.pid, events, s.err
}

func forkExec(cfg Config, file string, fds [3]*os.File) (int, error) {
	attr := &syscall.ProcAttr{Dir: cfg.Dir, Env: cfg.Env, Sys: childAttr()}
	for _, f := range fds {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, err := syscall.ForkExec(file, cfg.Argv, attr)
	if errors.Is(err, syscall.ENOEXEC) && isScript(inDir(cfg.Dir, file)) {
		argv := append([]string{"sh", file}, cfg.Argv[1:]...)
		pid, err = syscall.ForkExec("/bin/sh", argv, attr)
	}
	runtime.KeepAlive(fds)
	if err == nil {
		return pid, nil
	}
	code := CodeNotExecutable
	if errors.Is(err, syscall.ENOENT) {
		// The lookup found the file, so what is missing is its interpreter;
		// shells say 127.
		code, err = CodeNotFound, fmt.Errorf("interpreter missing: %w", err)
	}
	return 0, &StartError{Name: cfg.Argv[0], Code: code, Err: err}
}

// watch reports every stop of the child and then its end.
func watch(pid int, all bool, events chan<- event) {
	which := pid
	if all {
		which = -1
	}
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(which, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			// Somebody else reaped it: an end whose code is lost.
			events <- event{exited: true, status: lostStatus, at: time.Now()}
			return
		case got != pid: // an orphan that we adopted
		case status.Stopped():
			events <- event{status: status, at: time.Now()}
		case status.Exited() || status.Signaled():
			events <- event{exited: true, status: status, at: time.Now()}
			return
		}
	}
}

// lostStatus stands for an exit code that was taken away from us: it reads as
// an exit with 255, never as success.
const lostStatus unix.WaitStatus = 255 << 8
