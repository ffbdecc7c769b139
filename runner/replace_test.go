package runner_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/runner"
)

// The process of a replaced run is dead: its rows are free when the replacement
// starts, not only at the end of their long lease.
func TestReplacementTakesTheRowsOfADeadRun(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		const lease = time.Hour
		j := w.job(done, func(j *dibs.Job) { j.Overlap, j.Lease = dibs.Replace, lease })
		r := w.runner(j)
		dead := dispatch.New(dispatch.Config{Runs: w.store, Holder: dibs.Holder{Host: "gone", PID: 1, Process: "p"}})
		old, err := dead.Fire(w.t.Context(), dispatch.Request{Job: &j, Hash: "h", Origin: dibs.OriginManual, Kind: dibs.KindItems, Lease: lease})
		if err != nil {
			w.t.Fatal(err)
		}
		claims, err := w.store.Claims(w.t.Context(), j.Source.(dibs.Table))
		if err != nil {
			w.t.Fatal(err)
		}
		got, err := claims.Claim(w.t.Context(), dibs.ClaimRequest{Run: old.Run.Ref(), Token: dibs.ClaimToken(old.Run.ID, 1), Limit: 2, Lease: lease})
		if err != nil || len(got.Items) != 2 {
			w.t.Fatalf("claimed %d rows, %v", len(got.Items), err)
		}
		pass(time.Second)
		began := time.Now()
		newer := <-w.do(r, runner.Ask{Job: "crm-sync", Origin: dibs.OriginManual, Wait: -1})
		if newer.err != nil || newer.report.Run == nil || newer.report.Run.Counts.Completed != 3 {
			w.t.Errorf("the replacement: %+v, %v; want all 3 rows done", newer.report.Run, newer.err)
		}
		if took := time.Since(began); took > 2*time.Minute { // one beat 30 s + margin 12 s
			w.t.Errorf("the replacement came after %s", took)
		}
		w.want("0", "SELECT count(*) FROM account_config WHERE status <> 'IDLE'")
	})
}
