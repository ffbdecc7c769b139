package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	orderlyEnd = 20 * time.Second // for a server that was asked to end
	forcedEnd  = 10 * time.Second // for one that was told to
)

// Stop ends the server in an orderly way, by force if it does not end in time,
// and waits for the end. A server that somebody has restarted by hand since is
// found by its pid file. Stopping a stopped server does nothing.
func (s *Server) Stop() error {
	if s.alivePID() != 0 {
		_ = s.Resume() // a stopped process would not hear the signal
	}
	return s.end(s.dialect.stop, s.dialect.crash)
}

// Kill ends the server and its child processes at once, as a crash would, and
// waits for the end. The data stay for a later Start.
func (s *Server) Kill() error {
	pid := s.alivePID()
	if pid == 0 {
		return nil
	}
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // gone already: as wanted
	}
	return s.end(syscall.SIGKILL, syscall.SIGKILL)
}

// Pause stops the server and its child processes with SIGSTOP: connections stay
// open and nobody is answered.
func (s *Server) Pause() error { return s.signalAll(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.signalAll(syscall.SIGCONT) }

// Remove deletes the server's folder. The server must have been stopped.
func (s *Server) Remove() error {
	if s.Folder == "" {
		return nil
	}
	if err := os.RemoveAll(s.Folder); err != nil {
		return fmt.Errorf("remove the folder of %s: %w", s.dialect.name, err)
	}
	if s.lock != nil {
		_ = s.lock.Close() // its file is gone
	}
	return nil
}

// Ended is closed when the process of the last start has ended, for whatever
// reason.
func (s *Server) Ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

func (s *Server) signalAll(signal syscall.Signal) error {
	pid := s.alivePID()
	if pid == 0 {
		return fmt.Errorf("%s is not running", s.dialect.name)
	}
	// The parent first: a stopped parent makes no further children.
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("send %v to %s: %w", signal, s.dialect.name, err)
	}
	for _, child := range children(pid) {
		if err := syscall.Kill(child, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send %v to a child of %s: %w", signal, s.dialect.name, err)
		}
	}
	return nil
}

// end sends the signal, then the harder one, and waits.
func (s *Server) end(signals ...syscall.Signal) error {
	for i, signal := range append(signals, syscall.SIGKILL) {
		pid := s.alivePID()
		if pid == 0 {
			return nil
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send %v to %s: %w", signal, s.dialect.name, err)
		}
		patience := forcedEnd
		if i == 0 {
			patience = orderlyEnd
		}
		if s.waitEnd(patience) {
			return nil
		}
	}
	return fmt.Errorf("%s (process %d) does not end", s.dialect.name, s.alivePID())
}

func (s *Server) waitEnd(patience time.Duration) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for s.alivePID() != 0 {
		select {
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
	return true
}

// alivePID is the pid of the running server, 0 if there is none. The pid file
// is believed only if that process was started with our folder in its command
// line: process ids are used again.
func (s *Server) alivePID() int {
	if s.running() {
		return s.PID()
	}
	pid := s.filePID()
	if pid <= 1 {
		return 0
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || !bytes.Contains(line, []byte(s.Folder)) {
		return 0
	}
	return pid
}

// children lists the direct child processes of pid. PostgreSQL's make sessions
// of their own, so a process group would not reach them.
func children(pid int) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var found []int
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // ended meanwhile
		}
		// "pid (name) state ppid …": the name may hold spaces and brackets.
		_, rest, ok := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), ") ")
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			found = append(found, child)
		}
	}
	return found
}
