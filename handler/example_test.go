package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/handler"
)

func ExampleHTTP() {
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note, err := io.ReadAll(r.Body)
		fmt.Println(r.Method, r.RequestURI, string(note), err)
		fmt.Fprintln(w, `{"id": "n-17"}`)
	}))
	defer crm.Close()

	handle, err := handler.HTTP(handler.HTTPConfig{
		URL:     crm.URL + "/accounts/{external_ref}/notes",
		Body:    `{"ref": "{work_id}", "name": {name}}`,
		Columns: []string{"name", "external_ref"},
		ID:      "/id",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := handle(context.Background(), dibs.Item{
		WorkID:  "crm-sync/sync-note/42/7",
		Payload: json.RawMessage(`{"name": "Ada \"L\"", "external_ref": "a/1"}`),
	})
	fmt.Println(receipt.ID, err)
	// Output:
	// POST /accounts/a%2F1/notes {"ref": "crm-sync/sync-note/42/7", "name": "Ada \"L\""} <nil>
	// n-17 <nil>
}

func ExampleHTTP_faults() {
	_, err := handler.HTTP(handler.HTTPConfig{URL: "https://crm.example/notes/{work_od}"})
	fmt.Println(err)
	// Output:
	// http handler: url: there is no field {work_od}; did you mean {work_id}?
}

func ExampleLookupHTTP() {
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"results": [{"id": "n-17"}]}`)
	}))
	defer crm.Close()

	look, err := handler.LookupHTTP(handler.LookupHTTPConfig{
		URL: crm.URL + "/notes?ref={work_id}", Matches: "/results", ID: "/id",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := look(context.Background(), dibs.Item{WorkID: "crm-sync/sync-note/42/7"})
	fmt.Println(found.Presence, found.Receipt.ID, err)
	// Output:
	// found n-17 <nil>
}
