package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs"
)

// probe answers over HTTP how a server is: /healthz while the process lives,
// /readyz while it can write to the database. Nothing can be changed through
// it. It is safe for concurrent use.
type probe struct {
	runs dibs.Runs
	log  *slog.Logger
	// phase says why the server does not work now; empty while it does.
	phase atomic.Pointer[string]

	mu   sync.Mutex
	at   time.Time // of the last try
	last error
}

// Bounds of the look whether the database takes writes.
const (
	readyFor  = time.Second     // how long an answer holds
	readyWait = 2 * time.Second // how long the database has for one
)

// readyLock is the lock whose row is written to prove that it can be. It is
// committed: a full disk or a missing standby shows only then.
const readyLock = "dibs:ready"

func newProbe(runs dibs.Runs, log *slog.Logger) *probe {
	h := &probe{runs: runs, log: log}
	h.say("starting")
	return h
}

// say sets the phase.
func (h *probe) say(phase string) { h.phase.Store(&phase) }

// handler is the whole site map.
func (h *probe) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.alive)
	mux.HandleFunc("GET /readyz", h.ready)
	return mux
}

func (h *probe) alive(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive") }

func (h *probe) ready(w http.ResponseWriter, r *http.Request) {
	if phase := *h.phase.Load(); phase != "" {
		answer(w, http.StatusServiceUnavailable, phase)
		return
	}
	if err := h.write(r.Context()); err != nil {
		// What the driver says may name hosts and users: it is for the log.
		answer(w, http.StatusServiceUnavailable, "the database does not take writes")
		return
	}
	answer(w, http.StatusOK, "ready")
}

// write tries a real write, or gives the answer of a try just made.
func (h *probe) write(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < readyFor {
		return h.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWait) // others wait for this answer too
	defer cancel()
	err := h.runs.Decide(ctx, readyLock, func(context.Context, dibs.Desk) error { return nil })
	if (err == nil) != (h.last == nil) {
		h.log.InfoContext(ctx, "readiness has changed", "ready", err == nil, "err", err)
	}
	h.at, h.last = time.Now(), err
	return err
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

// listening is an HTTP server at work.
type listening struct {
	server *http.Server
	addr   net.Addr
	done   chan error
}

// listen serves on an address until close.
func listen(ctx context.Context, address string, h http.Handler) (*listening, error) {
	var conf net.ListenConfig
	l, err := conf.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &dibs.ConfigError{Subject: "serve", Field: "--listen", Problem: err.Error(), Fix: "choose another address, or off"}
	}
	s := &listening{
		server: &http.Server{
			Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
			IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		},
		addr: l.Addr(), done: make(chan error, 1),
	}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

// close lets requests finish for a moment.
func (s *listening) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
