package runner_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs"
)

// A trigger that another program left, which does not know the job's lock, is
// taken by the next tick, under that lock.
func TestTickTakesTheTriggerLeftWithoutItsLock(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		r := w.runner(w.job(done, func(j *dibs.Job) { j.Overlap, j.Lock = dibs.Queue, "shared" }))
		w.tick(r)
		pass(2 * time.Hour)
		left := waitingFor(t, "crm-sync")
		left.Lock = ""
		if err := w.store.AddTrigger(w.t.Context(), left); err != nil {
			w.t.Fatal(err)
		}
		if _, err := r.TickAll(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		w.want("started", "SELECT decision FROM dibs_triggers WHERE id = ?", left.ID)
		w.want("shared", "SELECT lock_name FROM dibs_runs WHERE trigger_id = ?", left.ID)
	})
}
