package cli

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/dibs-run/dibs/internal/config"
)

// redactor hides the secrets of every file that was ever read from the log. It
// is safe for concurrent use.
type redactor struct {
	mu    sync.Mutex
	files []*config.File
}

// add makes the secrets of a file known; nil: it has none.
func (r *redactor) add(f *config.File) {
	if f == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Those of a file before the last are still in runs that it defined; files
	// without a difference to the last are not worth keeping.
	if n := len(r.files); n > 0 && slices.Equal(r.files[n-1].Secrets(), f.Secrets()) {
		r.files[n-1] = f
		return
	}
	r.files = append(r.files, f)
}

func (r *redactor) redact(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.files {
		text = f.Redact(text)
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
