package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-run/dibs"
)

// operation is something that a process does when it dies.
type operation struct {
	name string
	// prepare brings the database to where the operation begins. The answer
	// carries it out.
	prepare func(s *scene) func(ctx context.Context, p process) error
}

// process is the store as the dying process sees it.
type process struct {
	store  dibs.Store
	claims dibs.Claims
}

// crashRows is the number of rows of each scenario.
const crashRows = 4

func operations() []operation { return append(claimOperations(), runOperations()...) }

func claimOperations() []operation {
	return []operation{
		{"claim", func(s *scene) func(context.Context, process) error {
			return claimFor(s, s.begin(), nil)
		}},
		{"claim by key", func(s *scene) func(context.Context, process) error {
			q := s.request(s.begin(), 1, byKey("3"))
			return func(ctx context.Context, p process) error { _, err := p.claims.Claim(ctx, q); return err }
		}},
		{"claim of expired rows", func(s *scene) func(context.Context, process) error {
			s.claim(s.begin(), 3)
			s.expire("status = 'IN_PROGRESS'")
			return claimFor(s, s.begin(), nil)
		}},
		{"claim with settling", func(s *scene) func(context.Context, process) error {
			r := s.begin()
			got := s.claim(r, 2).Items
			return claimFor(s, r, append(completedIn(lease, r, got[0]), released(r, got[1])...))
		}},
		{"renew", func(s *scene) func(context.Context, process) error {
			r := s.begin()
			q := dibs.RenewRequest{Run: r.Ref(), Lease: lease, Items: s.claim(r, 3).Items}
			return func(ctx context.Context, p process) error { _, err := p.claims.Renew(ctx, q); return err }
		}},
		{"settle", func(s *scene) func(context.Context, process) error {
			r := s.begin()
			return settleFor(r, completedIn(lease, r, s.claim(r, 3).Items...))
		}},
		{"release", func(s *scene) func(context.Context, process) error {
			r := s.begin()
			return settleFor(r, released(r, s.claim(r, 3).Items...))
		}},
		{"settle late", func(s *scene) func(context.Context, process) error {
			r := s.begin()
			late := completedIn(lease, r, s.claim(r, 3).Items...)
			s.expire("status = 'IN_PROGRESS'")
			s.claim(s.begin(), 4)
			return settleFor(r, late)
		}},
		{"settle refused data", func(s *scene) func(context.Context, process) error {
			r := s.begin()
			got := s.claim(r, 3).Items
			return settleFor(r, append(completedIn(lease, r, got[:2]...), failed(r, got[2], lease, "poison")))
		}},
	}
}

func runOperations() []operation {
	return []operation{
		{"start", func(s *scene) func(context.Context, process) error {
			r := s.newRun("")
			r.Job = "job " + r.ID
			s.runs = append(s.runs, r)
			return deciding(r.Job, func(ctx context.Context, d dibs.Desk) error { again := r; return startOn(ctx, d, &again) })
		}},
		{"end", func(s *scene) func(context.Context, process) error {
			r := s.begin()
			return deciding(r.Job, func(ctx context.Context, d dibs.Desk) error {
				return d.EndRun(ctx, dibs.RunEnd{Run: r.Ref(), State: dibs.RunSucceeded})
			})
		}},
		{"take over", func(s *scene) func(context.Context, process) error {
			r := s.begin()
			s.claim(r, 2)
			s.expireRun(r.ID)
			next := s.newRun(r.Job)
			s.runs = append(s.runs, next)
			return deciding(r.Job, func(ctx context.Context, d dibs.Desk) error {
				again := next
				lost, err := d.MarkLost(ctx, r.Ref(), dibs.ReasonLeaseEnded)
				if err == nil && !lost {
					err = errors.New("not lost")
				}
				if err != nil {
					return err
				}
				return startOn(ctx, d, &again)
			})
		}},
		{"sweep", func(s *scene) func(context.Context, process) error {
			s.begin()
			s.set("claimable_at = NULL", "id <= 2")
			return func(ctx context.Context, p process) error { _, err := p.claims.Sweep(ctx, lease); return err }
		}},
	}
}

func claimFor(s *scene, r dibs.Run, settle []dibs.Settlement) func(context.Context, process) error {
	q := s.request(r, 3, func(q *dibs.ClaimRequest) { q.Settle = settle })
	return func(ctx context.Context, p process) error { _, err := p.claims.Claim(ctx, q); return err }
}

func settleFor(r dibs.Run, items []dibs.Settlement) func(context.Context, process) error {
	return func(ctx context.Context, p process) error {
		_, err := p.claims.Settle(ctx, dibs.SettleRequest{Run: r.Ref(), Items: items})
		return err
	}
}

func deciding(lock string, fn func(context.Context, dibs.Desk) error) func(context.Context, process) error {
	return func(ctx context.Context, p process) error { return p.store.Decide(ctx, lock, fn) }
}

// Crashes lets a process die before and after every statement of every
// operation, BEGIN and COMMIT among them, and checks that nothing is left
// half-written and everything is picked up. Then it only loses the connection
// there, and the operation must end as if nothing had happened, or say that its
// answer was lost.
func Crashes(t *testing.T, c Config) {
	for _, op := range operations() {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			b := c.bundle(t)
			b.full(crashRows)
			crashEverywhere(b, op)
		})
	}
}

// faulty opens the bundle's table through a pool whose connections break on
// demand.
func (b *bundle) faulty() (process, *Faults) {
	b.Helper()
	faults := NewFaults(b.f.Connector)
	db := sql.OpenDB(faults)
	db.SetMaxOpenConns(3)
	b.Cleanup(func() { _ = db.Close() }) // its connections may be broken
	p := process{store: b.f.Open(db)}
	var err error
	p.claims, err = p.store.Claims(b.Context(), b.claims.Table())
	b.must("open the table", err)
	return p, faults
}

func crashEverywhere(b *bundle, op operation) {
	p, faults := b.faulty()
	again := func() (*scene, func(context.Context, process) error) {
		b.fresh(crashRows)
		s := &scene{bundle: b}
		return s, op.prepare(s)
	}
	s, do := again()
	faults.Reset()
	b.must(op.name, do(b.Context(), p))
	statements := faults.Statements()
	s.whole("undisturbed")
	s.recover("undisturbed")
	if len(statements) < 3 || !isCommit(statements[len(statements)-1]) {
		b.Fatalf("only these statements reached the database: %q", statements)
	}
	for n := 1; n <= len(statements); n++ {
		text := brief(n, statements[n-1])
		strike := func(what string, m Moment, end ending) {
			s, do := again()
			end(s, what+text, faults, p, n, m, do)
		}
		// To the database, the end before a statement is the end after the one
		// before; only of a COMMIT the two differ.
		strike("died before ", Before, crash)
		strike("cut after ", After, cut)
		if isCommit(statements[n-1]) {
			strike("died after ", After, crash)
			strike("cut before ", Before, cut)
		}
	}
}

// ending is what happens around a statement.
type ending func(s *scene, what string, faults *Faults, p process, n int, m Moment, do func(context.Context, process) error)

// crash is the end of the process: no statement comes after.
func crash(s *scene, what string, faults *Faults, p process, n int, m Moment, do func(context.Context, process) error) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	faults.CrashAt(n, m, cancel)
	err := do(ctx, p)
	faults.Reset()
	if err == nil {
		s.Errorf("%s: no error although the process died", what)
	}
	s.whole(what)
	s.recover(what)
}

// cut is the loss of one connection.
func cut(s *scene, what string, faults *Faults, p process, n int, m Moment, do func(context.Context, process) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), wait)
	defer cancel()
	faults.CutAt(n, m)
	err := do(ctx, p)
	unanswered := errors.Is(err, dibs.ErrUnanswered)
	if err != nil && !unanswered {
		s.Errorf("%s: %v", what, err)
	}
	if texts := faults.Statements(); unanswered && !isCommit(texts[n-1]) {
		s.Errorf("%s: unanswered, although nothing was to be committed: %v", what, err)
	}
	if unanswered && dibs.Retryable(err) {
		s.Errorf("%s: an unanswered commit must not simply be repeated: %v", what, err)
	}
	faults.Reset()
	s.whole(what)
	s.recover(what)
}

func isCommit(text string) bool { return strings.EqualFold(strings.TrimSpace(text), "COMMIT") }

// brief names a statement in few words.
func brief(n int, text string) string {
	words := strings.Fields(text)
	return fmt.Sprintf("statement %d (%s)", n, strings.Join(words[:min(len(words), 6)], " "))
}
