//go:build !unix

package cli

// monotonicMicros is for systemd, which is not here.
func monotonicMicros() int64 { return 0 }
