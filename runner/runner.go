// Package runner is the life of a process that works: it brings triggers,
// claims batches, renews leases, hands items to handlers, settles outcomes, and
// ends runs.
//
// It must not know any database, command line or file format: it speaks to the
// interfaces of the root package. Of this module it may import the root
// package, schedule, policy and dispatch.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/policy"
)

// Config makes a Runner.
type Config struct {
	// Store is the database. Required. Its tables must exist (dibs init, or the
	// store's Migrate); nothing is migrated here.
	Store dibs.Store
	// Jobs that this process may run. Required.
	Jobs []dibs.Job
	// Instance tells processes of one host apart for people: a pod, a function
	// request, a release.
	Instance string
	// By is who stands behind triggers of this process. Default: the holder.
	By string
	// Log receives what people may want to know; nil: nothing.
	Log *slog.Logger
	// Observe is called for every event, from several goroutines at once; it must
	// be quick. Nil: nobody looks.
	Observe func(Event)
}

// Runner runs jobs. It is safe for concurrent use. It has no background duty of
// its own: everything it starts ends with the call that started it.
type Runner struct {
	store    dibs.Store
	dispatch *dispatch.Dispatcher
	holder   dibs.Holder
	by       string
	log      *slog.Logger
	observe  func(Event)
	jobs     map[string]*job
	order    []string
	checked  atomic.Bool // the database may be used

	// flying holds the rows whose handlers run in this process, so that a row
	// taken back after a lost lease is not started twice here.
	flying *sync.Map
}

// job is a definition with what was worked out once.
type job struct {
	dibs.Job
	table  *dibs.Table // nil: the run itself is the one item
	timing timing
	// ledger is true when the job's effects are kept.
	ledger      bool
	lookupAfter time.Duration
	identity    dibs.Identity

	text string
	hash string

	mu     sync.Mutex
	claims dibs.Claims // opened at first use
}

// New checks the configuration, reporting every fault at once, and returns a
// Runner. It does not connect.
func New(c Config) (*Runner, error) {
	r := &Runner{store: c.Store, by: c.By, log: c.Log, observe: c.Observe, jobs: map[string]*job{}, flying: &sync.Map{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.observe == nil {
		r.observe = func(Event) {}
	}
	var err error
	if r.holder, err = dibs.NewHolder(c.Instance); err != nil {
		return nil, err
	}
	var faults []error
	if c.Store == nil {
		faults = append(faults, &dibs.ConfigError{Subject: "runner", Field: "Store", Problem: "missing", Fix: "pass postgres.New(db), sqlite.New(db) or mysql.New(db)"})
	}
	if len(c.Jobs) == 0 {
		faults = append(faults, &dibs.ConfigError{Subject: "runner", Field: "Jobs", Problem: "no job is defined", Fix: "define at least one"})
	}
	for i := range c.Jobs {
		name := c.Jobs[i].Name
		j, err := newJob(c.Jobs[i], r.holder.Host)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if _, twice := r.jobs[name]; twice {
			faults = append(faults, &dibs.ConfigError{Subject: "job " + name, Problem: "defined twice", Fix: "give each job its own name"})
			continue
		}
		r.jobs[name], r.jobs[j.Name] = j, j
		r.order = append(r.order, name)
		r.warnIdentity(j)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if r.by == "" {
		r.by = r.holder.String()
	}
	r.dispatch = dispatch.New(dispatch.Config{Runs: c.Store, Holder: r.holder, Log: r.log})
	return r, nil
}

// Holder is this process, as leases name it.
func (r *Runner) Holder() dibs.Holder { return r.holder }

// Jobs lists the names of the jobs that this process may run, as configured.
func (r *Runner) Jobs() []string { return append([]string(nil), r.order...) }

// lookup finds a job by name.
func (r *Runner) lookup(name string) (*job, error) {
	j, ok := r.jobs[name]
	if !ok {
		return nil, fmt.Errorf("job %q: %w among %q", name, dibs.ErrNotFound, r.order)
	}
	return j, nil
}

// open opens the job's table once.
func (r *Runner) open(ctx context.Context, j *job) (dibs.Claims, error) {
	if j.table == nil {
		return nil, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.claims != nil {
		return j.claims, nil
	}
	claims, err := r.store.Claims(ctx, *j.table)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", j.Name, err)
	}
	if err := j.settleIdentity(claims.TwoColumn()); err != nil {
		return nil, err
	}
	j.claims = claims
	return claims, nil
}

func newJob(d dibs.Job, host string) (*job, error) {
	if d.PerHost {
		d.Name += "@" + host
	}
	j := &job{Job: d}
	if t, ok := d.Source.(dibs.Table); ok {
		j.table = &t
	}
	if j.Batch == 0 {
		j.Batch = 100
	}
	if j.Concurrency == 0 {
		j.Concurrency = 1
	}
	if j.Operation == "" {
		j.Operation = "run"
	}
	var faults []error
	timing, err := timingOf(&j.Job)
	if err != nil {
		faults = append(faults, err)
	}
	j.timing = timing
	faults = append(faults, j.validate()...)
	faults = append(faults, j.validateEffects()...)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	j.define()
	return j, nil
}

func (j *job) validate() []error {
	var faults []error
	fault := func(field, problem, fix string) {
		faults = append(faults, &dibs.ConfigError{Subject: "job " + j.Name, Field: field, Problem: problem, Fix: fix})
	}
	if err := checkName(j.Name); err != nil {
		faults = append(faults, err)
	}
	switch {
	case j.Overlap == "":
		fault("overlap", "not chosen", "choose skip (the next slot covers the work), queue (every trigger counts), coalesce (one more run covers all that arrived), replace (only the newest matters) or allow (rows exclude one another)")
	case !policy.Supports(j.Overlap):
		fault("overlap", fmt.Sprintf("%q is not a policy of this version", j.Overlap), "choose skip, queue, coalesce, replace or allow")
	}
	if (j.Handle == nil) == (j.HandleBatch == nil) {
		fault("handler", "want exactly one of Handle and HandleBatch", "set one of them")
	}
	if j.Batch < 0 || j.Concurrency < 0 || j.Timeout < 0 || j.MaxItems < 0 || j.MaxDuration < 0 {
		fault("limits", "a limit is negative", "use a positive one, or leave it out")
	}
	j.validateSchedule(fault)
	if t := j.table; t != nil {
		if t.OneShot && t.Every != 0 {
			fault("source", "one_shot rows do not come again, yet every is set", "leave one of them out")
		}
		if !t.OneShot && t.Every == 0 && !t.Scheduled {
			fault("source", "nothing says when a completed row may come again", "set every (0s means: in the next run), or one_shot")
		}
	}
	return faults
}

// checkName applies the one rule for names.
func checkName(name string) error {
	problem := ""
	switch {
	case name == "":
		problem = "empty"
	case len(name) > 200:
		problem = fmt.Sprintf("%d bytes long, 200 is the most", len(name))
	case !utf8.ValidString(name):
		problem = "not UTF-8"
	default:
		for _, c := range name {
			if c < 0x20 || c == 0x7f {
				problem = "holds a control character"
			}
		}
		if strings.TrimSpace(name) != name {
			problem = "begins or ends with white space"
		}
	}
	if problem == "" {
		return nil
	}
	return &dibs.ConfigError{Subject: fmt.Sprintf("job %q", name), Field: "name", Problem: problem, Fix: "use 1 to 200 bytes of plain text"}
}

// roll is a random number for jitter.
func roll() float64 { return rand.Float64() }
