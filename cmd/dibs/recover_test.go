package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/demo"
	"github.com/dibs-run/dibs/internal/testdb"
)

// crmJob is a job whose destination is the demo's CRM: every request there makes
// a note of its own, so that nothing sent twice is overlooked.
const crmJob = `database: %q
jobs:
  sync:
    overlap: skip
    on_uncertain: lookup
    lookup_after: 1500ms
    source: {table: accounts, key: id, every: 1h, columns: {last_error: last_error}}
    handler: {http: {url: "%[2]s/notes", body: '{"account": "{key}"}', id: /id}}
    lookup: {http: {url: "%[2]s/notes?ref={work_id}", matches: /results, id: /id}}
    batch: 5
    concurrency: 4
    lease: 2s
    timeout: 1s
`

// crm is a destination and the rows that a world syncs to it.
type crm struct {
	*world
	server *httptest.Server
	dest   *demo.CRM
	rng    *rand.Rand
	n      int
}

func newCRM(t *testing.T, kind, url, binary string, n int, seed uint64) *crm {
	t.Helper()
	dest, err := demo.NewCRM(demo.CRMConfig{File: filepath.Join(t.TempDir(), "crm.ndjson"), Duplicates: true})
	if err != nil {
		t.Fatal(err)
	}
	c := &crm{dest: dest, server: httptest.NewServer(dest), rng: rand.New(rand.NewPCG(seed, 1)), n: n}
	t.Cleanup(func() {
		c.server.Close()
		if err := dest.Close(); err != nil {
			t.Error(err)
		}
	})
	c.world = newWorld(t, kind, url, binary, n, "")
	c.file("dibs.yaml", 0o600, fmt.Sprintf(crmJob, url, c.server.URL))
	return c
}

// misbehave draws the CRM's faults: some for single accounts, a few for whoever
// comes first.
func (c *crm) misbehave() {
	c.t.Helper()
	ms := func(lo, hi int) demo.Duration {
		return demo.Duration(time.Duration(lo+c.rng.IntN(hi-lo)) * time.Millisecond)
	}
	faults := []demo.Rule{
		{Fault: demo.FaultDrop, Times: 1}, {Fault: demo.FaultErrorAfter, Times: 1}, {Fault: demo.FaultFail, Times: 2},
		{Fault: demo.FaultLate, After: ms(100, 900), Times: 1}, {Fault: demo.FaultSlow, After: ms(20, 1400), Times: 2}, {Fault: demo.FaultAway, Times: 1},
	}
	var rules []demo.Rule
	for i := 1; i <= c.n; i++ {
		if c.rng.IntN(4) > 0 {
			r := faults[c.rng.IntN(len(faults))]
			r.Account = fmt.Sprintf("a%03d", i)
			rules = append(rules, r)
		}
	}
	rules = append(rules, demo.Rule{Fault: demo.FaultAway, Times: 1 + c.rng.IntN(4)}, demo.Rule{Fault: demo.FaultSlow, After: ms(10, 80)})
	c.rules(rules)
}

func (c *crm) rules(rules []demo.Rule) {
	c.t.Helper()
	body, err := json.Marshal(rules)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPut, c.server.URL+"/rules", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("rules: %s", answer.Status)
	}
}

// notes counts the CRM's notes by account.
func (c *crm) notes() map[string]int {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.server.URL+"/notes", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	var got struct{ Results []demo.Note }
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		c.t.Fatal(err)
	}
	n := map[string]int{}
	for _, note := range got.Results {
		n[note.Account]++
	}
	return n
}

// killed starts a command and kills it at a random point, unless it ends first.
func (c *crm) killed(args ...string) {
	c.t.Helper()
	p := c.start(args...)
	kill := time.AfterFunc(time.Duration(20+c.rng.IntN(1200))*time.Millisecond, func() { _ = p.Process.Signal(syscall.SIGKILL) })
	defer kill.Stop()
	p.code(c.t)
}

// repeat repeats a command until it exits with 0.
func (c *crm) repeat(args ...string) string {
	c.t.Helper()
	out := ""
	c.poll(func() bool {
		var code int
		out, code = c.run(args...)
		return code == 0
	}, func() string { return fmt.Sprintf("%v: %s", args, out) })
	return out
}

// The destination drops answers after storing, stores late, is slow, answers 500
// after storing, or is away, and processes die at random points: after reconcile
// and recover every action exists exactly once.
func TestRandomFaultsEndExactlyOnce(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	seeds := 1
	if os.Getenv("DIBS_SOAK") != "" {
		seeds = 200
	}
	for seed := range seeds {
		testdb.All(t, func(t *testing.T, kind, url string) {
			t.Logf("seed %d", seed)
			c := newCRM(t, kind, url, binary, 12, uint64(seed))
			c.misbehave()
			for range 3 {
				c.killed("tick", "sync")
			}
			if c.rng.IntN(2) == 0 {
				c.killed("reconcile", "sync")
			}
			c.misbehave()
			c.killed("tick", "sync")
			c.rules(nil)
			c.repeat("reconcile", "sync")
			c.recovered()
			c.repeat("tick", "sync") // what no run had attempted yet
			c.exactlyOnce()
		})
	}
}

// recovered carries recoveries out, killing them at random points, until a new
// plan finds nothing left. What was in a dead run's hands when a plan was made
// needs a new one.
func (c *crm) recovered() {
	c.t.Helper()
	window := []string{"recover", "sync", "--from", "2020-01-01", "--to", "2100-01-01"}
	kills, last := 2, ""
	c.poll(func() bool {
		out, code := c.run(append(window, "--json")...)
		if last = out; code == 2 { // every process died before it had attempted anything
			return true
		}
		p := c.sum(out)
		if p.Plan.Count == 0 {
			return p.Sum.Busy+p.Sum.Uncertain == 0
		}
		confirm := append(window, "--confirm", fmt.Sprint(p.Plan.Count), "--wait", "10s", "--json")
		if kills--; kills >= 0 {
			c.killed(confirm...)
			return false
		}
		out, code = c.run(confirm...)
		if last = out; code == 75 { // the killed one's lease has not ended
			return false
		}
		if r := c.sum(out); !r.Balanced || r.Sum.Selected == 0 {
			c.t.Errorf("the recovery ended with %s", out)
		}
		return false
	}, func() string { return last })
}

// recoverySum is what recover says in JSON.
type recoverySum struct {
	Balanced bool
	Plan     struct{ Count int }
	Sum      struct{ Selected, Uncertain, Busy int }
}

func (c *crm) sum(text string) (s recoverySum) {
	c.t.Helper()
	if _, document, found := strings.Cut("\n"+text, "\n{"); found { // warnings may stand before it
		text = "{" + document
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		c.t.Fatalf("%v\n%s", err, text)
	}
	return s
}

// exactlyOnce looks at both sides.
func (c *crm) exactlyOnce() {
	c.t.Helper()
	notes := c.notes()
	for i := 1; i <= c.n; i++ {
		if key := fmt.Sprintf("a%03d", i); notes[key] != 1 {
			c.t.Errorf("the destination has %s %d times", key, notes[key])
		}
	}
	want := fmt.Sprint(c.n)
	c.want(want, "SELECT count(*) FROM accounts WHERE status = 'IDLE' AND claim_token IS NULL")
	c.want(want, "SELECT count(*) FROM dibs_effects WHERE state = 'confirmed' AND destination_id IS NOT NULL")
	c.want("0", "SELECT count(*) FROM dibs_findings WHERE kind = 'duplicate' OR kind = 'mismatch'")
	if out, code := c.run("runs", "--incomplete", "--json"); code != 0 || !strings.Contains(out, `"runs": []`) {
		c.t.Errorf("something is incomplete: exit %d\n%s", code, out)
	}
}

// Two people recover the same range at once, while a schedule is active: one
// recovery runs at a time, the rest is refused by name, and nothing is sent twice.
func TestTwoRecoveriesAtOnce(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	testdb.All(t, func(t *testing.T, kind, url string) {
		c := newCRM(t, kind, url, binary, 12, 7)
		c.rules([]demo.Rule{{Fault: demo.FaultFail}})
		c.run("tick", "sync")
		c.rules([]demo.Rule{{Fault: demo.FaultSlow, After: demo.Duration(300 * time.Millisecond)}})
		window := []string{"recover", "sync", "--from", "2020-01-01", "--to", "2100-01-01"}
		if out, code := c.run(window...); code != 0 {
			t.Fatalf("plan: exit %d\n%s", code, out)
		}
		c.poll(func() bool { // an unknown outcome is believed absent after a while
			return c.one("SELECT count(*) FROM dibs_effects WHERE state = 'uncertain'") == "0" || func() bool { _, code := c.run("reconcile", "sync"); return code == 0 }()
		}, func() string { return "reconcile" })
		out, _ := c.run(append(window, "--json")...)
		if plan := c.sum(out); plan.Plan.Count != 12 {
			t.Fatalf("%s", out)
		}
		var group sync.WaitGroup
		codes, outs := make([]int, 3), make([]string, 3)
		for i, p := range []*process{
			c.start(append(window, "--confirm", "12")...), c.start(append(window, "--confirm", "12")...), c.start("tick", "sync", "--fail-on-skip"),
		} {
			group.Go(func() { codes[i], outs[i] = p.code(t), p.out.String() })
		}
		group.Wait()
		won := 0
		for i, code := range codes {
			switch code {
			case 0:
				won++
			case 75, 2: // refused; or the plan was carried out by the time it was asked for
			default:
				t.Errorf("process %d: exit %d\n%s", i, code, outs[i])
			}
		}
		if won == 0 {
			t.Errorf("nobody won: %v\n%s", codes, outs)
		}
		c.rules(nil)
		c.repeat("tick", "sync")
		c.exactlyOnce()
	})
}

// A lookup that answers without end, or nonsense, settles nothing and is not read
// to its end.
func TestLookupsThatSayNothing(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	testdb.All(t, func(t *testing.T, kind, url string) {
		for name, reply := range map[string]func(w http.ResponseWriter){
			"without end": func(w http.ResponseWriter) {
				block := bytes.Repeat([]byte(`{"results": [`), 1<<16)
				for { // 10 GB, if anybody reads them
					if _, err := w.Write(block); err != nil {
						return
					}
				}
			},
			"garbage":       func(w http.ResponseWriter) { _, _ = w.Write([]byte("\x00\xff{]")) },
			"another shape": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"results": "none"}`)) },
			"login page":    func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>please log in</html>")) },
			"refused":       func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) },
		} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				reply(w)
			}))
			w := newWorld(t, kind, url, binary, 1, "")
			w.file("dibs.yaml", 0o600, fmt.Sprintf(crmJob, url, server.URL))
			w.run("tick", "sync")
			began := time.Now()
			out, code := w.run("reconcile", "sync", "--json")
			if code != 4 || !strings.Contains(out, `"unreachable": 1`) || time.Since(began) > 20*time.Second {
				t.Errorf("%s: exit %d after %s\n%s", name, code, time.Since(began), out)
			}
			w.want("1", "SELECT count(*) FROM dibs_effects WHERE state = 'uncertain'")
			w.exec("DROP TABLE accounts")
			w.exec("DELETE FROM dibs_effects")
			server.CloseClientConnections()
			server.Close()
		}
	})
}
