package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startAttempts bounds how often another port is tried: a port that was free
// when it was chosen may be taken by the time the server binds it.
const startAttempts = 10

// setupWait bounds the making of a data folder.
const setupWait = 60 * time.Second

// Config says how a server is to be started. The zero value is useful.
type Config struct {
	// Folder is an existing folder that will hold the server's own folder;
	// empty means the fastest place this machine has (see [FastFolder]).
	Folder string
	// Clock is the offset of the server's clock from the real one, such as
	// "+1h" or "-90m"; empty leaves the clock alone. It needs libfaketime.
	Clock string
	// Durable leaves every setting that makes commits survive a power cut at
	// its default. Without it the server promises durability to its clients in
	// its settings, but PostgreSQL does not sync files (fsync=off).
	Durable bool
	// Settings are added to the server's configuration file, after ours.
	Settings map[string]string
	// Port chooses the port, on 127.0.0.1; it is asked again when the port turns
	// out to be taken. Nil is a random free one.
	Port func() (int, error)
}

// dialect is what differs between the two kinds of server.
type dialect struct {
	name   string                                              // for messages and folder names
	owner  string                                              // the user to run as when we are root
	stop   syscall.Signal                                      // asks for an orderly end
	crash  syscall.Signal                                      // asks for an end at once
	setup  func(context.Context, *Server) ([]*exec.Cmd, error) // makes the data folder
	config func(*Server) string                                // the configuration file's text
	users  func(*Server) string                                // SQL run at each start; may be nil
	args   func(*Server) []string                              // the server's command line
	ready  func(context.Context, *Server) bool
	url    func(*Server) *url.URL
}

// Server is one running (or stopped) private server. Its fields do not change
// after the start; its methods may be called from several goroutines, except
// that Start, Stop and Kill must not run at the same time as each other.
type Server struct {
	Folder   string // holds everything of this server: data, socket, log
	Data     string // the data folder
	Socket   string // the unix socket
	PIDFile  string // written by the server itself
	Bin      string // the folder that holds the server program, or the program
	Port     int    // on 127.0.0.1
	Password string // of User
	User     string // may do anything

	dialect  dialect
	config   Config
	account  account
	settings string // path of the configuration file
	env      []string
	lock     *os.File // held while we use the folder

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// URL is the address of the server in the form dibs takes, as a user who may
// do anything. The database is "postgres" on PostgreSQL and none on MariaDB.
func (s *Server) URL() string { return s.dialect.url(s).String() }

// PID is the process id of the server as last started; 0 before the first start.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.cmd.Process == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Command is the command line that starts the server, for people and logs.
func (s *Server) Command() []string { return s.dialect.args(s) }

// Log returns the last lines the server wrote, for messages about failures.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

func (s *Server) logFile() string { return filepath.Join(s.Folder, "server.log") }

// create makes the folder, fills the data folder and starts the server.
func create(ctx context.Context, d dialect, bin string, config Config) (*Server, error) {
	s := &Server{Bin: bin, dialect: d, config: config, Password: randomText()}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	choose := config.Port
	if choose == nil {
		choose = FreePort
	}
	var err error
	for range startAttempts {
		if s.Port, err = choose(); err != nil {
			break
		}
		if err = s.writeSettings(); err != nil {
			break
		}
		err = s.Start(ctx)
		if err == nil {
			return s, nil
		}
		if !strings.Contains(strings.ToLower(s.Log()), "in use") {
			break
		}
	}
	return nil, errors.Join(fmt.Errorf("start %s: %w", d.name, err), s.Stop(), s.Remove())
}

// prepare makes the server's folder and its data folder.
func (s *Server) prepare(ctx context.Context) (err error) {
	parent := s.config.Folder
	if parent == "" {
		parent = FastFolder()
	}
	if s.account, err = accountFor(s.dialect.owner); err != nil {
		return fmt.Errorf("start %s: %w", s.dialect.name, err)
	}
	if s.env, err = environment(s.config.Clock); err != nil {
		return fmt.Errorf("start %s: %w", s.dialect.name, err)
	}
	if s.Folder, err = makeFolder(parent, folderPrefix+s.dialect.name+"-", s.account); err != nil {
		return fmt.Errorf("make the folder of %s: %w", s.dialect.name, err)
	}
	if s.lock, err = lockFolder(s.Folder); err != nil {
		return fmt.Errorf("lock the folder of %s: %w", s.dialect.name, err)
	}
	s.Data = filepath.Join(s.Folder, "data")
	s.PIDFile = filepath.Join(s.Folder, "data", "server.pid")
	s.settings = filepath.Join(s.Folder, "settings.conf")
	// Let it end even when ctx does: it takes a second, and when it is killed it
	// leaves shared memory behind.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), setupWait)
	defer cancel()
	steps, err := s.dialect.setup(whole, s)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", s.dialect.name, err)
	}
	for _, step := range steps {
		step.Dir, step.SysProcAttr = s.Folder, s.account.attributes(syscall.SIGKILL)
		// The data folder is made under the real clock and without libfaketime:
		// only the server itself is to believe in another time.
		step.Env, _ = environment("")
		step.Cancel = func() error { return syscall.Kill(-step.Process.Pid, syscall.SIGKILL) }
		step.WaitDelay = time.Second
		if out, err := step.CombinedOutput(); err != nil {
			return fmt.Errorf("make the data folder of %s with %s: %w\n%s", s.dialect.name, step.Path, err, out)
		}
	}
	return context.Cause(ctx)
}

func (s *Server) writeSettings() error {
	if err := s.account.writeFile(s.settings, s.dialect.config(s)); err != nil {
		return fmt.Errorf("write the settings of %s: %w", s.dialect.name, err)
	}
	if s.dialect.users == nil {
		return nil
	}
	if err := s.account.writeFile(s.initFile(), s.dialect.users(s)); err != nil {
		return fmt.Errorf("write the users of %s: %w", s.dialect.name, err)
	}
	return nil
}

// Start starts the server again on the same port and waits until it answers.
// It fails when the server is running already or ends before it answers; ctx
// bounds the wait.
func (s *Server) Start(ctx context.Context) error {
	if s.running() {
		return fmt.Errorf("%s runs already as process %d", s.dialect.name, s.PID())
	}
	done, err := s.launch(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s did not become ready: %w\n%s", s.dialect.name, context.Cause(ctx), s.Log()), s.Stop())
		case <-done:
			return fmt.Errorf("%s ended before it was ready:\n%s", s.dialect.name, s.Log())
		case <-tick.C:
			if s.dialect.ready(ctx, s) {
				return nil
			}
		}
	}
}

// launch runs the server process, which outlives ctx, and notices its end.
func (s *Server) launch(ctx context.Context) (<-chan struct{}, error) {
	log, err := os.Create(s.logFile())
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", s.dialect.name, err)
	}
	defer log.Close()
	args := s.dialect.args(s)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.Folder, s.env, log, log
	cmd.SysProcAttr = s.account.attributes(s.dialect.stop)
	if err := os.Remove(s.PIDFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old pid file of %s: %w", s.dialect.name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.dialect.name, err)
	}
	done := make(chan struct{})
	go func() {
		// The exit code says nothing that the log does not say better.
		_ = cmd.Wait()
		close(done)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.done = cmd, done
	return done, nil
}

func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// filePID is the process named in the server's own pid file, 0 if there is none.
func (s *Server) filePID() int {
	text, err := os.ReadFile(s.PIDFile)
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return pid
}
