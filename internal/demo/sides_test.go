package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// start is when the made-up history begins.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// history is what both sides look like after a run without anything odd: five
// accounts, the last of which fails, and a disabled one.
func history() Evidence {
	e := Evidence{LeaseEnds: map[Claim]time.Time{}}
	for i := 1; i <= 5; i++ {
		key := fmt.Sprint("acct-", i)
		r := Row{Key: key, Enabled: true, Status: "IDLE"}
		o := Outcome{Key: key, WorkID: "job/note/" + key + "/1", Run: "run_a", Fence: 1, Outcome: "completed",
			At: start().Add(600 * time.Millisecond), Took: 400 * time.Millisecond}
		q := Request{Account: key, WorkID: o.WorkID, Run: "run_a", Received: start().Add(200 * time.Millisecond),
			Answered: start().Add(600 * time.Millisecond), Status: 200, Note: fmt.Sprint("note-", i)}
		if i == 5 {
			r.Status, o.Outcome, q.Note, q.Status = "FAILED", "failed", "", 500
		}
		e.Rows, e.Outcomes, e.Requests = append(e.Rows, r), append(e.Outcomes, o), append(e.Requests, q)
	}
	e.Rows = append(e.Rows, Row{Key: "acct-6", Status: "IDLE"})
	return e
}

// killed adds a run that died with acct-1 in hand after it had sent the note,
// and its successor, whose claim came gap after the end of the lease.
func killed(e *Evidence, gap time.Duration) {
	end := start().Add(10 * time.Second)
	e.LeaseEnds[Claim{"run_a", "acct-1"}] = end
	e.Outcomes[0].Outcome, e.Outcomes[0].At = "lost", end.Add(gap)
	again := e.Requests[0]
	again.Run, again.Received, again.Answered = "run_b", end.Add(gap+time.Second), end.Add(gap+2*time.Second)
	e.Requests = append(e.Requests, again)
	e.Outcomes = append(e.Outcomes, Outcome{Key: "acct-1", WorkID: again.WorkID, Run: "run_b", Fence: 2, Outcome: "completed",
		At: end.Add(gap + 2*time.Second), Took: time.Second})
}

func TestNothingOddIsNoFault(t *testing.T) {
	s := Compare(history())
	if faults := s.Faults("acct-5"); len(faults) > 0 {
		t.Fatal(faults)
	}
	if s.Accounts != 5 || s.Notes != 4 || s.ExactlyOnce != 4 || s.SentAgain != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestTakingOverAfterTheLeaseIsNoFault(t *testing.T) {
	e := history()
	killed(&e, 0)
	s := Compare(e)
	if faults := s.Faults("acct-5"); len(faults) > 0 {
		t.Fatal(faults)
	}
	if s.SentAgain != 1 || s.TookOver != 1 || s.Notes != 4 {
		t.Fatalf("%+v", s)
	}
	if n, gap := e.firstTakeover(); n != 1 || gap != 0 {
		t.Fatalf("%d rows after %s", n, gap)
	}
}

func TestAFurtherActionOfAnAccountIsNoFault(t *testing.T) {
	e := history()
	q, o := e.Requests[0], e.Outcomes[0]
	q.WorkID, q.Note, q.Run = "job/note/acct-1/2", "note-9", "run_b"
	q.Received, q.Answered = q.Received.Add(time.Minute), q.Answered.Add(time.Minute)
	o.WorkID, o.Run, o.Fence, o.At = q.WorkID, "run_b", 2, o.At.Add(time.Minute)
	e.Requests, e.Outcomes = append(e.Requests, q), append(e.Outcomes, o)
	if faults := Compare(e).Faults("acct-5"); len(faults) > 0 {
		t.Fatal(faults)
	}
}

func TestWhatIsWrongIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(e *Evidence)
		want  string // a part of one of the faults
	}{
		"a second note under the same work ID": {func(e *Evidence) {
			q := e.Requests[1]
			q.Note, q.Received, q.Answered = "note-9", q.Received.Add(time.Minute), q.Answered.Add(time.Minute)
			e.Requests = append(e.Requests, q)
		}, "noted twice: acct-2"},
		"a second note under another work ID": {func(e *Evidence) {
			q := e.Requests[1]
			q.Note, q.WorkID, q.Received, q.Answered = "note-9", "job/note/acct-2/2", q.Received.Add(time.Minute), q.Answered.Add(time.Minute)
			e.Requests = append(e.Requests, q)
		}, "noted twice: acct-2"},
		"completed here, no note there": {func(e *Evidence) { e.Requests[1].Note = "" },
			"missing should be acct-5 alone, and is acct-2 acct-5"},
		"a note there, not completed here": {func(e *Evidence) { e.Outcomes[1].Outcome = "failed" },
			"missing should be acct-5 alone, and is acct-2 acct-5"},
		"a note of a disabled account": {func(e *Evidence) {
			q := e.Requests[1]
			q.Account, q.WorkID, q.Note = "acct-6", "job/note/acct-6/1", "note-9"
			e.Requests = append(e.Requests, q)
		}, "not to be synced: acct-6"},
		"a row that is still in progress": {func(e *Evidence) { e.Rows[1].Status = "IN_PROGRESS" }, "still in progress: acct-2"},
		"the failing account is not FAILED": {func(e *Evidence) { e.Rows[4].Status = "IDLE" },
			"FAILED should be acct-5 alone, and is none"},
		"the failing account has a note": {func(e *Evidence) { e.Requests[4].Note, e.Outcomes[4].Outcome = "note-5", "completed" },
			"missing should be acct-5 alone, and is none"},
		"two runs at the CRM at once": {func(e *Evidence) {
			q := e.Requests[1]
			q.Run, q.Received = "run_b", q.Received.Add(300*time.Millisecond)
			e.Requests = append(e.Requests, q)
		}, "acct-2 was held by two runs at once: both worked on it at once, say the CRM and the CRM"},
		"two runs at once by the outcomes alone": {func(e *Evidence) {
			o := e.Outcomes[1]
			o.Run, o.Fence, o.At = "run_b", 2, o.At.Add(200*time.Millisecond)
			e.Outcomes = append(e.Outcomes, o)
		}, "acct-2 was held by two runs at once"},
		"a request while another run's handler works": {func(e *Evidence) {
			e.Requests[1].Run = "run_b"
		}, "acct-2 was held by two runs at once: both worked on it at once, say the CRM and the outcomes"},
		"the same fence twice": {func(e *Evidence) {
			o := e.Outcomes[1]
			o.Run, o.At = "run_b", o.At.Add(time.Minute)
			e.Outcomes = append(e.Outcomes, o)
		}, "acct-2 was held by two runs at once: both had fence 1"},
		"taken over before the lease had ended": {func(e *Evidence) { killed(e, -time.Millisecond) },
			"acct-1 was held by two runs at once: taken over 1ms before its lease ended"},
	} {
		t.Run(name, func(t *testing.T) {
			e := history()
			c.spoil(&e)
			faults := Compare(e).Faults("acct-5")
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Fatalf("reported %q, and should %q", faults, c.want)
			}
		})
	}
}

func TestAPairOfRunsIsReportedOnce(t *testing.T) {
	e := history()
	q := e.Requests[1]
	q.Run = "run_b"
	e.Requests = append(e.Requests, q, q)
	if got := Compare(e).HeldTwice; len(got) != 1 || got[0].Key != "acct-2" || got[0].One != "run_a" || got[0].Other != "run_b" {
		t.Fatalf("%+v", got)
	}
}
