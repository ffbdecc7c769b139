package cli

import (
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// tickAsk says what a tick asks for, of each of its jobs.
func (a *app) tickAsk(names []string, f tickFlags) (runner.Ask, error) {
	ask := runner.Ask{
		Key: f.key, Limit: f.limit, ExternalID: f.triggerID, By: f.by, Why: f.why,
		Due: len(names) == 0,
	}
	var err error
	if ask.Wait, err = waitFlag(f.wait); err != nil {
		return ask, err
	}
	switch text := f.slot; {
	case f.slot != "" && f.fromName != "":
		return ask, usageError("--slot and --slot-from-job-name both say which slot")
	case f.fromName != "":
		ask.Slot, err = a.slotFromName(f.fromName)
	default:
		if text == "" && len(names) == 1 && f.key == "" && f.triggerID == "" {
			text = a.env("DIBS_SLOT")
		}
		if text == "" {
			break
		}
		if ask.Slot, err = time.Parse(time.RFC3339, text); err != nil {
			err = usageError("the slot %q is no instant: write RFC 3339, such as 2027-03-01T09:00:00Z", text)
		}
	}
	if err == nil && !ask.Slot.IsZero() && (f.key != "" || f.triggerID != "") {
		err = usageError("a slot goes with neither --key nor --trigger-id")
	}
	return ask, err
}

// waitFlag reads --wait: absent, without a value (no limit), or a duration.
func waitFlag(text string) (time.Duration, error) {
	switch text {
	case "":
		return 0, nil
	case "-":
		return -1, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usageError("--wait=%s is no duration: write for example --wait=90s", text)
	}
	return d, nil
}

// slotFromName takes the slot from the name of a Kubernetes job, which ends
// with the scheduled time in minutes since 1970, or of its pod.
func (a *app) slotFromName(name string) (time.Time, error) {
	if name == "-" {
		if name = a.env("HOSTNAME"); name == "" {
			host, err := os.Hostname()
			if err != nil {
				return time.Time{}, usageError("--slot-from-job-name: this host has no name: %v", err)
			}
			name = host
		}
	}
	found := regexp.MustCompile(`-([0-9]{8,9})(-[0-9]+)?(-[a-z0-9]{5})?$`).FindStringSubmatch(name)
	if found == nil {
		return time.Time{}, usageError("--slot-from-job-name: %q does not end like a CronJob's job: NAME-MINUTES", name)
	}
	minutes, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		return time.Time{}, usageError("--slot-from-job-name: %q: %v", name, err)
	}
	return time.Unix(minutes*60, 0).UTC(), nil
}

// spentCode is the exit code that the run which spent a slot stands for.
func spentCode(w *work, run dibs.Run) int {
	switch c := run.Counts; {
	case run.State == dibs.RunLost:
		return exitLost
	case run.State == dibs.RunCancelled && askedToStop(run.Reason):
		return exitRefused
	case c.Uncertain+c.Held > 0:
		return exitUncertain
	case run.State == dibs.RunFailed && c.Selected == 0, w.failed(c):
		return exitFailed
	}
	return exitOK
}

// askedToStop tells whether a run was stopped by a newer trigger or a person.
func askedToStop(r dibs.Reason) bool {
	return r == dibs.ReasonStopBy || r == dibs.ReasonReplaced || r == dibs.ReasonCancelled
}
