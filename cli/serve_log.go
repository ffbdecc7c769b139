package cli

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/dibs-run/dibs/internal/config"
)

// redactor hides the secrets of every file that was ever read from the log: runs
// that an older file defined may still be at work. It is safe for concurrent
// use.
type redactor struct {
	mu      sync.Mutex
	secrets []string // the longest first, so that no part of one is left
}

// add makes the secrets of a file known; nil: it has none.
func (r *redactor) add(f *config.File) {
	if f == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range f.Secrets() {
		if !slices.Contains(r.secrets, secret) {
			r.secrets = append(r.secrets, secret)
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

func (r *redactor) redact(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// handler writes records as text or JSON, secrets replaced.
func (r *redactor) handler(w io.Writer, form string) slog.Handler {
	options := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if k := a.Value.Kind(); k != slog.KindString && k != slog.KindAny {
			return a
		}
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(r.redact(v))
		case error:
			a.Value = slog.StringValue(r.redact(v.Error()))
		case fmt.Stringer:
			a.Value = slog.StringValue(r.redact(v.String()))
		}
		return a
	}}
	if form == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}
