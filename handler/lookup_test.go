package handler_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/handler"
)

func TestLookupHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		body string
		want dibs.Presence
		id   string
		ids  int
	}{
		"none":            {200, `{"results":[]}`, dibs.PresenceAbsent, "", 0},
		"one":             {200, `{"results":[{"id":"n-1","at":"noon"}]}`, dibs.PresenceFound, "n-1", 0},
		"one, twice":      {200, `{"results":[{"id":7},{"id":7}]}`, dibs.PresenceFound, "7", 0},
		"two":             {200, `{"results":[{"id":"n-2"},{"id":"n-1"}]}`, dibs.PresenceDuplicate, "n-2", 2},
		"not found":       {404, `x`, dibs.PresenceAbsent, "", 0},
		"no list":         {200, `{}`, "", "", 0},
		"null list":       {200, `{"results":null}`, "", "", 0},
		"object":          {200, `{"results":{"id":"n-1"}}`, "", "", 0},
		"no id":           {200, `{"results":[{"id":"n-1"},{}]}`, "", "", 0},
		"garbage":         {200, `<html>`, "", "", 0},
		"empty":           {200, ``, "", "", 0},
		"too long":        {200, `{"results":[]` + strings.Repeat(" ", 2<<20) + `}`, "", "", 0},
		"gone":            {410, `{"results":[]}`, "", "", 0},
		"redirect":        {302, `{"results":[]}`, "", "", 0},
		"server error":    {500, `{"results":[]}`, "", "", 0},
		"not allowed":     {403, `{"results":[]}`, "", "", 0},
		"nothing at all":  {204, ``, "", "", 0},
		"deep nesting":    {200, strings.Repeat("[", 1<<19), "", "", 0},
		"trailing second": {200, `{"results":[]} {"results":[1]}`, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := answer(t, c.code, c.body)
			look, err := handler.LookupHTTP(handler.LookupHTTPConfig{
				URL: s.URL + "/notes?ref={work_id}", Matches: "/results", ID: "/id", Evidence: []string{"/at"},
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := look(t.Context(), item())
			if got.Presence != c.want || got.Receipt.ID != c.id || len(got.IDs) != c.ids || (err == nil) != (c.want != "") {
				t.Errorf("%+v, %v", got, err)
			}
			if c.code == 403 && !dibs.VerdictOf(err).Stop {
				t.Error("refused credentials do not stop")
			}
		})
	}
}

func TestLookupHTTPAsks(t *testing.T) {
	var got *http.Request
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = io.WriteString(w, `{"id":"n-1"}`)
	})
	look, err := handler.LookupHTTP(handler.LookupHTTPConfig{URL: s.URL + "/notes?ref={work_id}&n={nothing}", Columns: columns, ID: "/id"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := look(t.Context(), item()); err == nil || got != nil {
		t.Errorf("an empty value was asked about: %v", err)
	}
	look, err = handler.LookupHTTP(handler.LookupHTTPConfig{URL: s.URL + "/notes?ref={work_id}", ID: "/id"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := look(t.Context(), item())
	if err != nil || res.Presence != dibs.PresenceFound || got.Method != http.MethodGet || got.FormValue("ref") != item().WorkID ||
		got.Header.Get("Idempotency-Key") != "" || got.ContentLength != 0 {
		t.Errorf("%+v, %v, %v", res, err, got)
	}
	if _, err := handler.LookupHTTP(handler.LookupHTTPConfig{URL: "nowhere", Matches: "x", ID: "y"}); err == nil {
		t.Error("a bad configuration was accepted")
	}
}
