package cli

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs"
)

// dryJob is what a tick of one job would take.
type dryJob struct {
	Job string `json:"job"`
	// Now is the database's time of the look.
	Now   time.Time  `json:"now"`
	Rows  []dibs.Row `json:"rows"`
	Shown int        `json:"shown"`
	// Due counts up to a limit; More says that there are more.
	Due  int64 `json:"due"`
	More bool  `json:"more,omitempty"`
	// Unit is true for a job without rows: the run itself is the item.
	Unit bool `json:"unit,omitempty"`
	// Live are the runs that go on right now.
	Live   []dibs.Run `json:"live"`
	Paused bool       `json:"paused,omitempty"`
}

// Bounds of a dry run.
const (
	dryRows = 20
	dryDue  = 100_000
)

// dryRunOf looks, without a lock and without writing.
func dryRunOf(ctx context.Context, store Store, w *work, f tickFlags) (dryJob, error) {
	d := dryJob{Job: w.Name, Rows: []dibs.Row{}, Live: []dibs.Run{}}
	var err error
	if d.Now, err = store.Now(ctx); err != nil {
		return d, err
	}
	if live, err := store.ListRuns(ctx, dibs.RunFilter{Job: w.Name, State: dibs.RunRunning, Limit: dryRows}); err != nil {
		return d, err
	} else if len(live) > 0 {
		d.Live = live
	}
	state, err := store.Job(ctx, w.Name)
	if err != nil && !errors.Is(err, dibs.ErrNotFound) {
		return d, err
	}
	d.Paused = state.Paused
	t, ok := w.Source.(dibs.Table)
	if !ok {
		d.Unit = true
		return d, nil
	}
	claims, err := store.Claims(ctx, t)
	if err != nil {
		return d, err
	}
	scope, err := scopeOf(w, t, d.Now, f.key)
	if err != nil {
		return d, err
	}
	if d.Due, err = claims.Remaining(ctx, scope, dryDue); err != nil {
		return d, err
	}
	d.More = d.Due >= dryDue
	limit := dryRows
	if f.limit > 0 {
		limit = f.limit
	}
	rows, err := claims.Rows(ctx, dibs.RowFilter{Due: true, Scope: scope, Limit: limit})
	if len(rows) > 0 {
		d.Rows = rows
	}
	d.Shown = len(rows)
	return d, err
}

// scopeOf is the scope of a run that would start now.
func scopeOf(w *work, t dibs.Table, now time.Time, key string) (dibs.Scope, error) {
	s := dibs.Scope{StartedBefore: now, Backoff: w.Retry.Min, Every: max(t.Every, 0), Lease: w.Lease}
	if s.Backoff == 0 {
		s.Backoff = 30 * time.Second
	}
	if s.Lease == 0 {
		s.Lease = defaultLease
	}
	if key == "" {
		return s, nil
	}
	k, err := dibs.ParseKey(key, len(t.KeyColumns()))
	if err != nil {
		return s, &dibs.ConfigError{Subject: "job " + w.Name, Field: "key", Problem: err.Error(), Fix: "give one value per key column"}
	}
	s.Key = k
	return s, nil
}

// write shows the look to people.
func (d dryJob) write(o *output, w *work) {
	zone := w.zone()
	o.line("%s  dry run: nothing is taken, nothing is sent", o.paint(bold, d.Job))
	for _, r := range d.Live {
		o.line("  %s runs on %s since %s, lease ends %s", dibs.ShortID(r.ID), r.Holder, clock(r.StartedAt, d.Now, zone), clock(r.Lease, d.Now, zone))
	}
	if d.Paused {
		o.line("  the job is paused: a tick would be skipped")
	}
	if d.Unit {
		o.line("  one run of the whole job")
		return
	}
	var t table
	for _, r := range d.Rows {
		due := "due"
		if r.ClaimableAt.After(time.Unix(0, 0)) {
			due = "due since " + clock(r.ClaimableAt, d.Now, zone)
		}
		last := ""
		if r.LastError != "" {
			last = firstLine(r.LastError, 60)
		}
		t.add(text("%s", r.Key), cell{r.Label, toneOf(r.Status)}, text("%s", due), text("%s", last))
	}
	t.write(o, "  ")
	more := ""
	if d.More {
		more = " or more"
	}
	o.line("%s due%s, %d shown", plural(d.Due, "row"), more, d.Shown)
}
