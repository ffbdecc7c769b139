//go:build unix

package demo

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// gatesWork says that this system can start programs at the same instant.
const gatesWork = true

// ownGroup keeps the terminal's Ctrl-C from the process: the demo ends it
// itself, in its own order.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// codeOf is the exit code as a shell gives it.
func codeOf(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// The files that a process at the gate inherits.
const (
	gateGo    = 3 // a byte from it is the signal to go
	gateReady = 4 // it is told that the process stands at the gate
)

// gate waits for the signal and becomes the program with the arguments given.
// It keeps its process ID. If the demo dies first, it ends.
func gate(c Config, args []string) int {
	ready, goes := os.NewFile(gateReady, "ready"), os.NewFile(gateGo, "go")
	_, err := ready.Write([]byte{'r'})
	_ = ready.Close()
	if err == nil {
		_, err = io.ReadFull(goes, make([]byte, 1))
	}
	_ = goes.Close() // the program must not inherit it
	if err != nil {
		return complain(c.Stderr, fmt.Errorf("wait at the gate: %w", err))
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	err = syscall.Exec(c.Executable, append([]string{c.Executable}, args...), os.Environ())
	return complain(c.Stderr, fmt.Errorf("start %s: %w", c.Executable, err))
}
