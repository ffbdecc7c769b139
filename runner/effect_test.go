package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/runner"
)

// destination is a place that remembers what it was sent, by work ID.
type destination struct {
	has   map[string]int
	calls atomic.Int64
	looks atomic.Int64
}

func (d *destination) send(_ context.Context, it dibs.Item) (dibs.Receipt, error) {
	d.calls.Add(1)
	d.has[it.WorkID]++
	return dibs.Receipt{ID: "d-" + it.WorkID}, nil
}

func (d *destination) look(_ context.Context, it dibs.Item) (dibs.LookupResult, error) {
	d.looks.Add(1)
	switch n := d.has[it.WorkID]; n {
	case 0:
		return dibs.LookupResult{Presence: dibs.PresenceAbsent}, nil
	case 1:
		return dibs.LookupResult{Presence: dibs.PresenceFound, Receipt: dibs.Receipt{ID: "d-" + it.WorkID}}, nil
	default:
		return dibs.LookupResult{Presence: dibs.PresenceDuplicate, Receipt: dibs.Receipt{ID: "d-1"}, IDs: []string{"d-1", "d-2"}}, nil
	}
}

var errNoAnswer = errors.New("connection reset")

// effectJob is crm-sync under lookup, one slot, so that destination needs no lock.
func (w *world) effectJob(handle dibs.Handle, d *destination, change func(*dibs.Job)) dibs.Job {
	return w.job(handle, func(j *dibs.Job) {
		j.OnUncertain, j.Lookup, j.Concurrency, j.Timeout, j.Operation = dibs.Lookup, d.look, 1, 30*time.Second, "sync-note"
		if change != nil {
			change(j)
		}
	})
}

// An answer that is lost is looked up at the next attempt: found is done, and
// not sent again.
func TestALostAnswerIsLookedUp(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		d := &destination{has: map[string]int{}}
		dropped := true
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			r, err := d.send(ctx, it)
			if dropped && it.Key.String() == id(2) {
				return dibs.Receipt{}, errNoAnswer
			}
			return r, err
		}
		r := w.runner(w.effectJob(handle, d, nil))
		report := w.tick(r)
		if c := report.Run.Counts; c.Completed != 2 || c.Uncertain != 1 {
			t.Fatalf("counts: %s", c)
		}
		w.want("2", "SELECT count(*) FROM dibs_effects WHERE state = 'confirmed' AND destination_id = 'd-' || work_id")
		w.want("uncertain", "SELECT state FROM dibs_effects WHERE item_key = ?", id(2))
		w.want("60", "SELECT (claimable_at - (SELECT max(recorded_at) FROM dibs_outcomes)) / 1000000 FROM account_config WHERE account_id = ?", id(2))
		w.want("1", "SELECT attempts FROM account_config WHERE account_id = ?", id(2))
		dropped = false
		pass(2 * time.Minute)
		if c := w.tick(r).Run.Counts; c.AlreadyDone != 1 {
			t.Errorf("second run: %s", c)
		}
		if d.calls.Load() != 3 || d.looks.Load() != 1 {
			t.Errorf("%d calls, %d lookups; want 3 and 1", d.calls.Load(), d.looks.Load())
		}
		w.want("confirmed", "SELECT state FROM dibs_effects WHERE item_key = ?", id(2))
		w.want("found_late", "SELECT reason FROM dibs_outcomes WHERE outcome = 'already_done'")
		w.want("confirmed_late", "SELECT kind FROM dibs_findings")
		w.want("3", "SELECT count(*) FROM account_config WHERE status = 'IDLE' AND attempts = 0")
		pass(2 * time.Hour) // a recurring row syncs again, as another action
		if c := w.tick(r).Run.Counts; c.Completed != 3 {
			t.Errorf("next cycle: %s", c)
		}
		w.want("6", "SELECT count(*) FROM dibs_effects")
	})
}

// Absent is believed only lookup_after after the last instant at which the
// attempt could have sent.
func TestAbsentIsBelievedOnlyAfterAWhile(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d := &destination{has: map[string]int{}}
		lost := true
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			if lost {
				lost = false
				return dibs.Receipt{}, errNoAnswer // nothing was stored, but who knows
			}
			return d.send(ctx, it)
		}
		r := w.runner(w.effectJob(handle, d, func(j *dibs.Job) { j.LookupAfter = 10 * time.Minute }))
		w.tick(r)
		w.exec("UPDATE account_config SET claimable_at = 0") // somebody is impatient
		pass(time.Minute)
		if c := w.tick(r).Run.Counts; c.Uncertain != 1 || d.calls.Load() != 0 {
			t.Errorf("too early: %s, %d calls", c, d.calls.Load())
		}
		w.want("1", "SELECT attempts FROM account_config")
		w.want("absent_not_believed", "SELECT reason FROM dibs_effects")
		pass(10 * time.Minute)
		if c := w.tick(r).Run.Counts; c.Completed != 1 || d.calls.Load() != 1 {
			t.Errorf("later: %s, %d calls", c, d.calls.Load())
		}
		w.want("absent,absent", "SELECT group_concat(kind) FROM dibs_findings")
	})
}

// A lookup that cannot tell settles nothing; asked too often, a person decides.
func TestALookupThatCannotTellEndsHeld(t *testing.T) {
	for name, lookup := range map[string]dibs.LookupFunc{
		"error": func(context.Context, dibs.Item) (dibs.LookupResult, error) {
			return dibs.LookupResult{Presence: dibs.PresenceFound}, errNoAnswer
		},
		"garbage": func(context.Context, dibs.Item) (dibs.LookupResult, error) {
			return dibs.LookupResult{Presence: "maybe"}, nil
		},
		"panic": func(context.Context, dibs.Item) (dibs.LookupResult, error) { panic("boom") },
		"hangs": func(ctx context.Context, _ dibs.Item) (dibs.LookupResult, error) {
			<-ctx.Done()
			return dibs.LookupResult{Presence: dibs.PresenceAbsent}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				d := &destination{has: map[string]int{}}
				handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
					_, _ = d.send(ctx, it)
					return dibs.Receipt{}, errNoAnswer
				}
				r := w.runner(w.effectJob(handle, d, func(j *dibs.Job) {
					j.Lookup = lookup
					if name == "hangs" {
						j.Lookup = func(ctx context.Context, it dibs.Item) (dibs.LookupResult, error) {
							res, _ := lookup(ctx, it)
							return res, ctx.Err()
						}
					}
				}))
				for range 20 {
					w.tick(r)
					pass(2 * time.Hour)
				}
				if d.calls.Load() != 1 {
					t.Errorf("%d calls although nobody knew", d.calls.Load())
				}
				w.want("held", "SELECT state FROM dibs_effects")
				w.want("FAILED", "SELECT status FROM account_config WHERE claimable_at IS NULL")
				w.want("8", "SELECT count(*) FROM dibs_findings WHERE kind = 'unreachable'")
				w.want("lookup_cannot_tell", "SELECT reason FROM dibs_outcomes WHERE outcome = 'held'")
			})
		})
	}
}

// Two at the destination: done, with a finding that names both.
func TestADuplicateIsAFinding(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d := &destination{has: map[string]int{}}
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			_, _ = d.send(ctx, it)
			_, _ = d.send(ctx, it)
			return dibs.Receipt{}, errNoAnswer
		}
		r := w.runner(w.effectJob(handle, d, nil))
		w.tick(r)
		pass(time.Hour)
		if c := w.tick(r).Run.Counts; c.AlreadyDone != 1 {
			t.Errorf("%s", c)
		}
		w.want("duplicate", "SELECT kind FROM dibs_findings")
		if detail := w.one("SELECT detail FROM dibs_findings"); !strings.Contains(detail, "d-1") || !strings.Contains(detail, "d-2") {
			t.Errorf("detail %q", detail)
		}
	})
}

// Under hold nothing is repeated and nobody is asked: a person decides.
func TestHoldWaitsForAPerson(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		d := &destination{has: map[string]int{}}
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			r, err := d.send(ctx, it)
			if it.Key.String() == id(1) {
				return dibs.Receipt{}, errNoAnswer
			}
			return r, err
		}
		r := w.runner(w.effectJob(handle, d, func(j *dibs.Job) { j.OnUncertain, j.Lookup = dibs.Hold, nil }))
		if c := w.tick(r).Run.Counts; c.Held != 1 || c.Completed != 1 {
			t.Errorf("%s", c)
		}
		pass(24 * time.Hour)
		if c := w.tick(r).Run.Counts; c.Completed != 1 || c.Held != 0 {
			t.Errorf("later: %s", c)
		}
		w.want("held", "SELECT state FROM dibs_effects WHERE item_key = ?", id(1))
		w.want("FAILED", "SELECT status FROM account_config WHERE claimable_at IS NULL AND last_error LIKE '%reset%'")
		w.exec("UPDATE account_config SET claimable_at = 0 WHERE account_id = ?", id(1)) // by hand, past dibs
		if c := w.tick(r).Run.Counts; c.Held != 1 || d.has["crm-sync/sync-note/"+id(1)+"/"+w.one("SELECT cycle FROM account_config WHERE account_id = ?", id(1))] != 1 {
			t.Errorf("still held: %s, %v", c, d.has)
		}
	})
}

// Certainly without effect: run again, without a lookup.
func TestNotAppliedRunsAgainWithoutALookup(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		d := &destination{has: map[string]int{}}
		first := true
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			if first && it.Key.String() == id(1) {
				first = false
				return dibs.Receipt{}, dibs.NotApplied(errors.New("refused"))
			}
			if it.Key.String() == id(2) {
				return dibs.Receipt{}, dibs.Reject(errors.New("never"))
			}
			return d.send(ctx, it)
		}
		r := w.runner(w.effectJob(handle, d, nil))
		w.tick(r)
		w.want("not_applied", "SELECT state FROM dibs_effects WHERE item_key = ?", id(1))
		w.want("rejected", "SELECT state FROM dibs_effects WHERE item_key = ?", id(2))
		pass(3 * time.Hour)
		if c := w.tick(r).Run.Counts; c.Completed != 1 || c.Rejected != 1 || d.looks.Load() != 0 {
			t.Errorf("%s, %d lookups", c, d.looks.Load())
		}
	})
}

// A receipt that is required and missing makes the outcome unknown.
func TestAMissingReceiptIsUncertain(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d := &destination{has: map[string]int{}}
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			_, _ = d.send(ctx, it)
			return dibs.Receipt{}, nil
		}
		r := w.runner(w.effectJob(handle, d, func(j *dibs.Job) { j.ReceiptRequired = true }))
		if c := w.tick(r).Run.Counts; c.Uncertain != 1 {
			t.Errorf("%s", c)
		}
		w.want("no_receipt", "SELECT reason FROM dibs_effects")
		pass(time.Hour)
		if c := w.tick(r).Run.Counts; c.AlreadyDone != 1 || d.calls.Load() != 1 {
			t.Errorf("%s, %d calls", c, d.calls.Load())
		}
	})
}

// Replay is believed only while the destination recognises it.
func TestReplayIsBoundedByValidFor(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d := &destination{has: map[string]int{}}
		handle := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			_, _ = d.send(ctx, it)
			return dibs.Receipt{}, errNoAnswer
		}
		r := w.runner(w.effectJob(handle, d, func(j *dibs.Job) {
			j.OnUncertain, j.Lookup, j.Idempotency.ValidFor = dibs.Replay, nil, 24*time.Hour
			j.Retry.Min, j.Retry.Max = 5*time.Hour, 5*time.Hour
		}))
		for range 12 {
			w.tick(r)
			pass(6 * time.Hour)
		}
		if d.calls.Load() != 4 { // at 0, 6, 12 and 18 hours
			t.Errorf("%d calls, want 4", d.calls.Load())
		}
		w.want("held", "SELECT state FROM dibs_effects")
		w.want("idempotency_over", "SELECT reason FROM dibs_outcomes WHERE outcome = 'held'")
	})
}

// A one-shot action that was done before is not done again; with other content
// it is a person's.
func TestDoneBeforeIsNotSentAgain(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		d := &destination{has: map[string]int{}}
		r := w.runner(w.effectJob(d.send, d, func(j *dibs.Job) {
			table := j.Source.(dibs.Table)
			table.OneShot, table.Every = true, 0
			j.Source = table
		}))
		w.tick(r)
		pass(time.Minute)
		w.exec("UPDATE account_config SET status = 'IDLE', claimable_at = 0") // reset by hand
		w.exec("UPDATE account_config SET name = 'other' WHERE account_id = ?", id(2))
		if c := w.tick(r).Run.Counts; c.AlreadyDone != 1 || c.Held != 1 || d.calls.Load() != 2 {
			t.Errorf("%s, %d calls", c, d.calls.Load())
		}
		w.want("content_changed", "SELECT reason FROM dibs_outcomes WHERE outcome = 'held'")
		w.want("d-crm-sync/sync-note/"+id(1), "SELECT receipt_id FROM dibs_outcomes WHERE outcome = 'already_done'")
	})
}

// Two rows that are one action: the second waits for the first one's lease.
func TestTwoRowsOfOneActionAreOneEffect(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.exec("UPDATE account_config SET external_ref = 'same'")
		d := &destination{has: map[string]int{}}
		slow := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			pass(10 * time.Second)
			return d.send(ctx, it)
		}
		r := w.runner(w.effectJob(slow, d, func(j *dibs.Job) { j.Identity, j.Concurrency = "{job}/{external_ref}", 2 }))
		if c := w.tick(r).Run.Counts; c.Completed != 1 || c.Released != 1 {
			t.Errorf("%s", c)
		}
		w.want("in_flight_elsewhere", "SELECT reason FROM dibs_outcomes WHERE outcome = 'released'")
		w.want("1", "SELECT count(*) FROM account_config WHERE status = 'IDLE' AND attempts = 0 AND started_at IS NULL AND claimable_at > 0")
		pass(2 * time.Minute)
		if c := w.tick(r).Run.Counts; c.AlreadyDone != 1 || d.calls.Load() != 1 {
			t.Errorf("then: %s, %d calls", c, d.calls.Load())
		}
	})
}

// An item whose identity has an empty part fails alone.
func TestCaseB39EmptyPartsAreRefusedAlone(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.exec("UPDATE account_config SET external_ref = NULL WHERE account_id = ?", id(1))
		w.exec("UPDATE account_config SET external_ref = '' WHERE account_id = ?", id(2))
		for _, on := range []dibs.OnUncertain{dibs.Lookup, dibs.Replay} {
			d := &destination{has: map[string]int{}}
			r := w.runner(w.effectJob(d.send, d, func(j *dibs.Job) { j.Identity, j.OnUncertain = "{job}/{key}/{external_ref}", on }))
			if c := w.tick(r).Run.Counts; c.Completed != 1 || c.Rejected != 2 {
				t.Errorf("%s: %s", on, c)
			}
			w.want("2", "SELECT count(*) FROM account_config WHERE last_error LIKE '%external_ref}%'")
			w.exec("UPDATE account_config SET status = 'IDLE', claimable_at = 0, started_at = NULL, last_error = NULL")
		}
	})
}

// A run that is stopped gives back what it has not started, and withdraws what
// it only meant to do.
func TestStoppingWithdrawsIntents(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		d := &destination{has: map[string]int{}}
		ctx, cancel := context.WithCancel(w.t.Context())
		handle := func(hctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			cancel()
			return d.send(hctx, it)
		}
		report, err := w.runner(w.effectJob(handle, d, nil)).Tick(ctx, "crm-sync")
		if err != nil || report.Run.Counts.Released != 3 || report.Run.Counts.Completed != 1 {
			t.Errorf("%v, %v", report, err)
		}
		w.want("1", "SELECT count(*) FROM dibs_effects")
		w.want("0", "SELECT count(*) FROM dibs_effects WHERE lease_end IS NOT NULL")
	})
}

// Effects are renewed with their items, as long as the handler runs.
func TestEffectsAreRenewedWithTheirItems(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d := &destination{has: map[string]int{}}
		slow := func(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
			pass(10 * time.Minute)
			w.want("1", "SELECT count(*) FROM dibs_effects e JOIN account_config a ON a.account_id = e.item_key WHERE e.lease_end >= a.claimable_at AND e.state = 'intended'")
			return d.send(ctx, it)
		}
		if c := w.tick(w.runner(w.effectJob(slow, d, func(j *dibs.Job) { j.Timeout = 0 }))).Run.Counts; c.Completed != 1 {
			t.Errorf("%s", c)
		}
	})
}

// What cannot work is refused at start, with the reason and the nearest name.
func TestIdentityIsCheckedAtStart(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d := &destination{has: map[string]int{}}
		for want, change := range map[string]func(*dibs.Job){
			"did you mean {external_ref}": func(j *dibs.Job) { j.Identity = "{job}/{external_reff}" },
			"did you mean {cycle}":        func(j *dibs.Job) { j.Identity = "{job}/{cycel}" },
			"two fields":                  func(j *dibs.Job) { j.Identity = "{job}/{key}{cycle}" },
			"} without {":                 func(j *dibs.Job) { j.Identity = "{job}/key}" },
			"part is empty":               func(j *dibs.Job) { j.Identity = "{job}//{key}" },
			"begins with a value":         func(j *dibs.Job) { j.Identity = "{key}" },
			"nothing says how to ask":     func(j *dibs.Job) { j.Lookup = nil },
			"needs a source":              func(j *dibs.Job) { j.Source = nil },
			"counts no actions":           func(j *dibs.Job) { j.Source = dibs.Table{Name: "x", Key: "id", TwoColumn: true, Every: time.Hour} },
			"has no cycle": func(j *dibs.Job) {
				j.Identity, j.Source = "{job}/{key}/{cycle}", dibs.Table{Name: "x", Key: "id", TwoColumn: true, Every: time.Hour}
			},
			"valid_for bounds replay": func(j *dibs.Job) { j.Idempotency.ValidFor = time.Hour },
		} {
			_, err := runner.New(runner.Config{Store: w.store, Jobs: []dibs.Job{w.effectJob(d.send, d, change)}})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
		}
		for _, fine := range []string{"{job}/{key.1}", "{job}/{key.account_id}/v{external_ref}x", "crm/{operation}/{key}/{slot}", "{job}/{trigger}/{key}"} {
			if _, err := runner.New(runner.Config{Store: w.store, Jobs: []dibs.Job{w.effectJob(d.send, d, func(j *dibs.Job) { j.Identity = fine })}}); err != nil {
				t.Errorf("%s: %v", fine, err)
			}
		}
	})
}

// A batch handler's items are intended together and looked up one by one.
func TestBatchHandlersHaveEffects(t *testing.T) {
	inWorld(t, 7, func(w *world) {
		d := &destination{has: map[string]int{}}
		lose := true
		batch := func(ctx context.Context, items []dibs.Item) ([]dibs.Result, error) {
			out := make([]dibs.Result, len(items))
			for i, it := range items {
				out[i].Receipt, out[i].Err = d.send(ctx, it)
			}
			if lose {
				lose = false
				return out[:4], errNoAnswer
			}
			return out, nil
		}
		r := w.runner(w.effectJob(nil, d, func(j *dibs.Job) { j.Handle, j.HandleBatch = nil, batch }))
		if c := w.tick(r).Run.Counts; c.Completed != 4 || c.Uncertain != 3 {
			t.Errorf("%s", c)
		}
		pass(10 * time.Minute)
		if c := w.tick(r).Run.Counts; c.AlreadyDone != 3 || d.calls.Load() != 7 || d.looks.Load() != 3 {
			t.Errorf("%s, %s", c, fmt.Sprint(d.calls.Load(), d.looks.Load()))
		}
	})
}
