package handler_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/handler"
)

var columns = []string{"name", "big", "nothing", "slot", "evil"}

func mustHTTP(t *testing.T, c handler.HTTPConfig) dibs.Handle {
	t.Helper()
	h, err := handler.HTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func serve(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

// answer serves a status, headers as "Name: value" and a body.
func answer(t *testing.T, code int, body string, headers ...string) *httptest.Server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})
}

func TestHTTPStatuses(t *testing.T) {
	var (
		completed = dibs.Verdict{Outcome: dibs.OutcomeCompleted}
		again     = dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}
		no        = dibs.Verdict{Outcome: dibs.OutcomeRejected}
		perhaps   = dibs.Verdict{Outcome: dibs.OutcomeUncertain}
		halt      = dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true, Stop: true}
	)
	in := func(d time.Duration) dibs.Verdict {
		return dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true, After: d}
	}
	own := handler.Statuses{Done: []string{"409"}, Later: []string{"423", "5xx"}, Rejected: []string{"500"}, Stop: []string{"402"}}
	for _, c := range []struct {
		code    int
		headers []string
		own     handler.Statuses
		want    dibs.Verdict
	}{
		{code: 200, want: completed}, {code: 201, want: completed}, {code: 204, want: completed},
		{code: 301, headers: []string{"Location: http://elsewhere.invalid/"}, want: no}, {code: 304, want: no},
		{code: 400, want: no}, {code: 404, want: no}, {code: 409, want: no}, {code: 422, want: no},
		{code: 401, want: halt}, {code: 403, want: halt},
		{code: 408, want: perhaps}, {code: 425, want: perhaps}, {code: 429, want: perhaps}, {code: 503, want: perhaps},
		{code: 500, want: perhaps}, {code: 502, want: perhaps}, {code: 599, want: perhaps},
		{code: 429, headers: []string{"Retry-After: 30"}, want: in(30 * time.Second)},
		{code: 503, headers: []string{"Retry-After: 0"}, want: again},
		{code: 503, headers: []string{"Retry-After: 99999999999"}, want: in(24 * time.Hour)},
		{code: 503, headers: []string{"Retry-After: soon"}, want: perhaps},
		{code: 503, headers: []string{"Retry-After: -5"}, want: perhaps},
		{code: 408, headers: []string{"Retry-After: 5"}, want: in(5 * time.Second)},
		{code: 429, headers: []string{"Date: Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After: Wed, 21 Oct 2015 07:30:00 GMT"}, want: in(2 * time.Minute)},
		// A gateway that gave up waiting does not know what was applied.
		{code: 504, headers: []string{"Retry-After: 5"}, want: perhaps},
		{code: 409, own: own, want: completed}, {code: 423, own: own, want: again}, {code: 502, own: own, want: again},
		{code: 500, own: own, want: no}, {code: 402, own: own, want: halt}, {code: 401, own: own, want: halt},
		{code: 502, own: own, headers: []string{"Retry-After: 7"}, want: in(7 * time.Second)},
	} {
		t.Run(fmt.Sprint(c.code, c.headers), func(t *testing.T) {
			s := answer(t, c.code, "", c.headers...)
			_, err := mustHTTP(t, handler.HTTPConfig{URL: s.URL, Status: c.own})(t.Context(), item())
			if got := dibs.VerdictOf(err); got != c.want {
				t.Errorf("verdict %+v, want %+v (%v)", got, c.want, err)
			}
			if err != nil && !strings.Contains(err.Error(), fmt.Sprint(c.code)) {
				t.Errorf("error %q does not tell the status", err)
			}
		})
	}
}

func TestHTTPSendsTheItem(t *testing.T) {
	var got *http.Request
	var body []byte
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	h := mustHTTP(t, handler.HTTPConfig{URL: s.URL + "/notes"})
	if _, err := h(t.Context(), item()); err != nil {
		t.Fatal(err)
	}
	if got.Method != http.MethodPost || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s, %v", got.Method, got.Header)
	}
	var sent struct {
		Key     string
		Payload struct{ Name string }
	}
	if err := json.Unmarshal(body, &sent); err != nil || sent.Key != "42" || sent.Payload.Name != `Ada "L" & co/ö` {
		t.Errorf("body %s: %v", body, err)
	}
	key := got.Header.Get("Idempotency-Key")
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(key) {
		t.Errorf("idempotency key %q", key)
	}
	if id := got.Header.Get("Dibs-Work-Id"); id != item().WorkID {
		t.Errorf("work id %q", id)
	}
	again := item()
	again.Attempt, again.RunID, again.Fence = 9, "run_9", 99
	if _, err := h(t.Context(), again); err != nil || got.Header.Get("Idempotency-Key") != key {
		t.Errorf("another attempt has another key: %v", err)
	}
	again.WorkID += "0"
	if _, err := h(t.Context(), again); err != nil || got.Header.Get("Idempotency-Key") == key {
		t.Errorf("another action has the same key: %v", err)
	}
}

func TestHTTPIdempotencyHeader(t *testing.T) {
	var got http.Header
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	for name, c := range map[string]struct {
		config handler.HTTPConfig
		header string
		want   string
	}{
		"renamed":    {handler.HTTPConfig{IdempotencyHeader: "X-Request-Token"}, "X-Request-Token", "-5"},
		"off":        {handler.HTTPConfig{IdempotencyHeader: "-"}, "Idempotency-Key", ""},
		"own header": {handler.HTTPConfig{Headers: map[string]string{"idempotency-key": "mine-{key}"}}, "Idempotency-Key", "mine-42"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.URL = s.URL
			if _, err := mustHTTP(t, c.config)(t.Context(), item()); err != nil {
				t.Fatal(err)
			}
			if v := got.Values(c.header); (c.want == "" && len(v) > 0) || (c.want != "" && (len(v) != 1 || !strings.Contains(v[0], c.want))) {
				t.Errorf("%s: %q", c.header, v)
			}
		})
	}
}

func TestHTTPTemplatesEscapeByPosition(t *testing.T) {
	var uri, header, body string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		uri, header, body = r.RequestURI, r.Header.Get("X-Ref"), string(b)
	})
	for name, c := range map[string]struct {
		config            handler.HTTPConfig
		uri, header, body string
	}{
		"path and query": {
			config: handler.HTTPConfig{URL: "/a/{name}/x?ref={work_id}&n={name}&e={evil}&z={nothing}&f={fence}", NoBody: true},
			uri: "/a/Ada%20%22L%22%20&%20co%2F%C3%B6/x?ref=crm-sync%2Fsync-note%2F42%2F7&n=Ada+%22L%22+%26+co%2F%C3%B6" +
				"&e=a%0D%0AX-Injected%3A+1&z=&f=3",
		},
		"literal brace": {config: handler.HTTPConfig{URL: "/a%7B/{{x", NoBody: true}, uri: "/a%7B/%7Bx"},
		"header": {
			config: handler.HTTPConfig{URL: "/", NoBody: true, Headers: map[string]string{"X-Ref": "{{{job}/{slot}/{payload.slot}/{run}"}},
			uri:    "/", header: "{crm-sync/2026-03-01T08:00:00Z/morning/run_1",
		},
		"json": {
			config: handler.HTTPConfig{URL: "/", Body: `{"ref": "dibs-{work_id}", "n": "a \"{name}\"", "big": {big}, "s": {name}, "none": {nothing}, "e": "{evil}", "o": {}, "t": "{big}"}`},
			uri:    "/", body: `{"ref": "dibs-crm-sync/sync-note/42/7", "n": "a \"Ada \"L\" \u0026 co/ö\"", "big": 9007199254740993, "s": "Ada \"L\" & co/ö", "none": null, "e": "a\r\nX-Injected: 1", "o": {}, "t": "9007199254740993"}`,
		},
		"form": {
			config: handler.HTTPConfig{URL: "/", Body: "name={name}&x=1", Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
			uri:    "/", body: "name=Ada+%22L%22+%26+co%2F%C3%B6&x=1",
		},
		"xml": {
			config: handler.HTTPConfig{URL: "/", Body: "<n a='{name}'>{ }</n>", Headers: map[string]string{"content-type": "text/xml; charset=utf-8"}},
			uri:    "/", body: "<n a='Ada &#34;L&#34; &amp; co/ö'>{ }</n>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.URL, c.config.Columns = s.URL+c.config.URL, columns
			if _, err := mustHTTP(t, c.config)(t.Context(), item()); err != nil {
				t.Fatal(err)
			}
			if uri != c.uri || header != c.header || !sameBody(body, c.body) {
				t.Errorf("got\n%s\n%s\n%s\nwant\n%s\n%s\n%s", uri, header, body, c.uri, c.header, c.body)
			}
		})
	}
}

// sameBody compares bodies without regard to how JSON strings are escaped.
func sameBody(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil {
		return fmt.Sprint(x) == fmt.Sprint(y) && strings.Contains(a, "9007199254740993")
	}
	return a == b
}

func TestHTTPRejectsItemsThatDoNotFit(t *testing.T) {
	var calls atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	for name, c := range map[string]struct {
		config handler.HTTPConfig
		key    string
	}{
		"empty path segment":    {handler.HTTPConfig{URL: "/a/{nothing}/b"}, "42"},
		"dots in path":          {handler.HTTPConfig{URL: "/a/{key}/b"}, ".."},
		"line break in header":  {handler.HTTPConfig{Headers: map[string]string{"X-Ref": "{evil}"}}, "42"},
		"column is not there":   {handler.HTTPConfig{Body: `{"a": {gone}}`}, "42"},
		"no XML holds a NUL":    {handler.HTTPConfig{Body: `<a>{key}</a>`, Headers: map[string]string{"Content-Type": "text/xml"}}, "a\x00"},
		"work id in the header": {handler.HTTPConfig{}, "work"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.URL, c.config.Columns = s.URL+c.config.URL, append([]string{"gone"}, columns...)
			it := item()
			it.Key = dibs.Key{c.key}
			if c.key == "work" {
				it.WorkID = "a\nb"
			}
			_, err := mustHTTP(t, c.config)(t.Context(), it)
			if dibs.VerdictOf(err).Outcome != dibs.OutcomeRejected {
				t.Errorf("%v", err)
			}
		})
	}
	if calls.Load() != 0 {
		t.Errorf("%d requests were sent", calls.Load())
	}
}

func TestHTTPConfigFaultsComeTogether(t *testing.T) {
	_, err := handler.HTTP(handler.HTTPConfig{
		Method: "PO ST", URL: "https://{name}.example/{nmae}", Columns: columns,
		Headers: map[string]string{"X Y": "", "Connection": "close", "X-A": "{wrok_id}", "X-B": "a\nb", "X-C": "{"},
		Body:    `{"a": {key}, }`, ID: "id", Evidence: []string{"x"}, Timeout: -1,
		Status: handler.Statuses{Done: []string{"2xx", "409", "abc", "9xx"}, Later: []string{"409"}},
	})
	for _, want := range []string{
		`"PO ST" is not a method`, "path and the query only", "did you mean {name}", "X Y: not a header", "not yours to set",
		"did you mean {work_id}", "X-B: control", "X-C: a { begins", "body: it is not JSON", `id: "id": a JSON pointer`, `evidence: "x"`,
		`"abc": want a code`, `"9xx": classes`, `"409" is listed under two`, "negative",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	for address, want := range map[string]string{
		"": "http://", "ftp://x": "http://", "http://": "no host", "https://u:secret@x:port/": "not an address",
		"https://x/a/../b": ". or ..", "https://x/#{key}": "never sent", "https://x/#a": "never sent",
	} {
		if _, err := handler.HTTP(handler.HTTPConfig{URL: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", address, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the fault tells the secret: %v", err)
		}
	}
	for contentType, body := range map[string]string{"application/octet-stream": "{key}", "text/{key}": "a", ";": "a"} {
		c := handler.HTTPConfig{URL: "https://x/", Body: body, Headers: map[string]string{"Content-Type": contentType}}
		if _, err := handler.HTTP(c); err == nil {
			t.Errorf("a body of type %q was accepted", contentType)
		}
	}
}

func TestHTTPReceipts(t *testing.T) {
	for name, c := range map[string]struct{ body, id, evidence, problem string }{
		"id":             {`{"note":{"id":"n-1","at":"noon"}}`, "n-1", "noon", ""},
		"number":         {`{"note":{"id":9007199254740993}}`, "9007199254740993", "", ""},
		"no id":          {`{"note":{"at":"noon"}}`, "", "noon", "no id"},
		"null":           {`{"note":{"id":null}}`, "", "", "neither"},
		"no JSON":        {`<html>`, "", "", "not JSON"},
		"empty":          {``, "", "", "empty"},
		"two documents":  {`{"note":{"id":"n-1"}}{}`, "", "", "follows"},
		"too long":       {`{"note":{"id":"n-1"},"x":"` + strings.Repeat("x", 2<<20) + `"}`, "", "", "longer than"},
		"too long an id": {`{"note":{"id":"` + strings.Repeat("x", 2000) + `"}}`, "", "", "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			s := answer(t, 201, c.body)
			r, err := mustHTTP(t, handler.HTTPConfig{URL: s.URL, ID: "/note/id", Evidence: []string{"/note/at"}})(t.Context(), item())
			if err != nil || r.ID != c.id || r.Evidence["note/at"] != c.evidence || !strings.Contains(r.Evidence["problem"], c.problem) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestHTTPEndlessResponseIsCut(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat("x", 1<<16))
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	r, err := mustHTTP(t, handler.HTTPConfig{URL: s.URL, ID: "/id"})(t.Context(), item())
	if err != nil || r.ID != "" || !strings.Contains(r.Evidence["problem"], "longer than 1048576 bytes") {
		t.Errorf("%+v, %v", r, err)
	}
}
