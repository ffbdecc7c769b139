package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func self() (ProcessID, error) {
	p, err := ownProc()
	if err != nil {
		return ProcessID{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ProcessID{}, fmt.Errorf("read boot ID: %w", err)
	}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &ns); err != nil {
		return ProcessID{}, fmt.Errorf("read pid namespace: %w", err)
	}
	return ProcessID{Boot: strings.TrimSpace(string(boot)), Namespace: ns.Ino, PID: p.pid, Start: p.start}, nil
}

// endedHere answers for a process of our own pid namespace. The kernel is asked
// before /proc, which may hide the processes of other users.
func (p ProcessID) endedHere() (gone, known bool) {
	if errors.Is(unix.Kill(p.PID, 0), unix.ESRCH) {
		return true, true
	}
	now, err := readProc(strconv.Itoa(p.PID))
	if err != nil {
		return false, false
	}
	return now.start != p.Start || !now.alive(), true
}

// Survivors lists the living processes of this pid namespace, except our own,
// that were started with key=value in their environment, such as DIBS_RUN_ID of
// a run whose wrapper died. known is false where they cannot be listed. What
// has replaced its environment, or belongs to a user whose environment we may
// not read, is not found: an empty list is a strong hint, not a proof.
func Survivors(key, value string) (pids []int, known bool) {
	if _, err := ownProc(); err != nil {
		return nil, false
	}
	names, err := listPIDs()
	if err != nil {
		return nil, false
	}
	want := []byte("\x00" + key + "=" + value + "\x00")
	for _, name := range names {
		env, err := os.ReadFile("/proc/" + name + "/environ")
		if err != nil || len(env) == 0 { // ended, a zombie, or not ours to read
			continue
		}
		padded := append(append([]byte{0}, env...), 0)
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() && bytes.Contains(padded, want) {
			pids = append(pids, pid)
		}
	}
	return pids, true
}
