package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

func TestLockIsTakenFreedAndItsFenceGrows(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		first := start(t, s, "a", time.Minute, true)
		second := newRun(t, "a", time.Minute)
		err := s.Decide(t.Context(), "a", func(ctx context.Context, d dibs.Desk) error {
			if h := d.Holder(); h == nil || h.ID != first.ID || h.Token != first.Token {
				t.Errorf("holder %+v", h)
			}
			return d.StartRun(ctx, &second, true)
		})
		if !errors.Is(err, dibs.ErrLockTaken) {
			t.Errorf("took the lock of a running run: %v", err)
		}
		end := dibs.RunEnd{Run: dibs.RunRef{ID: first.ID, Token: "forged"}, State: dibs.RunSucceeded}
		refused := func(what string) {
			t.Helper()
			err := s.Decide(t.Context(), "a", func(ctx context.Context, d dibs.Desk) error { return d.EndRun(ctx, end) })
			if !errors.Is(err, dibs.ErrStaleFence) {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused("ended with another token")
		end.Run = first.Ref()
		decide(t, s, "a", func(ctx context.Context, d dibs.Desk) error {
			if err := d.EndRun(ctx, end); err != nil {
				return err
			}
			if d.Holder() != nil {
				t.Error("the ended run still has the lock")
			}
			return d.StartRun(ctx, &second, true) // continues in the same transaction
		})
		refused("ended twice")
		if fence := single[int](t, s, "SELECT fence FROM dibs_locks WHERE name = 'a'"); fence != 2 {
			t.Errorf("fence %d after two runs", fence)
		}
		if n := single[int](t, s, "SELECT decisions FROM dibs_locks WHERE name = 'a'"); n != 2 {
			t.Errorf("2 decisions were committed, counted %d", n)
		}
	})
}

func TestFailedDecisionLeavesNothing(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		r := newRun(t, "a", time.Minute)
		broken := errors.New("broken")
		for _, leave := range []func() error{func() error { return broken }, func() error { panic(broken) }} {
			func() {
				defer func() { _ = recover() }()
				err := s.Decide(t.Context(), "a", func(ctx context.Context, d dibs.Desk) error {
					if err := d.StartRun(ctx, &r, true); err != nil {
						return err
					}
					return leave()
				})
				if !errors.Is(err, broken) {
					t.Errorf("decided: %v", err)
				}
			}()
			if _, err := s.Run(t.Context(), r.ID); !errors.Is(err, dibs.ErrNotFound) {
				t.Errorf("the run is there: %v", err)
			}
		}
		start(t, s, "a", time.Minute, true) // no lock and no connection was left behind
	})
}

func TestDecisionIsRepeatedWhenItAsksForIt(t *testing.T) {
	s := sqliteStore(t)
	tries := 0
	decide(t, s, "a", func(context.Context, dibs.Desk) error {
		if tries++; tries < 3 {
			return again{}
		}
		return nil
	})
	if n := single[int](t, s, "SELECT decisions FROM dibs_locks"); tries != 3 || n != 1 {
		t.Errorf("%d tries, %d decisions", tries, n)
	}
}

type again struct{}

func (again) Error() string   { return "the ground moved" }
func (again) Retryable() bool { return true }

func sqliteStore(t testing.TB) *sqlstore.Store {
	t.Helper()
	s := open(t, "sqlite", testdb.OpenSQLite(t), "")
	migrate(t, s)
	return s
}

// Marking lost repeats the whole condition: a renewal that came first wins.
func TestMarkLostNeedsAnEndedLease(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		live := start(t, s, "a", time.Minute, true)
		short := start(t, s, "b", time.Microsecond, true)
		mark := func(r dibs.Run, token dibs.Token) (lost bool) {
			t.Helper()
			decide(t, s, r.Job, func(ctx context.Context, d dibs.Desk) (err error) {
				lost, err = d.MarkLost(ctx, dibs.RunRef{ID: r.ID, Token: token}, dibs.ReasonLeaseEnded)
				return err
			})
			return lost
		}
		if mark(live, live.Token) {
			t.Error("a live run was marked lost")
		}
		eventually(t, "the short lease ends", func() bool {
			expired, err := s.ExpiredRuns(t.Context(), 10)
			return err == nil && len(expired) == 1 && expired[0].ID == short.ID
		})
		if mark(short, "forged") {
			t.Error("marked lost by another token")
		}
		if renewed, err := s.RenewRun(t.Context(), short.Ref(), time.Minute); err != nil || renewed.Run.IsZero() {
			t.Errorf("a lapsed lease that nobody took was not renewed: %+v, %v", renewed, err)
		}
		if mark(short, short.Token) {
			t.Error("marked lost after a renewal")
		}
		gone := start(t, s, "c", time.Microsecond, true)
		eventually(t, "a run is lost", func() bool { return mark(gone, gone.Token) })
		if mark(gone, gone.Token) {
			t.Error("lost twice")
		}
		read, err := s.Run(t.Context(), gone.ID)
		if err != nil || read.State != dibs.RunLost || read.Reason != dibs.ReasonLeaseEnded || read.EndedAt.IsZero() {
			t.Errorf("read %+v, %v", read, err)
		}
		if renewed, err := s.RenewRun(t.Context(), gone.Ref(), time.Minute); err != nil || !renewed.Run.IsZero() {
			t.Errorf("a lost run was renewed: %+v, %v", renewed, err)
		}
		if err := s.SetProgress(t.Context(), gone.Ref(), dibs.Progress{}); !errors.Is(err, dibs.ErrStaleFence) {
			t.Errorf("a lost run wrote its progress: %v", err)
		}
		start(t, s, "c", time.Minute, true) // its lock is free
	})
}

func TestRenewalIsBoundedAndFenced(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		r := start(t, s, "a", time.Minute, true)
		renew := func(token dibs.Token, lease time.Duration) dibs.Renewed {
			t.Helper()
			renewed, err := s.RenewRun(t.Context(), dibs.RunRef{ID: r.ID, Token: token}, lease)
			if err != nil {
				t.Fatal(err)
			}
			return renewed
		}
		if got := renew("forged", time.Hour); !got.Run.IsZero() {
			t.Errorf("renewed by another token: %+v", got)
		}
		if got := renew(r.Token, time.Second); !got.Run.Equal(r.Lease) {
			t.Errorf("a renewal moved the lease from %s to %s", r.Lease, got.Run)
		}
		long := renew(r.Token, time.Hour)
		if left := long.Run.Sub(long.Now); left < 59*time.Minute || left > time.Hour {
			t.Errorf("renewed for an hour, %s are left", left)
		}
		setStopBy := map[string]string{
			"sqlite":   "UPDATE dibs_runs SET stop_by = lease_end + 60000000",
			"postgres": "UPDATE dibs_runs SET stop_by = lease_end + interval '60 seconds'",
			"mysql":    "UPDATE dibs_runs SET stop_by = lease_end + INTERVAL 60 SECOND",
		}
		execute(t, s, setStopBy[s.Dialect().Name])
		if got := renew(r.Token, 3*time.Hour); !got.Run.Equal(long.Run.Add(time.Minute)) || !got.StopBy.Equal(got.Run) {
			t.Errorf("renewed to %s past stop_by %s", got.Run, got.StopBy)
		}
		pastStopBy := map[string]string{
			"sqlite":   "UPDATE dibs_runs SET stop_by = 1000000",
			"postgres": "UPDATE dibs_runs SET stop_by = 'epoch'::timestamptz + interval '1 second'",
			"mysql":    "UPDATE dibs_runs SET stop_by = '1970-01-01 00:00:01'",
		}
		execute(t, s, pastStopBy[s.Dialect().Name])
		if got := renew(r.Token, time.Hour); !got.Run.IsZero() || got.StopBy.Unix() != 1 {
			t.Errorf("renewed after stop_by: %+v", got)
		}
	})
}

func TestLiveRunsAreThoseWithALease(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		first, second := start(t, s, "a", time.Minute, true), start(t, s, "a", time.Minute, false)
		start(t, s, "a", time.Microsecond, false)
		start(t, s, "b", time.Minute, true)
		eventually(t, "the third lease ends", func() bool {
			var live []dibs.Run
			decide(t, s, "a", func(ctx context.Context, d dibs.Desk) (err error) {
				live, err = d.Live(ctx, "a")
				return err
			})
			return len(live) == 2 && live[0].ID == first.ID && live[1].ID == second.ID
		})
	})
}

// Whatever happens at once, a lock has one running run, no wake-up is lost, and
// each take-over raises the fence.
func TestDecisionsAboutOneLockExcludeOneAnother(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		const workers, rounds = 8, 25
		var holding atomic.Int32
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for range rounds {
					if err := takeAndFree(t.Context(), s, fmt.Sprintf("run_%d", w), &holding); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		if n := single[int](t, s, "SELECT count(*) FROM dibs_runs WHERE state = 'running'"); n != 0 {
			t.Errorf("%d runs are still running", n)
		}
		started := single[int](t, s, "SELECT count(*) FROM dibs_runs")
		if fence := single[int](t, s, "SELECT fence FROM dibs_locks WHERE name = 'l'"); fence != started || started == 0 {
			t.Errorf("fence %d after %d runs", fence, started)
		}
	})
}

// takeAndFree starts a run if the lock is free, and ends it.
func takeAndFree(ctx context.Context, s *sqlstore.Store, prefix string, holding *atomic.Int32) error {
	id, err := dibs.NewRunID()
	if err != nil {
		return err
	}
	r := dibs.Run{ID: id, Job: "a", Trigger: prefix, LeaseFor: time.Minute, Token: dibs.ClaimToken(id, 1)}
	var got bool
	if err := s.Decide(ctx, "l", func(ctx context.Context, d dibs.Desk) error {
		if got = d.Holder() == nil; !got {
			return nil
		}
		return d.StartRun(ctx, &r, true)
	}); err != nil || !got {
		return err
	}
	if n := holding.Add(1); n != 1 {
		return fmt.Errorf("%d hold the lock", n)
	}
	holding.Add(-1)
	return s.Decide(ctx, "l", func(ctx context.Context, d dibs.Desk) error {
		return d.EndRun(ctx, dibs.RunEnd{Run: r.Ref(), State: dibs.RunSucceeded})
	})
}

func TestCaseB06RenewalsNeverWaitForThePool(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		s.DB().SetMaxOpenConns(1)
		if _, err := s.Reserve(t.Context()); !errors.Is(err, dibs.ErrPoolTooSmall) {
			t.Errorf("a pool of one: %v", err)
		}
		s.DB().SetMaxOpenConns(2)
		r := start(t, s, "a", time.Minute, true)
		release, err := s.Reserve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := s.DB().Conn(t.Context()) // a handler takes all that is left
		if err != nil {
			t.Fatal(err)
		}
		if renewed, err := s.RenewRun(t.Context(), r.Ref(), time.Hour); err != nil || renewed.Run.IsZero() {
			t.Errorf("renewed %+v, %v", renewed, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		again, err := s.Reserve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release()
		release() // twice is once
		again()
		if n := s.DB().Stats().InUse; n != 0 {
			t.Errorf("%d connections are still in use", n)
		}
	})
}

// Law 10: a database that does not answer in time is unavailable, whatever was
// waited for.
func TestSilentDatabaseIsUnavailable(t *testing.T) {
	for kind, fresh := range map[string]func(testing.TB) string{"postgres": testdb.Postgres, "mysql": testdb.MySQL} {
		t.Run(kind, func(t *testing.T) {
			proxy, through := testdb.NewProxy(t, fresh(t))
			s := open(t, kind, testdb.Open(t, through), "")
			migrate(t, s)
			check := func(what string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if err := s.Decide(ctx, "a", func(context.Context, dibs.Desk) error { return nil }); !errors.Is(err, dibs.ErrUnavailable) {
					t.Errorf("%s: decide: %v", what, err)
				}
				ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				if _, err := s.Jobs(ctx); !errors.Is(err, dibs.ErrUnavailable) {
					t.Errorf("%s: jobs: %v", what, err)
				}
			}
			proxy.BlackHole(true)
			check("silent")
			proxy.BlackHole(false)
			proxy.Refuse(true)
			proxy.Cut()
			check("refusing")
			proxy.Refuse(false)
			start(t, s, "a", time.Minute, true) // back again
		})
	}
}
