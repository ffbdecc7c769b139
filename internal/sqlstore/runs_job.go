package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sort"
	"time"

	"github.com/dibs-run/dibs"
)

// Register upserts jobs by name and keeps their definitions by hash. What is
// registered already is only read. A definition that was not seen before
// re-anchors the job's schedule at the database's now.
func (s *Store) Register(ctx context.Context, jobs []dibs.JobRecord) error {
	missing, err := s.unregistered(ctx, jobs)
	if err != nil || len(missing) == 0 {
		return err
	}
	define, err := s.own("definition_put")
	if err != nil {
		return err
	}
	register, err := s.own("job_register")
	if err != nil {
		return err
	}
	return s.InTx(ctx, "register jobs", func(ctx context.Context, tx *Tx) error {
		for _, j := range missing {
			fresh, err := tx.Exec(ctx, define, Binds{"name": j.Name, "hash": j.Hash, "text": clean(j.Text)})
			if err != nil {
				return fmt.Errorf("job %q: %w", j.Name, err)
			}
			if _, err := tx.Exec(ctx, register, Binds{"name": j.Name, "hash": j.Hash, "fresh": fresh > 0}); err != nil {
				return fmt.Errorf("job %q: %w", j.Name, err)
			}
		}
		return nil
	})
}

// unregistered lists the jobs that have no row with their definition yet, in the
// order of their names: a fixed order keeps two processes from a deadlock.
func (s *Store) unregistered(ctx context.Context, jobs []dibs.JobRecord) ([]dibs.JobRecord, error) {
	known := map[string]string{}
	only := ""
	if len(jobs) == 1 {
		only = jobs[0].Name
	}
	var states []dibs.JobState
	if err := s.reading(ctx, "register jobs", func() (err error) {
		states, err = s.jobs(ctx, s.db, only)
		if err != nil && s.classify(ctx, err) == ClassMissing { // the first that a program asks for
			err = fmt.Errorf("%w: %w", errNoTables, err)
		}
		return err
	}); err != nil {
		return nil, err
	}
	for _, j := range states {
		if j.RetiredAt.IsZero() {
			known[j.Name] = j.Definition
		}
	}
	var missing []dibs.JobRecord
	for _, j := range jobs {
		if err := fit(mostName, "the job's name", j.Name, "the definition's hash", j.Hash); err != nil {
			return nil, fmt.Errorf("register job %q: %w", j.Name, err)
		}
		if hash, ok := known[j.Name]; !ok || hash != j.Hash {
			missing = append(missing, j)
		}
	}
	sort.Slice(missing, func(a, b int) bool { return missing[a].Name < missing[b].Name })
	return missing, nil
}

// Definition is the text that a definition's hash stands for.
func (s *Store) Definition(ctx context.Context, job, hash string) (string, error) {
	st, err := s.own("definition_get")
	if err != nil {
		return "", err
	}
	var found bool
	var said string
	err = s.reading(ctx, fmt.Sprintf("definition %s of job %q", hash, job), func() error {
		return query(ctx, s.db, st, Binds{"job": job, "hash": hash}, func(rows *sql.Rows) error {
			found = true
			return rows.Scan(into(&said))
		})
	})
	if err == nil && !found {
		err = fmt.Errorf("definition %s of job %q: %w", hash, job, dibs.ErrNotFound)
	}
	return said, err
}

// Job reads what the database knows of a job; [dibs.ErrNotFound] when it was
// never registered.
func (s *Store) Job(ctx context.Context, name string) (state dibs.JobState, err error) {
	err = s.reading(ctx, fmt.Sprintf("read job %q", name), func() error {
		state, err = s.job(ctx, s.db, name)
		return err
	})
	return state, err
}

func (s *Store) job(ctx context.Context, q querier, name string) (dibs.JobState, error) {
	if name == "" {
		return dibs.JobState{}, dibs.ErrNotFound
	}
	states, err := s.jobs(ctx, q, name)
	if err != nil {
		return dibs.JobState{}, err
	}
	if len(states) == 0 {
		return dibs.JobState{}, dibs.ErrNotFound
	}
	return states[0], nil
}

// Jobs lists all registered jobs by name.
func (s *Store) Jobs(ctx context.Context) (states []dibs.JobState, err error) {
	err = s.reading(ctx, "list jobs", func() error {
		states, err = s.jobs(ctx, s.db, "")
		return err
	})
	return states, err
}

// jobs reads one job, or all when name is empty.
func (s *Store) jobs(ctx context.Context, q querier, name string) ([]dibs.JobState, error) {
	var conditions []string
	if name != "" {
		conditions = append(conditions, "name")
	}
	st, err := s.own("job_list", conditions...)
	if err != nil {
		return nil, err
	}
	var states []dibs.JobState
	err = query(ctx, q, st, Binds{"name": name}, func(rows *sql.Rows) error {
		var j dibs.JobState
		err := rows.Scan(into(&j.Name), into(&j.Definition), timeInto{&j.PausedUntil}, &j.Paused,
			into(&j.PausedWhy), into(&j.PausedBy), timeInto{&j.LastSlot}, timeInto{&j.Reference}, timeInto{&j.RetiredAt})
		states = append(states, j)
		return err
	})
	return states, err
}

// RetireJob records that a job is not defined any more. See [dibs.Runs].
func (s *Store) RetireJob(ctx context.Context, name string) error {
	st, err := s.own("job_retire")
	if err != nil {
		return err
	}
	return s.InTx(ctx, fmt.Sprintf("retire job %q", name), func(ctx context.Context, tx *Tx) error {
		_, err := tx.Exec(ctx, st, Binds{"name": name})
		return err
	})
}

// Forever is the end of a pause without an end.
func Forever() time.Time { return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) }

// SetPaused pauses a job until an instant, see [Forever], or unpauses it when
// until is zero; unpausing re-anchors its schedule. The act is recorded in the
// same transaction. An unknown job is [dibs.ErrNotFound].
func (s *Store) SetPaused(ctx context.Context, job string, until time.Time, act dibs.AuditRecord) error {
	st, err := s.own("job_pause")
	if err != nil {
		return err
	}
	binds := Binds{"name": job, "until": micros(until), "why": text(act.Why), "by": text(act.By)}
	if until.IsZero() {
		binds["why"], binds["by"] = nil, nil
	}
	return s.InTx(ctx, fmt.Sprintf("pause job %q", job), func(ctx context.Context, tx *Tx) error {
		n, err := tx.Exec(ctx, st, binds)
		if err != nil {
			return err
		}
		if n == 0 {
			return dibs.ErrNotFound
		}
		return s.audit(ctx, tx.q(), act)
	})
}
