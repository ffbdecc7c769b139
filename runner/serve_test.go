package runner_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
	"github.com/dibs-run/dibs/schedule"
)

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
		for range 12 { // a crontab beside them, registered twice
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
		if n := c.count("long"); n < 3 || n > 5 { // of 12 slots every third starts
			t.Errorf("long ran %d times", n)
		}
		w.want("0", "SELECT count(*) FROM (SELECT 1 FROM dibs_runs GROUP BY job, slot HAVING count(*) > 1)")
		w.want("0", "SELECT count(*) FROM dibs_runs WHERE state NOT IN ('succeeded', 'cancelled')")
	})
}

func TestServeCatchesUpWithWhatPassed(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		often := w.unit("often", "*/6 * * * *", c.handle("often", time.Second), nil)
		w.end(w.serve(jobs(often)))
		began := time.Now()
		pass(31 * time.Minute)
		s := w.serve(jobs(often))
		pass(time.Minute)
		if n := c.count("often"); n != 1 {
			t.Errorf("ran %d times after an outage, want once for the latest slot", n)
		}
		w.decided("often", often.Schedule, began, time.Now())
		w.end(s)
	})
}

func TestServeBoundsItsRuns(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		var list []dibs.Job
		for i := range 10 {
			name := fmt.Sprint("job", i)
			list = append(list, w.unit(name, "*/6 * * * *", c.handle(name, 20*time.Second), nil))
		}
		conf := jobs(list...)
		conf.MaxRuns = 2
		s := w.serve(conf)
		pass(9 * time.Minute)
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
		j := w.unit("often", "*/6 * * * *", c.handle("often", time.Second), nil)
		conf := jobs(j)
		conf.Only = runner.OnlySchedule
		scheduler := w.serve(conf)
		pass(sixMinutes + time.Second)
		if n := c.count("often"); n != 0 {
			t.Errorf("a scheduler ran %d jobs", n)
		}
		w.want("1", "SELECT count(*) FROM dibs_triggers WHERE decision = 'waiting'")
		conf.Only = runner.OnlyRun
		worker := w.serve(conf)
		pass(3*sixMinutes + time.Minute)
		w.end(scheduler, worker)
		if n := c.count("often"); n != 4 {
			t.Errorf("ran %d times for 4 slots", n)
		}
	})
}

func TestServeDrains(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		quick := w.unit("quick", "*/6 * * * *", c.handle("quick", 5*time.Second), nil)
		slow := w.unit("slow", "*/6 * * * *", c.handle("slow", 5*time.Hour), nil)
		s := w.serve(jobs(quick, slow))
		until := time.Now().Truncate(sixMinutes).Add(sixMinutes)
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
		}, func(j *dibs.Job) { j.Schedule, j.Overlap = every(t, "*/6 * * * *"), dibs.Skip })
		s := w.serve(jobs(j))
		pass(sixMinutes)
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
		j := w.unit("often", "*/6 * * * *", c.handle("often", time.Second), nil)
		s := w.serve(jobs(j))
		pass(sixMinutes + 30*time.Second)
		w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'succeeded'")
		// As if its process had died in the middle.
		w.exec("UPDATE dibs_runs SET state = 'running', ended_at = NULL, lease_end = started_at + 60000000")
		w.exec("UPDATE dibs_locks SET run = (SELECT id FROM dibs_runs)")
		pass(3 * time.Minute)
		w.end(s)
		w.want("1", "SELECT count(*) FROM dibs_runs WHERE state = 'lost'")
		if n := c.count("often"); n != 2 {
			t.Errorf("ran %d times, want the lost slot taken over", n)
		}
	})
}

func TestServeReloads(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		var c calls
		kept := w.unit("kept", "*/6 * * * *", c.handle("kept", time.Second), nil)
		gone := w.unit("gone", "*/6 * * * *", c.handle("gone", time.Second), nil)
		edited := w.unit("edited", "*/6 * * * *", c.handle("edited", time.Second), nil)
		s := w.serve(jobs(kept, gone, edited))
		pass(sixMinutes + 30*time.Second)
		if err := w.store.AddTrigger(w.t.Context(), waitingFor(t, "gone")); err != nil {
			t.Fatal(err)
		}
		edited.Schedule = every(t, "* * * * *")
		fresh := w.unit("fresh", "*/6 * * * *", c.handle("fresh", time.Second), nil)
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
		pass(2 * sixMinutes)
		w.end(s)
		if n := c.count("gone"); n != ran {
			t.Errorf("a job that is no longer defined ran %d times more", n-ran)
		}
		w.want("0", "SELECT count(*) FROM dibs_triggers WHERE job = 'gone' AND decision = 'waiting'")
		w.want("gone", "SELECT group_concat(name) FROM dibs_jobs WHERE retired_at IS NOT NULL")
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
