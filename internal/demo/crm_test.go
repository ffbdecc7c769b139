package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// openCRM opens a CRM on a file.
func openCRM(t *testing.T, file string, rules ...Rule) *CRM {
	t.Helper()
	c, err := NewCRM(CRMConfig{File: file, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask makes a request; status 0: the connection was cut.
func ask(c http.Handler, method, target, body string, header ...string) (status int, text string) {
	r := httptest.NewRequestWithContext(context.Background(), method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	defer func() {
		if v := recover(); v != nil {
			if v != any(http.ErrAbortHandler) {
				panic(v)
			}
			status, text = 0, ""
		}
	}()
	c.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// post sends a note.
func post(c http.Handler, account, work string) int {
	body, _ := json.Marshal(map[string]string{"account": account, "name": "Ö \"x\",\n🚲"})
	status, _ := ask(c, "POST", "/notes", string(body), "Dibs-Work-Id", work, "Dibs-Run", "run_a")
	return status
}

// found looks a work ID up.
func found(t *testing.T, c http.Handler, work string) int {
	t.Helper()
	status, text := ask(c, "GET", "/notes?ref="+work, "")
	var answer struct{ Results []Note }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("look-up: %d %s %v", status, text, err)
	}
	return len(answer.Results)
}

func TestFaultsOfTheCRM(t *testing.T) {
	const second = Duration(time.Second)
	for name, c := range map[string]struct {
		rule       Rule
		status     int
		took       time.Duration
		now, later int // notes found at once, and after ten seconds
	}{
		"none":          {Rule{Fault: FaultSlow}, 200, 0, 1, 1},
		"slow":          {Rule{Fault: FaultSlow, After: second}, 200, time.Second, 1, 1},
		"fail":          {Rule{Fault: FaultFail, Account: "a"}, 500, 0, 0, 0},
		"another fails": {Rule{Fault: FaultFail, Account: "b"}, 200, 0, 1, 1},
		"drop":          {Rule{Fault: FaultDrop}, 0, 0, 1, 1},
		"late":          {Rule{Fault: FaultLate, After: second}, 0, 0, 0, 1},
		"error after":   {Rule{Fault: FaultErrorAfter}, 500, 0, 1, 1},
		"away once":     {Rule{Fault: FaultAway, Times: 1}, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "crm.ndjson")
			synctest.Test(t, func(t *testing.T) {
				crm := openCRM(t, file, c.rule)
				began := time.Now()
				if got := post(crm, "a", "w1"); got != c.status {
					t.Errorf("answered %d, and should %d", got, c.status)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %s, and should %s", took, c.took)
				}
				if got := found(t, crm, "w1"); got != c.now {
					t.Errorf("found %d notes at once, and should %d", got, c.now)
				}
				time.Sleep(10 * time.Second)
				if got := found(t, crm, "w1"); got != c.later {
					t.Errorf("found %d notes later, and should %d", got, c.later)
				}
				if err := crm.Close(); err != nil {
					t.Error(err)
				}
				checkRequest(t, file, c.status, c.later)
			})
		})
	}
}

// checkRequest checks that the CRM's file has the one request.
func checkRequest(t *testing.T, file string, status, notes int) {
	t.Helper()
	all, err := ReadRequests(file)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d requests in the file, %v", len(all), err)
	}
	r := all[0]
	if r.Account != "a" || r.WorkID != "w1" || r.Run != "run_a" || r.Received.IsZero() || r.Answered.IsZero() || r.Status != status {
		t.Errorf("recorded %+v", r)
	}
	if (r.Note != "") != (notes == 1) || len(Notes(all)) != notes {
		t.Errorf("recorded the note %q", r.Note)
	}
}

func TestTheCRMAwayFindsNothingAndComesBack(t *testing.T) {
	crm := openCRM(t, filepath.Join(t.TempDir(), "crm.ndjson"), Rule{Fault: FaultAway})
	defer crm.Close()
	if got := post(crm, "a", "w1"); got != 0 {
		t.Errorf("answered %d although it is away", got)
	}
	if status, _ := ask(crm, "GET", "/notes?ref=w1", ""); status != 0 {
		t.Errorf("answered a look-up with %d although it is away", status)
	}
	if status, text := ask(crm, "PUT", "/rules", `[{"fault":"slow","after":"0s"}]`); status != http.StatusOK {
		t.Fatalf("rules: %d %s", status, text)
	}
	if got := post(crm, "a", "w1"); got != http.StatusOK || found(t, crm, "w1") != 1 {
		t.Errorf("answered %d after it came back", got)
	}
}

func TestOneNotePerWorkIDUnlessTold(t *testing.T) {
	for _, duplicates := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "crm.ndjson")
		crm, err := NewCRM(CRMConfig{File: file, Duplicates: duplicates})
		if err != nil {
			t.Fatal(err)
		}
		post(crm, "a", "w1")
		post(crm, "a", "w1")
		want := 1
		if duplicates {
			want = 2
		}
		if got := found(t, crm, "w1"); got != want {
			t.Errorf("duplicates %v: %d notes", duplicates, got)
		}
		crm.Close()
		all, err := ReadRequests(file)
		if err != nil || len(Notes(all)) != want {
			t.Errorf("duplicates %v: %d notes in the file, %v", duplicates, len(Notes(all)), err)
		}
	}
}

func TestTheCRMRemembersAcrossRestarts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "crm.ndjson")
	crm := openCRM(t, file)
	post(crm, "a", "w1")
	crm.Close()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"event":"received","requ`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	crm = openCRM(t, file)
	defer crm.Close()
	post(crm, "a", "w1")
	post(crm, "b", "w2")
	if found(t, crm, "w1") != 1 || found(t, crm, "w2") != 1 {
		t.Error("a note is missing or twice")
	}
	all, err := ReadRequests(file)
	if err != nil || len(all) != 3 || all[1].Note != all[0].Note || all[2].Note == all[0].Note {
		t.Errorf("%+v %v", all, err)
	}
}

func TestTheCRMRefusesNonsense(t *testing.T) {
	crm := openCRM(t, filepath.Join(t.TempDir(), "crm.ndjson"))
	defer crm.Close()
	for name, c := range map[string]struct{ method, target, body, work string }{
		"no account":     {"POST", "/notes", `{}`, "w1"},
		"no JSON":        {"POST", "/notes", `{`, "w1"},
		"no work ID":     {"POST", "/notes", `{"account":"a"}`, ""},
		"unknown fault":  {"PUT", "/rules", `[{"fault":"fire"}]`, ""},
		"negative times": {"PUT", "/rules", `[{"fault":"fail","times":-1}]`, ""},
	} {
		if status, text := ask(crm, c.method, c.target, c.body, "Dibs-Work-Id", c.work); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

func TestTheShippedAccounts(t *testing.T) {
	all, err := accounts()
	if err != nil {
		t.Fatal(err)
	}
	enabled, ids, text := 0, map[string]bool{}, ""
	for _, a := range all {
		if a.Enabled {
			enabled++
		}
		ids[a.ID] = true
		text += a.Name
	}
	if enabled != 300 || len(all) <= 300 || len(ids) != len(all) || !ids[failing] {
		t.Errorf("%d accounts, %d enabled, %d different IDs", len(all), enabled, len(ids))
	}
	for _, odd := range []string{`"`, "'", ",", "\n", "\t", `\`, "{", "🚲", "ü", ";", "%"} {
		if !strings.Contains(text, odd) {
			t.Errorf("no name has %q", odd)
		}
	}
}
