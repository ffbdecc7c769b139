package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// wrapFlags are the choices of run NAME -- COMMAND.
type wrapFlags struct {
	overlap, lock            string
	wait                     time.Duration
	perHost, manual          bool
	schedule, zone, slot     string
	notWithin                time.Duration
	lease, timeout, grace    time.Duration
	oncePer, onUncertain     string
	capture, output          string
	failOnSkip               bool
	skipCode, complainAfter  int
	queueLimit               int
	ping                     string
	labels                   []string
	dbWait                   time.Duration
	ifNoDatabase, onLostWhat string

	own *pflag.FlagSet // what was registered here
}

// flags adds the flags of the wrapper to the command that has them.
func (f *wrapFlags) flags(c *cobra.Command) {
	s := pflag.NewFlagSet("wrapper", pflag.ContinueOnError)
	s.StringVar(&f.overlap, "overlap", "skip", "when another run has the lock: skip, queue, coalesce, replace or allow")
	s.IntVar(&f.queueLimit, "queue-limit", dispatch.DefaultQueueLimit, "with --overlap queue, how many may wait")
	s.DurationVar(&f.wait, "wait", 0, "wait for the lock at most this long instead of standing back")
	s.StringVar(&f.lock, "lock", "", "commands with the same lock exclude one another (default: the name)")
	s.BoolVar(&f.perHost, "per-host", false, "each host has its own run: the name becomes NAME@HOST")
	s.StringVar(&f.schedule, "schedule", "", "the schedule that fires this line, so that one slot runs once")
	s.StringVar(&f.zone, "time-zone", "", "IANA name of the zone in which --schedule is read")
	s.StringVar(&f.slot, "slot", "", "the slot that this is for, RFC 3339 (default: the latest of --schedule; also $DIBS_SLOT)")
	s.DurationVar(&f.notWithin, "not-within", 0, "without a schedule: stand back within this time of the last start")
	s.BoolVar(&f.manual, "manual", false, "a person asks: no slot is spent")
	s.DurationVar(&f.lease, "lease", wrapLease, "how long the lease lasts without renewal")
	s.DurationVar(&f.timeout, "timeout", 0, "stop the command after this time (default: none)")
	s.DurationVar(&f.grace, "grace", 0, "time between TERM and KILL (default: the smaller of 10s and a quarter of the lease)")
	s.StringVar(&f.oncePer, "once-per", "", "the work of this slot, or KEY, is done once: slot or KEY")
	s.StringVar(&f.onUncertain, "on-uncertain", "replay", "with --once-per, after a run without an outcome: replay, hold or lookup=COMMAND")
	s.StringVar(&f.capture, "capture", "64KiB", "how much of the output's end is kept: a size or none")
	s.StringVar(&f.output, "output", "always", "pass the output on: always, on-failure or none")
	s.BoolVar(&f.failOnSkip, "fail-on-skip", false, "exit with 75 when no run was started")
	s.IntVar(&f.skipCode, "skip-code", 0, "exit with this code when no run was started")
	s.IntVar(&f.complainAfter, "complain-after", 3, "say so at this many skips behind the same run, at 10, at 100 …; 0: never")
	s.StringVar(&f.ping, "ping", "", "URL to call at start (URL/start), success (URL) and failure (URL/fail)")
	s.StringArrayVar(&f.labels, "label", nil, "name=value, recorded with the job; may be repeated")
	s.DurationVar(&f.dbWait, "db-wait", 30*time.Second, "how long to wait for a database that cannot be reached")
	s.StringVar(&f.ifNoDatabase, "if-no-database", "fail", "what to do without a database: fail, or run unprotected and record it later")
	s.StringVar(&f.onLostWhat, "on-lease-loss", "stop", "what to do when the lease is lost: stop, or continue without protection")
	f.own = s
	c.Flags().AddFlagSet(s)
}

// given lists the flags of the wrapper that were set.
func (f *wrapFlags) given() []string {
	var names []string
	f.own.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			names = append(names, "--"+flag.Name)
		}
	})
	return names
}

// set tells whether a flag was given.
func (f *wrapFlags) set(name string) bool { return f.own.Lookup(name).Changed }

// wrapLease is the wrapper's default lease.
const wrapLease = 5 * time.Minute

// check finds what is wrong with the flags by themselves, all at once.
func (f *wrapFlags) check() error {
	var faults []string
	word := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			faults = append(faults, fmt.Sprintf("--%s %q: choose %s", flag, value, strings.Join(allowed, ", ")))
		}
	}
	word("overlap", f.overlap, string(dibs.Skip), string(dibs.Queue), string(dibs.Coalesce), string(dibs.Replace), string(dibs.Allow))
	word("output", f.output, outputAlways, outputOnFailure, outputNone)
	word("if-no-database", f.ifNoDatabase, "fail", "run")
	word("on-lease-loss", f.onLostWhat, "stop", "continue")
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"wait", f.wait}, {"not-within", f.notWithin}, {"lease", f.lease}, {"timeout", f.timeout},
		{"grace", f.grace}, {"db-wait", f.dbWait},
	} {
		if d.value < 0 {
			faults = append(faults, fmt.Sprintf("--%s %s: a duration cannot be negative", d.name, d.value))
		}
	}
	if f.queueLimit < 1 {
		faults = append(faults, fmt.Sprintf("--queue-limit %d: want 1 or more", f.queueLimit))
	}
	if uncertain, lookup, ok := strings.Cut(f.onUncertain, "="); ok && (uncertain != string(dibs.Lookup) || lookup == "") ||
		!ok && uncertain != string(dibs.Replay) && uncertain != string(dibs.Hold) {
		faults = append(faults, fmt.Sprintf("--on-uncertain %q: choose replay, hold or lookup=COMMAND", f.onUncertain))
	}
	if f.skipCode < 0 || f.skipCode > 255 {
		faults = append(faults, fmt.Sprintf("--skip-code %d: an exit code is between 0 and 255", f.skipCode))
	}
	if f.complainAfter < 0 {
		faults = append(faults, fmt.Sprintf("--complain-after %d: want 0 (never) or more", f.complainAfter))
	}
	for _, l := range f.labels {
		if name, _, ok := strings.Cut(l, "="); !ok || name == "" {
			faults = append(faults, fmt.Sprintf("--label %q: write NAME=VALUE", l))
		}
	}
	for _, pair := range [][2]string{{"manual", "slot"}, {"manual", "not-within"}, {"schedule", "not-within"}, {"fail-on-skip", "skip-code"}, {"manual", "schedule"}} {
		if f.set(pair[0]) && f.set(pair[1]) {
			faults = append(faults, fmt.Sprintf("--%s and --%s exclude one another", pair[0], pair[1]))
		}
	}
	if _, err := captureBytes(f.capture); err != nil {
		faults = append(faults, err.Error())
	}
	if len(faults) > 0 {
		return usageError("%s", strings.Join(faults, "; "))
	}
	return nil
}

// The values of --output.
const (
	outputAlways    = "always"
	outputOnFailure = "on-failure"
	outputNone      = "none"
)

// mostCapture is as much as the run's row keeps.
const mostCapture = 1 << 20

// captureBytes reads a size such as 64KiB, 100kB, 4096 or none.
func captureBytes(text string) (int, error) {
	if text == "none" {
		return 0, nil
	}
	digits := strings.TrimRight(text, "KMkmiB")
	factor, known := map[string]int{
		"": 1, "B": 1, "k": 1000, "kB": 1000, "K": 1 << 10, "KB": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MB": 1 << 20, "MiB": 1 << 20,
	}[text[len(digits):]]
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil, !known, n < 0:
		return 0, fmt.Errorf("--capture %q: write a size such as 64KiB, or none", text)
	case n > mostCapture/factor:
		return 0, fmt.Errorf("--capture %s: 1MiB is the most", text)
	}
	return n * factor, nil
}

// refuseWithout says that flags were given that only a wrapped command has.
func (f *wrapFlags) refuseWithout() error {
	if names := f.given(); len(names) > 0 {
		return usageError("%s: only with a command after --; a configured job has its own settings", strings.Join(names, ", "))
	}
	return nil
}
