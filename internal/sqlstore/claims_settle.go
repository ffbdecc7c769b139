package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

func (c *claims) compileSettle(w writer, k compiler) error {
	more := append(settleFields(), outcomeFields()...)
	merged := c.m.fields()
	for i, k := range merged {
		merged[i] = "dibs_j." + k
	}
	for _, f := range more {
		merged = append(merged, "coalesce(dibs_j."+f+", dibs_s."+f+") AS "+f)
	}
	own := Fragments{
		"fields": w.q.Fields(c.m.fields(more...)), "own_fields": w.q.Fields(more), "merged": strings.Join(merged, ", "), "settle_set": w.settleSet(), "proof": w.proof(),
		"outcome_fields": w.q.Fields(outcomeFields()),
	}
	if err := k.one(&c.st.settle, "settle", own); err != nil {
		return err
	}
	if err := k.optional(&c.st.settleWrite, "settle_write", own); err != nil {
		return err
	}
	if err := k.one(&c.st.outcomeInsert, "outcome_insert", own); err != nil {
		return err
	}
	return k.one(&c.st.outcomeFind, "outcome_find", own)
}

// settleFields are an item's fields in a settle: t and f prove ownership (b in a
// two-column table); s is the label; d microseconds until due; back marks a
// release, whose former values are c, b2 and pt; a, x and ok are attempts,
// expirations and success; le is the error.
func settleFields() []string {
	return []string{"b", "s", "d", "back", "c", "b2", "a", "x", "ok", "le"}
}

// outcomeFields are the fields of an outcome row.
func outcomeFields() []string {
	return []string{"t", "f", "pt", "ik", "rid", "job", "wid", "n", "o", "re", "rc", "ev", "oe", "tk"}
}

func (w writer) settleSet() string {
	m, q := w.m, w.q
	field := func(n string) string { return q.Int(q.Field(n)) }
	status := w.target(m.status) + " = " + q.Value(m.status, q.Field("s"))
	if m.two {
		return status
	}
	back := q.Field("back") + " = '1'"
	due := alignDown(q, &m.claimableAt, w.now()+" + "+field("d"))
	out := []string{
		status,
		w.target(m.claimableAt) + " = CASE WHEN " + q.Field("c") + " IS NOT NULL THEN " + q.Again(m.claimableAt, field("c")) +
			" WHEN " + q.Field("d") + " IS NOT NULL THEN " + q.Time(m.claimableAt, due) + " END",
		w.target(m.startedAt) + " = CASE WHEN " + q.Field("b2") + " IS NOT NULL THEN " + q.Again(m.startedAt, field("b2")) +
			" WHEN " + back + " THEN NULL ELSE " + w.col(m.startedAt) + " END",
		w.target(m.claimToken) + " = " + q.Value(m.claimToken, q.Field("pt")),
		w.target(m.attempts) + " = " + field("a"),
		w.target(m.expirations) + " = " + field("x"),
	}
	if m.startedAt.NotNull {
		out[2] = w.target(m.startedAt) + " = CASE WHEN " + q.Field("b2") + " IS NOT NULL THEN " + q.Again(m.startedAt, field("b2")) +
			" ELSE " + w.col(m.startedAt) + " END"
	}
	succeeded := "CASE WHEN " + q.Field("ok") + " = '1' THEN "
	if m.cycle.there() {
		out = append(out, w.target(m.cycle)+" = "+w.col(m.cycle)+" + "+succeeded+"1 ELSE 0 END")
	}
	if m.lastSuccess.there() {
		out = append(out, w.target(m.lastSuccess)+" = "+succeeded+
			q.Time(m.lastSuccess, alignDown(q, &m.lastSuccess, w.now()))+" ELSE "+w.col(m.lastSuccess)+" END")
	}
	if m.lastError.there() {
		out = append(out, w.target(m.lastError)+" = CASE WHEN "+back+" THEN "+w.col(m.lastError)+
			" ELSE "+q.Value(m.lastError, q.Field("le"))+" END")
	}
	return strings.Join(out, ",\n    ")
}

// Settle writes outcomes. See [dibs.Claims].
func (c *claims) Settle(ctx context.Context, r dibs.SettleRequest) ([]dibs.Settled, error) {
	if err := c.checkChanges(r.Items); err != nil {
		return nil, err
	}
	var out []dibs.Settled
	err := c.settling(ctx, "settle items of table "+c.m.asked, func(ctx context.Context, tx *Tx, single bool) error {
		if !r.Beside {
			if _, _, err := c.store.checkpoint(ctx, tx, r.Run, r.Progress); err != nil {
				return err
			}
		}
		var err error
		out, err = c.settleWithin(ctx, tx, r.Items, single, r.WorkLimit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// settling runs fn in one transaction. When the database refuses the batch for
// its data, fn runs once more, item by item.
func (c *claims) settling(ctx context.Context, what string, fn func(ctx context.Context, tx *Tx, single bool) error) error {
	err := c.store.InTx(ctx, what, func(ctx context.Context, tx *Tx) error { return fn(ctx, tx, false) })
	if !refusedData(c.store.classOf(ctx, err)) {
		return err
	}
	return c.store.InTx(ctx, what, func(ctx context.Context, tx *Tx) error { return fn(ctx, tx, true) })
}

func refusedData(class Class) bool { return class == ClassData || class == ClassUnique }

// settle writes the outcomes inside a transaction, together or each under a
// savepoint of its own.
func (c *claims) settle(ctx context.Context, tx *Tx, items []dibs.Settlement, single bool) ([]dibs.Settled, error) {
	return c.settleWithin(ctx, tx, items, single, 0)
}

// settleWithin also bounds the work that comes with items.
func (c *claims) settleWithin(ctx context.Context, tx *Tx, items []dibs.Settlement, single bool, limit time.Duration) ([]dibs.Settled, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if !single && !slices.ContainsFunc(items, func(s dibs.Settlement) bool { return s.Work != nil }) {
		return c.settleTogether(ctx, tx, items, false)
	}
	out := make([]dibs.Settled, len(items))
	for i := range items {
		if items[i].Work != nil && !items[i].LateOnly {
			one, err := c.settleWork(ctx, tx, items[i], limit)
			if err != nil {
				return nil, err
			}
			out[i] = one
			continue
		}
		for _, plain := range []bool{false, true} {
			err := tx.Savepoint(ctx, func() error {
				one, err := c.settleTogether(ctx, tx, items[i:i+1], plain)
				if err == nil {
					out[i] = one[0]
				}
				return err
			})
			if err == nil {
				break
			}
			if !refusedData(c.store.classify(ctx, err)) {
				return nil, err
			}
			out[i] = dibs.Settled{Err: fmt.Errorf("settle item %s: %w", items[i].Held.Key, err)}
		}
	}
	return out, nil
}

// settleTogether settles items by one statement and answers for each. plain
// reduces free texts to ASCII and drops evidence, which is what a database may
// refuse of ours.
func (c *claims) settleTogether(ctx context.Context, tx *Tx, items []dibs.Settlement, plain bool) ([]dibs.Settled, error) {
	out, _, err := c.settleCounted(ctx, tx, items, plain)
	return out, err
}

// settleCounted also says how many rows were this claim's just now.
func (c *claims) settleCounted(ctx context.Context, tx *Tx, items []dibs.Settlement, plain bool) ([]dibs.Settled, int, error) {
	out := make([]dibs.Settled, len(items))
	encoded := make([]item, len(items))
	believed := make([]item, 0, len(items)) // what its caller still takes for its own
	where := make(map[string]int, len(items))
	for i, s := range items {
		encoded[i] = c.settleItem(s, plain)
		where[s.Held.Key.String()] = i
		if !s.LateOnly {
			believed = append(believed, encoded[i])
		}
	}
	if len(where) < len(items) {
		return c.settleRounds(ctx, tx, items, plain)
	}
	var ours []item
	b, err := c.settleBinds(inKeyOrder(believed))
	if err != nil {
		return nil, 0, err
	}
	batch := b["items"].(string)
	if len(believed) > 0 {
		err = tx.records(ctx, c.st.settle, b, func(rec record) error {
			if i, ok := where[c.m.key(rec).String()]; ok {
				out[i].OK = true
				ours = append(ours, encoded[i])
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	if len(ours) < len(believed) {
		if batch, err = encodeItems(inKeyOrder(ours)); err != nil {
			return nil, 0, err
		}
	}
	if err := c.settleOurs(ctx, tx, len(ours), batch); err != nil {
		return nil, 0, err
	}
	if len(ours) < len(items) {
		if err := c.settleLate(ctx, tx, encoded, out); err != nil {
			return nil, 0, err
		}
	}
	return out, len(ours), c.settleLedger(ctx, tx, items, out, plain)
}

// settleRounds settles items of which some are of the same row: claims that
// followed one another. The statement answers with keys, so no round has two of
// one row, and each is answered for its own token.
func (c *claims) settleRounds(ctx context.Context, tx *Tx, items []dibs.Settlement, plain bool) ([]dibs.Settled, int, error) {
	var rounds [][]int
	times := make(map[string]int, len(items))
	for i, s := range items {
		key := s.Held.Key.String()
		n := times[key]
		if times[key]++; n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], i)
	}
	out, ours := make([]dibs.Settled, len(items)), 0
	for _, round := range rounds {
		part := make([]dibs.Settlement, len(round))
		for j, i := range round {
			part[j] = items[i]
		}
		got, n, err := c.settleCounted(ctx, tx, part, plain)
		if err != nil {
			return nil, 0, err
		}
		for j, i := range round {
			out[i] = got[j]
		}
		ours += n
	}
	return out, ours, nil
}

// settleBinds encodes a batch as the settling statement wants it.
func (c *claims) settleBinds(items []item) (Binds, error) {
	var same item
	if c.store.dialect.OneStatementSettle {
		items, same = share(items)
	}
	shared, err := encodeItems([]item{same})
	if err != nil {
		return nil, err
	}
	batch, err := encodeItems(items)
	return Binds{"items": batch, "same": shared[1 : len(shared)-1]}, err
}

// settleOurs finishes, for the n items that are ours, what the settling
// statement could not do in one.
func (c *claims) settleOurs(ctx context.Context, tx *Tx, n int, batch string) error {
	if n == 0 || c.store.dialect.OneStatementSettle {
		return nil
	}
	if c.st.settleWrite.there() {
		if _, err := tx.Exec(ctx, c.st.settleWrite, Binds{"items": batch}); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, c.st.outcomeInsert, Binds{"items": batch, "late": int64(0)})
	return err
}

// settleLate answers for items that are no longer ours. An outcome of the same
// claim that says the same is this very settle, answered late; anything else is
// recorded beside what stands.
func (c *claims) settleLate(ctx context.Context, tx *Tx, items []item, out []dibs.Settled) error {
	var missing []item
	at := map[string]int{}
	for i := range items {
		if !out[i].OK {
			missing = append(missing, items[i])
			at[items[i].proof()] = i
		}
	}
	batch, err := encodeItems(missing)
	if err != nil {
		return err
	}
	err = tx.records(ctx, c.st.outcomeFind, Binds{"items": batch}, func(rec record) error {
		i, ok := at[rec.text("token")+"\x00"+rec.text("item_key")]
		if !ok {
			return nil
		}
		if said, _ := items[i].get("o"); said == rec.text("outcome") {
			out[i].OK = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	var late []item
	for i := range items {
		if !out[i].OK {
			out[i].Late = true
			late = append(late, items[i])
		}
	}
	if len(late) == 0 {
		return nil
	}
	return c.insertOutcomes(ctx, tx, late, true)
}

func (c *claims) insertOutcomes(ctx context.Context, tx *Tx, items []item, late bool) error {
	batch, err := encodeItems(items)
	if err != nil {
		return err
	}
	var l int64
	if late {
		l = 1
	}
	_, err = tx.Exec(ctx, c.st.outcomeInsert, Binds{"items": batch, "late": l})
	return err
}
