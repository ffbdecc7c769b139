package sqlstore

import (
	"strings"

	"github.com/dibs-run/dibs"
)

// The conditions under which rows are taken, listed and counted. Each exists
// once, here.

// startedBefore is true for rows whose started_at is NULL or before the instant,
// floored to the column's precision.
func (w writer) startedBefore(bind string) string {
	c := w.m.startedAt
	return either(w.col(c)+" IS NULL",
		w.q.Before(c, w.col(c), alignDown(w.q, &c, w.q.BindInt(bind)), true))
}

// inScope keeps a run from attempting a row twice, and a retry run from doing
// the whole table again.
func (w writer) inScope() string {
	if w.plain {
		return w.startedBefore("started_before")
	}
	return all(w.startedBefore("started_before"),
		"("+w.col(w.m.status)+" <> "+w.label(dibs.StatusIdle)+" OR "+w.startedBefore("idle_before")+")")
}

// ourClaim is false for a row in progress whose due time does not lie after its
// start: foreign code claimed it and left our columns alone.
func (w writer) ourClaim() string {
	m := w.m
	later := w.col(m.claimableAt) + " > " + w.col(m.startedAt)
	if a, b := m.claimableAt, m.startedAt; a.Loose || b.Loose || a.Form != b.Form || a.Shape != b.Shape || a.Cast != b.Cast {
		later = w.q.Micros(m.claimableAt, w.col(m.claimableAt)) + " > " + w.q.Micros(m.startedAt, w.col(m.startedAt))
	}
	return either(w.col(m.status)+" <> "+w.label(dibs.StatusInProgress), w.col(m.startedAt)+" IS NULL", later)
}

func (w writer) claimable() string {
	return w.col(w.m.status) + " IN (" + w.label(dibs.StatusIdle) + ", " + w.label(dibs.StatusInProgress) + ", " + w.label(dibs.StatusFailed) + ")"
}

func (w writer) dueNow() string {
	c := w.m.claimableAt
	return w.q.Before(c, w.col(c), w.now(), false)
}

// due is what a claim may take from a full table.
func (w writer) due() string {
	return all(w.claimable(), w.dueNow(), w.ourClaim(), w.keysThere(), w.inScope(), w.where())
}

// byKey is what a claim of one row may take: it need not be due, but nobody may
// have it.
func (w writer) byKey() string {
	free := either(w.col(w.m.status)+" <> "+w.label(dibs.StatusInProgress), w.dueNow())
	guard := w.ourClaim()
	if w.m.two {
		free, guard = either(w.col(w.m.status)+" <> "+w.label(dibs.StatusInProgress), w.startedAgo("lease")), ""
	}
	return all(w.keyBound(), w.claimable(), free, guard, w.inScope(), w.where())
}

// keyBound matches the key in the binds k0, k1, ….
func (w writer) keyBound() string {
	var out []string
	for i, k := range w.m.keys {
		out = append(out, w.col(k)+" = "+w.q.Value(k, w.q.BindText("k"+itoa(int64(i)))))
	}
	return strings.Join(out, " AND ")
}

// afterMark lets a scan start at the low-water mark.
func (w writer) afterMark() string {
	m := w.m
	columns := []string{w.col(m.claimableAt)}
	values := []string{w.q.Again(m.claimableAt, w.q.BindInt("mark"))}
	for i, k := range m.keys {
		columns = append(columns, w.col(k))
		values = append(values, w.q.Value(k, w.q.BindText("mark_k"+itoa(int64(i)))))
	}
	return w.q.AtOrAfter(columns, values)
}

// A two-column table is searched class by class, each by the index on status
// and started_at.
type class int

const (
	classExpired class = iota
	classFailed
	classFresh
	classIdle
	classes
)

func (w writer) startedAgo(bind string) string {
	c := w.m.startedAt
	return w.q.Before(c, w.col(c), w.now()+" - "+w.q.BindInt(bind), false)
}

func (w writer) class(c class) string {
	started := w.col(w.m.startedAt)
	var which string
	switch c {
	case classExpired:
		which = all(w.is(dibs.StatusInProgress), w.startedAgo("lease"), w.startedEarlier("started_before"))
	case classFailed:
		which = all(w.is(dibs.StatusFailed), w.startedAgo("backoff"), w.startedEarlier("started_before"))
	case classFresh:
		which = all(w.col(w.m.status)+" IN ("+w.label(dibs.StatusIdle)+", "+w.label(dibs.StatusFailed)+")", started+" IS NULL")
	default:
		which = all(w.is(dibs.StatusIdle), w.startedAgo("every"), w.startedEarlier("started_before"), w.startedEarlier("idle_before"))
	}
	return all(which, w.keysThere(), w.where())
}

func (w writer) startedEarlier(bind string) string {
	c := w.m.startedAt
	return w.q.Before(c, w.col(c), alignDown(w.q, &c, w.q.BindInt(bind)), true)
}

// anyClass is all classes in one condition, for lists.
func (w writer) anyClass() string {
	var out []string
	for c := range classes {
		out = append(out, "("+w.class(c)+")")
	}
	return either(out...)
}

// orphaned are the rows that no claim can pick up.
func (w writer) orphaned() string {
	return either("("+w.withoutLease()+")", "("+w.withoutDue()+")")
}

func (w writer) withoutLease() string {
	m := w.m
	if m.two {
		return all(w.is(dibs.StatusInProgress), w.col(m.startedAt)+" IS NULL", w.keysThere())
	}
	return all(w.is(dibs.StatusInProgress),
		either(w.col(m.claimableAt)+" IS NULL", "NOT "+w.ourClaim()), w.keysThere())
}

func (w writer) withoutDue() string {
	if w.m.two {
		return "1 = 0"
	}
	return all(w.is(dibs.StatusIdle), w.col(w.m.claimableAt)+" IS NULL", w.keysThere())
}

// proof is what every later write shows: token, fence and in progress; in a
// two-column table the exact stamp and in progress.
func (w writer) proof() string {
	m := w.m
	if m.two {
		return all(w.is(dibs.StatusInProgress),
			w.q.Micros(m.startedAt, w.col(m.startedAt))+" = "+w.q.Int(w.q.Field("b")))
	}
	return all(w.is(dibs.StatusInProgress),
		w.col(m.claimToken)+" = "+w.q.Value(m.claimToken, w.q.Field("t")),
		w.col(m.fence)+" = "+w.q.Int(w.q.Field("f")))
}

// renewProof also accepts, in a two-column table, a stamp between ours and our
// lease's end: a renewal of ours whose answer was lost wrote it, since nobody
// else could claim the row before that end.
func (w writer) renewProof() string {
	m := w.m
	if !m.two {
		return w.proof()
	}
	stamp := w.q.Micros(m.startedAt, w.col(m.startedAt))
	mine := w.q.Int(w.q.Field("b"))
	return all(w.is(dibs.StatusInProgress), stamp+" >= "+mine, stamp+" < "+mine+" + "+w.q.BindInt("lease"))
}
