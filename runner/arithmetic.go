package runner

import (
	"time"

	"github.com/dibs-run/dibs"
)

// Arithmetic is a job's lease arithmetic with all defaults filled in.
type Arithmetic struct {
	// Lease is how long a claim lasts without renewal.
	Lease time.Duration
	// Beat is the time between renewals; zero: no heartbeat.
	Beat time.Duration
	// Grace is what a cancelled handler gets to stop, Margin how long before the
	// lease's end this process stops believing in it.
	Grace, Margin time.Duration
}

// ArithmeticOf computes a job's lease arithmetic; the error is the
// [dibs.ConfigError] with which [New] would refuse it.
func ArithmeticOf(j dibs.Job) (Arithmetic, error) {
	t, err := timingOf(&j)
	return Arithmetic{Lease: t.lease, Beat: t.beat, Grace: t.grace, Margin: t.margin}, err
}
