package sqlstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

func TestPlansAreKept(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		const span = "slots 2026-11-01T00:00:00Z..2026-11-02T00:00:00Z"
		if _, err := s.LatestPlan(t.Context(), "j", span); !errors.Is(err, dibs.ErrNotFound) {
			t.Fatalf("no plan: %v", err)
		}
		first := dibs.Plan{ID: "pln_1", Job: "j", Span: span, State: dibs.PlanOpen, Count: 3, Items: json.RawMessage(`[{"k":"ü\u0000/€"}]`), By: "eva", Why: "an outage"}
		second := first
		second.ID, second.Count, second.Items = "pln_2", 2, json.RawMessage(`["`+strings.Repeat("x", 3<<20)+`"]`)
		other := first
		other.ID, other.Span = "pln_3", "run run_1"
		for _, p := range []dibs.Plan{first, second, other} {
			if err := s.PutPlan(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // to say the same twice is harmless
			second.State, second.Runs, second.Count = dibs.PlanDone, []string{"run_1", "run_2"}, 99
			if err := s.PutPlan(t.Context(), second); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.LatestPlan(t.Context(), "j", span)
		if err != nil || got.ID != "pln_2" || got.Count != 2 || got.State != dibs.PlanDone || !slices.Equal(got.Runs, second.Runs) ||
			string(got.Items) != string(second.Items) || got.By != "eva" || got.Why != "an outage" || got.CreatedAt.IsZero() {
			got.Items = nil
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := s.LatestPlan(t.Context(), "j", other.Span); err != nil || got.ID != "pln_3" || string(got.Items) != string(first.Items) || got.Runs != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A trigger is in a range by its slot, and without one by when it came.
func TestTriggersOfARange(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		decide(t, s, "j", func(ctx context.Context, d dibs.Desk) error {
			for id, slot := range map[string]time.Time{"trg_a": at, "trg_b": at.Add(time.Hour), "trg_c": {}} {
				g := dibs.Trigger{ID: id, Job: "j", Origin: dibs.OriginSchedule, Slot: slot, Decision: dibs.DecisionSkipped, Reason: dibs.ReasonRunning}
				if err := d.PutTrigger(ctx, g); err != nil {
					return err
				}
			}
			return nil
		})
		for want, span := range map[string][2]time.Time{
			"trg_a":             {at, at.Add(time.Hour)},
			"trg_a trg_b":       {at, at.Add(time.Hour + time.Microsecond)},
			"trg_b":             {at.Add(time.Microsecond), now.Add(-time.Hour)},
			"trg_c":             {now.Add(-time.Hour), now.Add(time.Hour)},
			"trg_a trg_b trg_c": {},
			"":                  {now.Add(time.Hour), time.Time{}},
		} {
			list, err := s.ListTriggers(t.Context(), dibs.TriggerFilter{Job: "j", From: span[0], To: span[1]})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, g := range list {
				ids = append(ids, g.ID)
			}
			slices.Sort(ids)
			if got := strings.Join(ids, " "); got != want {
				t.Errorf("%v: got %q, want %q", span, got, want)
			}
		}
	})
}
