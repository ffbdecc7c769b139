package sqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

func (c *claims) compileClaim(w writer, k compiler) error {
	first := w.col(c.m.startedAt)
	if !c.m.two {
		first = w.col(c.m.claimableAt)
	}
	order := first + ", " + k.base["key_order"]
	raw, picked := k.base["key_raw"]+", "+first+" AS o0", "o0, "+k.base["key_picked"]
	names := aliases(k.base["row"]) + ", " + aliases(w.claimed())
	claim := func(into *Statement, which, order, mark string) error {
		by := k.base["by_due"]
		if into == &c.st.claimKey {
			by = k.base["by_key"]
		}
		return k.one(into, "claim", Fragments{
			"by":    by,
			"which": which, "order": order, "mark": mark, "pick_raw": raw, "picked_order": picked, "picked": names,
			"claim_set": w.claimSet(), "claimed": w.claimed(), "claiming": w.claiming(),
		})
	}
	if err := k.optional(&c.st.claimWrite, "claim_write", Fragments{
		"claim_write": w.claimWrite(), "fields": w.q.Fields(c.m.fields("b", "c", "f", "x", "y")),
	}); err != nil {
		return err
	}
	if err := claim(&c.st.claimKey, w.byKey(), k.base["key_order"], ""); err != nil {
		return err
	}
	if c.m.two {
		for n := range classes {
			by := order
			if n == classFresh {
				by = k.base["key_order"]
			}
			if err := claim(&c.st.class[n], w.class(n), by, ""); err != nil {
				return err
			}
		}
		return nil
	}
	if err := claim(&c.st.claim, w.due(), order, ""); err != nil {
		return err
	}
	if err := claim(&c.st.claimMark, w.due(), order, w.afterMark()); err != nil {
		return err
	}
	w.plain = true
	if err := claim(&c.st.claimPlain, w.due(), order, ""); err != nil {
		return err
	}
	return claim(&c.st.claimPlainMark, w.due(), order, w.afterMark())
}

// aliases lists the names that a list of expressions, one a line, gives its
// columns.
func aliases(list string) string {
	var names []string
	for _, line := range strings.Split(list, ",\n") {
		for _, part := range strings.Split(line, " AS ")[1:] {
			name, _, _ := strings.Cut(part, ",")
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Claim takes due rows. See [dibs.Claims].
func (c *claims) Claim(ctx context.Context, r dibs.ClaimRequest) (dibs.Claimed, error) {
	if err := c.checkClaim(r); err != nil {
		return dibs.Claimed{}, err
	}
	var out dibs.Claimed
	err := c.settling(ctx, "claim items of table "+c.m.asked, func(ctx context.Context, tx *Tx, single bool) error {
		live, now, err := c.store.checkpoint(ctx, tx, r.Run, r.Progress)
		if out = (dibs.Claimed{Now: now}); err != nil {
			return err
		}
		if out.Settled, err = c.settle(ctx, tx, r.Settle, single); err != nil {
			return err
		}
		if !live {
			out.Over = true
			return nil
		}
		got := taking{claims: c, tx: tx, r: r, now: now}
		take := got.take
		if single || len(r.Skip) > 0 {
			take = got.takeSafely
		}
		if err := take(ctx); err != nil {
			return err
		}
		out.Items, out.Refused, out.Now = got.items, got.refused, got.now
		return c.recordLost(ctx, tx, out.Items)
	})
	if err != nil {
		return dibs.Claimed{}, err
	}
	c.finishClaim(&out, r)
	return out, nil
}

func (c *claims) checkClaim(r dibs.ClaimRequest) error {
	if r.Limit <= 0 {
		return fmt.Errorf("claim items of table %s: the limit is %d, not positive", c.m.asked, r.Limit)
	}
	if r.Token == "" {
		return fmt.Errorf("claim items of table %s: no token", c.m.asked)
	}
	if r.Scope.Key != nil && len(r.Scope.Key) != len(c.m.keys) {
		return fmt.Errorf("claim item %s of table %s: the key has %d parts, the table's has %d", r.Scope.Key, c.m.asked, len(r.Scope.Key), len(c.m.keys))
	}
	if err := c.checkChanges(r.Settle); err != nil {
		return err
	}
	return c.m.leaseFits(r.Lease)
}

// finishClaim says what the whole claim shares: the earliest lease end and where
// it began.
func (c *claims) finishClaim(out *dibs.Claimed, r dibs.ClaimRequest) {
	for i, h := range out.Items {
		if i == 0 || h.EndsAt.Before(out.EndsAt) {
			out.EndsAt = h.EndsAt
		}
	}
	if len(out.Items) > 0 && r.Scope.Key == nil && !c.m.two && !c.m.claimableAt.Loose {
		out.Mark = dibs.Mark{ClaimableAt: out.Items[0].Prior.ClaimableAt, Key: out.Items[0].Key}
	}
}

// taking is one claim under way.
type taking struct {
	*claims
	tx      *Tx
	r       dibs.ClaimRequest
	items   []dibs.Held
	refused []dibs.RefusedClaim
	now     time.Time
	trial   bool // compares what was written by itself
}

// take picks and claims rows by the statement that fits.
func (t *taking) take(ctx context.Context) error {
	r := t.r
	b := t.scopeBinds(r.Scope)
	b["token"], b["lease"], b["limit"] = string(r.Token), t.leaseSpan(r.Lease), int64(r.Limit)
	switch {
	case r.Scope.Key != nil && !t.m.possible(r.Scope.Key):
		return nil // no row has such a key
	case r.Scope.Key != nil:
		return t.pick(ctx, t.st.claimKey, b)
	case t.m.two:
		return t.takeClasses(ctx, b)
	}
	all, marked := t.st.claim, t.st.claimMark
	if r.Scope.IdleStartedBefore.IsZero() {
		all, marked = t.st.claimPlain, t.st.claimPlainMark
	}
	if r.Mark.ClaimableAt.IsZero() || t.m.claimableAt.Loose || len(r.Mark.Key) != len(t.m.keys) {
		return t.pick(ctx, all, b)
	}
	b["mark"] = r.Mark.ClaimableAt.UnixMicro()
	for i, part := range r.Mark.Key {
		b["mark_k"+itoa(int64(i))] = part
	}
	return t.pick(ctx, marked, b)
}

// farFuture stands for "no bound" where a statement wants an instant: the year
// 9999, which every database can hold.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// scopeBinds are the binds of every condition in claims_which.go.
func (c *claims) scopeBinds(s dibs.Scope) Binds {
	before := farFuture
	if !s.StartedBefore.IsZero() {
		before = s.StartedBefore.UnixMicro()
	}
	idle := before
	if !s.IdleStartedBefore.IsZero() {
		idle = min(before, s.IdleStartedBefore.UnixMicro())
	}
	b := Binds{
		"started_before": before, "idle_before": idle,
		"lease": c.leaseSpan(s.Lease), "backoff": span(s.Backoff), "every": span(max(0, s.Every)),
	}
	for i, part := range s.Key {
		b["k"+itoa(int64(i))] = part
	}
	return b
}

// takeClasses fills a claim of a two-column table class by class: expired first,
// then a quarter for failed rows, so that neither they nor the rest can starve,
// then rows never started, idle ones, and what failed rows are left.
func (t *taking) takeClasses(ctx context.Context, b Binds) error {
	take := func(n class, most int) error {
		most = min(most, t.r.Limit-len(t.items))
		if most <= 0 {
			return nil
		}
		b["limit"] = int64(most)
		return t.pick(ctx, t.st.class[n], b)
	}
	share := t.r.Limit / 4
	if rand.IntN(4) < t.r.Limit%4 {
		share++
	}
	for _, step := range []struct {
		class class
		most  int
	}{
		{classExpired, t.r.Limit}, {classFailed, share}, {classFresh, t.r.Limit}, {classIdle, t.r.Limit}, {classFailed, t.r.Limit},
	} {
		if err := take(step.class, step.most); err != nil {
			return err
		}
	}
	return nil
}

// pick runs one claiming statement. Where the database cannot return what an
// UPDATE did, the rows are locked and read first and then written by key.
func (t *taking) pick(ctx context.Context, st Statement, b Binds) error {
	var out []dibs.Held
	err := t.tx.records(ctx, st, b, func(rec record) error {
		h := t.m.held(rec, t.r.Token, t.r.Lease+t.store.skew)
		out = append(out, h)
		now, err := rec.instant("now")
		if now.After(t.now) {
			t.now = now
		}
		return err
	})
	t.items = append(t.items, out...)
	if err != nil || len(out) == 0 || !t.st.claimWrite.there() {
		return err
	}
	items := make([]item, len(out))
	for i, h := range out {
		it := keyed(h.Key)
		it.instant("b", h.Stamp)
		it.instant("c", h.EndsAt)
		it.number("f", int64(h.Fence))
		it.number("x", int64(h.Expirations))
		it.number("y", h.Cycle)
		items[i] = it
	}
	encoded, err := encodeItems(inKeyOrder(items))
	if err != nil {
		return err
	}
	n, err := t.tx.Exec(ctx, t.st.claimWrite, Binds{"items": encoded, "token": string(t.r.Token)})
	if asked := int64(len(items)); err == nil && n < asked && !t.trial {
		err = &txError{refusedClaim{n, asked}, ClassData}
	}
	return err
}

// inKeyOrder sorts items so that all writers lock rows in one order.
func inKeyOrder(items []item) []item {
	sorted := append([]item(nil), items...)
	sort.SliceStable(sorted, func(i, j int) bool {
		a, b := sorted[i], sorted[j]
		for n := 0; n < len(a) && n < len(b) && strings.HasPrefix(a[n].name, "k"); n++ {
			if x, y := a[n].value, b[n].value; x != y {
				if len(x) != len(y) && isNumber(x) && isNumber(y) {
					return len(x) < len(y)
				}
				return x < y
			}
		}
		return false
	})
	return sorted
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// recordLost writes the outcome of former claims that left none: their token is
// still on the row.
func (c *claims) recordLost(ctx context.Context, tx *Tx, items []dibs.Held) error {
	var lost []item
	for _, h := range items {
		if h.Prior.Token == "" {
			continue
		}
		it := keyed(h.Key)
		it.outcome(dibs.OutcomeRecord{
			Token: h.Prior.Token, Key: h.Key.String(), RunID: h.Prior.Token.Run(), Fence: h.Prior.Fence,
			Attempt: h.Attempts + 1, Outcome: dibs.OutcomeLost,
		})
		lost = append(lost, it)
	}
	if len(lost) == 0 {
		return nil
	}
	return c.insertOutcomes(ctx, tx, lost, false)
}
