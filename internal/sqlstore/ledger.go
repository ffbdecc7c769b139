package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/dibs-run/dibs"
)

var _ dibs.Ledger = (*Store)(nil)

// effectFields are the fields of an item in a statement on effects and findings:
// w is the work ID, jb the job, ik the key, y the cycle, t and f the proof, st
// the state or kind, re the reason, h the request's hash, rc, ev and oe the
// receipt and the error, n the lookups; la and su are instants, li microseconds
// from now; ia marks a new first attempt.
func effectFields() []string {
	return []string{"w", "jb", "ik", "y", "rid", "t", "f", "st", "re", "h", "rc", "ev", "oe", "n", "la", "su", "li", "ia"}
}

// ledger compiles one of the statements on effects and findings.
func (s *Store) ledger(name string) (Statement, error) {
	if known, ok := s.compiled.Load(name); ok {
		return known.(Statement), nil
	}
	fr, err := s.fragments()
	if err != nil {
		return Statement{}, fmt.Errorf("statement %s: %w", name, err)
	}
	fr["fields"] = s.dialect.Columns.Fields(effectFields())
	st, err := s.dialect.Compile(name, fr)
	if err != nil {
		return Statement{}, err
	}
	s.compiled.Store(name, st)
	return st, nil
}

// write runs one writing statement over items.
func (s *Store) write(ctx context.Context, tx *Tx, name string, items []note, more Binds) (int64, error) {
	st, err := s.ledger(name)
	if err != nil {
		return 0, err
	}
	b, err := itemBinds(items, more)
	if err != nil {
		return 0, err
	}
	return tx.Exec(ctx, st, b)
}

func itemBinds(notes []note, more Binds) (Binds, error) {
	items := make([]item, len(notes))
	for i, n := range notes {
		items[i] = make(item, 0, len(n))
		for name, v := range n {
			items[i].set(name, v)
		}
	}
	encoded, err := encodeItems(items)
	b := Binds{"items": encoded}
	for n, v := range more {
		b[n] = v
	}
	return b, err
}

// inWorkOrder sorts items so that all writers lock effects in one order.
func inWorkOrder(items []note) []note {
	sort.SliceStable(items, func(i, j int) bool { return items[i]["w"] < items[j]["w"] })
	return items
}

// effects reads effects by a statement whose columns are effect_columns.
func (s *Store) effects(ctx context.Context, q querier, st Statement, b Binds) ([]dibs.Effect, error) {
	var list []dibs.Effect
	err := query(ctx, q, st, b, func(rows *sql.Rows) error {
		var e dibs.Effect
		var cycle *int
		err := rows.Scan(into(&e.WorkID), into(&e.Job), into(&e.Key), intoPointer{&cycle}, into(&e.RunID), into(&e.State),
			into(&e.Reason), into(&e.Token), &e.Fence, timeInto{&e.LeaseEnd}, into(&e.RequestHash),
			into(&e.DestinationID), rawInto{&e.Evidence}, into(&e.Error), &e.Lookups, timeInto{&e.LookAt}, timeInto{&e.SentUntil},
			timeInto{&e.IntendedAt}, timeInto{&e.SettledAt}, timeInto{&e.UpdatedAt}, timeInto{&e.Now})
		if cycle != nil {
			e.Cycle = int64(*cycle)
		}
		list = append(list, e)
		return err
	})
	return list, err
}

// lockEffects locks effects by work ID and reads them.
func (s *Store) lockEffects(ctx context.Context, tx *Tx, items []note) ([]dibs.Effect, error) {
	if len(items) == 0 {
		return nil, nil
	}
	st, err := s.ledger("effect_lock")
	if err != nil {
		return nil, err
	}
	b, err := itemBinds(items, nil)
	if err != nil {
		return nil, err
	}
	return s.effects(ctx, tx.q(), st, b)
}

// ListEffects lists effects. See [dibs.Ledger].
func (s *Store) ListEffects(ctx context.Context, f dibs.EffectFilter) ([]dibs.Effect, error) {
	return s.listEffects(ctx, f, "")
}

func (s *Store) listEffects(ctx context.Context, f dibs.EffectFilter, workID string) ([]dibs.Effect, error) {
	uncertain, held := f.State == dibs.EffectUncertain, f.State == dibs.EffectHeld
	st, err := s.own("effect_list", present(map[string]bool{
		"work_id": workID != "", "job": f.Job != "", "run": f.Run != "", "key": f.Key != "", "free": f.Free,
		"uncertain": uncertain, "held": held, "state": f.State != "" && !uncertain && !held,
		"from": !f.From.IsZero(), "to": !f.To.IsZero(), "after": f.After != "",
	})...)
	if err != nil {
		return nil, err
	}
	b := Binds{
		"work_id": workID, "job": f.Job, "state": string(f.State), "run": f.Run, "key": f.Key,
		"from": f.From.UnixMicro(), "to": f.To.UnixMicro(), "after": f.After, "limit": limitOf(f.Limit),
	}
	var list []dibs.Effect
	err = s.reading(ctx, "list effects", func() (err error) {
		list, err = s.effects(ctx, s.db, st, b)
		return err
	})
	return list, err
}

// Effect reads one effect. See [dibs.Ledger].
func (s *Store) Effect(ctx context.Context, workID string) (dibs.Effect, error) {
	list, err := s.listEffects(ctx, dibs.EffectFilter{Limit: 1}, workID)
	switch {
	case err != nil:
		return dibs.Effect{}, err
	case workID == "" || len(list) == 0:
		return dibs.Effect{}, fmt.Errorf("read effect %s: %w", workID, dibs.ErrNotFound)
	}
	return list[0], nil
}

// SweepEffects makes intended effects whose lease has ended uncertain. See
// [dibs.Ledger].
func (s *Store) SweepEffects(ctx context.Context, job string, lookupAfter time.Duration) (n int64, err error) {
	st, err := s.own("effect_sweep")
	if err != nil {
		return 0, err
	}
	err = s.InTx(ctx, "sweep the effects of "+job, func(ctx context.Context, tx *Tx) error {
		n, err = tx.Exec(ctx, st, Binds{"job": job, "after": span(lookupAfter)})
		return err
	})
	return n, err
}

// AddFindings records findings. See [dibs.Ledger].
func (s *Store) AddFindings(ctx context.Context, found []dibs.Finding) error {
	return s.InTx(ctx, "record findings", func(ctx context.Context, tx *Tx) error { return s.addFindings(ctx, tx, found) })
}

func (s *Store) addFindings(ctx context.Context, tx *Tx, found []dibs.Finding) error {
	if len(found) == 0 {
		return nil
	}
	items := make([]note, len(found))
	for i, f := range found {
		it := note{"rid": f.RunID, "jb": f.Job, "w": f.WorkID, "ik": f.Key, "st": string(f.Kind)}
		it.receipt(f.DestinationID, f.Evidence, f.Detail)
		items[i] = it
	}
	_, err := s.write(ctx, tx, "finding_insert", items, nil)
	return err
}

// note is one effect or finding on its way to a statement. A field that is
// absent is NULL.
type note map[string]string

func (n note) number(name string, v int64) { n[name] = strconv.FormatInt(v, 10) }

func (n note) instant(name string, t time.Time) {
	if !t.IsZero() {
		n.number(name, t.UnixMicro())
	}
}

// receipt sets the free texts, made fit for every database.
func (n note) receipt(id string, evidence []byte, text string) {
	var it item
	it.outcome(dibs.OutcomeRecord{ReceiptID: id, Evidence: evidence, Error: text})
	for _, name := range []string{"rc", "ev", "oe"} {
		if v, ok := it.get(name); ok {
			n[name] = v
		}
	}
}

// ListFindings lists findings, newest first. See [dibs.Ledger].
func (s *Store) ListFindings(ctx context.Context, f dibs.FindingFilter) ([]dibs.Finding, error) {
	st, err := s.own("finding_list", present(map[string]bool{
		"job": f.Job != "", "run": f.Run != "", "work_id": f.WorkID != "", "kind": f.Kind != "",
	})...)
	if err != nil {
		return nil, err
	}
	b := Binds{"job": f.Job, "run": f.Run, "work_id": f.WorkID, "kind": string(f.Kind), "limit": limitOf(f.Limit)}
	var list []dibs.Finding
	err = s.reading(ctx, "list findings", func() error {
		list = nil
		return query(ctx, s.db, st, b, func(rows *sql.Rows) error {
			var one dibs.Finding
			err := rows.Scan(&one.ID, into(&one.RunID), into(&one.Job), into(&one.WorkID), into(&one.Key), into(&one.Kind),
				into(&one.DestinationID), rawInto{&one.Evidence}, into(&one.Detail), timeInto{&one.FoundAt})
			list = append(list, one)
			return err
		})
	})
	return list, err
}
