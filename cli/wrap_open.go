package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/config"
)

// userStateFolder is how [config.Database] names the last of the places where a
// database may be: the only one that is made without being asked for.
const userStateFolder = "the user's state folder"

// openToWrap opens the database for a wrapped command and waits, no longer than
// given, for one that cannot be reached.
func (a *app) openToWrap(ctx context.Context, patience time.Duration) (Store, error) {
	url, source, err := a.database(ctx)
	if err != nil {
		return nil, err
	}
	own := source == userStateFolder && url.Kind == config.SQLite
	if own {
		if err := makeFolder(url.DSN, string(url.Kind)); err != nil {
			return nil, err
		}
	}
	end := time.Now().Add(patience)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		store, err := a.openOnce(ctx, own)
		if err == nil || !a.mayComeBack(url, err) || time.Now().Add(pause).After(end) {
			return store, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// openOnce opens the database and checks that it is ours. Own says that it may
// be made, and its tables too.
func (a *app) openOnce(ctx context.Context, own bool) (Store, error) {
	store, err := a.connect(ctx, own)
	if err != nil {
		return nil, err
	}
	err = store.CheckSchema(ctx)
	if own && errors.Is(err, dibs.ErrSchema) {
		_, err = store.Migrate(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.opened.url, err)
	}
	return store, nil
}

// mayComeBack tells whether waiting can help: a server may be restarting, a file
// is either there or not, though others may be busy with it.
func (a *app) mayComeBack(url config.URL, err error) bool {
	if url.Kind == config.SQLite {
		return strings.Contains(err.Error(), "locked")
	}
	return errors.Is(err, dibs.ErrUnavailable)
}
