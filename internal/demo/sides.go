package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Row is an account as the database has it at the end.
type Row struct {
	Key     string
	Enabled bool
	Status  string
}

// Outcome is one outcome row.
type Outcome struct {
	Key, WorkID, Run string
	Fence            int64
	// Outcome is the word: completed, failed, lost, …
	Outcome string
	// At is when it was recorded, by the database's clock, to a millisecond.
	At time.Time
	// Took is how long the handler worked.
	Took time.Duration
}

// Evidence is all that the two sides know.
type Evidence struct {
	Rows     []Row
	Outcomes []Outcome
	Requests []Request
	// LeaseEnds says, by run and key, until when a run that was killed had a row:
	// what the database said after its death.
	LeaseEnds map[Claim]time.Time
}

// Claim names a row in the hands of a run.
type Claim struct{ Run, Key string }

// Clash is a row that two runs had at once.
type Clash struct {
	Key, One, Other string
	Why             string
}

// Sides is the comparison of both sides.
type Sides struct {
	// Accounts are the enabled rows, Notes the notes in the CRM.
	Accounts, Notes int
	// ExactlyOnce counts the accounts for which each action that the database
	// has as completed is one note in the CRM, and there are no other notes.
	ExactlyOnce int
	// Twice are accounts with more notes than completed actions.
	Twice []string
	// Missing are enabled accounts that were not synced, or whose note is not in
	// the CRM.
	Missing []string
	// Strangers are accounts with notes that the job should not have touched.
	Strangers []string
	// Failed are the rows that are FAILED.
	Failed []string
	// Unfinished are rows that are still IN_PROGRESS.
	Unfinished []string
	// HeldTwice are rows that two runs had at once.
	HeldTwice []Clash
	// SentAgain counts requests that came for a work ID that had its note
	// already; the CRM wrote over it.
	SentAgain int
	// TookOver counts claims of rows whose run was lost.
	TookOver int
}

// Compare compares both sides.
func Compare(e Evidence) Sides {
	var s Sides
	notes := map[string][]Note{}
	for _, n := range Notes(e.Requests) {
		s.Notes++
		notes[n.Account] = append(notes[n.Account], n)
	}
	written := map[string]bool{}
	for _, r := range e.Requests {
		if r.Note != "" && written[r.WorkID] {
			s.SentAgain++
		}
		written[r.WorkID] = written[r.WorkID] || r.Note != ""
	}
	completed := completedActions(e.Outcomes)
	enabled := map[string]bool{}
	for _, r := range e.Rows {
		if r.Enabled {
			enabled[r.Key] = true
			s.account(r, notes[r.Key], completed[r.Key])
		}
	}
	for key := range notes {
		if !enabled[key] {
			s.Strangers = append(s.Strangers, key)
		}
	}
	slices.Sort(s.Strangers)
	for _, o := range e.Outcomes {
		if o.Outcome == "lost" {
			s.TookOver++
		}
	}
	s.HeldTwice = clashes(e)
	return s
}

// completedActions lists, by key, the work IDs that the database has as done.
func completedActions(outcomes []Outcome) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, o := range outcomes {
		if o.Outcome != "completed" && o.Outcome != "already_done" {
			continue
		}
		if all[o.Key] == nil {
			all[o.Key] = map[string]bool{}
		}
		all[o.Key][o.WorkID] = true
	}
	return all
}

// account places one enabled row.
func (s *Sides) account(r Row, notes []Note, completed map[string]bool) {
	s.Accounts++
	switch r.Status {
	case "FAILED":
		s.Failed = append(s.Failed, r.Key)
	case "IN_PROGRESS":
		s.Unfinished = append(s.Unfinished, r.Key)
	}
	there := map[string]int{}
	for _, n := range notes {
		there[n.Ref]++
	}
	missing := len(completed) == 0
	twice := len(notes) > max(len(completed), 1)
	for work := range completed {
		missing = missing || there[work] == 0
		twice = twice || there[work] > 1
	}
	if missing {
		s.Missing = append(s.Missing, r.Key)
	}
	if twice {
		s.Twice = append(s.Twice, r.Key)
	}
	if !missing && !twice {
		s.ExactlyOnce++
	}
}

// span is a time in which a run certainly had a row.
type span struct {
	run      string
	from, to time.Time
	seen     string
}

// clashes finds rows that two runs had at once, in three ways: two runs worked
// on it at the same time (by the CRM's clock and the database's, which are one
// host's), two claims got the same fence, or a claim was made before the lease
// of the killed run had ended.
func clashes(e Evidence) []Clash {
	var found []Clash
	spans := map[string][]span{}
	for _, r := range e.Requests {
		end := r.Answered
		if end.IsZero() {
			end = r.Received
		}
		spans[r.Account] = append(spans[r.Account], span{r.Run, r.Received, end, "the CRM"})
	}
	fences := map[string]map[int64]string{}
	for _, o := range e.Outcomes {
		if fences[o.Key] == nil {
			fences[o.Key] = map[int64]string{}
		}
		if other, taken := fences[o.Key][o.Fence]; taken && other != o.Run {
			found = append(found, Clash{o.Key, other, o.Run, fmt.Sprintf("both had fence %d", o.Fence)})
		}
		fences[o.Key][o.Fence] = o.Run
		if o.Outcome != "lost" {
			// The database rounds to a millisecond.
			spans[o.Key] = append(spans[o.Key], span{o.Run, o.At.Add(time.Millisecond - o.Took), o.At.Add(-time.Millisecond), "the outcomes"})
			continue
		}
		// A lost outcome is written in the transaction of the next claim.
		if end, known := e.LeaseEnds[Claim{o.Run, o.Key}]; known && o.At.Before(end) {
			found = append(found, Clash{o.Key, o.Run, "", fmt.Sprintf("taken over %s before its lease ended", end.Sub(o.At))})
		}
	}
	for key, list := range spans {
		found = append(found, overlaps(key, list)...)
	}
	slices.SortFunc(found, func(a, b Clash) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Why, b.Why)) })
	return found
}

// firstTakeover counts the rows that were taken over from the run that was
// killed, and finds the shortest time between the end of a lease and the next
// claim; negative: a row was taken too early.
func (e Evidence) firstTakeover() (n int, gap time.Duration) {
	for _, o := range e.Outcomes {
		end, known := e.LeaseEnds[Claim{o.Run, o.Key}]
		if o.Outcome != "lost" || !known {
			continue
		}
		if after := o.At.Sub(end); n == 0 || after < gap {
			gap = after
		}
		n++
	}
	return n, gap
}

// overlaps finds pairs of runs whose spans share a moment; each pair once.
func overlaps(key string, list []span) []Clash {
	var found []Clash
	seen := map[[2]string]bool{}
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.run == b.run || !a.from.Before(b.to) || !b.from.Before(a.to) {
				continue
			}
			pair := [2]string{min(a.run, b.run), max(a.run, b.run)}
			if !seen[pair] {
				seen[pair] = true
				found = append(found, Clash{key, pair[0], pair[1], "both worked on it at once, say " + a.seen + " and " + b.seen})
			}
		}
	}
	return found
}

// Faults says what is not as it should be when only failing was made to fail:
// every other enabled account synced exactly once, no row held by two runs at
// once, and failing FAILED with no note. None: all is well.
func (s Sides) Faults(failing string) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if want := s.Accounts - 1; s.ExactlyOnce != want {
		fault("%d of %d accounts are synced exactly once", s.ExactlyOnce, want)
	}
	if !slices.Equal(s.Missing, []string{failing}) {
		fault("missing should be %s alone, and is %s", failing, names(s.Missing))
	}
	if !slices.Equal(s.Failed, []string{failing}) {
		fault("FAILED should be %s alone, and is %s", failing, names(s.Failed))
	}
	if len(s.Twice) > 0 {
		fault("noted twice: %s", names(s.Twice))
	}
	if len(s.Strangers) > 0 {
		fault("notes for accounts that were not to be synced: %s", names(s.Strangers))
	}
	if len(s.Unfinished) > 0 {
		fault("still in progress: %s", names(s.Unfinished))
	}
	for i, c := range s.HeldTwice {
		if i == maxClashes {
			fault("and %d more like that", len(s.HeldTwice)-i)
			break
		}
		fault("%s was held by two runs at once: %s", c.Key, c.Why)
	}
	return faults
}

// maxClashes is how many are told one by one.
const maxClashes = 5

// names lists keys, at most ten of them.
func names(keys []string) string {
	if len(keys) == 0 {
		return "none"
	}
	if len(keys) > 10 {
		return strings.Join(keys[:10], " ") + fmt.Sprintf(" and %d more", len(keys)-10)
	}
	return strings.Join(keys, " ")
}
