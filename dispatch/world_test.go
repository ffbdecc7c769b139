package dispatch_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/store/sqlite"
)

// world is a SQLite file in a bubble of virtual time: the driver's clock is
// Go's.
type world struct {
	t     *testing.T
	store *sqlite.Store
	db    *sql.DB
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite3", "file:"+file+"?_pragma=busy_timeout(1000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		w := &world{t: t, db: db, store: sqlite.New(db)}
		if _, err := w.store.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(w)
	})
}

// process is one process with its dispatcher.
type process struct {
	*dispatch.Dispatcher
	w *world
}

func (w *world) process(host string) process {
	return process{dispatch.New(dispatch.Config{Runs: w.store, Holder: dibs.Holder{Host: host, PID: 1, Process: "p" + host}}), w}
}

const lease = time.Minute

func (w *world) job(name string, overlap dibs.Overlap, cron string) *dibs.Job {
	w.t.Helper()
	j := &dibs.Job{Name: name, Overlap: overlap}
	if cron != "" {
		s, err := schedule.ParseExpr(cron, "UTC")
		if err != nil {
			w.t.Fatal(err)
		}
		j.Schedule = s
	}
	w.register(name, "h1")
	return j
}

func (w *world) register(name, hash string) {
	w.t.Helper()
	if err := w.store.Register(w.t.Context(), []dibs.JobRecord{{Name: name, Hash: hash, Text: hash}}); err != nil {
		w.t.Fatal(err)
	}
}

// fire brings a trigger; change adjusts the request.
func (p process) fire(j *dibs.Job, change func(*dispatch.Request)) dispatch.Fired {
	p.w.t.Helper()
	fired, err := p.try(j, change)
	if err != nil {
		p.w.t.Fatalf("fire %s: %v", j.Name, err)
	}
	return fired
}

func (p process) try(j *dibs.Job, change func(*dispatch.Request)) (dispatch.Fired, error) {
	r := dispatch.Request{Job: j, Hash: "h1", Origin: dibs.OriginExternal, Kind: dibs.KindCommand, Lease: lease, By: "test", Able: able(j)}
	if change != nil {
		change(&r)
	}
	return p.Fire(p.w.t.Context(), r)
}

// able runs waiting triggers of these jobs.
func able(jobs ...*dibs.Job) dispatch.Able {
	return func(t dibs.Trigger) (dispatch.Worker, bool) {
		for _, j := range jobs {
			if j.Name == t.Job {
				return dispatch.Worker{Hash: "h1", Kind: dibs.KindCommand, Lease: lease, Beside: j.Overlap == dibs.Allow}, true
			}
		}
		return dispatch.Worker{}, false
	}
}

// end ends a run well; with able this process continues.
func (p process) end(run *dibs.Run, able dispatch.Able) dispatch.Finished {
	p.w.t.Helper()
	done, err := p.End(p.w.t.Context(), dispatch.Finish{Run: *run, End: dibs.RunEnd{Run: run.Ref(), State: dibs.RunSucceeded}, Able: able})
	if err != nil {
		p.w.t.Fatalf("end %s: %v", run.ID, err)
	}
	return done
}

func (w *world) trigger(id string) dibs.Trigger {
	w.t.Helper()
	t, err := w.store.Trigger(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

func (w *world) triggers(job string) []dibs.Trigger {
	w.t.Helper()
	list, err := w.store.ListTriggers(w.t.Context(), dibs.TriggerFilter{Job: job, Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) run(id string) dibs.Run {
	w.t.Helper()
	r, err := w.store.Run(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) wantTrigger(id string, d dibs.Decision, why dibs.Reason) dibs.Trigger {
	w.t.Helper()
	t := w.trigger(id)
	if t.Decision != d || t.Reason != why {
		w.t.Errorf("trigger %s: %s (%s) %s, want %s (%s)", id, t.Decision, t.Reason, t.Detail, d, why)
	}
	return t
}

func (w *world) wantFired(f dispatch.Fired, d dibs.Decision, why dibs.Reason) {
	w.t.Helper()
	if f.Trigger.Decision != d || f.Trigger.Reason != why {
		w.t.Fatalf("decided %q (%s) %s, want %s (%s)", f.Trigger.Decision, f.Trigger.Reason, f.Trigger.Detail, d, why)
	}
	if d != "" {
		w.wantTrigger(f.Trigger.ID, d, why)
	}
}

// pass lets virtual time go by.
func pass(d time.Duration) { <-time.After(d) }

// until lets virtual time go by up to an instant of the day after the bubble
// began (2000-01-01 UTC).
func until(t time.Time) { <-time.After(time.Until(t)) }

func waiter(r *dispatch.Request)  { r.Waiter, r.Able = true, nil }
func latest(r *dispatch.Request)  { r.Slots, r.Origin = dispatch.LatestSlot, dibs.OriginSchedule }
func dueSlot(r *dispatch.Request) { r.Slots, r.Origin = dispatch.DueSlot, dibs.OriginSchedule }

func given(slot time.Time) func(*dispatch.Request) {
	return func(r *dispatch.Request) {
		r.Slots, r.Slot, r.Origin = dispatch.GivenSlot, slot, dibs.OriginSchedule
	}
}

// waited is what a waiter came to.
type waited struct {
	fired dispatch.Fired
	err   error
}

// wait waits in the background.
func (p process) wait(ctx context.Context, t dibs.Trigger) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		fired, err := p.Wait(ctx, t, lease)
		c <- waited{fired, err}
	}()
	return c
}
