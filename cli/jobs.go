package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/handler"
	"github.com/dibs-run/dibs/internal/config"
)

// work is a job that this program can run.
type work struct {
	dibs.Job
	// file is the job in dibs.yaml; nil when it is written in Go.
	file *config.Job
}

// zone is where the job's times are shown.
func (w *work) zone() *time.Location {
	if w.file == nil {
		return time.Local
	}
	return zoneOf(w.file)
}

func zoneOf(j *config.Job) *time.Location {
	if j == nil || j.TimeZone == "" {
		return time.Local
	}
	if zone, err := time.LoadLocation(j.TimeZone); err == nil {
		return zone
	}
	return time.Local // check says what is wrong with it
}

// failed tells whether so many failed items make a command exit with 3.
func (w *work) failed(c dibs.Counts) bool {
	bad := c.Failed + c.Rejected + c.Lost
	if w.file == nil {
		return bad > 0
	}
	return w.file.FailWhen.Failed(int(bad), int(c.Selected))
}

// works lists what this program can run: the jobs of the file that have a
// handler, then those written in Go.
func (a *app) works(ctx context.Context) ([]*work, error) {
	file, err := a.config(ctx)
	if err != nil {
		return nil, err
	}
	var list []*work
	var faults []error
	if file != nil {
		for _, j := range file.Jobs {
			if j.Handler == nil {
				continue // only a wrapper can run it: dibs run NAME -- CMD
			}
			w, err := fromFile(j)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			list = append(list, w)
		}
	}
	for _, j := range a.program.Jobs {
		if slices.ContainsFunc(list, func(w *work) bool { return w.Name == j.Name }) {
			faults = append(faults, &dibs.ConfigError{Subject: "job " + j.Name, Problem: "the program and " + file.Path + " both define it", Fix: "rename one of them"})
			continue
		}
		list = append(list, &work{Job: j})
	}
	return list, errors.Join(faults...)
}

// choose picks the jobs that were named, or all when none was.
func (a *app) choose(ctx context.Context, names []string) ([]*work, error) {
	all, err := a.works(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		if len(all) == 0 {
			return nil, a.noJobs()
		}
		return all, nil
	}
	var list []*work
	var faults []error
	for _, name := range names {
		i := slices.IndexFunc(all, func(w *work) bool { return w.Name == name })
		switch {
		case i < 0:
			faults = append(faults, a.unknownJob(name))
		case !slices.Contains(list, all[i]):
			list = append(list, all[i])
		}
	}
	return list, errors.Join(faults...)
}

func (a *app) noJobs() error {
	if a.opened.file == nil {
		return &dibs.ConfigError{Subject: "jobs", Problem: "there is no " + config.FileName + ", so there is no job to run", Fix: "write one, or name it with --config"}
	}
	return &dibs.ConfigError{Subject: a.opened.file.Path, Field: "jobs", Problem: "no job with a handler is defined", Fix: "define one"}
}

// unknownJob says where a name was looked for, and what is like it.
func (a *app) unknownJob(name string) error {
	e := &dibs.ConfigError{Subject: "job " + name, Problem: "there is no such job"}
	file := a.opened.file
	switch {
	case file == nil && len(a.program.Jobs) == 0:
		e.Problem = "there is no " + config.FileName + ", so there is no job"
		e.Fix = "write one, or name it with --config"
	case file != nil && file.Job(name) != nil:
		e.Problem = "the job has no handler, so only a wrapper can run it"
		e.Fix = fmt.Sprintf("add a handler, or use %s run %s -- COMMAND", a.program.Name, name)
	case file != nil && file.Nearest(name) != "":
		e.Problem += " in " + file.Path
		e.Fix = "did you mean " + file.Nearest(name) + "?"
	case file != nil:
		e.Problem += " in " + file.Path
		e.Fix = "define it there, or correct the name"
	default:
		e.Fix = "correct the name: " + a.program.Name + " tick without a name runs all"
	}
	return e
}

// fromFile makes a job of the file runnable.
func fromFile(j *config.Job) (*work, error) {
	job, err := j.Dibs()
	if err != nil {
		return nil, err
	}
	if job.Handle, err = handlerOf(j, killAfter(&job)); err != nil {
		return nil, fmt.Errorf("job %s: %w", j.Name, err)
	}
	if j.Lookup != nil {
		if job.Lookup, err = lookupOf(j, killAfter(&job)); err != nil {
			return nil, fmt.Errorf("job %s: %w", j.Name, err)
		}
	}
	return &work{Job: job, file: j}, nil
}

// killAfter is how long a process that was told to stop may take before it is
// killed: less than the runner's own patience, so that its end is still seen and
// settled.
func killAfter(j *dibs.Job) time.Duration {
	lease, grace := j.Lease, j.Grace
	if lease == 0 {
		lease = defaultLease
	}
	if grace == 0 {
		grace = min(10*time.Second, lease/4)
	}
	return grace * 3 / 4
}

// defaultLease is what a job that names no lease gets.
const defaultLease = time.Minute

// handlerOf makes the handler that a job of the file describes.
func handlerOf(j *config.Job, grace time.Duration) (dibs.Handle, error) {
	switch h := j.Handler; {
	case h.HTTP != nil:
		return handler.HTTP(httpOf(j, h.HTTP))
	case h.Shell != "":
		return handler.Exec(handler.ExecConfig{Argv: []string{shell(), "-c", h.Shell}, Grace: grace})
	default:
		return handler.Exec(handler.ExecConfig{Argv: h.Exec, Grace: grace})
	}
}

// lookupOf makes the lookup that a job of the file describes.
func lookupOf(j *config.Job, grace time.Duration) (dibs.LookupFunc, error) {
	h := j.Lookup.HTTP
	if h == nil {
		return handler.LookupExec(handler.ExecConfig{Argv: j.Lookup.Exec, Grace: grace})
	}
	out := handler.LookupHTTPConfig{
		Method: h.Method, URL: h.URL, Headers: h.Headers, Body: h.Body, Matches: string(h.Matches), ID: string(h.ID),
	}
	for _, p := range h.Evidence {
		out.Evidence = append(out.Evidence, string(p))
	}
	if j.Source != nil {
		out.Columns = j.Source.Select
	}
	return handler.LookupHTTP(out)
}

// shell is the one that "shell:" stands for, whatever a person's own is.
func shell() string {
	if _, err := os.Stat("/bin/sh"); err == nil {
		return "/bin/sh"
	}
	return "sh"
}

func httpOf(j *config.Job, h *config.HTTP) handler.HTTPConfig {
	out := handler.HTTPConfig{
		Method: h.Method, URL: h.URL, Headers: h.Headers, Body: h.Body, ID: string(h.ID), IdempotencyHeader: h.IdempotencyHeader,
	}
	for _, p := range h.Evidence {
		out.Evidence = append(out.Evidence, string(p))
	}
	if j.Source != nil {
		out.Columns = j.Source.Select
	}
	if s := h.Status; s != nil {
		out.Status = handler.Statuses{Done: codes(s.Done), Later: codes(s.Later), Rejected: codes(s.Rejected), Stop: codes(s.Stop)}
	}
	return out
}

func codes(list []config.StatusCode) []string {
	var out []string
	for _, c := range list {
		out = append(out, string(c))
	}
	return out
}
