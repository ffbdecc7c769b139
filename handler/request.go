package handler

import (
	"context"
	"crypto/sha1" //nolint:gosec // RFC 9562 defines version 5 by SHA-1; it protects nothing here
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/dibs-run/dibs"
)

const jsonType = "application/json"

// request describes the request that is made for each item.
type request struct {
	subject string
	method  string
	url     string
	headers map[string]string
	body    string
	noBody  bool
	columns []string
	// idempotencyHeader is empty for none.
	idempotencyHeader string
	query             escaper
	// once says that sending twice would be an attempt too many.
	once bool
}

// builder makes requests out of items.
type builder struct {
	method string
	// to names the destination for people: method, scheme and host.
	to          string
	url         template
	headers     map[string]template
	body        template
	itemBody    bool
	idempotency string
	once        bool
	secrets     *strings.Replacer
}

// build reads the templates, with every fault at once.
func (r request) build() (*builder, error) {
	var faults []error
	fault := func(field string, err error) {
		if err != nil {
			faults = append(faults, &dibs.ConfigError{Subject: r.subject, Field: field, Problem: err.Error()})
		}
	}
	b := &builder{method: strings.ToUpper(r.method), headers: map[string]template{}, once: r.once}
	if !token(b.method) {
		fault("method", fmt.Errorf("%q is not a method", r.method))
	}
	p := parser{columns: r.columns}
	var err error
	b.url, err = p.url(r.url, r.query)
	fault("url", err)
	if err == nil {
		b.to, err = destination(b.method, b.url)
		fault("url", err)
	}
	for name, text := range r.headers {
		fault("headers: "+quoteStart([]byte(name), 60), b.addHeader(p, name, text))
	}
	fault("body", b.setBody(p, r))
	if r.idempotencyHeader != "" {
		b.idempotency = textproto.CanonicalMIMEHeaderKey(r.idempotencyHeader)
		if !token(b.idempotency) {
			fault("idempotency header", fmt.Errorf("%q is not a header's name", r.idempotencyHeader))
		}
	}
	b.secrets = secretsOf(b.headers, r.url)
	return b, errors.Join(faults...)
}

func (b *builder) addHeader(p parser, name, text string) error {
	key := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case !token(name):
		return errors.New("not a header's name")
	case slices.Contains([]string{"Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade"}, key):
		return errors.New("this header is not yours to set")
	case !headerSafe(text):
		return errors.New("control characters cannot be sent in a header")
	}
	if _, twice := b.headers[key]; twice {
		return errors.New("given twice")
	}
	t, err := p.header(text)
	if err != nil {
		return err
	}
	b.headers[key] = t
	return nil
}

func (b *builder) setBody(p parser, r request) error {
	contentType := jsonType
	if t, ok := b.headers["Content-Type"]; ok {
		if t.fields() {
			return errors.New("the header Content-Type cannot hold fields: how a body is escaped depends on it")
		}
		contentType, _ = t.render(nil) // literal text cannot fail
	}
	bodiless := b.method == http.MethodGet || b.method == http.MethodHead || b.method == http.MethodDelete
	switch {
	case r.noBody && r.body != "":
		return errors.New("a body is given although there shall be none")
	case r.body == "":
		b.itemBody = !r.noBody && !bodiless
		return nil
	}
	t, err := p.body(r.body, contentType)
	b.body = t
	return err
}

// destination checks that the address is one, and names it without anything
// that could be secret.
func destination(method string, t template) (string, error) {
	var sample strings.Builder
	for _, p := range t {
		if p.escape == nil {
			sample.WriteString(p.literal)
		} else {
			sample.WriteString("x")
		}
	}
	u, err := url.Parse(sample.String())
	switch {
	case err != nil: // its text would repeat the address
		return "", errors.New("not an address")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("an address begins with http:// or https://")
	case u.Hostname() == "":
		return "", errors.New("the address has no host")
	case u.Fragment != "":
		return "", errors.New("what follows # is never sent")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return "", errors.New("the path has a . or .. in it; write the path that is meant")
		}
	}
	return fmt.Sprintf("%s %s://%s", method, u.Scheme, u.Host), nil
}

// request makes the request of one item. Its errors are typed: nothing was sent.
func (b *builder) request(ctx context.Context, it dibs.Item) (*http.Request, error) {
	v := &values{item: it}
	address, err := b.url.render(v)
	if err != nil {
		return nil, fmt.Errorf("%s: url: %w", b.to, err)
	}
	body, err := b.content(v)
	if err != nil {
		return nil, fmt.Errorf("%s: body: %w", b.to, err)
	}
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, b.method, address, reader)
	if err != nil { // its text would repeat the address
		return nil, dibs.Reject(fmt.Errorf("%s: no request can be made of this item", b.to))
	}
	if body != "" {
		req.Header.Set("Content-Type", jsonType)
	}
	if !headerSafe(it.WorkID) {
		return nil, dibs.Reject(fmt.Errorf("%s: the work ID cannot be sent in a header", b.to))
	}
	req.Header.Set("Dibs-Work-Id", it.WorkID)
	req.Header.Set("User-Agent", "dibs")
	if b.idempotency != "" {
		setOnce(req.Header, b.idempotency, idempotencyKey(it.WorkID))
	}
	for name, t := range b.headers {
		text, err := t.render(v)
		if err != nil {
			return nil, fmt.Errorf("%s: header %s: %w", b.to, name, err)
		}
		if name == "Host" {
			req.Host = text
		}
		setOnce(req.Header, name, text)
	}
	// net/http would send a request by one of these methods again when a reused
	// connection breaks: use each connection once.
	safe := []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}
	req.Close = b.once && slices.Contains(safe, b.method)
	return req, nil
}

func (b *builder) content(v *values) (string, error) {
	if !b.itemBody {
		return b.body.render(v)
	}
	body, err := encodeItem(v.item)
	return string(body), err
}

// setOnce sets a header. Two names make net/http send a request again by
// itself after it may have been received; it knows them by their usual case
// only, and on the wire case has no meaning.
func setOnce(h http.Header, name, text string) {
	if name == "Idempotency-Key" || name == "X-Idempotency-Key" {
		name = strings.ToLower(name)
	}
	h[name] = []string{text}
}

// token tells whether a name may stand as a method or a header's name.
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

// idempotencyKey is a UUID of version 5 made of the work ID: the same in every
// attempt at one action, different for different actions.
func idempotencyKey(workID string) string {
	namespace := [16]byte{0x6b, 0x0a, 0x5e, 0x1c, 0x52, 0x0d, 0x4b, 0x7e, 0x9b, 0x6f, 0x1d, 0x1b, 0x5d, 0x1b, 0x50, 0x01}
	h := sha1.New() //nolint:gosec // see the import
	h.Write(namespace[:])
	h.Write([]byte(workID))
	u := h.Sum(nil)[:16]
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	s := hex.EncodeToString(u)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// minSecret is the length from which a configured word is replaced in quoted
// text; shorter ones would make it unreadable.
const minSecret = 6

// secretsOf collects what must not appear in error texts although a
// destination may echo it: the words of headers, userinfo and query values.
func secretsOf(headers map[string]template, address string) *strings.Replacer {
	var words []string
	for name, t := range headers {
		if name == "Content-Type" || name == "Accept" || name == "User-Agent" {
			continue
		}
		for _, p := range t {
			words = append(words, strings.Fields(p.literal)...)
		}
	}
	if u, err := url.Parse(address); err == nil {
		password, _ := u.User.Password()
		words = append(words, u.User.Username(), password)
		for _, list := range u.Query() {
			words = append(words, list...)
		}
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, w := range words {
		if len(w) >= minSecret && !strings.Contains(w, "{") {
			pairs = append(pairs, w, "[redacted]")
		}
	}
	return strings.NewReplacer(pairs...)
}
