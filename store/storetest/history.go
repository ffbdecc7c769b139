package storetest

import (
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs"
)

// History makes random histories of claims, renewals, settlements and what
// befalls rows meanwhile, by several workers, and compares every answer and every
// row with a small model. A failure prints the shortest history that it found and
// the seed to repeat it. DIBS_SOAK (a duration) makes it go on for that long.
func History(t *testing.T, c Config) {
	t.Parallel()
	b := c.bundle(t)
	b.full(historyRows)
	end := time.Now()
	if soak := os.Getenv("DIBS_SOAK"); soak != "" {
		d, err := time.ParseDuration(soak)
		b.must("DIBS_SOAK", err)
		end = end.Add(d)
	}
	for {
		rapid.Check(t, func(rt *rapid.T) { oneHistory(b, rt) })
		if t.Failed() || !time.Now().Before(end) {
			return
		}
	}
}

const (
	historyRows    = 5
	historyWorkers = 3
	historySteps   = 12
)

// oneHistory starts with fresh rows and draws its steps.
func oneHistory(b *bundle, rt *rapid.T) {
	b.fresh(historyRows)
	m := &model{bundle: b, rt: rt, rows: map[string]*modelRow{}}
	for id := 1; id <= historyRows; id++ {
		m.rows[keyOf(id).String()] = newModelRow()
	}
	for range historyWorkers {
		m.workers = append(m.workers, &worker{run: b.start()})
	}
	steps := m.steps()
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, len(steps)-1), 1, historySteps).Draw(rt, "steps") {
		m.what = steps[n].name
		steps[n].do()
		m.compare()
	}
	m.what = "the end"
	m.compareOutcomes()
}

type step struct {
	name string
	do   func()
}

// steps may hold one twice, to make it likelier.
func (m *model) steps() []step {
	return []step{
		{"claim", m.claimStep}, {"claim again", m.claimStep}, {"claim by key", m.keyStep}, {"settle", m.settleStep},
		{"settle again", m.settleStep}, {"renew", m.renewStep}, {"expire", m.expireStep}, {"make due", m.dueStep},
		{"delete and insert", m.reinsertStep}, {"lock a row", m.lockStep}, {"find", m.findStep}, {"settle twice", m.repeatStep},
	}
}

func (m *model) worker() *worker {
	return m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(m.rt, "worker")]
}

func (m *model) key() string {
	return keyOf(rapid.IntRange(1, historyRows).Draw(m.rt, "row")).String()
}

// claimed draws one of the claims that were ever made; nil when there is none.
func (m *model) claimed() *modelClaim {
	if len(m.claimsMade) == 0 {
		return nil
	}
	return m.claimsMade[rapid.IntRange(0, len(m.claimsMade)-1).Draw(m.rt, "claim")]
}

func (m *model) claimStep() { m.claimRows(m.worker(), "") }

// claimRows claims up to a few rows; a locked one must be passed over.
func (m *model) claimRows(w *worker, locked string) {
	due, err := m.claims.Rows(m.Context(), dibs.RowFilter{Due: true, Scope: dibs.Scope{Lease: lease}})
	m.no(err)
	var want []string
	for _, row := range due {
		key := row.Key.String()
		if !m.rows[key].due {
			m.rt.Fatalf("%s: row %s is listed as due: %+v", m.what, key, row)
		}
		if key != locked {
			want = append(want, key)
		}
	}
	for key, row := range m.rows {
		if row.due && key != locked && !strings.Contains(" "+strings.Join(want, " ")+" ", " "+key+" ") {
			m.rt.Fatalf("%s: row %s is due and not listed", m.what, key)
		}
	}
	q := m.request(w.run, rapid.IntRange(1, 4).Draw(m.rt, "limit"))
	got, err := m.claims.Claim(m.Context(), q)
	m.no(err)
	if expect := strings.Join(want[:min(q.Limit, len(want))], " "); names(got.Items) != expect || got.Over {
		m.rt.Fatalf("%s of up to %d gave %q, want %q", m.what, q.Limit, names(got.Items), expect)
	}
	for _, h := range got.Items {
		m.take(w, h)
	}
}

func (m *model) keyStep() {
	w, key := m.worker(), m.key()
	row := m.rows[key]
	got, err := m.claims.Claim(m.Context(), m.request(w.run, 1, byKey(key)))
	m.no(err)
	if free := row.status != dibs.StatusInProgress || row.due; len(got.Items) == 1 != free {
		m.rt.Fatalf("%s %s gave %+v, the row is %+v", m.what, key, got.Items, row)
	}
	for _, h := range got.Items {
		m.take(w, h)
	}
}

func (m *model) settleStep() {
	c := m.claimed()
	if c == nil {
		return
	}
	s := m.settlement(c, rapid.IntRange(0, 4).Draw(m.rt, "outcome"))
	m.settleAs(c, s)
}

// repeatStep sends the same settlement twice, as after a lost answer.
func (m *model) repeatStep() {
	c := m.claimed()
	if c == nil {
		return
	}
	s := m.settlement(c, rapid.IntRange(0, 4).Draw(m.rt, "outcome"))
	m.settleAs(c, s)
	m.settleAs(c, s)
}

// settlement is one of the ways in which a claim ends.
func (m *model) settlement(c *modelClaim, which int) dibs.Settlement {
	r, h := c.worker.run, c.held
	switch which {
	case 0:
		return completed(r, h)[0]
	case 1:
		return failed(r, h, lease, "no")
	case 2:
		return outcome(r, h, dibs.OutcomeHeld, dibs.RowChange{Status: dibs.StatusFailed, Attempts: h.Attempts, Expirations: h.Expirations})
	case 3:
		return outcome(r, h, dibs.OutcomeUncertain, dibs.RowChange{Status: dibs.StatusFailed, DueIn: new(time.Duration), Attempts: h.Attempts + 1})
	default:
		return released(r, h)[0]
	}
}

func (m *model) renewStep() { m.renewRows(m.worker(), "") }

// renewRows renews everything that a worker ever claimed.
func (m *model) renewRows(w *worker, locked string) {
	q := dibs.RenewRequest{Run: w.run.Ref(), Lease: lease}
	var asked []*modelClaim
	seen := map[string]bool{}
	for i := len(w.claims) - 1; i >= 0; i-- { // of each row the latest
		if c := w.claims[i]; !seen[c.key] {
			seen[c.key] = true
			asked, q.Items = append(asked, c), append(q.Items, c.held)
		}
	}
	got, err := m.claims.Renew(m.Context(), q)
	m.no(err)
	if got.Run.IsZero() || len(got.Items) != len(asked) {
		m.rt.Fatalf("%s: the run was refused: %+v", m.what, got)
	}
	for i, c := range asked {
		row := m.rows[c.key]
		ours := row.owner() == c
		if got.Items[i].EndsAt.IsZero() == ours {
			m.rt.Fatalf("%s: row %s answered %+v, the model says %t", m.what, c.key, got.Items[i], ours)
		}
		if ours && c.key != locked {
			row.due = false
			if !got.Items[i].EndsAt.After(got.Now) {
				m.rt.Fatalf("%s: row %s was renewed to %s, now is %s", m.what, c.key, got.Items[i].EndsAt, got.Now)
			}
		}
	}
}

// expireStep lets a lease end, whoever has it.
func (m *model) expireStep() {
	key := m.key()
	if row := m.rows[key]; row.status == dibs.StatusInProgress {
		m.change("started_at = "+m.sql.Shift("started_at", past)+", claimable_at = "+m.sql.Shift("claimable_at", past), key)
		row.due = true
	}
}

// dueStep lets the backoff of a row end, or frees a held one.
func (m *model) dueStep() {
	key := m.key()
	if row := m.rows[key]; row.status != dibs.StatusInProgress {
		m.change("claimable_at = "+m.sql.Shift(m.sql.Now, -time.Minute), key)
		row.due = true
	}
}

func (m *model) reinsertStep() {
	key := m.key()
	m.do("DELETE FROM " + m.table + " WHERE " + where(key))
	m.do("INSERT INTO " + m.table + " (id, name) VALUES (" + key + ", 'again')")
	m.rows[key] = newModelRow()
}

// lockStep lets the application lock a row while a worker claims and renews.
func (m *model) lockStep() {
	key, w := m.key(), m.worker()
	if !m.sql.RowLocks {
		m.claimRows(w, "")
		return
	}
	tx, err := m.f.DB.BeginTx(m.Context(), nil)
	m.no(err)
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	_, err = tx.ExecContext(m.Context(), "UPDATE "+m.table+" SET name = 'locked' WHERE "+where(key))
	m.no(err)
	m.claimRows(w, key)
	m.renewRows(w, key)
	m.no(tx.Commit())
}

func (m *model) findStep() {
	c := m.claimed()
	if c == nil {
		return
	}
	found, err := m.claims.Find(m.Context(), c.held.Token)
	m.no(err)
	for _, h := range found {
		if row := m.rows[h.Key.String()]; row.token == nil || row.token.held.Token != h.Token || row.fence != h.Fence {
			m.rt.Fatalf("%s: found %+v, the row is %+v", m.what, h, row)
		}
	}
	n := 0
	for _, row := range m.rows {
		if row.token != nil && row.token.held.Token == c.held.Token {
			n++
		}
	}
	if n != len(found) {
		m.rt.Fatalf("%s: found %d rows of %d by the token %s", m.what, len(found), n, c.held.Token)
	}
}
