package cli

import (
	"context"
	"log/slog"
	"strings"
)

// logHandler writes the runner's warnings and errors as lines that begin with
// "dibs:", secrets replaced.
type logHandler struct {
	app   *app
	attrs []slog.Attr
}

func newLogHandler(a *app) slog.Handler { return &logHandler{app: a} }

// Enabled is true from warnings on.
func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle writes one line in one write, so that several goroutines may.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("dibs: " + r.Message)
	add := func(a slog.Attr) bool {
		b.WriteString(" " + a.Key + "=" + strings.ReplaceAll(a.Value.String(), "\n", " "))
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	_, err := h.app.log.Write([]byte(h.app.opened.redact(b.String()) + "\n"))
	return err
}

// WithAttrs keeps attributes for later records.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{app: h.app, attrs: append(append([]slog.Attr(nil), h.attrs...), attrs...)}
}

// WithGroup is not used by anything below.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
