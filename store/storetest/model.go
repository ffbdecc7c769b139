package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs"
)

// model is what the table should look like.
type model struct {
	*bundle
	rt         *rapid.T
	what       string
	rows       map[string]*modelRow
	workers    []*worker
	claimsMade []*modelClaim
}

// worker is one run and everything that it ever claimed.
type worker struct {
	run    dibs.Run
	claims []*modelClaim
}

// modelRow is one row. Times are only due or not.
type modelRow struct {
	status      dibs.Status
	due         bool
	token       *modelClaim // whose token is on the row
	fence       dibs.Fence
	attempts    int
	expirations int
	cycle       int64
	succeeded   bool
	text        string
}

func newModelRow() *modelRow { return &modelRow{status: dibs.StatusIdle, due: true} }

// owner is the claim that may write the row.
func (r *modelRow) owner() *modelClaim {
	if r.status != dibs.StatusInProgress || r.token == nil || r.token.held.Fence != r.fence {
		return nil
	}
	return r.token
}

// modelClaim is one row in one claim.
type modelClaim struct {
	worker *worker
	key    string
	held   dibs.Held
	prior  modelRow
	// ended is the outcome on record, late the one recorded late.
	ended, late dibs.Outcome
}

// no fails the history on an error.
func (m *model) no(err error) {
	if err != nil {
		m.rt.Fatalf("%s: %v", m.what, err)
	}
}

func (m *model) do(statement string) {
	_, err := m.f.DB.ExecContext(m.Context(), statement)
	m.no(err)
}

func (m *model) change(set, key string) {
	m.do("UPDATE " + m.table + " SET " + set + " WHERE " + where(key))
}

// take is what a claim does to the model, and what it must have answered.
func (m *model) take(w *worker, h dibs.Held) {
	key := h.Key.String()
	row := m.rows[key]
	c := &modelClaim{worker: w, key: key, held: h, prior: *row}
	var token dibs.Token
	if row.token != nil {
		token = row.token.held.Token
		if row.token.ended == "" {
			row.token.ended = dibs.OutcomeLost
		}
	}
	expirations := row.expirations
	if row.status == dibs.StatusInProgress {
		expirations++
	}
	p := h.Prior
	if p.Status != row.status || p.Token != token || p.Fence != row.fence || p.Expirations != row.expirations ||
		h.Fence != row.fence+1 || h.Attempts != row.attempts || h.Expirations != expirations ||
		row.cycle != 0 && h.Cycle != row.cycle || h.Cycle == 0 || h.LastSuccess.IsZero() == row.succeeded || h.Problem != "" {
		m.rt.Fatalf("%s: row %s was %+v, given as %+v", m.what, key, row, h)
	}
	row.status, row.due, row.token, row.fence = dibs.StatusInProgress, false, c, h.Fence
	row.expirations, row.cycle = expirations, h.Cycle
	w.claims = append(w.claims, c)
	m.claimsMade = append(m.claimsMade, c)
}

// settleAs settles one claim and says what must come of it.
func (m *model) settleAs(c *modelClaim, s dibs.Settlement) {
	got, err := m.claims.Settle(m.Context(), dibs.SettleRequest{Run: c.worker.run.Ref(), Items: []dibs.Settlement{s}})
	m.no(err)
	row := m.rows[c.key]
	ours := row.owner() == c
	ok := ours || c.ended == s.Outcome
	if len(got) != 1 || got[0].OK != ok || got[0].Late == ok || got[0].Err != nil {
		m.rt.Fatalf("%s of row %s as %s: %+v, want %t; the row is %+v", m.what, c.key, s.Outcome, got, ok, row)
	}
	if !ok && c.late == "" {
		c.late = s.Outcome
	}
	if !ours {
		return
	}
	c.ended = s.Outcome
	ch := s.Change
	if ch.Restore {
		fence, cycle := row.fence, row.cycle
		*row = c.prior
		row.fence, row.cycle = fence, cycle
		return
	}
	row.status, row.token, row.attempts, row.expirations, row.text = ch.Status, nil, ch.Attempts, ch.Expirations, ch.Error
	row.due = ch.DueIn != nil && *ch.DueIn <= 0
	if ch.Succeeded {
		row.cycle++
		row.succeeded = true
	}
}

// compare reads all rows.
func (m *model) compare() {
	rows, err := m.claims.Rows(m.Context(), dibs.RowFilter{})
	m.no(err)
	if len(rows) != len(m.rows) {
		m.rt.Fatalf("after %s: %d rows", m.what, len(rows))
	}
	for _, have := range rows {
		want := m.rows[have.Key.String()]
		var token dibs.Token
		if want.token != nil {
			token = want.token.held.Token
		}
		due := !have.ClaimableAt.IsZero() && !have.ClaimableAt.After(have.Now)
		if have.Status != want.status || have.Token != token || have.Fence != want.fence || due != want.due ||
			have.Attempts != want.attempts || have.Expirations != want.expirations || have.Cycle != want.cycle ||
			have.LastSuccess.IsZero() == want.succeeded || have.LastError != want.text {
			m.rt.Fatalf("after %s: row %s is %+v\nwant %+v", m.what, have.Key, have, want)
		}
	}
}

// compareOutcomes reads what was recorded: of each claim at most one outcome and
// one late one.
func (m *model) compareOutcomes() {
	type record struct {
		token dibs.Token
		key   string
		late  bool
	}
	have := map[record]dibs.Outcome{}
	for _, w := range m.workers {
		list, err := m.store.ListOutcomes(m.Context(), dibs.OutcomeFilter{Run: w.run.ID, Limit: 10_000})
		m.no(err)
		for _, o := range list {
			have[record{o.Token, o.Key, o.Late}] = o.Outcome
			if o.RecordedAt.Before(w.run.StartedAt.Add(-time.Second)) {
				m.rt.Fatalf("recorded at %s, before its run", o.RecordedAt)
			}
		}
	}
	for _, c := range m.claimsMade {
		for late, want := range map[bool]dibs.Outcome{false: c.ended, true: c.late} {
			r := record{c.held.Token, c.key, late}
			if have[r] != want {
				m.rt.Fatalf("%+v is recorded as %q, want %q", r, have[r], want)
			}
			delete(have, r)
		}
	}
	if len(have) != 0 {
		m.rt.Fatalf("also recorded: %+v", have)
	}
}
