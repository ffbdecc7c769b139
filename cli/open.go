package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/config"
)

// opened is what an invocation has read and opened so far, each at first use.
type opened struct {
	loaded bool
	file   *config.File // nil: there is none
	url    config.URL
	source string // which of the five places named the database
	store  Store
	hide   func(text string) string // instead of the file's own; nil: the file's
}

// redact hides the secrets that the file took from the environment.
func (o *opened) redact(text string) string {
	switch {
	case o.hide != nil:
		return o.hide(text)
	case o.file == nil:
		return text
	}
	return o.file.Redact(text)
}

// config loads the configuration file; nil without an error means that there
// is none.
func (a *app) config(ctx context.Context) (*config.File, error) {
	if a.opened.loaded {
		return a.opened.file, nil
	}
	path, err := config.Find(a.flags.config, a.env)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if a.opened.file, err = config.Load(ctx, path, a.program.Env); err != nil {
			return nil, err
		}
	}
	a.opened.loaded = true
	return a.opened.file, nil
}

// database says which database every command uses, and who named it.
func (a *app) database(ctx context.Context) (config.URL, string, error) {
	if a.opened.source != "" {
		return a.opened.url, a.opened.source, nil
	}
	file, err := a.config(ctx)
	if err != nil {
		return config.URL{}, "", err
	}
	url, source, err := config.Database(a.flags.db, a.env, file)
	if err != nil {
		return config.URL{}, "", err
	}
	a.opened.url, a.opened.source = url, source
	return url, source, nil
}

// connect opens the database without looking at our tables. Create lets a
// missing SQLite file be made.
func (a *app) connect(ctx context.Context, create bool) (Store, error) {
	if a.opened.store != nil {
		return a.opened.store, nil
	}
	url, _, err := a.database(ctx)
	if err != nil {
		return nil, err
	}
	if a.program.Open == nil {
		return nil, &dibs.ConfigError{Subject: a.program.Name, Field: "Open", Problem: "the program opens no database", Fix: "set Program.Open"}
	}
	store, err := a.program.Open(ctx, Database{
		Kind: string(url.Kind), DSN: url.DSN, Installation: url.Installation,
		Create: create, AllowLocal: a.flags.allowLocal, Conns: max(connections, a.conns),
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", url, err)
	}
	if c, ok := store.(io.Closer); ok {
		a.closers = append(a.closers, c)
	}
	a.opened.store = store
	return store, nil
}

// connections is room for one renewal, the work of a few jobs at once, and
// somebody who looks.
const connections = 8

// open opens the database and refuses one whose tables do not fit.
func (a *app) open(ctx context.Context) (Store, error) {
	store, err := a.connect(ctx, false)
	if err != nil {
		return nil, err
	}
	if err := store.CheckSchema(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", a.opened.url, err)
	}
	return store, nil
}

// openToWork opens the database and proves that it takes writes, so that a
// read-only one is told before anything is run instead of being waited for.
func (a *app) openToWork(ctx context.Context) (Store, error) {
	store, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	name, err := dibs.NewTriggerID() // a lock of nobody else's
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	err = store.Decide(ctx, name, func(context.Context, dibs.Desk) error { return errUndo })
	if err != nil && !errors.Is(err, errUndo) {
		return nil, fmt.Errorf("%s: write to it: %w", a.opened.url, err)
	}
	return store, nil
}

// writePatience is how long a database may be read-only or busy, as while
// another server takes over.
const writePatience = 5 * time.Second

// errUndo takes back the write that was only to prove that it can be made.
var errUndo = errors.New("taken back on purpose")
