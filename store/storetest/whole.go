package storetest

import (
	"context"
	"strings"

	"github.com/dibs-run/dibs"
)

// scene is what one scenario has to do with: its runs.
type scene struct {
	*bundle
	runs []dibs.Run
}

// begin starts a run of the scenario.
func (s *scene) begin() dibs.Run {
	s.Helper()
	r := s.start()
	s.runs = append(s.runs, r)
	return r
}

// fresh empties the table and fills it with n rows.
func (b *bundle) fresh(n int) {
	b.Helper()
	b.exec("DELETE FROM " + b.table)
	b.insert(1, n)
}

// history is what the outcomes of the scenario's runs say about one row.
type history struct {
	ended     int            // claims that have an outcome
	completed int            // of these
	of        map[string]int // outcomes by claim
}

func (s *scene) histories() map[string]*history {
	s.Helper()
	all := map[string]*history{}
	for _, r := range s.runs {
		for _, o := range s.outcomes(r.ID) {
			h := all[o.Key]
			if h == nil {
				h = &history{of: map[string]int{}}
				all[o.Key] = h
			}
			if o.Late {
				continue
			}
			h.ended++
			h.of[string(o.Token)]++
			if o.Outcome == dibs.OutcomeCompleted {
				h.completed++
			}
		}
	}
	return all
}

// whole fails if anything is half-written. Every claim that was made has either
// left its outcome or is still on its row, so a row's fence counts them all.
func (s *scene) whole(what string) {
	s.Helper()
	said := s.histories()
	for _, row := range s.state() {
		key := row.Key.String()
		h := said[key]
		if h == nil {
			h = &history{}
		}
		claims := h.ended
		if row.Token != "" && h.of[string(row.Token)] == 0 {
			claims++
		}
		if int(row.Fence) != claims {
			s.Errorf("%s: row %s was claimed %d times, %d claims are on record: %+v", what, key, row.Fence, claims, row)
		}
		claimed := row.Status == dibs.StatusInProgress
		if claimed != (row.Token != "") || claimed && !row.ClaimableAt.After(row.StartedAt) {
			s.Errorf("%s: row %s is half claimed: %+v", what, key, row)
		}
		if claimed && h.of[string(row.Token)] > 0 {
			s.Errorf("%s: row %s is in progress although its claim was settled: %+v", what, key, row)
		}
	}
	for problem, query := range map[string]string{
		"running runs without their lock": `SELECT count(*) FROM dibs_runs r WHERE r.state = 'running' AND r.lock_name IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM dibs_locks l WHERE l.name = r.lock_name AND l.run = r.id)`,
		"locks without a running run": `SELECT count(*) FROM dibs_locks l WHERE l.run IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM dibs_runs r WHERE r.id = l.run AND r.state = 'running')`,
		"triggers without their run": `SELECT count(*) FROM dibs_triggers t WHERE t.run_id IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM dibs_runs r WHERE r.id = t.run_id)`,
		"runs without their trigger": `SELECT count(*) FROM dibs_runs r
			WHERE NOT EXISTS (SELECT 1 FROM dibs_triggers t WHERE t.id = r.trigger_id)`,
	} {
		if n := s.number(query); n != 0 {
			s.Errorf("%s: %d %s", what, n, problem)
		}
	}
}

// recover is what the next tick does after the process of the scenario is gone
// and its leases have ended: everything must be picked up, and every row be
// completed exactly once in all.
func (s *scene) recover(what string) {
	s.Helper()
	s.exec("UPDATE " + s.table + " SET started_at = " + s.sql.Shift("started_at", past) + ", claimable_at = " +
		s.sql.Shift("claimable_at", past) + " WHERE status = 'IN_PROGRESS'")
	jobs := map[string]bool{}
	for _, r := range s.runs {
		s.expireRun(r.ID)
		jobs[r.Job] = true
	}
	var successor dibs.Run
	for job := range jobs {
		successor = s.succeed(what, job)
	}
	// A dead process's transaction may hold its locks for a moment yet.
	s.eventually(what+": every row is taken up", func() bool {
		if _, err := s.claims.Sweep(s.Context(), lease); err != nil {
			s.Fatalf("%s: sweep: %v", what, err)
		}
		got := s.claim(successor, 100).Items
		s.settled(successor, completedIn(2*lease, successor, got...)...)
		return s.number("SELECT count(*) FROM "+s.table+" WHERE last_success_at IS NULL") == 0
	})
	s.whole(what + ", after recovery")
	for key, h := range s.histories() {
		if h.completed != 1 {
			s.Errorf("%s: row %s was completed %d times", what, key, h.completed)
		}
	}
	for _, row := range s.state() {
		if row.Status != dibs.StatusIdle || row.LastSuccess.IsZero() {
			s.Errorf("%s: row %s ends as %+v", what, row.Key, row)
		}
	}
}

// succeed starts the next run of a job, after whatever has its lock was marked
// lost; the run must be possible.
func (s *scene) succeed(what, job string) dibs.Run {
	s.Helper()
	next := s.newRun(job)
	err := s.store.Decide(s.Context(), job, func(ctx context.Context, d dibs.Desk) error {
		if h := d.Holder(); h != nil {
			if _, err := d.MarkLost(ctx, h.Ref(), dibs.ReasonLeaseEnded); err != nil {
				return err
			}
		}
		return startOn(ctx, d, &next)
	})
	if err != nil {
		s.Fatalf("%s: the next run of %s cannot start: %v", what, strings.TrimSpace(job), err)
	}
	s.runs = append(s.runs, next)
	return next
}
