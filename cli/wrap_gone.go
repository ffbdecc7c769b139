package cli

import (
	"fmt"
	"strings"

	"github.com/dibs-run/dibs"
	wrapped "github.com/dibs-run/dibs/command"
)

// bootDigits is how much of the boot ID a holder carries: with the host's name
// enough to tell one running kernel from another.
const bootDigits = 12

// instance writes, short enough for people, what proves later that this process
// has ended: the start of the boot ID, the pid namespace and the start time. The
// holder has the pid.
func instance(id wrapped.ProcessID) string {
	boot := bootOf(id)
	if boot == "" {
		return ""
	}
	return fmt.Sprintf("%s.%d.%d", boot, id.Namespace, id.Start)
}

func bootOf(id wrapped.ProcessID) string {
	digits := strings.ReplaceAll(id.Boot, "-", "")
	return digits[:min(bootDigits, len(digits))]
}

// gone tells whether a wrapper on this host has ended and left nothing that
// still works for its run.
func gone(r dibs.Run) bool {
	boot, rest, ok := strings.Cut(r.Holder.Instance, ".")
	self := wrapped.Self()
	if !ok || boot == "" || boot != bootOf(self) {
		return false
	}
	id := wrapped.ProcessID{Boot: self.Boot, PID: r.Holder.PID}
	if n, err := fmt.Sscanf(rest, "%d.%d", &id.Namespace, &id.Start); n != 2 || err != nil {
		return false
	}
	if ended, known := id.Gone(); !ended || !known {
		return false
	}
	left, known := wrapped.Survivors("DIBS_RUN_ID", r.ID)
	return known && len(left) == 0
}
