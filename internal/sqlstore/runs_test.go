package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

func TestRegisterKeepsDefinitionsAndReanchorsOnlyForNewOnes(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		ctx := t.Context()
		register := func(hash string) dibs.JobState {
			t.Helper()
			jobs := []dibs.JobRecord{{Name: "b", Hash: "other", Text: "x"}, {Name: "a", Hash: hash, Text: "text of " + hash}}
			if err := s.Register(ctx, jobs); err != nil {
				t.Fatal(err)
			}
			state, err := s.Job(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			return state
		}
		first := register("h1")
		if first.Reference.IsZero() || first.Definition != "h1" || !first.LastSlot.IsZero() {
			t.Errorf("registered as %+v", first)
		}
		var second dibs.JobState
		eventually(t, "the clock moves and a new definition re-anchors", func() bool {
			now, err := s.Now(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return now.After(first.Reference)
		})
		if second = register("h2"); !second.Reference.After(first.Reference) {
			t.Errorf("a new definition left the reference at %s", second.Reference)
		}
		if third := register("h1"); !third.Reference.Equal(second.Reference) || third.Definition != "h1" {
			t.Errorf("a known definition gave %+v, was %+v", third, second)
		}
		if text, err := s.Definition(ctx, "a", "h2"); err != nil || text != "text of h2" {
			t.Errorf("definition h2 reads %q, %v", text, err)
		}
		if _, err := s.Definition(ctx, "a", "h9"); !errors.Is(err, dibs.ErrNotFound) {
			t.Errorf("an unknown definition: %v", err)
		}
		jobs, err := s.Jobs(ctx)
		if err != nil || len(jobs) != 2 || jobs[0].Name != "a" || jobs[1].Name != "b" {
			t.Errorf("jobs %+v, %v", jobs, err)
		}
		if _, err := s.Job(ctx, "c"); !errors.Is(err, dibs.ErrNotFound) {
			t.Errorf("an unknown job: %v", err)
		}
	})
}

// B58: names that some collation considers equal are different names.
func TestNamesAreComparedAsBytes(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		names := []string{"Report", "report", "réport", "re\u0301port", "rèport", "report2", "ﬁx", "fix", "ß", "ss", strings.Repeat("x", 200), "日本", "🐟", "🐠"}
		for _, n := range names {
			if err := s.Register(t.Context(), []dibs.JobRecord{{Name: n, Hash: n, Text: n}}); err != nil {
				t.Fatalf("register %q: %v", n, err)
			}
			start(t, s, n, time.Minute, true) // a shared lock would refuse the second
		}
		jobs, err := s.Jobs(t.Context())
		if err != nil || len(jobs) != len(names) {
			t.Errorf("%d jobs, %v, want %d", len(jobs), err, len(names))
		}
		for _, n := range names {
			if runs, err := s.ListRuns(t.Context(), dibs.RunFilter{Job: n}); err != nil || len(runs) != 1 || runs[0].Job != n {
				t.Errorf("job %q has %d runs, %v", n, len(runs), err)
			}
		}
		long := strings.Repeat("y", 256)
		if err := s.Register(t.Context(), []dibs.JobRecord{{Name: long, Hash: "h"}}); err == nil {
			t.Error("a name that one database cannot hold was accepted")
		}
		if err := s.Decide(t.Context(), long, func(context.Context, dibs.Desk) error { return nil }); err == nil {
			t.Error("a lock's name that one database cannot hold was accepted")
		}
	})
}

func TestRunReadsBackAsWritten(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		want := newRun(t, "crm sync", 90*time.Second)
		want.Slot = time.Date(2026, 11, 29, 14, 5, 0, 123456000, time.UTC)
		want.Key, want.Definition, want.Recovers, want.Previous = "a/b'c\\", "sha256:1", "run_0", "lost:run_9"
		decide(t, s, "shared", func(ctx context.Context, d dibs.Desk) error { return d.StartRun(ctx, &want, true) })
		if want.Lock != "shared" || want.State != dibs.RunRunning || want.Lease.Sub(want.StartedAt) != 90*time.Second {
			t.Errorf("started as %+v", want)
		}
		got, err := s.Run(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("read back differently (-written +read):\n%s", diff)
		}
		end := dibs.RunEnd{
			Run: want.Ref(), State: dibs.RunPartial, Reason: dibs.ReasonMaxItems, ExitCode: new(int),
			Counts: dibs.Counts{Selected: 1, Completed: 2, AlreadyDone: 3, Failed: 4, Rejected: 5, Uncertain: 6, Held: 7, Released: 8, Lost: 9, Remaining: 10},
			Error:  "broken \xff\x00 text", Output: "日本\x00" + strings.Repeat("o", 70_000) + "'\\",
		}
		decide(t, s, "shared", func(ctx context.Context, d dibs.Desk) error { return d.EndRun(ctx, end) })
		if got, err = s.Run(t.Context(), want.ID); err != nil {
			t.Fatal(err)
		}
		want.State, want.Reason, want.ExitCode, want.Counts = end.State, end.Reason, end.ExitCode, end.Counts
		want.Error, want.Output = "broken \uFFFD\u2400 text", "日本\u2400"+strings.Repeat("o", 70_000)+"'\\"
		want.EndedAt = got.EndedAt
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ended differently (-written +read):\n%s", diff)
		}
		if got.EndedAt.Before(got.StartedAt) {
			t.Errorf("ended %s, started %s", got.EndedAt, got.StartedAt)
		}
		if _, err := s.Run(t.Context(), "run_none"); !errors.Is(err, dibs.ErrNotFound) {
			t.Errorf("an unknown run: %v", err)
		}
	})
}

func TestTriggerReadsBackAsWritten(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		slot := time.Date(2026, 11, 29, 14, 5, 0, 0, time.UTC)
		want := dibs.Trigger{
			ID: "trg_1", Job: "a", Origin: dibs.OriginSchedule, Slot: slot, ExternalID: "x'1", Key: "k/1",
			Decision: dibs.DecisionSkipped, Reason: dibs.ReasonRunning, Detail: "détail", RunID: "run_1",
			BlockingRun: "run_0", BlockingHolder: "web/1/a", BlockingUntil: slot.Add(time.Minute),
			Covered: []time.Time{slot, slot.Add(5 * time.Minute)}, OwnsSlot: true, Executor: "any",
			WaiterUntil: slot.Add(time.Hour), By: "ops@web", Why: "because",
		}
		decide(t, s, "l", func(ctx context.Context, d dibs.Desk) error {
			want.CreatedAt, want.DecidedAt = d.Now(), d.Now()
			return d.PutTrigger(ctx, want)
		})
		want.Lock = "l"
		only := func(what string, f dibs.TriggerFilter, wanted bool) {
			t.Helper()
			list, err := s.ListTriggers(t.Context(), f)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if found := len(list) == 1; found != wanted {
				t.Errorf("%s: %d found", what, len(list))
			} else if found {
				if diff := cmp.Diff(want, list[0]); diff != "" {
					t.Errorf("%s: read back differently (-written +read):\n%s", what, diff)
				}
			}
		}
		only("all", dibs.TriggerFilter{}, true)
		only("every filter", dibs.TriggerFilter{
			Job: "a", Decision: dibs.DecisionSkipped, Run: "run_1", Blocking: "run_0", Slot: slot, ExternalID: "x'1", Suffix: "…g_1",
		}, true)
		for what, f := range map[string]dibs.TriggerFilter{
			"job": {Job: "A"}, "decision": {Decision: dibs.DecisionStarted}, "run": {Run: "run_0"}, "blocking": {Blocking: "run_1"},
			"slot": {Slot: slot.Add(time.Microsecond)}, "external": {ExternalID: "X'1"}, "suffix": {Suffix: "rg%1"},
		} {
			only("another "+what, f, false)
		}
		want.Decision, want.Reason, want.Covered, want.RunID = dibs.DecisionStarted, dibs.ReasonFree, nil, "run_2"
		decide(t, s, "l", func(ctx context.Context, d dibs.Desk) error { return d.PutTrigger(ctx, want) })
		only("updated", dibs.TriggerFilter{}, true)
	})
}

// Law 6: a slot is decided once, also under two locks at once.
func TestSlotIsOwnedOnce(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		slot := time.Date(2026, 11, 29, 14, 5, 0, 0, time.UTC)
		put := func(id, lock, job, external string, at time.Time, owns bool) error {
			return s.Decide(t.Context(), lock, func(ctx context.Context, d dibs.Desk) error {
				tr := dibs.Trigger{
					ID: id, Job: job, Origin: dibs.OriginSchedule, Slot: at, ExternalID: external, OwnsSlot: owns,
					Decision: dibs.DecisionStarted, Reason: dibs.ReasonFree,
				}
				if err := d.PutTrigger(ctx, tr); !errors.Is(err, dibs.ErrSlotTaken) {
					return err
				}
				owner, err := d.Owner(ctx, job, at, external)
				if err != nil || owner == nil || !owner.OwnsSlot {
					return fmt.Errorf("owner %+v, %w", owner, err)
				}
				// The decision goes on in the same transaction.
				tr.OwnsSlot, tr.Decision, tr.Detail = false, dibs.DecisionDuplicate, owner.ID
				return d.PutTrigger(ctx, tr)
			})
		}
		for _, step := range []struct {
			id, lock, job, external string
			slot                    time.Time
			owns                    bool
			want                    dibs.Decision
		}{
			{"t1", "a", "a", "", slot, true, dibs.DecisionStarted},
			{"t2", "a", "a", "", slot, true, dibs.DecisionDuplicate},
			{"t3", "other", "a", "", slot, true, dibs.DecisionDuplicate},
			{"t4", "a", "a", "", slot, false, dibs.DecisionStarted},
			{"t5", "b", "b", "", slot, true, dibs.DecisionStarted},
			{"t6", "a", "a", "", slot.Add(time.Minute), true, dibs.DecisionStarted},
			{"t7", "a", "a", "mine", time.Time{}, true, dibs.DecisionStarted},
			{"t8", "a", "a", "mine", time.Time{}, true, dibs.DecisionDuplicate},
			{"t9", "a", "a", "Mine", time.Time{}, true, dibs.DecisionStarted},
			{"t1", "a", "a", "", slot, true, dibs.DecisionStarted}, // the owner itself, again
		} {
			if err := put(step.id, step.lock, step.job, step.external, step.slot, step.owns); err != nil {
				t.Fatalf("%s: %v", step.id, err)
			}
			list, err := s.ListTriggers(t.Context(), dibs.TriggerFilter{Suffix: step.id})
			if err != nil || len(list) != 1 || list[0].Decision != step.want {
				t.Errorf("%s: %+v, %v; want %s", step.id, list, err, step.want)
			}
		}
		decide(t, s, "a", func(ctx context.Context, d dibs.Desk) error {
			if owner, err := d.Owner(ctx, "a", slot.Add(time.Second), ""); err != nil || owner != nil {
				t.Errorf("owner of an undecided slot: %+v, %v", owner, err)
			}
			return nil
		})
	})
}

func TestWaitingTriggersComeOldestFirst(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		for _, id := range []string{"trg_1", "trg_2", "trg_3"} {
			if err := s.AddTrigger(t.Context(), dibs.Trigger{ID: id, Job: "a", Origin: dibs.OriginAPI}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.AddTrigger(t.Context(), dibs.Trigger{ID: "trg_4", Job: "a", Lock: "b", Origin: dibs.OriginAPI}); err != nil {
			t.Fatal(err)
		}
		if err := s.AddTrigger(t.Context(), dibs.Trigger{ID: "trg_4", Job: "a", Origin: dibs.OriginAPI}); !errors.Is(err, dibs.ErrSlotTaken) {
			t.Errorf("the same ID twice: %v", err)
		}
		decide(t, s, "a", func(ctx context.Context, d dibs.Desk) error {
			waiting, err := d.Waiting(ctx)
			if err != nil {
				return err
			}
			var ids []string
			for _, w := range waiting {
				ids = append(ids, w.ID)
				if w.Executor != "any" || !w.DecidedAt.IsZero() || w.CreatedAt.IsZero() {
					t.Errorf("waiting: %+v", w)
				}
			}
			if got := strings.Join(ids, " "); got != "trg_1 trg_2 trg_3" {
				t.Errorf("waiting: %s", got)
			}
			return nil
		})
	})
}

func TestListsFilterAndBound(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		var runs []dibs.Run
		for range 5 {
			runs = append(runs, start(t, s, "a", time.Minute, false))
		}
		other := start(t, s, "b", time.Minute, false)
		decide(t, s, "a", func(ctx context.Context, d dibs.Desk) error {
			return d.EndRun(ctx, dibs.RunEnd{Run: runs[1].Ref(), State: dibs.RunFailed})
		})
		for _, test := range []struct {
			f    dibs.RunFilter
			want []dibs.Run
		}{
			{dibs.RunFilter{Job: "a", Limit: 2}, []dibs.Run{runs[4], runs[3]}},
			{dibs.RunFilter{State: dibs.RunFailed}, []dibs.Run{runs[1]}},
			{dibs.RunFilter{Job: "b", State: dibs.RunRunning}, []dibs.Run{other}},
			{dibs.RunFilter{Suffix: dibs.ShortID(runs[2].ID)}, []dibs.Run{runs[2]}},
			{dibs.RunFilter{Job: "c"}, nil},
		} {
			list, err := s.ListRuns(t.Context(), test.f)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, r := range list {
				got = append(got, r.ID)
			}
			for _, r := range test.want {
				want = append(want, r.ID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", test.f, diff)
			}
		}
	})
}

func TestOutcomesAreFoldedAndListed(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		at := map[string]string{"sqlite": "1796000000000000", "postgres": "now()", "mysql": "UTC_TIMESTAMP(6)"}[s.Dialect().Name]
		for i, o := range []struct {
			token, outcome string
			late           bool
		}{
			{"run_1/1", "completed", false}, {"run_1/2", "completed", false}, {"run_1/10", "failed", false},
			{"run_1/1", "failed", true}, {"run_10/1", "completed", false}, {"run_2/1", "completed", false}, {"run_1/3", "lost", false},
		} {
			execute(t, s, fmt.Sprintf(`INSERT INTO dibs_outcomes (token, item_key, late, run_id, job, work_id, fence, attempt, outcome, evidence, took_us, recorded_at)
				VALUES ('%s', 'k%d', %t, '%s', 'a', 'a/run/k%d', %d, 2, '%s', '{"n":1}', 1500, %s)`,
				o.token, i, o.late, dibs.Token(o.token).Run(), i, 40+i, o.outcome, at))
		}
		counts, err := s.FoldOutcomes(t.Context(), "run_1")
		if want := (dibs.Counts{Completed: 2, Failed: 1, Lost: 1}); err != nil || counts != want {
			t.Errorf("folded to %+v, %v; want %+v", counts, err, want)
		}
		list, err := s.ListOutcomes(t.Context(), dibs.OutcomeFilter{Run: "run_1", Job: "a", Key: "k2", WorkID: "a/run/k2", Outcome: dibs.OutcomeFailed})
		if err != nil || len(list) != 1 {
			t.Fatalf("%d outcomes, %v", len(list), err)
		}
		want := dibs.OutcomeRecord{
			Token: "run_1/10", Key: "k2", RunID: "run_1", Job: "a", WorkID: "a/run/k2", Fence: 42, Attempt: 2,
			Outcome: dibs.OutcomeFailed, Evidence: []byte(`{"n":1}`), Took: 1500 * time.Microsecond, RecordedAt: list[0].RecordedAt,
		}
		if diff := cmp.Diff(want, list[0]); diff != "" || list[0].RecordedAt.IsZero() {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for run, n := range map[string]int{"run_1": 5, "run_10": 1, "": 7, "run_": 0} {
			if list, err := s.ListOutcomes(t.Context(), dibs.OutcomeFilter{Run: run}); err != nil || len(list) != n {
				t.Errorf("run %q: %d outcomes, %v; want %d", run, len(list), err, n)
			}
		}
	})
}

func TestPausingIsRecordedAndUnpausingReanchors(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		ctx := t.Context()
		act := dibs.AuditRecord{By: "ops@web", What: "pause", Job: "a", Why: "CRM \xffmigration", Before: "running", After: "paused", Object: "job"}
		if err := s.SetPaused(ctx, "a", sqlstore.Forever(), act); !errors.Is(err, dibs.ErrNotFound) {
			t.Errorf("an unknown job: %v", err)
		}
		if err := s.Register(ctx, []dibs.JobRecord{{Name: "a", Hash: "h"}}); err != nil {
			t.Fatal(err)
		}
		before, err := s.Job(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetPaused(ctx, "a", sqlstore.Forever(), act); err != nil {
			t.Fatal(err)
		}
		state, err := s.Job(ctx, "a")
		if err != nil || !state.Paused || state.PausedBy != "ops@web" || state.PausedWhy != "CRM \uFFFDmigration" || !state.PausedUntil.Equal(sqlstore.Forever()) {
			t.Errorf("paused: %+v, %v", state, err)
		}
		if err := s.SetPaused(ctx, "a", before.Reference, act); err != nil { // an end that has passed
			t.Fatal(err)
		}
		if state, err := s.Job(ctx, "a"); err != nil || state.Paused || !state.Reference.Equal(before.Reference) {
			t.Errorf("a pause that ended: %+v, %v", state, err)
		}
		eventually(t, "unpausing re-anchors", func() bool {
			if err := s.SetPaused(ctx, "a", time.Time{}, dibs.AuditRecord{By: "ops", What: "resume"}); err != nil {
				t.Fatal(err)
			}
			state, err := s.Job(ctx, "a")
			return err == nil && !state.Paused && state.PausedUntil.IsZero() && state.PausedWhy == "" && state.Reference.After(before.Reference)
		})
		acts, err := s.ListAudit(ctx, 100)
		if err != nil || len(acts) < 3 {
			t.Fatalf("%d acts, %v", len(acts), err)
		}
		first := acts[len(acts)-1]
		act.Why, act.At = "CRM \uFFFDmigration", first.At
		if diff := cmp.Diff(act, first); diff != "" || first.At.IsZero() {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
	})
}
