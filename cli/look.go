package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/config"
)

// look is what the reading commands share. It changes nothing.
type look struct {
	app   *app
	store Store
	file  *config.File // nil: there is none
	// now is the database's time, and skew by how much this host's clock is
	// ahead of it, as well as one round trip can tell.
	now    time.Time
	skew   time.Duration
	holder map[string]dibs.Run // runs read so far, by id
}

// look opens the database for reading and asks for its time.
func (a *app) look(ctx context.Context) (*look, error) {
	file, err := a.config(ctx)
	if err != nil {
		return nil, err
	}
	store, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	l := &look{app: a, store: store, file: file, holder: map[string]dibs.Run{}}
	// The first question may open a connection; the second one is as quick as
	// the network.
	for range 2 {
		sent := time.Now()
		if l.now, err = store.Now(ctx); err != nil {
			return nil, err
		}
		took := time.Since(sent)
		l.skew = sent.Add(took / 2).Sub(l.now)
	}
	return l, nil
}

// zone is where a job's times are shown.
func (l *look) zone(job string) *time.Location {
	if l.file == nil {
		return time.Local
	}
	return zoneOf(l.file.Job(job))
}

// at writes an instant in the job's zone, with the offset where it is not this
// host's, which the head of a list names.
func (l *look) at(t time.Time, job string) string {
	text := clock(t, l.now, l.zone(job))
	if offset := t.In(l.zone(job)).Format("-07:00"); !t.IsZero() && offset != t.In(time.Local).Format("-07:00") {
		text += " " + offset
	}
	return text
}

// offset is this host's offset now.
func (l *look) offset() string { return l.now.In(time.Local).Format("-07:00") }

// knows refuses a name that neither the file, the program nor the database has.
func (l *look) knows(ctx context.Context, job string) error {
	if job == "" || l.file != nil && l.file.Job(job) != nil {
		return nil
	}
	for _, j := range l.app.program.Jobs {
		if j.Name == job {
			return nil
		}
	}
	_, err := l.store.Job(ctx, job)
	if errors.Is(err, dibs.ErrNotFound) {
		return l.app.unknownJob(visible(job))
	}
	return err
}

// run reads a run once; the zero run when it was pruned.
func (l *look) run(ctx context.Context, id string) (dibs.Run, error) {
	if r, ok := l.holder[id]; ok || id == "" {
		return r, nil
	}
	r, err := l.store.Run(ctx, id)
	if errors.Is(err, dibs.ErrNotFound) {
		err = nil
	}
	if err == nil {
		l.holder[id] = r
	}
	return r, err
}

// live tells whether a run goes on and its lease has not ended.
func (l *look) live(r dibs.Run) bool {
	return r.State == dibs.RunRunning && r.Lease.After(l.now)
}

// took is how long a run lasted, or has lasted.
func (l *look) took(r dibs.Run) time.Duration {
	if r.EndedAt.IsZero() {
		return max(l.now.Sub(r.StartedAt), 0)
	}
	return r.EndedAt.Sub(r.StartedAt)
}

// holderName writes a holder for people.
func holderName(h dibs.Holder) string { return visible(h.String()) }

// optional is the one argument that may be left out.
func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// listFlags are shared by the commands that list.
type listFlags struct {
	limit int
	json  bool
}

func (f *listFlags) add(cmd *cobra.Command, limit int, what string) {
	cmd.Flags().IntVar(&f.limit, "limit", limit, "the most "+what+" to list")
	cmd.Flags().BoolVar(&f.json, "json", false, "write JSON")
}

func (f *listFlags) check() error {
	if f.limit <= 0 {
		return usageError("--limit %d: use a positive number", f.limit)
	}
	return nil
}

// oneOf refuses a word that is none of a list.
func oneOf[W, S ~string](flag string, word W, words ...S) error {
	var names []string
	for _, w := range words {
		if string(word) == string(w) {
			return nil
		}
		names = append(names, string(w))
	}
	return usageError("%s %s: use one of %s", flag, visible(string(word)), strings.Join(names, ", "))
}

// more says that a list was cut.
func (o *output) more(shown, limit int, what string) {
	if shown >= limit {
		o.line("%s", o.paint(faint, fmt.Sprintf("the newest %d %s; --limit shows more", shown, what)))
	}
}
