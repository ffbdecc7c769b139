package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
)

func (c *claims) compileSettle(w writer, k compiler) error {
	fields := w.q.Fields(c.m.fields(append(settleFields(), outcomeFields()...)...))
	own := Fragments{
		"fields": fields, "settle_set": w.settleSet(), "proof": w.proof(),
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
		if _, _, err := c.store.checkpoint(ctx, tx, r.Run, r.Progress); err != nil {
			return err
		}
		var err error
		out, err = c.settle(ctx, tx, r.Items, single)
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
	if len(items) == 0 {
		return nil, nil
	}
	if !single {
		return c.settleTogether(ctx, tx, items, false)
	}
	out := make([]dibs.Settled, len(items))
	for i := range items {
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
	out := make([]dibs.Settled, len(items))
	encoded := make([]item, len(items))
	believed := make([]item, 0, len(items)) // what its caller still takes for its own
	where := make(map[string]int, len(items))
	for i, s := range items {
		encoded[i] = c.settleItem(s, plain)
		if !s.LateOnly {
			believed = append(believed, encoded[i])
			where[s.Held.Key.String()] = i
		}
	}
	var ours []item
	batch, err := encodeItems(inKeyOrder(believed))
	if err != nil {
		return nil, err
	}
	if len(believed) > 0 {
		err = tx.records(ctx, c.st.settle, Binds{"items": batch}, func(rec record) error {
			if i, ok := where[c.m.key(rec).String()]; ok {
				out[i].OK = true
				ours = append(ours, encoded[i])
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(ours) < len(believed) {
		if batch, err = encodeItems(inKeyOrder(ours)); err != nil {
			return nil, err
		}
	}
	if err := c.settleOurs(ctx, tx, len(ours), batch); err != nil {
		return nil, err
	}
	if len(ours) == len(items) {
		return out, nil
	}
	return out, c.settleLate(ctx, tx, encoded, out)
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
			at[items[i]["t"]+"\x00"+items[i]["ik"]] = i
		}
	}
	batch, err := encodeItems(missing)
	if err != nil {
		return err
	}
	err = tx.records(ctx, c.st.outcomeFind, Binds{"items": batch}, func(rec record) error {
		if i, ok := at[rec.text("token")+"\x00"+rec.text("item_key")]; ok && rec.text("outcome") == items[i]["o"] {
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

// settleItem encodes one settlement.
func (c *claims) settleItem(s dibs.Settlement, plain bool) item {
	rec := s.Record
	rec.Token, rec.Key, rec.Fence = s.Held.Token, s.Held.Key.String(), s.Held.Fence
	if rec.Outcome == "" {
		rec.Outcome = s.Outcome
	}
	if plain {
		rec.Error, rec.Evidence, rec.ReceiptID = ascii(rec.Error), nil, ascii(rec.ReceiptID)
	}
	it := outcomeItem(rec)
	for n, part := range keyed(s.Held.Key) {
		it[n] = part
	}
	it.instant("b", s.Held.Stamp)
	if s.Change.Restore {
		prior := s.Held.Prior
		it["back"], it["s"] = "1", c.m.label(c.priorStatus(prior))
		it.instant("c", prior.ClaimableAt)
		it.instant("b2", prior.StartedAt)
		if prior.Token != "" {
			it["pt"] = string(prior.Token)
		}
		it.number("a", int64(s.Held.Attempts))
		it.number("x", int64(prior.Expirations))
		return it
	}
	it["s"] = c.m.label(c.stored(s.Change.Status))
	if s.Change.DueIn != nil {
		it.number("d", span(*s.Change.DueIn))
	}
	it.number("a", int64(s.Change.Attempts))
	it.number("x", int64(s.Change.Expirations))
	if s.Change.Succeeded {
		it["ok"] = "1"
	}
	if s.Change.Error != "" {
		it["le"] = c.errorText(s.Change.Error, plain)
	}
	return it
}

// mostError is the most characters that are kept of an error.
const mostError = 2000

// errorText makes an error fit for its column.
func (c *claims) errorText(s string, plain bool) string {
	if plain {
		s = ascii(s)
	}
	most := mostError
	if n := c.m.lastError.Length; n > 0 {
		most = min(most, n)
	}
	return cut(clean(s), most)
}

// mostReceipt is the most bytes that are kept of a destination's own name.
const mostReceipt = 1024

// cutBytes cuts between two characters.
func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

func cut(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most])
}

func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x20 && r < 0x7f || r == '\n' || r == '\t' {
			return r
		}
		return '?'
	}, s)
}

// outcomeItem encodes an outcome row.
func outcomeItem(r dibs.OutcomeRecord) item {
	it := item{
		"t": string(r.Token), "ik": r.Key, "rid": r.RunID, "job": r.Job, "wid": clean(r.WorkID), "o": string(r.Outcome),
	}
	it.number("f", int64(r.Fence))
	it.number("n", int64(r.Attempt))
	it.number("tk", span(r.Took))
	for name, v := range map[string]string{
		"re": string(r.Reason), "rc": cutBytes(clean(r.ReceiptID), mostReceipt), "oe": cut(clean(r.Error), mostError),
		"ev": strings.ReplaceAll(clean(string(r.Evidence)), `\u0000`, `\u2400`),
	} {
		if v != "" {
			it[name] = v
		}
	}
	return it
}

var errNoLabel = errors.New("the table has no label for this state")

// checkChanges refuses changes that the table cannot hold.
func (c *claims) checkChanges(items []dibs.Settlement) error {
	for _, s := range items {
		state := c.stored(s.Change.Status)
		if s.Change.Restore {
			state = c.priorStatus(s.Held.Prior)
		}
		if c.m.label(state) == "" {
			return fmt.Errorf("settle item %s as %s: %w", s.Held.Key, state, errNoLabel)
		}
	}
	return nil
}

// stored is the state that is written for another: a table without QUARANTINED
// says FAILED.
func (c *claims) stored(s dibs.Status) dibs.Status {
	if s == dibs.StatusQuarantined && c.m.Labels.Quarantined == "" {
		return dibs.StatusFailed
	}
	return s
}

// priorStatus is the state that a release gives back. A row of a two-column
// table that was taken from an expired claim cannot be in progress again, since
// its stamp never moves back: it has failed.
func (c *claims) priorStatus(p dibs.Prior) dibs.Status {
	if c.m.two && p.Status == dibs.StatusInProgress {
		return dibs.StatusFailed
	}
	return p.Status
}
