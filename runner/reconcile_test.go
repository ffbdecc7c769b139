package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// reconcile reconciles crm-sync and wants no error.
func (w *world) reconcile(r *runner.Runner, q runner.Reconcile) runner.Reconciled {
	w.t.Helper()
	q.Job = "crm-sync"
	got, err := r.Reconcile(w.t.Context(), q)
	if err != nil {
		w.t.Fatalf("reconcile: %v", err)
	}
	if !got.Run.Counts.Balanced() {
		w.t.Errorf("the sum does not balance: %s", got.Run.Counts)
	}
	return got
}

// unknown is a handler that stores what the destination is told to store, and
// answers for nothing.
func unknown(d *destination, stored func(key string) bool) dibs.Handle {
	return func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
		if stored(it.Key.String()) {
			if _, err := d.send(ctx, it); err != nil {
				return dibs.Receipt{}, err
			}
		}
		return dibs.Receipt{}, errNoAnswer
	}
}

func TestReconcileSettlesWhatIsFoundAndFreesWhatIsNot(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		d := &destination{has: map[string]int{}}
		answer := false
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			if answer {
				return d.send(ctx, it)
			}
			return unknown(d, func(k string) bool { return k == id(1) || k == id(2) })(ctx, it)
		}
		r := w.runner(w.effectJob(handle, d, nil))
		w.tick(r)
		w.exec("UPDATE account_config SET enabled = 0 WHERE account_id = ?", id(2)) // its row may not be claimed
		early := w.reconcile(r, runner.Reconcile{})
		if early.Findings[dibs.FindingConfirmedLate] != 2 || early.Findings[dibs.FindingAbsent] != 2 || early.Uncertain != 2 {
			t.Fatalf("before lookup_after: %+v", early)
		}
		w.want("not yet believed", "SELECT substr(detail, 1, 16) FROM dibs_findings WHERE kind = 'absent' LIMIT 1")
		w.want("IDLE", "SELECT status FROM account_config WHERE account_id = ?", id(1))
		w.want("confirmed", "SELECT state FROM dibs_effects WHERE item_key = ?", id(2))
		pass(2 * time.Minute)
		late := w.reconcile(r, runner.Reconcile{})
		if late.Findings[dibs.FindingAbsent] != 2 || late.Uncertain != 0 || late.Run.State != dibs.RunSucceeded {
			t.Fatalf("after lookup_after: %+v", late)
		}
		w.want("2", "SELECT count(*) FROM dibs_effects WHERE state = 'not_applied'")
		answer = true
		w.exec("UPDATE account_config SET enabled = 1")
		pass(time.Second)
		w.tick(r)
		w.want("4", "SELECT count(*) FROM dibs_effects WHERE state = 'confirmed'")
		for work, n := range d.has {
			if n != 1 {
				t.Errorf("%s was stored %d times", work, n)
			}
		}
		w.want("0", "SELECT count(*) FROM dibs_runs WHERE kind = 'reconcile' AND lock_name IS NOT NULL")
		w.want("2", "SELECT count(*) FROM dibs_audit WHERE what = 'reconcile'")
	})
}

// A lookup that fails, panics, hangs or says nothing sensible settles nothing.
func TestFailingLookupsSettleNothing(t *testing.T) {
	for name, look := range map[string]dibs.LookupFunc{
		"error":   func(context.Context, dibs.Item) (dibs.LookupResult, error) { return dibs.LookupResult{}, errNoAnswer },
		"panic":   func(context.Context, dibs.Item) (dibs.LookupResult, error) { panic("boom") },
		"nothing": func(context.Context, dibs.Item) (dibs.LookupResult, error) { return dibs.LookupResult{}, nil },
		"garbage": func(context.Context, dibs.Item) (dibs.LookupResult, error) {
			return dibs.LookupResult{Presence: "\x00maybe"}, nil
		},
		"hangs": func(ctx context.Context, _ dibs.Item) (dibs.LookupResult, error) {
			<-ctx.Done()
			return dibs.LookupResult{Presence: dibs.PresenceAbsent}, ctx.Err()
		},
		"found, with an error": func(context.Context, dibs.Item) (dibs.LookupResult, error) {
			return dibs.LookupResult{Presence: dibs.PresenceFound}, errors.New("cut off\x00\xff")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				d := &destination{has: map[string]int{}}
				r := w.runner(w.effectJob(unknown(d, func(string) bool { return true }), d, func(j *dibs.Job) { j.Lookup = look }))
				w.tick(r)
				pass(2 * time.Minute)
				for range 10 { // nor does the tenth failure in a row hold it
					if got := w.reconcile(r, runner.Reconcile{}); got.Uncertain != 1 || got.Findings[dibs.FindingUnreachable] != 1 || got.Run.State != dibs.RunPartial {
						t.Fatalf("%+v", got)
					}
				}
				w.want("uncertain", "SELECT state FROM dibs_effects")
				w.want("FAILED", "SELECT status FROM account_config")
			})
		})
	}
}

func TestReconcileTellsDuplicatesAndKeepsBothIDs(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d := &destination{has: map[string]int{}}
		handle := unknown(d, func(string) bool { return true })
		twice := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			_, _ = handle(ctx, it)
			return handle(ctx, it)
		}
		r := w.runner(w.effectJob(twice, d, nil))
		w.tick(r)
		if got := w.reconcile(r, runner.Reconcile{}); got.Findings[dibs.FindingDuplicate] != 1 || got.Uncertain != 0 {
			t.Errorf("%+v", got)
		}
		if detail := w.one("SELECT detail FROM dibs_findings"); !strings.Contains(detail, "d-1") || !strings.Contains(detail, "d-2") {
			t.Errorf("detail: %q", detail)
		}
		w.want("confirmed", "SELECT state FROM dibs_effects")
		w.want("d-1", "SELECT destination_id FROM dibs_effects")
	})
}

// B02: a row that moved on, is gone, or is in somebody's hands is left alone; the
// effect is settled all the same.
func TestReconcileTouchesNoRowThatMovedOn(t *testing.T) {
	for name, move := range map[string]string{
		"next cycle":  "UPDATE account_config SET cycle = cycle + 1, status = 'FAILED', attempts = 5, last_error = 'mine'",
		"gone":        "DELETE FROM account_config",
		"busy":        "UPDATE account_config SET status = 'IN_PROGRESS', claim_token = 'run_x/1', fence = fence + 1, attempts = 5, last_error = 'mine', started_at = claimable_at - 1000000000, claimable_at = claimable_at + 3600000000",
		"quarantined": "UPDATE account_config SET status = 'QUARANTINED', claimable_at = NULL, attempts = 5, last_error = 'mine'",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				d := &destination{has: map[string]int{}}
				r := w.runner(w.effectJob(unknown(d, func(string) bool { return true }), d, nil))
				w.tick(r)
				w.exec(move)
				const row = "SELECT coalesce(max(status || '|' || coalesce(claim_token, '') || '|' || attempts || '|' || last_error || '|' || cycle || '|' || coalesce(claimable_at, '')), 'gone') FROM account_config"
				before := w.one(row)
				if got := w.reconcile(r, runner.Reconcile{}); got.Findings[dibs.FindingConfirmedLate] != 1 {
					t.Errorf("%+v", got)
				}
				w.want("confirmed", "SELECT state FROM dibs_effects")
				w.want(before, row)
			})
		})
	}
}

func TestVerifySamplesConfirmedActions(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		d := &destination{has: map[string]int{}}
		r := w.runner(w.effectJob(d.send, d, nil))
		w.tick(r)
		if got := w.reconcile(r, runner.Reconcile{}); got.Verified != 0 {
			t.Errorf("verified without being asked to: %+v", got)
		}
		var lost string
		for work := range d.has {
			lost = work
		}
		delete(d.has, lost)
		got := w.reconcile(r, runner.Reconcile{Verify: 1})
		if got.Verified != 3 || got.Findings[dibs.FindingMismatch] != 1 || got.Looked != 0 {
			t.Errorf("%+v", got)
		}
		w.want(lost, "SELECT work_id FROM dibs_findings")
		w.want("3", "SELECT count(*) FROM dibs_effects WHERE state = 'confirmed'")
	})
}

func TestResolveIsARecordedDecision(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		d := &destination{has: map[string]int{}}
		answer := false
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			if answer {
				return d.send(ctx, it)
			}
			return dibs.Receipt{}, errNoAnswer
		}
		r := w.runner(w.effectJob(handle, d, func(j *dibs.Job) { j.OnUncertain, j.Lookup = dibs.Hold, nil }))
		if c := w.tick(r).Run.Counts; c.Held != 2 {
			t.Fatalf("counts: %s", c)
		}
		if _, err := r.Reconcile(w.t.Context(), runner.Reconcile{Job: "crm-sync"}); err == nil || !strings.Contains(err.Error(), "lookup") {
			t.Errorf("reconcile without a lookup: %v", err)
		}
		work := func(n int) string { return w.one("SELECT work_id FROM dibs_effects WHERE item_key = ?", id(n)) }
		resolve := func(q runner.Resolution) error {
			_, err := r.Resolve(w.t.Context(), q)
			return err
		}
		if err := resolve(runner.Resolution{WorkID: "no/such"}); err == nil {
			t.Error("neither confirmed nor absent was accepted")
		}
		if err := resolve(runner.Resolution{WorkID: "no/such", Absent: true}); !errors.Is(err, dibs.ErrNotFound) {
			t.Errorf("unknown work ID: %v", err)
		}
		if err := resolve(runner.Resolution{WorkID: work(1), Confirmed: "note-7", By: "eva", Why: "seen in the CRM"}); err != nil {
			t.Fatal(err)
		}
		if err := resolve(runner.Resolution{WorkID: work(2), Absent: true, By: "eva", Why: "not there"}); err != nil {
			t.Fatal(err)
		}
		if err := resolve(runner.Resolution{WorkID: work(1), Absent: true}); err == nil || !strings.Contains(err.Error(), "nothing to resolve") {
			t.Errorf("a confirmed action was resolved again: %v", err)
		}
		w.want("confirmed|note-7|resolved", "SELECT state || '|' || destination_id || '|' || reason FROM dibs_effects WHERE item_key = ?", id(1))
		w.want("IDLE", "SELECT status FROM account_config WHERE account_id = ?", id(1))
		w.want("held>confirmed note-7 by eva: seen in the CRM", "SELECT before_value || '>' || after_value || ' by ' || by_whom || ': ' || why FROM dibs_audit WHERE object = ?", work(1))
		answer = true
		pass(time.Second)
		w.tick(r)
		w.want("confirmed", "SELECT state FROM dibs_effects WHERE item_key = ?", id(2))
		if len(d.has) != 1 || d.has[work(2)] != 1 {
			t.Errorf("the destination has %v", d.has)
		}
	})
}

// A reconcile by another process has the effect: it is left to it.
func TestReconcileLeavesWhatOthersHaveInHand(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d := &destination{has: map[string]int{}}
		r := w.runner(w.effectJob(unknown(d, func(string) bool { return true }), d, nil))
		w.tick(r)
		work := w.one("SELECT work_id FROM dibs_effects")
		if _, err := w.store.ClaimEffect(w.t.Context(), dibs.EffectClaim{WorkID: work, RunID: "run_other", Token: "run_other/1", Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		got := w.reconcile(r, runner.Reconcile{})
		if got.Looked != 0 || got.Uncertain != 1 {
			t.Errorf("%+v", got)
		}
		_, err := r.Resolve(w.t.Context(), runner.Resolution{WorkID: work, Confirmed: "x"})
		var held *dibs.HeldError
		if !errors.As(err, &held) || held.Run != "run_other" {
			t.Errorf("resolve: %v", err)
		}
		w.want("uncertain", "SELECT state FROM dibs_effects")
		if fmt.Sprint(d.looks.Load()) != "0" {
			t.Error("the destination was asked")
		}
	})
}
