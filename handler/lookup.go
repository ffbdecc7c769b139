package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dibs-run/dibs"
)

// LookupHTTPConfig describes the request that asks a destination about one
// item. URL is required; every other zero value works. Templates are those of
// [HTTPConfig], except that an empty value in the query cannot be asked about.
type LookupHTTPConfig struct {
	// Method defaults to GET.
	Method  string
	URL     string
	Headers map[string]string
	// Body defaults to none.
	Body string
	// Columns are the names that the item's payload has.
	Columns []string

	// Matches is the JSON pointer to the list of what was found. Without it, the
	// response is the one thing that was found.
	Matches string
	// ID is the JSON pointer to the destination's own name, inside a match (or
	// inside the response).
	ID string
	// Evidence are JSON pointers, beside ID, to what is worth keeping.
	Evidence []string

	// Timeout, MaxResponse and Transport are those of [HTTPConfig]. A response
	// above MaxResponse cannot be told.
	Timeout     time.Duration
	MaxResponse int64
	Transport   http.RoundTripper
}

// LookupHTTP returns a lookup that makes one request for each question. 404
// means absent. 2xx means what its JSON says: with Matches, a list of none is
// absent, of one found, of more with different IDs a duplicate; without, one
// was found. An error means that it cannot be told, and so does every answer
// that is not as described: no JSON, no list, no ID, cut, another status. 401
// and 403 are marked with [dibs.Stop].
func LookupHTTP(c LookupHTTPConfig) (dibs.LookupFunc, error) {
	if c.Method == "" {
		c.Method = http.MethodGet
	}
	const subject = "http lookup"
	b, errBuild := request{
		subject: subject, method: c.Method, url: c.URL, headers: c.Headers, body: c.Body, noBody: c.Body == "",
		columns: c.Columns, query: escapeQueryFull,
	}.build()
	fields, errFields := readFields(subject, c.ID, c.Evidence)
	matches, errMatches := parsePointer(c.Matches)
	if errMatches != nil {
		errMatches = &dibs.ConfigError{Subject: subject, Field: "matches", Problem: errMatches.Error()}
	}
	sender, errSender := newSender(subject, c.Transport, c.Timeout, c.MaxResponse)
	if err := errors.Join(errBuild, errFields, errMatches, errSender); err != nil {
		return nil, err
	}
	l := &httpLookup{builder: b, sender: sender, fields: fields, list: c.Matches != "", matches: matches}
	return l.look, nil
}

type httpLookup struct {
	*builder
	sender  sender
	fields  receiptFields
	list    bool
	matches pointer
}

func (l *httpLookup) look(ctx context.Context, it dibs.Item) (dibs.LookupResult, error) {
	a, err := l.sender.send(ctx, l.builder, it)
	switch {
	case err != nil:
		return dibs.LookupResult{}, err
	case a.code == http.StatusNotFound:
		return dibs.LookupResult{Presence: dibs.PresenceAbsent}, nil
	case a.code == http.StatusUnauthorized || a.code == http.StatusForbidden:
		return dibs.LookupResult{}, dibs.Stop(a.failure(l.builder))
	case a.code/100 != 2:
		return dibs.LookupResult{}, a.failure(l.builder)
	}
	res, err := l.read(a)
	if err != nil {
		return dibs.LookupResult{}, fmt.Errorf("%s: %s: %w", l.to, statusText(a.code), err)
	}
	return res, nil
}

func (l *httpLookup) read(a answer) (dibs.LookupResult, error) {
	doc, err := a.document()
	if err != nil {
		return dibs.LookupResult{}, fmt.Errorf("the response: %w", err)
	}
	found := []any{doc}
	if l.list {
		v, ok := l.matches.find(doc)
		if !ok {
			return dibs.LookupResult{}, errors.New("the response has no list where one was expected")
		}
		if found, ok = v.([]any); !ok {
			return dibs.LookupResult{}, errors.New("what should be the list of matches is none")
		}
	}
	return l.count(found)
}

// count tells none, one and several apart; a match that is listed twice is one.
func (l *httpLookup) count(found []any) (dibs.LookupResult, error) {
	if len(found) == 0 {
		return dibs.LookupResult{Presence: dibs.PresenceAbsent}, nil
	}
	first := l.fields.from(found[0])
	if !l.fields.wantID {
		if len(found) > 1 {
			return dibs.LookupResult{Presence: dibs.PresenceDuplicate, Receipt: first}, nil
		}
		return dibs.LookupResult{Presence: dibs.PresenceFound, Receipt: first}, nil
	}
	var ids []string
	for _, match := range found {
		r := l.fields.from(match)
		if r.ID == "" {
			return dibs.LookupResult{}, errors.New("a match has no usable id")
		}
		if !slices.Contains(ids, r.ID) {
			ids = append(ids, r.ID)
		}
	}
	return foundResult(first, ids)
}
