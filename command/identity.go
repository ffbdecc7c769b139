package command

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ProcessID names one process for good: a pid alone is handed out again. The
// boot ID is random and belongs to one running kernel, so equal boot IDs mean
// the same machine, and it is not compared with host names.
type ProcessID struct {
	// Boot is the kernel's boot ID; empty where there is none.
	Boot string
	// Namespace is the inode of the pid namespace.
	Namespace uint64
	// PID is the number within that namespace.
	PID int
	// Start is the start time in clock ticks after boot.
	Start uint64
}

// Self gives the identity of this process. Where the platform cannot tell,
// Boot is empty and Gone will answer that it does not know.
func Self() ProcessID {
	if id, err := self(); err == nil {
		return id
	}
	return ProcessID{PID: os.Getpid()}
}

// String gives BOOT/NAMESPACE/PID/START, which ParseProcessID reads.
func (p ProcessID) String() string {
	return fmt.Sprintf("%s/%d/%d/%d", p.Boot, p.Namespace, p.PID, p.Start)
}

// ParseProcessID reads what String wrote.
func ParseProcessID(s string) (ProcessID, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 4 {
		return ProcessID{}, fmt.Errorf("parse process ID %q: want BOOT/NAMESPACE/PID/START", s)
	}
	id := ProcessID{Boot: parts[0]}
	var err error
	if id.Namespace, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return ProcessID{}, fmt.Errorf("parse process ID %q: namespace: %w", s, err)
	}
	if id.PID, err = strconv.Atoi(parts[2]); err != nil || id.PID <= 0 {
		return ProcessID{}, fmt.Errorf("parse process ID %q: %q is no pid", s, parts[2])
	}
	if id.Start, err = strconv.ParseUint(parts[3], 10, 64); err != nil {
		return ProcessID{}, fmt.Errorf("parse process ID %q: start: %w", s, err)
	}
	return id, nil
}

// Gone reports whether the process has provably ended. known is false when
// nothing can be proved: another machine (or this one before a reboot, which
// looks the same), another pid namespace, or a platform without /proc. Only
// gone with known permits taking over without waiting for the lease to end; and
// its descendants may live on, see Survivors. A zombie counts as gone.
func (p ProcessID) Gone() (gone, known bool) {
	me, err := self()
	if err != nil || p.Boot == "" || p.Boot != me.Boot || p.Namespace != me.Namespace || p.PID <= 0 {
		return false, false
	}
	return p.endedHere()
}
