package command

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// tree finds what belongs to one child: its process group, and every process
// that descends from it. It is confined to the goroutine of Run.
type tree struct {
	group int
	root  int // the child, or ourselves when we adopt orphans
	// strangers were our children before the child was; not ours to stop.
	strangers map[int]uint64
	// known are processes found outside the group, by pid and start time: they
	// are still ours when the parent that linked them to root has ended.
	known map[int]uint64
}

// existingChildren lists the children that we have before the start. The usual
// answer, none, costs one system call.
func existingChildren() map[int]uint64 {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if errors.Is(err, unix.ECHILD) {
		return nil
	}
	procs, err := listProcs()
	if err != nil {
		return nil
	}
	found := map[int]uint64{}
	for _, p := range procs {
		if p.parent == os.Getpid() {
			found[p.pid] = p.start
		}
	}
	return found
}

func newTree(child int, wrapper bool, strangers map[int]uint64) *tree {
	t := &tree{group: child, root: child, strangers: strangers, known: map[int]uint64{}}
	if wrapper {
		t.root = os.Getpid()
	}
	return t
}

// empty is the quick answer to "is anything left?": true is certain.
func (t *tree) empty() bool {
	if !errors.Is(unix.Kill(-t.group, 0), unix.ESRCH) || len(t.known) > 0 {
		return false
	}
	if t.root != os.Getpid() {
		return true
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return errors.Is(err, unix.ECHILD)
}

// members lists the living processes of the tree. Without a usable /proc it
// can only say whether the group has a member, and names the group's leader.
func (t *tree) members() []proc {
	procs, err := listProcs()
	if err != nil {
		return t.groupOnly()
	}
	children := make(map[int][]proc)
	byPID := make(map[int]proc, len(procs))
	for _, p := range procs {
		children[p.parent] = append(children[p.parent], p)
		byPID[p.pid] = p
	}
	found := map[int]proc{}
	for _, p := range procs {
		if p.group == t.group || t.is(p, t.known) {
			t.collect(p, children, found)
		}
	}
	if root, ok := byPID[t.root]; ok && t.root == os.Getpid() {
		for _, p := range children[root.pid] {
			t.collect(p, children, found)
		}
	}
	return t.remember(found)
}

// collect adds p and all below it.
func (t *tree) collect(p proc, children map[int][]proc, found map[int]proc) {
	if _, seen := found[p.pid]; seen || t.is(p, t.strangers) || p.pid == os.Getpid() {
		return
	}
	found[p.pid] = p
	for _, c := range children[p.pid] {
		t.collect(c, children, found)
	}
}

func (t *tree) is(p proc, set map[int]uint64) bool {
	start, ok := set[p.pid]
	return ok && start == p.start
}

func (t *tree) remember(found map[int]proc) []proc {
	clear(t.known)
	var alive []proc
	for _, p := range found {
		if !p.alive() {
			continue
		}
		alive = append(alive, p)
		if p.group != t.group {
			t.known[p.pid] = p.start
		}
	}
	return alive
}

func (t *tree) groupOnly() []proc {
	if errors.Is(unix.Kill(-t.group, 0), unix.ESRCH) {
		return nil
	}
	return []proc{{pid: t.group, group: t.group, state: 'R'}}
}

// signalEscaped sends sig to the members outside the group. A pid descriptor,
// checked against the start time, makes sure that it is still the same one.
func (t *tree) signalEscaped(members []proc, sig syscall.Signal) {
	for _, p := range members {
		if p.group == t.group {
			continue
		}
		fd, err := unix.PidfdOpen(p.pid, 0)
		if err != nil {
			if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
				_ = unix.Kill(p.pid, sig) // an old kernel, or a filter: best effort
			}
			continue
		}
		now, err := readProc(strconv.Itoa(p.pid))
		if err == nil && now.start == p.start {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may have just ended
		}
		_ = unix.Close(fd)
	}
}
