package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs"
)

const (
	defaultMaxResponse = 1 << 20
	connectTimeout     = 10 * time.Second
	idleTimeout        = 30 * time.Second
	idlePerHost        = 64
	quotedBody         = 500
)

// sender sends requests, each at most once.
type sender struct {
	client *http.Client
	// traced says that the transport tells when a connection was made.
	traced  bool
	timeout time.Duration
	limit   int64
}

func newSender(subject string, transport http.RoundTripper, timeout time.Duration, limit int64) (sender, error) {
	if timeout < 0 || limit < 0 {
		return sender{}, &dibs.ConfigError{Subject: subject, Field: "limits", Problem: "a limit is negative"}
	}
	if limit == 0 {
		limit = defaultMaxResponse
	}
	if transport == nil {
		transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout: connectTimeout,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        idlePerHost,
			MaxIdleConnsPerHost: idlePerHost,
			IdleConnTimeout:     idleTimeout,

			MaxResponseHeaderBytes: defaultMaxResponse,
		}
	}
	_, traced := transport.(*http.Transport)
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return sender{client: client, traced: traced, timeout: timeout, limit: limit}, nil
}

// answer is what a destination said, as far as it was read.
type answer struct {
	code   int
	header http.Header
	body   []byte
	// broken says why body is not all of it.
	broken error
}

// send makes one attempt. Its error is typed "not applied" if no connection
// was ever made for it.
func (s sender) send(ctx context.Context, b *builder, it dibs.Item) (answer, error) {
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.timeout, dibs.ErrTimeout)
		defer cancel()
	}
	// Any other transport is presumed to have sent what it fails to send.
	var connected atomic.Bool
	connected.Store(!s.traced)
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			// This transport asks again only if nothing was written before.
			if s.traced {
				connected.Store(false)
			}
		},
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := b.request(traced, it)
	if err != nil {
		return answer{}, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		err = b.failed(ctx, err)
		if !connected.Load() {
			return answer{}, dibs.NotApplied(err)
		}
		return answer{}, err
	}
	// Closing early ends the connection instead of reading the rest.
	defer resp.Body.Close()
	a := answer{code: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, s.limit+1))
	switch {
	case err != nil:
		a.broken = errors.New("it broke off")
	case int64(len(a.body)) > s.limit:
		a.body, a.broken = a.body[:s.limit], fmt.Errorf("it is longer than %d bytes", s.limit)
	}
	return a, nil
}

// quotedError is an error whose text has been made fit to be shown.
type quotedError struct {
	text string
	err  error
}

func (e *quotedError) Error() string { return e.text }
func (e *quotedError) Unwrap() error { return e.err }

// failed says why there is no answer, without the address that net/http puts
// into its errors.
func (b *builder) failed(ctx context.Context, err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return &quotedError{text: b.to + ": no answer: " + b.quote([]byte(err.Error())), err: err}
}

// quote makes foreign text fit for an error text.
func (b *builder) quote(text []byte) string {
	return quoteStart([]byte(b.secrets.Replace(string(text))), quotedBody)
}

// failure says what a destination answered.
func (a answer) failure(b *builder) error {
	text := b.to + ": " + statusText(a.code)
	if a.code/100 == 3 {
		text += ": redirects are not followed; put the final address into url"
		if u, err := url.Parse(a.header.Get("Location")); err == nil && u.Host != "" {
			text += " (it points to " + quoteStart([]byte(u.Host), 100) + ")"
		}
		return errors.New(text)
	}
	if quoted := b.quote(a.body); quoted != "" {
		text += ": " + quoted
	}
	return errors.New(text)
}

// document is the body as JSON.
func (a answer) document() (any, error) {
	if a.broken != nil {
		return nil, a.broken
	}
	return decodeJSON(a.body)
}
