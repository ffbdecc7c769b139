package runner_test

import (
	"strings"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// A row that the database does not let be claimed fails alone: the others are
// done, in batches as ever, and the run ends.
func TestARowThatCannotBeClaimedFailsAlone(t *testing.T) {
	for name, verb := range map[string]string{
		"a trigger raises": "RAISE(ABORT, 'frozen by the auditors')", "a trigger cancels the update": "RAISE(IGNORE)",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 35, func(w *world) {
				w.exec(`CREATE TRIGGER frozen BEFORE UPDATE ON account_config WHEN NEW.account_id IN ('` + id(1) + `', '` + id(17) + `')
					BEGIN SELECT ` + verb + `; END`)
				report := w.tick(w.runner(w.job(done, nil)))
				if c := report.Run.Counts; c.Selected != 35 || c.Completed != 33 || c.Failed != 2 || !c.Balanced() {
					t.Errorf("counts: %s", c)
				}
				w.want("partial", "SELECT state FROM dibs_runs")
				w.want("2", "SELECT count(*) FROM account_config WHERE status = 'IDLE' AND coalesce(fence, 0) = 0 AND account_id IN (?, ?)", id(1), id(17))
				w.want("2", "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'failed' AND reason = 'claim_refused' AND error <> ''")
				var said []string
				for _, e := range w.seen(runner.EventItem) {
					if e.Outcome == dibs.OutcomeFailed {
						said = append(said, e.Key.String())
					}
				}
				if got := strings.Join(said, " "); got != id(1)+" "+id(17) {
					t.Errorf("told of %q", got)
				}
			})
		})
	}
}

func TestTheOnlyRowAskedForCannotBeClaimed(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.exec(`CREATE TRIGGER frozen BEFORE UPDATE ON account_config BEGIN SELECT RAISE(ABORT, 'frozen'); END`)
		report, err := w.runner(w.job(done, nil)).Run(w.t.Context(), "crm-sync", id(2))
		if err != nil {
			t.Fatal(err)
		}
		if c := report.Run.Counts; c.Selected != 1 || c.Failed != 1 {
			t.Errorf("counts: %s", c)
		}
	})
}

// A table that refuses everything is not asked row by row for ever.
func TestATableThatRefusesEveryClaimEndsTheRun(t *testing.T) {
	inWorld(t, 1200, func(w *world) {
		w.exec(`CREATE TRIGGER frozen BEFORE UPDATE ON account_config BEGIN SELECT RAISE(ABORT, 'frozen'); END`)
		_, err := w.runner(w.job(done, func(j *dibs.Job) { j.Batch = 200 })).Tick(w.t.Context(), "crm-sync")
		if err == nil || !strings.Contains(err.Error(), "refuses to let") || !strings.Contains(err.Error(), "frozen") {
			t.Errorf("error %v", err)
		}
		w.want("failed", "SELECT state FROM dibs_runs")
	})
}
