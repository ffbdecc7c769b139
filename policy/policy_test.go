package policy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs"
)

func overlaps() []dibs.Overlap {
	return []dibs.Overlap{dibs.Skip, dibs.Queue, dibs.Coalesce, dibs.Replace, dibs.Allow}
}

func TestTableAnswersEveryCombinationExactlyOnce(t *testing.T) {
	for _, overlap := range overlaps() {
		for lock := Free; lock <= Recovering; lock++ {
			for waiters := None; waiters <= Own; waiters++ {
				n := 0
				for _, r := range table() {
					if r.overlap == overlap && slices.Contains(r.locks, lock) && slices.Contains(r.waiters, waiters) {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%s × %s × %s waiting: %d lines", overlap, lock, waiters, n)
				}
			}
		}
	}
}

// What must hold of every answer, whatever the policy.
func TestDecideKeepsTheLaws(t *testing.T) {
	for _, overlap := range overlaps() {
		for lock := Free; lock <= Recovering; lock++ {
			for waiters := None; waiters <= Own; waiters++ {
				v := Decide(Situation{Overlap: overlap, Lock: lock, Waiters: waiters})
				started := v.Decision == dibs.DecisionStarted
				for law, broken := range map[string]bool{
					"answers with a reason":                          v.Decision == "" || v.Reason == "" || v.Reason == dibs.ReasonNobody,
					"takes the lock only to start":                   v.TakeLock && !started,
					"leaves a live run its lock":                     v.TakeLock && lock != Free && lock != Expired,
					"lets those who waited go first":                 v.TakeLock && waiters != None,
					"starts nothing beside a recovery":               started && lock == Recovering,
					"marks the former run lost iff its lease ended":  v.MarkLost != (lock == Expired),
					"stops only a live run, and for its replacement": v.Stop && (lock != Live || overlap != dibs.Replace),
					"folds only into its own":                        v.Fold && (waiters != Own || overlap != dibs.Coalesce),
					"replaces only its own":                          v.Supersede && (waiters != Own || overlap != dibs.Replace),
					"waits only where waiting is the policy":         v.Decision == dibs.DecisionWaiting && (overlap == dibs.Skip || overlap == dibs.Allow),
				} {
					if broken {
						t.Errorf("%s × %s × %s waiting: broken: %s: %+v", overlap, lock, waiters, law, v)
					}
				}
			}
		}
	}
}

func TestPauseComesFirstForEveryPolicyAndKey(t *testing.T) {
	for _, overlap := range overlaps() {
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
	var want []string
	for _, r := range table() {
		want = append(want, "| "+strings.Join([]string{string(r.overlap), list(r.locks), list(r.waiters), string(r.verdict.Decision), string(r.verdict.Reason), also(r.verdict)}, " | ")+" |")
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

func list[T fmt.Stringer](all []T) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.String()
	}
	return strings.Join(words, ", ")
}

// also says what goes with a verdict.
func also(v Verdict) string {
	var words []string
	for _, w := range []struct {
		on   bool
		word string
	}{
		{v.MarkLost, "the former run is lost"}, {v.TakeLock, "takes the lock"}, {v.Stop, "the run is asked to stop"},
		{v.Fold, "one trigger for all slots"}, {v.Supersede, "the waiting one is replaced"},
	} {
		if w.on {
			words = append(words, w.word)
		}
	}
	if len(words) == 0 {
		return "–"
	}
	return strings.Join(words, "; ")
}
