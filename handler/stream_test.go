//go:build unix

package handler_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/handler"
)

// TestStreamProcess is not a test of its own: it is the process that the other
// tests start. What it does with an item is written in the item.
func TestStreamProcess(*testing.T) {
	if os.Getenv("STREAM_TEST") == "" {
		return
	}
	in := bufio.NewReader(os.Stdin)
	answer := func(work string, rest string) { fmt.Printf("{\"work_id\":%q,%s}\n", work, rest) }
	var kept []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			os.Exit(0)
		}
		var it struct {
			Cancel  string
			Fence   int
			Work    string `json:"work_id"`
			Payload struct{ Do, Answer string }
		}
		if json.Unmarshal([]byte(line), &it) != nil {
			os.Exit(9)
		}
		switch it.Payload.Do {
		case "keep":
			kept = append(kept, it.Work)
		case "release":
			for _, w := range slices.Backward(kept) {
				answer(w, fmt.Sprintf(`"status":"done","id":"n-%s"`, w))
			}
			kept = nil
			answer(it.Work, `"status":"done"`)
		case "count":
			answer(it.Work, fmt.Sprintf(`"status":"done","id":"kept %d"`, len(kept)))
		case "crash":
			fmt.Fprintln(os.Stderr, "boom")
			os.Exit(7)
		case "last words":
			fmt.Printf("{\"work_id\":%q,\"status\":\"done\",\"id\":\"n-1\"}", it.Work)
			os.Exit(7)
		case "twice":
			answer(it.Work, `"status":"done","id":"n-1"`)
			answer(it.Work, `"status":"done","id":"n-2"`)
		case "garbage":
			fmt.Print("\x00\xff{]\n[]\n{}\n{\"work_id\":7}\n\n")
			answer("never/given", `"status":"done"`)
			answer(it.Work, fmt.Sprintf(`"status":"done","id":"old","fence":%d`, it.Fence-1))
			fmt.Println(strings.Repeat("x", 3<<20))
			answer(it.Work, fmt.Sprintf(`"status":"done","id":"n-1","fence":%d`, it.Fence))
		case "env":
			answer(it.Work, fmt.Sprintf(`"status":"done","id":"%s|%s|%s"`, os.Getenv("DIBS_JOB"), os.Getenv("DIBS_KEY"), os.Getenv("EXTRA")))
		case "deaf":
			answer(it.Work, `"status":"done"`)
			<-make(chan struct{})
		case "answer":
			answer(it.Work, it.Payload.Answer)
		}
		if it.Cancel != "" && strings.Contains(it.Cancel, "polite") {
			answer(it.Cancel, `"status":"not_applied","error":"given up"`)
		}
	}
}

type notices struct {
	mu    sync.Mutex
	lines []string
}

func (n *notices) add(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, s)
}

func (n *notices) all() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "\n")
}

func stream(t *testing.T, change func(*handler.StreamConfig)) (*handler.StreamHandler, *notices) {
	t.Helper()
	n := &notices{}
	c := handler.StreamConfig{
		Argv: []string{os.Args[0], "-test.run=^TestStreamProcess$"}, Env: []string{"STREAM_TEST=1", "EXTRA=e"}, Notice: n.add,
	}
	if change != nil {
		change(&c)
	}
	s, err := handler.Stream(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // tested where it matters
	return s, n
}

// asked is an item that tells the process what to do.
func asked(work, do, answer string) dibs.Item {
	it := item()
	it.WorkID = work
	it.Payload, _ = json.Marshal(map[string]string{"do": do, "answer": answer})
	return it
}

func TestStreamAnswers(t *testing.T) {
	s, n := stream(t, nil)
	for _, c := range []struct {
		answer string
		want   dibs.Verdict
		id     string
	}{
		{`"status":"done","id":"n-1","evidence":{"a":1}`, dibs.Verdict{Outcome: dibs.OutcomeCompleted}, "n-1"},
		{`"status":"rejected","error":"no"`, dibs.Verdict{Outcome: dibs.OutcomeRejected}, ""},
		{`"status":"not_applied"`, dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}, ""},
		{`"status":"later","after":1.5`, dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true, After: 1500 * time.Millisecond}, ""},
		{`"status":"later","after":1e300`, dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true, After: 24 * time.Hour}, ""},
		{`"status":"stop"`, dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true, Stop: true}, ""},
		{`"status":"unknown"`, dibs.Verdict{Outcome: dibs.OutcomeUncertain}, ""},
		{`"status":"DONE"`, dibs.Verdict{Outcome: dibs.OutcomeUncertain}, ""},
		{`"id":"n-1"`, dibs.Verdict{Outcome: dibs.OutcomeUncertain}, ""},
	} {
		r, err := s.Handle(t.Context(), asked("w", "answer", c.answer))
		if got := dibs.VerdictOf(err); got != c.want || r.ID != c.id {
			t.Errorf("%s: %+v, %+v, %v", c.answer, got, r, err)
		}
	}
	if r, err := s.Handle(t.Context(), asked("w", "env", "")); err != nil || r.ID != "crm-sync||e" {
		t.Errorf("environment: %+v, %v", r, err)
	}
	if err := s.Close(); err != nil || n.all() != "" {
		t.Errorf("close: %v, notices %q", err, n.all())
	}
	if _, err := s.Handle(t.Context(), item()); !dibs.VerdictOf(err).Free {
		t.Errorf("after Close: %v", err)
	}
}

// keep gives items to the process that it does not answer, and returns when it
// has them all.
func keep(ctx context.Context, t *testing.T, s *handler.StreamHandler, works ...string) <-chan error {
	t.Helper()
	results := make(chan error, len(works))
	for _, w := range works {
		go func() {
			r, err := s.Handle(ctx, asked(w, "keep", ""))
			if err == nil && r.ID != "n-"+w {
				err = fmt.Errorf("%s got %s", w, r.ID)
			}
			results <- err
		}()
	}
	eventually(t, "the items are in its hands", func() bool {
		r, err := s.Handle(t.Context(), asked("count", "count", ""))
		return err == nil && r.ID == fmt.Sprint("kept ", len(works))
	})
	return results
}

func TestStreamAnswersInAnyOrder(t *testing.T) {
	s, _ := stream(t, nil)
	results := keep(t.Context(), t, s, "a", "b", "c")
	if _, err := s.Handle(t.Context(), asked("b", "answer", `"status":"done"`)); !dibs.VerdictOf(err).Free {
		t.Errorf("one work ID twice at a time: %v", err)
	}
	if _, err := s.Handle(t.Context(), asked("release", "release", "")); err != nil {
		t.Error(err)
	}
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// TestStreamCrash: the items that the process has are uncertain, answered ones
// are not, and the next item gets a new process.
func TestStreamCrash(t *testing.T) {
	s, n := stream(t, nil)
	results := keep(t.Context(), t, s, "a", "b", "c")
	_, err := s.Handle(t.Context(), asked("bad", "crash", ""))
	for _, err := range []error{err, <-results, <-results, <-results} {
		if dibs.VerdictOf(err) != (dibs.Verdict{Outcome: dibs.OutcomeUncertain}) || !strings.Contains(err.Error(), "exit status 7: boom") {
			t.Errorf("%v", err)
		}
	}
	if r, err := s.Handle(t.Context(), asked("a", "last words", "")); err != nil || r.ID != "n-1" {
		t.Errorf("an answer without a line end: %+v, %v", r, err)
	}
	eventually(t, "the next process serves", func() bool {
		_, err := s.Handle(t.Context(), asked("a", "answer", `"status":"done"`))
		return err == nil
	})
	if !strings.Contains(n.all(), "exit status 7") {
		t.Errorf("nobody was told: %q", n.all())
	}
}

func TestStreamForgedAnswers(t *testing.T) {
	s, n := stream(t, nil)
	r, err := s.Handle(t.Context(), asked("w1", "garbage", ""))
	if err != nil || r.ID != "n-1" {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = s.Handle(t.Context(), asked("w2", "twice", ""))
	if err != nil || r.ID != "n-1" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.Handle(t.Context(), asked("w3", "answer", `"status":"done"`)); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"not an answer", "never/given", "nothing that was asked: w1", "nothing that was asked: w2", "longer than"} {
		if !strings.Contains(n.all(), want) {
			t.Errorf("%q is missing in %q", want, n.all())
		}
	}
}

func TestStreamThatNeverAnswersIsEnded(t *testing.T) {
	s, _ := stream(t, func(c *handler.StreamConfig) { c.Grace = 200 * time.Millisecond })
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := keep(ctx, t, s, "mine")
	other := make(chan error, 1)
	go func() { _, err := s.Handle(t.Context(), asked("other", "keep", "")); other <- err }()
	eventually(t, "both are in its hands", func() bool {
		r, err := s.Handle(t.Context(), asked("count", "count", ""))
		return err == nil && r.ID == "kept 2"
	})
	cancel(dibs.ErrLeaseLost)
	if err := <-mine; !errors.Is(err, dibs.ErrLeaseLost) || dibs.VerdictOf(err).Outcome != dibs.OutcomeUncertain {
		t.Errorf("%v", err)
	}
	if err := <-other; errors.Is(err, dibs.ErrLeaseLost) || dibs.VerdictOf(err).Outcome != dibs.OutcomeUncertain {
		t.Errorf("the other item: %v", err)
	}
}

func TestStreamCancelIsAnswered(t *testing.T) {
	s, n := stream(t, func(c *handler.StreamConfig) { c.Grace = time.Minute })
	ctx, cancel := context.WithCancelCause(t.Context())
	result := keep(ctx, t, s, "polite")
	cancel(dibs.ErrTimeout)
	if err := <-result; !dibs.VerdictOf(err).Free || n.all() != "" {
		t.Errorf("%v; %q", err, n.all())
	}
}

// TestStreamBackPressure: what a process that reads nothing cannot take stays
// not applied.
func TestStreamBackPressure(t *testing.T) {
	s, _ := stream(t, func(c *handler.StreamConfig) { c.Window, c.Grace = 4, 100*time.Millisecond })
	if _, err := s.Handle(t.Context(), asked("first", "deaf", "")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, dibs.ErrTimeout)
	defer cancel()
	results := make(chan error, 10)
	for i := range 10 {
		go func() {
			it := asked(fmt.Sprint("w", i), "keep", strings.Repeat("x", 200_000)) // more than a pipe holds
			_, err := s.Handle(ctx, it)
			results <- err
		}()
	}
	var given, notGiven int
	for range 10 {
		switch v := dibs.VerdictOf(<-results); {
		case v.Free:
			notGiven++
		case v.Outcome == dibs.OutcomeUncertain:
			given++
		}
	}
	if given != 1 || notGiven != 9 {
		t.Errorf("%d given, %d not given", given, notGiven)
	}
}

func TestStreamManyAtOnce(t *testing.T) {
	s, n := stream(t, nil)
	results := make(chan error, 500)
	for i := range 500 {
		go func() {
			id := fmt.Sprint("w", i)
			r, err := s.Handle(t.Context(), asked(id, "answer", fmt.Sprintf(`"status":"done","id":"n-%s"`, id)))
			if err == nil && r.ID != "n-"+id {
				err = fmt.Errorf("%s got %s", id, r.ID)
			}
			results <- err
		}()
	}
	for range 500 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n.all() != "" {
		t.Error(n.all())
	}
}

func TestStreamThatCannotStart(t *testing.T) {
	s, _ := stream(t, func(c *handler.StreamConfig) { c.Argv = []string{"/no/such/command"} })
	if _, err := s.Handle(t.Context(), item()); dibs.VerdictOf(err) != (dibs.Verdict{Outcome: dibs.OutcomeFailed, Free: true}) {
		t.Errorf("%v", err)
	}
	if _, err := handler.Stream(handler.StreamConfig{Window: -1}); err == nil || !strings.Contains(err.Error(), "window") || !strings.Contains(err.Error(), "argv") {
		t.Errorf("%v", err)
	}
}

func TestStreamCloseEndsTheStubborn(t *testing.T) {
	s, _ := stream(t, func(c *handler.StreamConfig) { c.Grace = 200 * time.Millisecond })
	if _, err := s.Handle(t.Context(), asked("w", "deaf", "")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "did not exit") {
		t.Errorf("%v", err)
	}
}
