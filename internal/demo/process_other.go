//go:build !unix

package demo

import (
	"errors"
	"os"
	"os/exec"
)

// gatesWork says that this system can start programs at the same instant.
const gatesWork = false

func ownGroup(*exec.Cmd) {}

func codeOf(s *os.ProcessState) int { return s.ExitCode() }

func gate(c Config, _ []string) int {
	return complain(c.Stderr, errors.New("there are no gates on this system"))
}
