package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// HTTPConfig describes the request that is made once for each item. URL is
// required; every other zero value works.
//
// URL, header values and body are templates. Fields are {key} {work_id} {fence}
// {attempt} {cycle} {slot} {job} {run} and the names in Columns; {payload.slot}
// reaches a column that is also called slot. Each value is escaped for its
// position: a segment of the path, a query value, a header, a JSON string, a
// JSON value (where the field stands bare), a form value, XML text. A value that
// does not fit its place rejects the item: empty or dots in the path, control
// characters in a header. In URL and headers {{ is the character {; in a body
// braces that hold no field name are text.
type HTTPConfig struct {
	// Method defaults to POST.
	Method string
	// URL is http or https. Fields may stand in its path and its query.
	URL string
	// Headers are added to Content-Type, Dibs-Work-Id, User-Agent and the
	// idempotency key, and win over them.
	Headers map[string]string
	// Body defaults to the item as JSON, except with GET, HEAD and DELETE. Its
	// Content-Type defaults to JSON and decides how fields are escaped.
	Body string
	// NoBody sends none.
	NoBody bool
	// Columns are the names that the item's payload has.
	Columns []string

	// ID is the JSON pointer in the response to the destination's own name for
	// what it did, such as /id.
	ID string
	// Evidence are JSON pointers to what is worth keeping; each is kept under
	// its own text without the first slash.
	Evidence []string
	// Status overrides what status codes mean.
	Status Statuses

	// IdempotencyHeader carries a UUID derived from the work ID. It defaults to
	// Idempotency-Key; "-" means none.
	IdempotencyHeader string
	// Timeout limits one request, beside the context's own deadline. Zero: no
	// limit of its own.
	Timeout time.Duration
	// MaxResponse is how many bytes of a response are read; the rest is cut. Zero
	// means 1 MiB.
	MaxResponse int64
	// Transport replaces the connection pool that the handler makes for itself.
	// It must not send a request twice.
	Transport http.RoundTripper
}

// HTTP returns a handler that makes one request for each item and never more
// than one: nothing is sent again by itself, and redirects are not followed
// (credentials would go elsewhere; a 3xx is rejected, naming the host).
//
// By default 2xx means done; 401 and 403 stop the run; other 4xx are rejected;
// 408, 425, 429 and 503 with Retry-After ask for a later attempt, and mean an
// unknown outcome without it, as all other 5xx do. Failure to resolve, connect
// or finish the TLS handshake means not applied; once there was a connection,
// failure means unknown.
func HTTP(c HTTPConfig) (dibs.Handle, error) {
	if c.Method == "" {
		c.Method = http.MethodPost
	}
	switch c.IdempotencyHeader {
	case "":
		c.IdempotencyHeader = "Idempotency-Key"
	case "-":
		c.IdempotencyHeader = ""
	}
	const subject = "http handler"
	b, errBuild := request{
		subject: subject, method: c.Method, url: c.URL, headers: c.Headers, body: c.Body, noBody: c.NoBody,
		columns: c.Columns, idempotencyHeader: c.IdempotencyHeader, query: escapeQuery, once: true,
	}.build()
	table, errStatus := newStatusTable(c.Status)
	fields, errFields := readFields(subject, c.ID, c.Evidence)
	if errStatus != nil {
		errStatus = &dibs.ConfigError{Subject: subject, Field: "status", Problem: errStatus.Error()}
	}
	sender, errSender := newSender(subject, c.Transport, c.Timeout, c.MaxResponse)
	if err := errors.Join(errBuild, errStatus, errFields, errSender); err != nil {
		return nil, err
	}
	h := &httpHandler{builder: b, sender: sender, table: table, fields: fields}
	return h.handle, nil
}

type httpHandler struct {
	*builder
	sender sender
	table  statusTable
	fields receiptFields
}

func (h *httpHandler) handle(ctx context.Context, it dibs.Item) (dibs.Receipt, error) {
	a, err := h.sender.send(ctx, h.builder, it)
	if err != nil {
		return dibs.Receipt{}, err
	}
	means := h.table.of(a.code)
	if means == done {
		return h.fields.receipt(a), nil
	}
	err = a.failure(h.builder)
	after, wished := retryAfter(a.header, time.Now())
	switch {
	case (means == busy || means == later) && wished:
		return dibs.Receipt{}, fmt.Errorf("%w: %w", err, dibs.Later(after))
	case means == later:
		err = dibs.NotApplied(err)
	case means == rejected:
		err = dibs.Reject(err)
	case means == stop:
		err = dibs.Stop(err)
	}
	return dibs.Receipt{}, err
}

// receiptFields says where in a response the receipt is.
type receiptFields struct {
	wantID   bool
	id       pointer
	evidence []pointer
	names    []string
}

func readFields(subject, id string, evidence []string) (receiptFields, error) {
	f := receiptFields{wantID: id != ""}
	var faults []error
	read := func(field, s string) pointer {
		p, err := parsePointer(s)
		if err != nil {
			faults = append(faults, &dibs.ConfigError{Subject: subject, Field: field,
				Problem: fmt.Sprintf("%q: %v", quoteStart([]byte(s), 60), err)})
		}
		return p
	}
	f.id = read("id", id)
	for _, s := range slices.Sorted(slices.Values(evidence)) {
		f.evidence = append(f.evidence, read("evidence", s))
		f.names = append(f.names, strings.TrimPrefix(s, "/"))
	}
	return f, errors.Join(faults...)
}

// receipt reads what was asked for; what is missing never undoes the status.
func (f receiptFields) receipt(a answer) dibs.Receipt {
	var r dibs.Receipt
	if !f.wantID && len(f.evidence) == 0 {
		return r
	}
	doc, err := a.document()
	if err != nil {
		noteProblem(&r, "the response: "+err.Error())
		return r
	}
	return f.from(doc)
}

// from reads the receipt out of a decoded document.
func (f receiptFields) from(doc any) dibs.Receipt {
	var r dibs.Receipt
	for i, p := range f.evidence {
		if v, ok := p.find(doc); ok {
			addEvidence(&r, f.names[i], v)
		}
	}
	if !f.wantID {
		return r
	}
	v, ok := f.id.find(doc)
	if !ok {
		noteProblem(&r, "the response has no id where one was expected")
		return r
	}
	id, err := receiptID(v)
	if err != nil {
		noteProblem(&r, "id: "+err.Error())
	}
	r.ID = id
	return r
}
