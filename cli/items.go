package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
)

// itemFlags choose rows.
type itemFlags struct {
	listFlags
	failed, inProgress, quarantined, due, orphaned bool
	key                                            string
}

func (a *app) itemsCommand() *cobra.Command {
	var f itemFlags
	c := &cobra.Command{
		Use:   "items JOB",
		Short: "List a job's rows and where each stands",
		Long: "Lists rows of the job's table: state, which run has it on which host and for how\n" +
			"long, attempts, the last error, when it is due. Reads without a lock.",
		Example:           "  dibs items crm-sync --failed\n  dibs items crm-sync --in-progress\n  dibs items crm-sync --key acct-0113 --json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
	}
	fl := c.Flags()
	fl.BoolVar(&f.failed, "failed", false, "only failed rows")
	fl.BoolVar(&f.inProgress, "in-progress", false, "only rows in progress")
	fl.BoolVar(&f.quarantined, "quarantined", false, "only rows whose retry budget is spent")
	fl.BoolVar(&f.due, "due", false, "only rows that a tick would take now, in its order")
	fl.BoolVar(&f.orphaned, "orphaned", false, "only rows in a state that no claim picks up until the next tick's sweep")
	fl.StringVar(&f.key, "key", "", "only the row with this key")
	f.add(c, 50, "rows")
	c.MarkFlagsMutuallyExclusive("failed", "in-progress", "quarantined", "due", "orphaned", "key")
	return command(groupSee, c, func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return a.items(cmd.Context(), args[0], f)
	})
}

// itemState is one row as it is shown.
type itemState struct {
	dibs.Row
	// LeaseEnd is set for a row in progress; Expired tells that it has passed.
	LeaseEnd time.Time `json:"lease_end,omitzero"`
	Expired  bool      `json:"expired,omitempty"`
	// DueAt is when the row may be claimed, zero for never and for a row in
	// progress. Due: that is now.
	DueAt  time.Time    `json:"due_at,omitzero"`
	Due    bool         `json:"due"`
	Holder *dibs.Holder `json:"holder,omitempty"`
}

func (a *app) items(ctx context.Context, name string, f itemFlags) error {
	works, err := a.choose(ctx, []string{name})
	if err != nil {
		return err
	}
	w := works[0]
	t, ok := w.Source.(dibs.Table)
	if !ok {
		return &dibs.ConfigError{Subject: "job " + name, Problem: "has no source, so it has no items", Fix: "see its runs: " + a.program.Name + " runs " + name}
	}
	l, err := a.look(ctx)
	if err != nil {
		return err
	}
	claims, err := l.store.Claims(ctx, t)
	if err != nil {
		return err
	}
	scope, err := scopeOf(w, t, l.now, f.key)
	if err != nil {
		return err
	}
	rows, err := f.rows(ctx, claims, scope)
	if err != nil {
		return err
	}
	list := make([]itemState, len(rows))
	for i, r := range rows {
		if list[i], err = l.item(ctx, r, scope, claims.TwoColumn()); err != nil {
			return err
		}
	}
	if f.json {
		return a.out.json(struct {
			Now   time.Time   `json:"now"`
			Job   string      `json:"job"`
			Table string      `json:"table"`
			Items []itemState `json:"items"`
		}{l.now, name, claims.Table().String(), list})
	}
	if len(list) == 0 {
		a.out.line("no such rows")
		return nil
	}
	l.writeItems(w, list)
	if f.key == "" && len(list) >= f.limit {
		a.out.line("%s", a.out.paint(faint, "the first "+plural(int64(len(list)), "row")+"; --limit shows more"))
	}
	return nil
}

// rows reads what was asked for.
func (f itemFlags) rows(ctx context.Context, claims dibs.Claims, scope dibs.Scope) ([]dibs.Row, error) {
	if f.key != "" {
		row, err := claims.Look(ctx, scope.Key)
		if errors.Is(err, dibs.ErrNotFound) {
			return nil, &dibs.ConfigError{Subject: "table " + claims.Table().String(), Field: "key " + visible(f.key), Problem: "there is no such row", Fix: "give the key as the table has it"}
		}
		return []dibs.Row{row}, err
	}
	filter := dibs.RowFilter{Scope: scope, Limit: f.limit, Due: f.due, Orphaned: f.orphaned}
	switch {
	case f.failed:
		filter.Status = dibs.StatusFailed
	case f.inProgress:
		filter.Status = dibs.StatusInProgress
	case f.quarantined:
		filter.Status = dibs.StatusQuarantined
	}
	return claims.Rows(ctx, filter)
}

// item works out what a row's columns mean.
func (l *look) item(ctx context.Context, r dibs.Row, s dibs.Scope, two bool) (itemState, error) {
	out := itemState{Row: r}
	now := r.Now
	switch r.Status {
	case dibs.StatusInProgress:
		if out.LeaseEnd = r.ClaimableAt; two && !r.StartedAt.IsZero() {
			out.LeaseEnd = r.StartedAt.Add(s.Lease)
		}
		out.Expired = !out.LeaseEnd.IsZero() && !out.LeaseEnd.After(now)
		out.Due = out.Expired
	case dibs.StatusIdle, dibs.StatusFailed:
		out.DueAt = r.ClaimableAt
		if two {
			pause := s.Every
			if r.Status == dibs.StatusFailed {
				pause = s.Backoff
			}
			if out.DueAt = time.Unix(0, 0).UTC(); !r.StartedAt.IsZero() {
				out.DueAt = r.StartedAt.Add(pause)
			}
		}
		out.Due = !out.DueAt.IsZero() && !out.DueAt.After(now)
	}
	out.Due = out.Due && !r.Filtered
	if r.Run != "" && r.Status == dibs.StatusInProgress {
		run, err := l.run(ctx, r.Run)
		if err != nil {
			return out, err
		}
		if run.ID != "" {
			out.Holder = &run.Holder
		}
	}
	return out, nil
}

func (l *look) writeItems(w *work, list []itemState) {
	zone := w.zone()
	t := table{right: map[int]bool{3: true}}
	t.head("KEY", "STATE", "WHEN", "TRIES", "HELD BY", "LAST ERROR")
	for _, it := range list {
		held := ""
		if it.Run != "" && it.Status == dibs.StatusInProgress {
			held = dibs.ShortID(it.Run)
			if it.Holder != nil {
				held += " on " + holderName(*it.Holder)
			}
		}
		state := visible(it.Label)
		if it.Status == "" {
			state += " (unknown)"
		}
		tries := ""
		if it.Attempts > 0 {
			tries = text("%d", it.Attempts).text
		}
		t.add(text("%s", visible(it.Key.String())), cell{state, toneOf(it.Status)}, l.when(it, zone), text("%s", tries),
			text("%s", held), text("%s", oneLine(it.LastError, 200)))
	}
	t.print(l.app.out, "")
}

// when says what time does to a row.
func (l *look) when(it itemState, zone *time.Location) cell {
	now := it.Now
	switch {
	case it.Status == dibs.StatusInProgress && it.LeaseEnd.IsZero():
		return cell{"no lease: the next tick's sweep gives it one", bad}
	case it.Expired:
		return cell{"lease ended " + span(now.Sub(it.LeaseEnd)) + " ago", warn}
	case it.Status == dibs.StatusInProgress:
		return text("lease %s left", span(it.LeaseEnd.Sub(now)))
	case it.Status != dibs.StatusIdle && it.Status != dibs.StatusFailed:
		return text("–")
	case it.Filtered:
		return cell{"left out by where", faint}
	case it.DueAt.IsZero():
		return cell{"never due", bad}
	case !it.Due:
		return text("due in %s", span(it.DueAt.Sub(now)))
	case it.DueAt.Unix() < 86400:
		return text("due")
	}
	return text("due since %s", clock(it.DueAt, now, zone))
}
