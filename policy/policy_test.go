package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dibs-run/dibs"
)

func TestDecideAnswersEveryCombination(t *testing.T) {
	for _, overlap := range []dibs.Overlap{dibs.Skip, dibs.Allow} {
		for _, lock := range []Lock{Free, Live, Expired, Recovering} {
			v := Decide(Situation{Overlap: overlap, Lock: lock})
			if v.Decision == "" || v.Reason == "" || v.Reason == dibs.ReasonNobody {
				t.Errorf("%s × %s: no answer: %+v", overlap, lock, v)
			}
			if v.TakeLock && v.Decision != dibs.DecisionStarted {
				t.Errorf("%s × %s: takes the lock without starting", overlap, lock)
			}
			if v.Decision == dibs.DecisionStarted && v.TakeLock && lock == Live {
				t.Errorf("%s × live: takes a lock that a live run has", overlap)
			}
		}
	}
}

func TestPauseComesFirstForEveryPolicyAndKey(t *testing.T) {
	for _, overlap := range []dibs.Overlap{dibs.Skip, dibs.Allow} {
		for _, key := range []bool{false, true} {
			v := Decide(Situation{Overlap: overlap, Lock: Free, Paused: true, OneKey: key})
			if v.Decision != dibs.DecisionSkipped || v.Reason != dibs.ReasonPaused {
				t.Errorf("%s, key %v: got %+v, want skipped, paused", overlap, key, v)
			}
		}
	}
}

func TestOneKeyRunsBesideALiveRunButNotBesideARecovery(t *testing.T) {
	live := Decide(Situation{Overlap: dibs.Skip, Lock: Live, OneKey: true})
	if live.Decision != dibs.DecisionStarted || live.TakeLock {
		t.Errorf("beside a live run: got %+v, want started without the lock", live)
	}
	recovering := Decide(Situation{Overlap: dibs.Skip, Lock: Recovering, OneKey: true})
	if recovering.Decision != dibs.DecisionSkipped || recovering.Reason != dibs.ReasonRecovery {
		t.Errorf("beside a recovery: got %+v, want skipped", recovering)
	}
}

func TestDocumentShowsTheSameTable(t *testing.T) {
	doc, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	var want []string
	for _, r := range table() {
		v := r.verdict
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", r.overlap, r.lock, v.Decision, v.Reason, yes[v.TakeLock], yes[v.MarkLost]))
	}
	var got []string
	for _, line := range strings.Split(string(doc), "\n") {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| policy") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("docs/policies.md differs from the code; the table should read:\n%s", strings.Join(want, "\n"))
	}
}
