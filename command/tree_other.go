//go:build unix && !linux

package command

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// proc is one process of the tree; here only the group can be seen.
type proc struct {
	pid, group int
}

// tree stands for the child's process group: without /proc and subreapers
// there is no way to find what has left it.
type tree struct {
	group int
}

func existingChildren() map[int]uint64 { return nil }

func newTree(child int, _ bool, _ map[int]uint64) *tree { return &tree{group: child} }

// empty reports whether the group has no member. A group of zombies answers
// EPERM on some systems and counts as empty.
func (t *tree) empty() bool {
	err := unix.Kill(-t.group, 0)
	return errors.Is(err, unix.ESRCH) || (errors.Is(err, unix.EPERM) && os.Geteuid() == 0)
}

// members names the group's leader for all of the group.
func (t *tree) members() []proc {
	if t.empty() {
		return nil
	}
	return []proc{{pid: t.group, group: t.group}}
}

func (t *tree) signalEscaped([]proc, syscall.Signal) {}
