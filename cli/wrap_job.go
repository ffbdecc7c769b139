package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/config"
	"github.com/dibs-run/dibs/schedule"
)

// wrapping is a command to run under a name: the flags and the file's entry,
// resolved.
type wrapping struct {
	f    wrapFlags
	act  act
	argv []string

	job     dibs.Job
	hash    string
	capture int
	timing  wrapTiming
	// slot is the one that was given; zero: the latest of the schedule, if any.
	slot time.Time
	// schedule is nil without one.
	schedule *schedule.Schedule
}

// wrapTiming is the lease's arithmetic (law 4). A child that was told to stop
// by the local deadline has the grace, is killed, and there is still time for
// one write before the database's lease end.
type wrapTiming struct {
	lease, beat, grace, slack time.Duration
}

// margin is the distance of the local deadline from the lease's end.
func (t wrapTiming) margin() time.Duration { return t.grace + t.slack }

func wrapTimingOf(lease, grace time.Duration) (wrapTiming, error) {
	t := wrapTiming{lease: lease, grace: grace}
	if grace == 0 {
		t.grace = min(10*time.Second, lease/4)
	}
	t.beat = min(30*time.Second, lease/3)
	t.slack = min(2*time.Second, lease/10)
	if t.beat+t.margin() >= t.lease {
		return t, usageError("--lease %s cannot hold a beat of %s and a grace of %s: lengthen --lease or shorten --grace", t.lease, t.beat, t.grace)
	}
	return t, nil
}

// resolve makes one of the flags and what the file says about the name.
func (a *app) resolve(ctx context.Context, name string, argv []string, f runFlags) (*wrapping, error) {
	w := &wrapping{f: f.wrap, act: f.act, argv: argv}
	if f.key != "" || f.json {
		return nil, usageError("--key and --json go with a configured job, not with a command after --")
	}
	if err := w.f.check(); err != nil {
		return nil, err
	}
	entry, err := a.entry(ctx, name)
	if err != nil {
		return nil, err
	}
	w.fill(entry)
	if w.f.perHost {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name this host: %w", err)
		}
		name += "@" + host
	}
	if problem := badName(name); problem != "" {
		return nil, usageError("%q: %s", name, problem)
	}
	if w.timing, err = wrapTimingOf(w.f.lease, w.f.grace); err != nil {
		return nil, err
	}
	if w.capture, err = captureBytes(w.f.capture); err != nil {
		return nil, usageError("%v", err)
	}
	if err := w.when(a.env); err != nil {
		return nil, err
	}
	uncertain, _, _ := strings.Cut(w.f.onUncertain, "=")
	w.job = dibs.Job{
		Name: name, Overlap: dibs.Overlap(w.f.overlap), OnUncertain: dibs.OnUncertain(uncertain), Lock: w.f.lock,
		Lease: w.f.lease, Grace: w.timing.grace, Timeout: w.f.timeout, Labels: labelsOf(w.f.labels),
		QueueLimit: w.f.queueLimit, NotWithin: w.f.notWithin,
	}
	if w.schedule != nil {
		w.job.Schedule = w.schedule
	}
	w.define()
	return w, nil
}

// when reads the schedule and the slot. A variable that an outer run left in the
// environment is about that run, not about this one.
func (w *wrapping) when(env func(string) string) error {
	var err error
	if w.f.schedule != "" {
		if w.schedule, err = schedule.ParseExpr(w.f.schedule, w.f.zone); err != nil {
			return usageError("--schedule: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	text := w.f.slot
	if text == "" && env("DIBS_RUN_ID") == "" && !w.f.manual {
		text = env("DIBS_SLOT")
	}
	if text != "" {
		if w.slot, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return usageError("--slot %q: write a time such as 2027-03-01T09:00:00Z", text)
		}
		w.slot = w.slot.UTC()
	}
	if w.f.oncePer == oncePerSlot && !w.slotted() {
		return usageError("--once-per slot: nothing says which slot this is: give --schedule or --slot")
	}
	if w.f.set("on-uncertain") && w.f.oncePer == "" {
		return usageError("--on-uncertain goes with --once-per: without an identity of the work nothing is ever repeated on purpose")
	}
	return nil
}

// slotted tells whether the trigger is one for a slot.
func (w *wrapping) slotted() bool {
	return !w.f.manual && w.keyed() == "" && (w.schedule != nil || !w.slot.IsZero())
}

// keyed is the work's own identity, or "".
func (w *wrapping) keyed() string {
	if w.f.oncePer == oncePerSlot {
		return ""
	}
	return w.f.oncePer
}

// entry is the file's definition of a name, which must leave the work to the
// command.
func (a *app) entry(ctx context.Context, name string) (*config.Job, error) {
	for _, j := range a.program.Jobs {
		if j.Name == name {
			return nil, usageError("the program defines the job %s itself: leave the command out, or choose another name", name)
		}
	}
	file, err := a.config(ctx)
	if err != nil || file == nil {
		return nil, err
	}
	j := file.Job(name)
	if j != nil && (j.Handler != nil || j.Source != nil) {
		return nil, usageError("%s gives the job %s a handler or a source: leave the command out, or choose another name", file.Path, name)
	}
	return j, nil
}

// fill takes from the file's entry what no flag says.
func (w *wrapping) fill(j *config.Job) {
	if j == nil {
		return
	}
	text := func(flag string, into *string, value string) {
		if value != "" && !w.f.set(flag) {
			*into = value
		}
	}
	span := func(flag string, into *time.Duration, value config.Duration) {
		if value > 0 && !w.f.set(flag) {
			*into = time.Duration(value)
		}
	}
	text("overlap", &w.f.overlap, string(j.Overlap))
	if j.OnUncertain != dibs.Lookup { // which command to ask is the flag's to say
		text("on-uncertain", &w.f.onUncertain, string(j.OnUncertain))
	}
	text("lock", &w.f.lock, j.Lock)
	text("time-zone", &w.f.zone, j.TimeZone)
	span("lease", &w.f.lease, j.Lease)
	span("grace", &w.f.grace, j.Grace)
	span("timeout", &w.f.timeout, j.Timeout)
	if s := j.Schedule; s != nil && !w.f.set("schedule") && !w.f.set("not-within") {
		switch {
		case s.Cron != "":
			w.f.schedule = s.Cron
		case s.Every > 0:
			w.f.schedule = "@every " + time.Duration(s.Every).String()
		}
	}
	for name, value := range j.Labels {
		w.f.labels = append([]string{name + "=" + value}, w.f.labels...)
	}
}

// labelsOf turns name=value pairs into a map; the last of equal names wins.
func labelsOf(pairs []string) map[string]string {
	if len(pairs) == 0 {
		return nil
	}
	labels := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		labels[name] = value
	}
	return labels
}

// define writes the definition that history keeps. It states the defaults that
// were used. The command's arguments are left out: they may differ each time,
// and may hold what no database should.
func (w *wrapping) define() {
	text, err := json.Marshal(struct {
		Wrapper     string            `json:"wrapper"`
		Overlap     string            `json:"overlap"`
		OnUncertain string            `json:"on_uncertain"`
		OncePer     string            `json:"once_per,omitempty"`
		Lock        string            `json:"lock,omitempty"`
		Schedule    string            `json:"schedule,omitempty"`
		TimeZone    string            `json:"time_zone,omitempty"`
		NotWithin   string            `json:"not_within,omitempty"`
		Lease       string            `json:"lease"`
		Grace       string            `json:"grace"`
		Timeout     string            `json:"timeout,omitempty"`
		OnLeaseLoss string            `json:"on_lease_loss"`
		Labels      map[string]string `json:"labels,omitempty"`
	}{
		w.argv[0], w.f.overlap, string(w.job.OnUncertain), oncePerWord(w.f.oncePer), w.f.lock, w.f.schedule, w.f.zone, spanOrNone(w.f.notWithin),
		w.f.lease.String(), w.timing.grace.String(), spanOrNone(w.f.timeout), w.f.onLostWhat, w.job.Labels,
	})
	if err != nil { // strings and a map of strings always encode
		text = []byte("{}")
	}
	w.job.Definition = string(text)
	sum := sha256.Sum256(text)
	w.hash = hex.EncodeToString(sum[:])
}

// oncePerWord leaves a key out of the definition: it differs each time.
func oncePerWord(s string) string {
	if s == "" || s == oncePerSlot {
		return s
	}
	return "key"
}

// oncePerSlot as --once-per makes the slot the identity of the work.
const oncePerSlot = "slot"

func spanOrNone(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// badName says why a name cannot be a job's, or "".
func badName(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case len(name) > 200:
		return fmt.Sprintf("the name has %d bytes, 200 is the most", len(name))
	case !utf8.ValidString(name):
		return "the name is not UTF-8"
	case strings.TrimSpace(name) != name:
		return "the name begins or ends with white space"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "the name holds a control character"
	}
	return ""
}
