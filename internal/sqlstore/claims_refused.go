package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/dibs-run/dibs"
)

// refusedClaim is a batch that the database took without a word and did not
// write, as a trigger of the table's own can arrange.
type refusedClaim struct{ written, asked int64 }

func (e refusedClaim) Error() string {
	return fmt.Sprintf("the database wrote %d of %d claimed rows: does a trigger of the table's own cancel updates?", e.written, e.asked)
}

// takeSafely is take for a transaction that the database has refused once, or
// where some rows are known to be refused: the batch again, under a savepoint,
// and else row by row, so that one bad row fails alone.
func (t *taking) takeSafely(ctx context.Context) error {
	if len(t.r.Skip) == 0 {
		err := t.tx.Savepoint(ctx, func() error { return t.take(ctx) })
		if err == nil || !t.refuses(ctx, err) {
			return err
		}
		t.items = nil
	}
	keys, err := t.candidates(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if len(t.items)+len(t.refused) >= t.r.Limit {
			break
		}
		if err := t.takeOne(ctx, key); err != nil {
			return err
		}
	}
	return t.recordRefused(ctx)
}

func (t *taking) refuses(ctx context.Context, err error) bool {
	return refusedData(t.store.classify(ctx, err))
}

// candidates are the keys of rows that a claim could take now, in order, without
// those known to be refused. There are more than the limit, since others may
// have locked some of them.
func (t *taking) candidates(ctx context.Context) ([]dibs.Key, error) {
	if t.r.Scope.Key != nil {
		return []dibs.Key{t.r.Scope.Key}, nil
	}
	skip := make(map[string]bool, len(t.r.Skip))
	for _, key := range t.r.Skip {
		skip[key.String()] = true
	}
	b := t.scopeBinds(t.r.Scope)
	b["limit"] = int64(2*t.r.Limit + len(skip))
	var keys []dibs.Key
	err := t.tx.records(ctx, t.st.rowsDue, b, func(rec record) error {
		if key := t.m.key(rec); !skip[key.String()] {
			keys = append(keys, key)
		}
		return nil
	})
	return keys, err
}

// takeOne claims one candidate under a savepoint of its own. A row that somebody
// has claimed or locked since is left out; it was due when it was listed, and
// one that was attempted since then is not in the scope any more.
func (t *taking) takeOne(ctx context.Context, key dibs.Key) error {
	b := t.scopeBinds(t.r.Scope)
	for i, part := range key {
		b["k"+itoa(int64(i))] = part
	}
	b["token"], b["lease"], b["limit"] = string(t.r.Token), t.leaseSpan(t.r.Lease), int64(1)
	before := len(t.items)
	err := t.tx.Savepoint(ctx, func() error { return t.pick(ctx, t.st.claimKey, b) })
	if err == nil || !t.refuses(ctx, err) {
		return err
	}
	t.items = slices.Delete(t.items, before, len(t.items))
	t.refused = append(t.refused, dibs.RefusedClaim{Key: key, Err: fmt.Errorf("claim item %s: %w", key, err)})
	return nil
}

// recordRefused leaves an outcome for each refused row: nothing fails in
// silence.
func (t *taking) recordRefused(ctx context.Context) error {
	if len(t.refused) == 0 || t.r.Run.ID == "" {
		return nil
	}
	items := make([]item, len(t.refused))
	for i, f := range t.refused {
		items[i] = keyed(f.Key)
		items[i].outcome(dibs.OutcomeRecord{
			Token: t.r.Token, Key: f.Key.String(), RunID: t.r.Run.ID, Outcome: dibs.OutcomeFailed,
			Reason: dibs.ReasonClaimRefused, Error: ascii(f.Err.Error()),
		})
	}
	return t.insertOutcomes(ctx, t.tx, items, false)
}
