package policy

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/google/go-cmp/cmp"
)

func in(d time.Duration) *time.Duration { return &d }

func TestChangeIsTheOutcomeTable(t *testing.T) {
	const every = 5 * time.Minute
	failed := dibs.Verdict{Outcome: dibs.OutcomeFailed}
	free := dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}
	recurring := Row{Every: every, Attempts: 2, Expirations: 1}
	oneShot := Row{OneShot: true, HasQuarantine: true, Attempts: 2}
	for _, tt := range []struct {
		name    string
		outcome dibs.Outcome
		verdict dibs.Verdict
		row     Row
		want    dibs.RowChange
	}{
		{"completed, recurring", dibs.OutcomeCompleted, dibs.Verdict{}, recurring,
			dibs.RowChange{Status: dibs.StatusIdle, DueIn: in(every), Succeeded: true}},
		{"completed, always due", dibs.OutcomeCompleted, dibs.Verdict{}, Row{Every: dibs.Always},
			dibs.RowChange{Status: dibs.StatusIdle, DueIn: in(0), Succeeded: true}},
		{"already done, recurring", dibs.OutcomeAlreadyDone, dibs.Verdict{}, recurring,
			dibs.RowChange{Status: dibs.StatusIdle, DueIn: in(every), Succeeded: true}},
		{"completed, one-shot", dibs.OutcomeCompleted, dibs.Verdict{}, oneShot,
			dibs.RowChange{Status: dibs.StatusDone, Succeeded: true}},
		{"failed, recurring", dibs.OutcomeFailed, failed, recurring,
			dibs.RowChange{Status: dibs.StatusFailed, DueIn: in(30 * time.Second), Attempts: 3, Error: "boom"}},
		{"not applied spends nothing", dibs.OutcomeFailed, free, oneShot,
			dibs.RowChange{Status: dibs.StatusFailed, DueIn: in(30 * time.Second), Attempts: 2, Error: "boom"}},
		{"later, in its own time", dibs.OutcomeFailed, dibs.Verdict{Free: true, After: 7 * time.Second}, recurring,
			dibs.RowChange{Status: dibs.StatusFailed, DueIn: in(7 * time.Second), Attempts: 2, Error: "boom"}},
		{"failed, budget spent", dibs.OutcomeFailed, failed, Row{OneShot: true, HasQuarantine: true, Attempts: 7},
			dibs.RowChange{Status: dibs.StatusQuarantined, Attempts: 8, Error: "boom"}},
		{"failed, budget spent, no label", dibs.OutcomeFailed, failed, Row{OneShot: true, Attempts: 7},
			dibs.RowChange{Status: dibs.StatusFailed, Attempts: 8, Error: "boom"}},
		{"rejected, recurring", dibs.OutcomeRejected, dibs.Verdict{}, recurring,
			dibs.RowChange{Status: dibs.StatusFailed, DueIn: in(every), Attempts: 3, Error: "boom"}},
		{"rejected, next slot first", dibs.OutcomeRejected, dibs.Verdict{}, Row{Every: every, NextSlot: time.Minute},
			dibs.RowChange{Status: dibs.StatusFailed, DueIn: in(time.Minute), Attempts: 1, Error: "boom"}},
		{"rejected, one-shot", dibs.OutcomeRejected, dibs.Verdict{}, oneShot,
			dibs.RowChange{Status: dibs.StatusQuarantined, Attempts: 3, Error: "boom"}},
		{"held", dibs.OutcomeHeld, dibs.Verdict{}, recurring,
			dibs.RowChange{Status: dibs.StatusFailed, Attempts: 2, Error: "boom"}},
		{"released", dibs.OutcomeReleased, dibs.Verdict{}, recurring, dibs.RowChange{Restore: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Change(tt.outcome, tt.verdict, tt.row, 0, "boom")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRecurringRowsRetryWithoutLimitUnlessTold(t *testing.T) {
	v := dibs.Verdict{Outcome: dibs.OutcomeFailed}
	if c := Change(dibs.OutcomeFailed, v, Row{Every: time.Minute, HasQuarantine: true, Attempts: 1000}, 0, ""); c.Status != dibs.StatusFailed || c.DueIn == nil {
		t.Errorf("attempt 1001 of a recurring row: %+v, want FAILED and due", c)
	}
	told := Row{Every: time.Minute, HasQuarantine: true, Attempts: 4, Retry: dibs.Retry{MaxAttempts: 5}}
	if c := Change(dibs.OutcomeFailed, v, told, 0, ""); c.Status != dibs.StatusQuarantined {
		t.Errorf("fifth attempt of five: %+v, want QUARANTINED", c)
	}
}

func TestBackoffStaysBetweenItsBoundsAndGrows(t *testing.T) {
	r := dibs.Retry{Min: time.Second, Max: time.Minute}
	for n := 1; n < 5000; n++ {
		lo, hi := Backoff(r, n, 0), Backoff(r, n, 0.999999)
		if lo != time.Second || hi > time.Minute || hi < lo {
			t.Fatalf("attempt %d: between %s and %s, want between 1s and 1m", n, lo, hi)
		}
	}
	if a, b := Backoff(r, 1, 0.5), Backoff(r, 3, 0.5); b <= a {
		t.Errorf("third pause %s is not longer than the first %s", b, a)
	}
}

func TestPoisonedCountsExpirationsInARow(t *testing.T) {
	for n, want := range map[int]bool{0: false, 3: false, 4: true} {
		if got := Poisoned(n, dibs.Retry{}); got != want {
			t.Errorf("%d expirations: poisoned %v, want %v", n, got, want)
		}
	}
}
