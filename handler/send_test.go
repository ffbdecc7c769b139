package handler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/handler"
)

func TestHTTPNotSentIsNotApplied(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS() // its certificate is not trusted
	defer tls.Close()
	plain := answer(t, 200, "")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(dibs.ErrLeaseLost)
	for name, c := range map[string]struct {
		ctx context.Context
		url string
	}{
		"refused":           {t.Context(), "http://" + refused},
		"no such host":      {t.Context(), "http://no-such-host.invalid"},
		"certificate":       {t.Context(), tls.URL},
		"TLS to plain HTTP": {t.Context(), strings.Replace(plain.URL, "http:", "https:", 1)},
		"ended context":     {ended, plain.URL},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mustHTTP(t, handler.HTTPConfig{URL: c.url})(c.ctx, item())
			if got := dibs.VerdictOf(err); got != (dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}) {
				t.Errorf("verdict %+v (%v)", got, err)
			}
			if c.ctx == ended && !errors.Is(err, dibs.ErrLeaseLost) {
				t.Errorf("%v does not say why", err)
			}
		})
	}
}

func TestHTTPOnceSentIsUnknown(t *testing.T) {
	for name, f := range map[string]http.HandlerFunc{
		"answer dropped": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no answer": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"garbage": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "\x00\x1b[31m garbage\r\n\r\n")
				_ = conn.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, f)
			_, err := mustHTTP(t, handler.HTTPConfig{URL: s.URL, Timeout: 300 * time.Millisecond})(t.Context(), item())
			if got := dibs.VerdictOf(err); got != (dibs.Verdict{Outcome: dibs.OutcomeUncertain}) {
				t.Errorf("verdict %+v (%v)", got, err)
			}
			if name == "no answer" && !errors.Is(err, dibs.ErrTimeout) {
				t.Errorf("%v does not say why", err)
			}
			if strings.ContainsAny(err.Error(), "\x00\x1b\r\n") {
				t.Errorf("%q", err)
			}
		})
	}
}

// roundTripper is a transport that tells nothing about connections.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHTTPForeignTransportIsNotTrustedToHaveSentNothing(t *testing.T) {
	c := handler.HTTPConfig{URL: "http://x.invalid", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("lost")
	})}
	if _, err := mustHTTP(t, c)(t.Context(), item()); dibs.VerdictOf(err).Outcome != dibs.OutcomeUncertain {
		t.Errorf("%v", err)
	}
}

// TestHTTPNeverSendsTwice: net/http repeats a request by itself when a reused
// connection ends without an answer, if it believes that it may.
func TestHTTPNeverSendsTwice(t *testing.T) {
	for _, method := range []string{"POST", "PUT", "DELETE", "GET", "OPTIONS"} {
		for _, noBody := range []bool{true, false} {
			t.Run(fmt.Sprint(method, noBody), func(t *testing.T) {
				var calls atomic.Int32
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if calls.Add(1) > 1 {
						panic(http.ErrAbortHandler)
					}
				})
				h := mustHTTP(t, handler.HTTPConfig{Method: method, URL: s.URL, NoBody: noBody})
				if _, err := h(t.Context(), item()); err != nil {
					t.Fatal(err)
				}
				_, err := h(t.Context(), item())
				if dibs.VerdictOf(err).Outcome != dibs.OutcomeUncertain || calls.Load() != 2 {
					t.Errorf("%d requests for two attempts, %v", calls.Load(), err)
				}
			})
		}
	}
}

func TestHTTPFollowsNoRedirect(t *testing.T) {
	var calls atomic.Int32
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := answer(t, code, "", "Location: "+elsewhere.URL+"/?token=secret")
		_, err := mustHTTP(t, handler.HTTPConfig{URL: s.URL})(t.Context(), item())
		if dibs.VerdictOf(err).Outcome != dibs.OutcomeRejected || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), strings.TrimPrefix(elsewhere.URL, "http://")) {
			t.Errorf("%d: %v", code, err)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("%d redirects were followed", calls.Load())
	}
}

func TestHTTPErrorsTellNoSecret(t *testing.T) {
	echo := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		user, password, _ := r.BasicAuth()
		fmt.Fprintln(w, "you said", r.Header.Get("X-Token"), user, password, r.URL.RawQuery, strings.Repeat("long ", 1000))
	})
	drop := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for _, base := range []string{echo.URL, drop.URL, "http://no-such-host.invalid"} {
		address := strings.Replace(base, "http://", "http://secret-user:secret-pass@", 1) + "/hooks/secret-path?k=secret-query"
		h := mustHTTP(t, handler.HTTPConfig{URL: address, Headers: map[string]string{"X-Token": "Bearer secret-token"}})
		_, err := h(t.Context(), item())
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %q", err, err, errors.Unwrap(err)), "secret") || len(err.Error()) > 700 {
			t.Errorf("%v", err)
		}
	}
}

func TestHTTPBodyBrokenOffAfterTheStatusIsDone(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"id":`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	r, err := mustHTTP(t, handler.HTTPConfig{URL: s.URL, ID: "/id"})(t.Context(), item())
	if err != nil || r.ID != "" || !strings.Contains(r.Evidence["problem"], "broke off") {
		t.Errorf("%+v, %v", r, err)
	}
}
