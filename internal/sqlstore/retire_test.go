package sqlstore_test

import (
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

// A retired job says so until it is registered again, which starts its schedule
// anew: what passed meanwhile is not caught up.
func TestRetiredJobComesBackByRegistration(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		job := []dibs.JobRecord{{Name: "a", Hash: "h", Text: "t"}, {Name: "b", Hash: "h", Text: "t"}}
		register := func() dibs.JobState {
			t.Helper()
			if err := s.Register(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			return jobState(t, s, "a")
		}
		first := register()
		if !first.RetiredAt.IsZero() {
			t.Errorf("registered as %+v", first)
		}
		for range 2 {
			if err := s.RetireJob(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		gone := jobState(t, s, "a")
		if gone.RetiredAt.Before(first.Reference) || gone.Definition != "h" || !gone.Reference.Equal(first.Reference) {
			t.Errorf("retired as %+v", gone)
		}
		if other := jobState(t, s, "b"); !other.RetiredAt.IsZero() {
			t.Errorf("the other one is %+v", other)
		}
		if back := register(); !back.RetiredAt.IsZero() || back.Reference.Before(gone.RetiredAt) {
			t.Errorf("back as %+v, after %+v", back, gone)
		}
		if again := register(); again.Reference.Before(gone.RetiredAt) {
			t.Errorf("again as %+v", again)
		}
		if err := s.RetireJob(t.Context(), "nobody"); err != nil {
			t.Errorf("a job that is not there: %v", err)
		}
	})
}

func jobState(t *testing.T, s *sqlstore.Store, name string) dibs.JobState {
	t.Helper()
	state, err := s.Job(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return state
}
