//go:build unix

package cli

import "golang.org/x/sys/unix"

// monotonicMicros is the clock by which systemd tells this reload from earlier
// ones.
func monotonicMicros() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano() / 1000
}
