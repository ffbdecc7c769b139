//go:build !linux

package command

import "errors"

func self() (ProcessID, error) {
	return ProcessID{}, errors.New("no process identity on this platform")
}

func (p ProcessID) endedHere() (gone, known bool) { return false, false }

// Survivors cannot list processes by their environment here: known is false.
func Survivors(_, _ string) (pids []int, known bool) { return nil, false }
