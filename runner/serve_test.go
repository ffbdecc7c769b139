package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/schedule"
)

// every is a schedule in UTC.
func every(t *testing.T, expr string) dibs.Scheduler {
	t.Helper()
	s, err := schedule.ParseExpr(expr, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// calls counts the runs of jobs, and how many were at work at once.
type calls struct {
	mu        sync.Mutex
	of        map[string]int
	now, most int
}

// handle makes a handler that takes a while.
func (c *calls) handle(name string, takes time.Duration) dibs.Handle {
	return func(ctx context.Context, _ dibs.Item) (dibs.Receipt, error) {
		c.mu.Lock()
		if c.of == nil {
			c.of = map[string]int{}
		}
		c.of[name]++
		c.now++
		c.most = max(c.most, c.now)
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.now--
			c.mu.Unlock()
		}()
		select {
		case <-time.After(takes):
			return dibs.Receipt{}, nil
		case <-ctx.Done():
			return dibs.Receipt{}, context.Cause(ctx)
		}
	}
}

func (c *calls) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[name]
}

// unit is a job without items.
func (w *world) unit(name, expr string, h dibs.Handle, change func(*dibs.Job)) dibs.Job {
	j := dibs.Job{Name: name, Overlap: dibs.Skip, Schedule: every(w.t, expr), Handle: h}
	if change != nil {
		change(&j)
	}
	return j
}

// serving is a server at work.
type serving struct {
	*runner.Server
	stop func() error
}

// serve starts a server; stop ends it and gives its error.
func (w *world) serve(c runner.ServeConfig) serving {
	w.t.Helper()
	c.Store, c.Observe = w.store, w.observe
	ready := make(chan struct{})
	c.Ready = func() { close(ready) }
	s, err := runner.NewServer(c)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	<-ready
	stop := sync.OnceValue(func() error {
		cancel(dibs.ErrStopping)
		return <-done
	})
	w.t.Cleanup(func() { _ = stop() }) // after a Fatal
	return serving{s, stop}
}

func jobs(list ...dibs.Job) runner.ServeConfig {
	return runner.ServeConfig{Config: runner.Config{Jobs: list}}
}

// end stops servers and wants no error.
func (w *world) end(list ...serving) {
	w.t.Helper()
	for _, s := range list {
		if err := s.stop(); err != nil {
			w.t.Errorf("serve: %v", err)
		}
	}
}

// decided wants every slot of a job in a span to have exactly one owner.
func (w *world) decided(job string, sched dibs.Scheduler, after, upTo time.Time) {
	w.t.Helper()
	list, err := w.store.ListTriggers(context.Background(), dibs.TriggerFilter{Job: job, Limit: 100_000})
	if err != nil {
		w.t.Fatal(err)
	}
	owners := map[int64]int{}
	for _, t := range list {
		switch {
		case !t.OwnsSlot:
		case t.Missed > 1:
			for at := t.Covered[0]; !at.After(t.Slot); at, _ = sched.Next(at) {
				owners[at.Unix()]++
			}
		default:
			owners[t.Slot.Unix()]++
		}
	}
	for at, ok := sched.Next(after); ok && !at.After(upTo); at, ok = sched.Next(at) {
		if n := owners[at.Unix()]; n != 1 {
			w.t.Errorf("%s: slot %s was decided %d times", job, at.UTC().Format(time.TimeOnly), n)
		}
	}
}

func TestServersShareTheSlots(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		minutely := w.unit("minutely", "* * * * *", c.handle("minutely", 2*time.Second), nil)
		jittered := w.unit("jittered", "*/5 * * * *", c.handle("jittered", 100*time.Millisecond), func(j *dibs.Job) {
			s, err := schedule.Parse(schedule.Spec{Cron: "*/5 * * * *", Zone: "UTC", Name: "jittered", Jitter: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			j.Schedule = s
		})
		long := w.unit("long", "* * * * *", c.handle("long", 150*time.Second), nil)
		began := time.Now()
		var servers []serving
		for range 3 {
			servers = append(servers, w.serve(jobs(minutely, jittered, long)))
		}
		r, err := runner.New(runner.Config{Store: w.store, Jobs: []dibs.Job{minutely, jittered, long}})
		if err != nil {
			t.Fatal(err)
		}
		for range 30 { // a crontab beside them, registered twice
			pass(time.Minute)
			for range 2 {
				if _, err := r.Tick(w.t.Context(), "minutely"); err != nil {
					t.Error(err)
				}
			}
		}
		pass(30 * time.Second)
		upTo := time.Now()
		w.end(servers...)
		w.decided("minutely", minutely.Schedule, began, upTo)
		w.decided("jittered", jittered.Schedule, began, upTo)
		w.decided("long", long.Schedule, began, upTo)
		slots := int(minutely.Schedule.Count(began, upTo))
		if n := c.count("minutely"); n != slots {
			t.Errorf("minutely ran %d times for %d slots", n, slots)
		}
		if n := c.count("long"); n < 9 || n > 11 { // of 30 slots every third starts
			t.Errorf("long ran %d times", n)
		}
		w.want("0", "SELECT count(*) FROM (SELECT 1 FROM dibs_runs GROUP BY job, slot HAVING count(*) > 1)")
		w.want("0", "SELECT count(*) FROM dibs_runs WHERE state NOT IN ('succeeded', 'cancelled')")
	})
}

func TestServeCatchesUpWithWhatPassed(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		hourly := w.unit("hourly", "0 * * * *", c.handle("hourly", time.Second), nil)
		w.end(w.serve(jobs(hourly)))
		began := time.Now()
		pass(5*time.Hour + 10*time.Minute)
		s := w.serve(jobs(hourly))
		pass(time.Minute)
		if n := c.count("hourly"); n != 1 {
			t.Errorf("ran %d times after an outage, want once for the latest slot", n)
		}
		w.decided("hourly", hourly.Schedule, began, time.Now())
		w.end(s)
	})
}

func TestServeBoundsItsRuns(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		var list []dibs.Job
		for i := range 10 {
			name := fmt.Sprint("job", i)
			list = append(list, w.unit(name, "0 * * * *", c.handle(name, 20*time.Second), nil))
		}
		conf := jobs(list...)
		conf.MaxRuns = 2
		s := w.serve(conf)
		pass(time.Hour + 5*time.Minute)
		w.end(s)
		if c.most != 2 {
			t.Errorf("%d runs at once, want 2", c.most)
		}
		for _, j := range list {
			if n := c.count(j.Name); n < 1 {
				t.Errorf("%s never ran", j.Name)
			}
		}
	})
}

func TestServeHalves(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		j := w.unit("hourly", "0 * * * *", c.handle("hourly", time.Second), nil)
		conf := jobs(j)
		conf.Only = runner.OnlySchedule
		scheduler := w.serve(conf)
		pass(time.Hour + time.Second)
		if n := c.count("hourly"); n != 0 {
			t.Errorf("a scheduler ran %d jobs", n)
		}
		w.want("1", "SELECT count(*) FROM dibs_triggers WHERE decision = 'waiting'")
		conf.Only = runner.OnlyRun
		worker := w.serve(conf)
		pass(3*time.Hour + time.Minute)
		w.end(scheduler, worker)
		if n := c.count("hourly"); n != 4 {
			t.Errorf("ran %d times in 4 hours", n)
		}
	})
}

func TestServeDrains(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		quick := w.unit("quick", "0 * * * *", c.handle("quick", 5*time.Second), nil)
		slow := w.unit("slow", "0 * * * *", c.handle("slow", 5*time.Hour), nil)
		s := w.serve(jobs(quick, slow))
		until := time.Now().Truncate(time.Hour).Add(time.Hour)
		pass(time.Until(until) + time.Second)
		stopped := time.Now()
		w.end(s)
		if took := time.Since(stopped); took < 4*time.Second || took > 21*time.Second {
			t.Errorf("stopping took %s", took)
		}
		w.want("succeeded", "SELECT state FROM dibs_runs WHERE job = 'quick'")
		w.want("0", "SELECT count(*) FROM dibs_runs WHERE state = 'running'")
		w.want("0", "SELECT count(*) FROM dibs_locks WHERE run IS NOT NULL")
		if len(w.seen(runner.EventStopping)) == 0 {
			t.Error("no run was told to stop")
		}
	})
}

func TestServeRunsRetries(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		var fails atomic.Int32
		fails.Store(1)
		var handled atomic.Int32
		j := w.job(func(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
			handled.Add(1)
			if it.Key.String() == "a002" && fails.Add(-1) >= 0 {
				return dibs.Receipt{}, dibs.NotApplied(fmt.Errorf("not now"))
			}
			return dibs.Receipt{}, nil
		}, func(j *dibs.Job) { j.Schedule, j.Overlap = every(t, "0 * * * *"), dibs.Skip })
		s := w.serve(jobs(j))
		pass(time.Hour)
		pass(10 * time.Minute)
		w.end(s)
		if n := handled.Load(); n != 4 {
			t.Errorf("handled %d items, want 3 and one retry", n)
		}
		w.want("3", "SELECT count(*) FROM account_config WHERE status = 'IDLE'")
		w.want("1", "SELECT count(*) FROM dibs_runs WHERE origin = 'retry'")
	})
}

func TestServeTakesOverFromTheDead(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		j := w.unit("hourly", "0 * * * *", c.handle("hourly", time.Second), nil)
		s := w.serve(jobs(j))
		pass(time.Hour + 30*time.Second)
		w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")
		// As if its process had died in the middle.
		w.exec("UPDATE dibs_runs SET state = 'running', ended_at = NULL, lease_end = started_at + 60000000")
		w.exec("UPDATE dibs_locks SET run = (SELECT id FROM dibs_runs)")
		pass(3 * time.Minute)
		w.end(s)
		w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'lost'")
		if n := c.count("hourly"); n != 2 {
			t.Errorf("ran %d times, want the lost slot taken over", n)
		}
	})
}

func TestServeReloads(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		kept := w.unit("kept", "0 * * * *", c.handle("kept", time.Second), nil)
		gone := w.unit("gone", "0 * * * *", c.handle("gone", time.Second), nil)
		edited := w.unit("edited", "0 * * * *", c.handle("edited", time.Second), nil)
		s := w.serve(jobs(kept, gone, edited))
		pass(time.Hour + 30*time.Second)
		if err := w.store.AddTrigger(w.t.Context(), waitingFor(t, "gone")); err != nil {
			t.Fatal(err)
		}
		edited.Schedule = every(t, "*/10 * * * *")
		fresh := w.unit("fresh", "0 * * * *", c.handle("fresh", time.Second), nil)
		bad := fresh
		bad.Overlap = ""
		if _, err := s.Reload(w.t.Context(), []dibs.Job{kept, bad}); err == nil {
			t.Error("a bad definition was taken")
		}
		changes, err := s.Reload(w.t.Context(), []dibs.Job{kept, edited, fresh})
		if err != nil {
			t.Fatal(err)
		}
		want := runner.Changes{Added: []string{"fresh"}, Removed: []string{"gone"}, Changed: []string{"edited"}}
		if fmt.Sprint(changes) != fmt.Sprint(want) {
			t.Errorf("reload: %s, want %s", changes, want)
		}
		ran := c.count("gone")
		pass(2 * time.Hour)
		w.end(s)
		if n := c.count("gone"); n != ran {
			t.Errorf("a job that is no longer defined ran %d times more", n-ran)
		}
		w.want("0", "SELECT count(*) FROM dibs_triggers WHERE job = 'gone' AND decision = 'waiting'")
		if c.count("kept") != 3 || c.count("fresh") != 2 || c.count("edited") < 12 {
			t.Errorf("ran %v", c.of)
		}
	})
}

func waitingFor(t *testing.T, job string) dibs.Trigger {
	t.Helper()
	id, err := dibs.NewTriggerID()
	if err != nil {
		t.Fatal(err)
	}
	return dibs.Trigger{ID: id, Job: job, Lock: job, Origin: dibs.OriginAPI, Decision: dibs.DecisionWaiting, Reason: dibs.ReasonEnqueued, Executor: dibs.ExecutorAny}
}

func TestServeRunsWhatWaits(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		j := w.unit("asked", "0 0 1 1 *", c.handle("asked", time.Second), nil)
		s := w.serve(jobs(j))
		pass(time.Second)
		if err := w.store.AddTrigger(w.t.Context(), waitingFor(t, "asked")); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second)
		w.end(s)
		if n := c.count("asked"); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}

func TestServeProvesItsLoopTurnsAndPrunes(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var pulses, bites int
		conf := jobs(w.unit("yearly", "0 0 1 1 *", done, nil))
		conf.Pulse, conf.Alive = 10*time.Second, func() { pulses++ }
		conf.Prune = func(context.Context) (bool, error) { bites++; return bites%3 != 0, nil }
		s := w.serve(conf)
		pass(time.Hour)
		w.end(s)
		if pulses < 359 || pulses > 360 {
			t.Errorf("%d pulses in an hour", pulses)
		}
		if bites < 17 || bites > 24 {
			t.Errorf("%d bites in an hour", bites)
		}
	})
}

func TestServeRefusesBadConfigurations(t *testing.T) {
	conf := runner.ServeConfig{Only: "both", MaxRuns: -1}
	_, err := runner.NewServer(conf)
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"only", "max_runs", "Store", "Jobs"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not name %s", err, want)
		}
	}
}

// TestServeTellsOfOutagesOnce: a database that is away for a while is waited
// for, and is in the log twice: when it went and when it came back.
func TestServeTellsOfOutagesOnce(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		j := w.unit("minutely", "* * * * *", c.handle("minutely", time.Second), nil)
		var log strings.Builder
		var mu sync.Mutex
		conf := jobs(j)
		conf.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
		flaky := &flaky{Store: w.store}
		ready := make(chan struct{})
		conf.Store, conf.Ready = flaky, func() { close(ready) }
		ctx, cancel := context.WithCancel(context.Background())
		end := make(chan error, 1)
		go func() { end <- runner.Serve(ctx, conf) }()
		<-ready
		began := time.Now()
		pass(5 * time.Minute)
		flaky.away.Store(true)
		pass(10 * time.Minute)
		flaky.away.Store(false)
		pass(90 * time.Second)
		w.decided("minutely", j.Schedule, began, time.Now())
		cancel()
		if err := <-end; err != nil {
			t.Errorf("serve: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if n := strings.Count(log.String(), "does not answer"); n != 1 {
			t.Errorf("the outage was told %d times:\n%s", n, log.String())
		}
		if n := strings.Count(log.String(), "answers again"); n != 1 {
			t.Errorf("its end was told %d times:\n%s", n, log.String())
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	to *strings.Builder
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// flaky is a store whose database can be away.
type flaky struct {
	dibs.Store
	away atomic.Bool
}

func (f *flaky) refuse() error {
	if f.away.Load() {
		return fmt.Errorf("dial: %w", dibs.ErrUnavailable)
	}
	return nil
}

func (f *flaky) Decide(ctx context.Context, lock string, fn func(context.Context, dibs.Desk) error) error {
	if err := f.refuse(); err != nil {
		return err
	}
	return f.Store.Decide(ctx, lock, fn)
}

func (f *flaky) WaitingLocks(ctx context.Context, limit int) ([]string, error) {
	if err := f.refuse(); err != nil {
		return nil, err
	}
	return f.Store.WaitingLocks(ctx, limit)
}

func (f *flaky) ExpiredRuns(ctx context.Context, limit int) ([]dibs.Run, error) {
	if err := f.refuse(); err != nil {
		return nil, err
	}
	return f.Store.ExpiredRuns(ctx, limit)
}

// TestServeAdoptsItsUnansweredRun: the start of a run was committed and the
// answer lost; the run is found by its holder and worked, once.
func TestServeAdoptsItsUnansweredRun(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		j := w.unit("hourly", "0 * * * *", c.handle("hourly", time.Second), nil)
		conf := jobs(j)
		mute := &mute{Store: w.store}
		ready := make(chan struct{})
		conf.Store, conf.Ready = mute, func() { close(ready) }
		ctx, cancel := context.WithCancel(context.Background())
		end := make(chan error, 1)
		go func() { end <- runner.Serve(ctx, conf) }()
		<-ready
		pass(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)) + 30*time.Second)
		cancel()
		if err := <-end; err != nil {
			t.Errorf("serve: %v", err)
		}
		if n := c.count("hourly"); n != 1 || !slices.Equal(mute.lost, []string{"hourly"}) {
			t.Errorf("ran %d times; lost answers: %q", n, mute.lost)
		}
		w.want("succeeded", "SELECT state FROM dibs_runs")
	})
}

// mute loses the answer to the first decision that starts a run.
type mute struct {
	dibs.Store
	mu   sync.Mutex
	lost []string
}

func (m *mute) Decide(ctx context.Context, lock string, fn func(context.Context, dibs.Desk) error) error {
	if err := m.Store.Decide(ctx, lock, fn); err != nil {
		return err
	}
	runs, err := m.ListRuns(ctx, dibs.RunFilter{State: dibs.RunRunning, Limit: 1})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(runs) == 1 && m.lost == nil {
		m.lost = append(m.lost, lock)
		return fmt.Errorf("commit: %w", dibs.ErrUnanswered)
	}
	return nil
}
