package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/demo"
	"github.com/dibs-run/dibs/internal/testdb"
)

// crmWorld is a world whose job writes notes to the demo's CRM, which makes
// every request a note of its own: what is sent twice is there twice.
func crmWorld(t *testing.T, kind, url, binary string, n int, onUncertain string, rules []demo.Rule) (*world, *httptest.Server) {
	t.Helper()
	w := newWorld(t, kind, url, binary, n, "")
	crm, err := demo.NewCRM(demo.CRMConfig{File: filepath.Join(t.TempDir(), "crm.ndjson"), Rules: rules, Duplicates: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(crm)
	t.Cleanup(func() {
		server.Close()
		if err := crm.Close(); err != nil {
			t.Error(err)
		}
	})
	w.file("dibs.yaml", 0o600, fmt.Sprintf(`database: %q
jobs:
  sync:
    overlap: allow
    on_uncertain: %s
    source: {table: accounts, key: id, every: 1h, columns: {last_error: last_error}}
    operation: note
    batch: 4
    concurrency: 2
    lease: 3s
    timeout: 1s
    lookup_after: 3s
    retry: {backoff: 1s..1s}
    handler: {http: {url: "%s/notes", body: '{"account": "{key}"}', id: /id}}
    lookup: {http: {url: "%s/notes?ref={work_id}", matches: /results, id: /id}}
`, url, onUncertain, server.URL, server.URL))
	return w, server
}

// notes counts the CRM's notes by account.
func notes(t *testing.T, server *httptest.Server) map[string]int {
	t.Helper()
	res, err := http.Get(server.URL + "/notes")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var body struct{ Results []demo.Note }
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, note := range body.Results {
		n[note.Account]++
	}
	return n
}

// tickUntil ticks until a query gives what is wanted; exit codes other than
// those given are faults.
func (w *world) tickUntil(want, query string, codes string) {
	w.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	pause := time.NewTicker(300 * time.Millisecond)
	defer pause.Stop()
	for w.one(query) != want {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s gives %s, want %s", query, w.one(query), want)
		}
		<-pause.C
		if out, code := w.run("tick", "sync"); !strings.Contains(codes, fmt.Sprint(code)) {
			w.t.Fatalf("tick: exit %d\n%s", code, out)
		}
	}
}

// faults are all that the CRM can do to a caller, one account each.
func faults() []demo.Rule {
	return []demo.Rule{
		{Fault: demo.FaultDrop, Account: "a001", Times: 1},
		{Fault: demo.FaultLate, Account: "a002", Times: 1, After: demo.Duration(1500 * time.Millisecond)},
		{Fault: demo.FaultErrorAfter, Account: "a003", Times: 1},
		{Fault: demo.FaultSlow, Account: "a004", Times: 1, After: demo.Duration(2 * time.Second)},
		{Fault: demo.FaultAway, Account: "a005", Times: 1},
	}
}

const settledRows = "SELECT count(*) FROM accounts WHERE status = 'IDLE' AND attempts = 0 AND last_error IS NULL AND started_at IS NOT NULL"

// TestUncertainOutcomes: whatever the destination does to a caller, each action
// is there exactly once under lookup; never twice under hold, where a person has
// the rest; and twice under replay, which is the risk that the word declares.
func TestUncertainOutcomes(t *testing.T) {
	binary := buildBinary(t)
	for _, s := range []struct {
		on   string
		play func(w *world, crm *httptest.Server)
	}{
		{"lookup", func(w *world, crm *httptest.Server) {
			w.tickUntil("6", settledRows, "034")
			w.want("6", "SELECT count(*) FROM dibs_effects WHERE state = 'confirmed' AND destination_id IS NOT NULL AND lease_end IS NULL")
			for key, n := range notes(w.t, crm) {
				if n != 1 {
					w.t.Errorf("%s has %d notes", key, n)
				}
			}
		}},
		{"hold", func(w *world, crm *httptest.Server) {
			if out, code := w.run("tick", "sync"); code != 4 {
				w.t.Errorf("tick: exit %d\n%s", code, out)
			}
			w.want("5", "SELECT count(*) FROM dibs_effects WHERE state = 'held'")
			w.want("5", "SELECT count(*) FROM accounts WHERE status = 'FAILED' AND claimable_at IS NULL")
			if out, code := w.run("tick", "sync"); code != 0 {
				w.t.Errorf("a second tick: exit %d\n%s", code, out)
			}
			for key, n := range notes(w.t, crm) {
				if n > 1 {
					w.t.Errorf("%s has %d notes", key, n)
				}
			}
		}},
		{"replay", func(w *world, crm *httptest.Server) {
			w.tickUntil("6", settledRows, "03")
			w.want("0", "SELECT count(*) FROM dibs_effects")
			if n := notes(w.t, crm); n["a001"] != 2 || n["a005"] != 1 {
				w.t.Errorf("replay repeats what was stored, and only that: %v", n)
			}
		}},
	} {
		t.Run(s.on, func(t *testing.T) {
			t.Parallel()
			testdb.All(t, func(t *testing.T, kind, url string) {
				w, crm := crmWorld(t, kind, url, binary, 6, s.on, faults())
				s.play(w, crm)
			})
		})
	}
}

// TestCaseB22KilledDuringTheCall: the process dies while the destination works.
// Its lease ends, the next tick takes the row, and asks before it sends.
func TestCaseB22KilledDuringTheCall(t *testing.T) {
	binary := buildBinary(t)
	for _, s := range []struct{ on, state string }{{"lookup", "confirmed"}, {"hold", "held"}} {
		t.Run(s.on, func(t *testing.T) {
			t.Parallel()
			testdb.All(t, func(t *testing.T, kind, url string) {
				w, crm := crmWorld(t, kind, url, binary, 2, s.on, []demo.Rule{
					{Fault: demo.FaultSlow, Account: "a001", Times: 1, After: demo.Duration(900 * time.Millisecond)},
					{Fault: demo.FaultSlow, Account: "a002", Times: 1, After: demo.Duration(900 * time.Millisecond)},
				})
				victim := w.start("tick", "sync")
				w.until("2", "SELECT count(*) FROM dibs_effects WHERE state = 'intended'")
				w.signal(victim, syscall.SIGKILL)
				_ = victim.code(w.t)
				w.tickUntil("2", "SELECT count(*) FROM dibs_effects WHERE state = '"+s.state+"'", "04")
				w.want("2", "SELECT count(*) FROM dibs_outcomes WHERE outcome = 'lost'")
				for key, n := range notes(t, crm) {
					if n > 1 {
						t.Errorf("%s has %d notes", key, n)
					}
				}
			})
		})
	}
}
