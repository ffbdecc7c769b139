package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// CRMConfig describes a CRM.
type CRMConfig struct {
	// File is where it keeps what it received. Required; made when missing, and
	// what is in it is remembered.
	File string
	// Rules are the faults to begin with.
	Rules []Rule
	// Duplicates makes every request a note of its own. Otherwise a second
	// request with the same work ID writes over the note of the first.
	Duplicates bool
}

// CRM is a small customer database behind HTTP. It is safe for concurrent use.
//
//	POST /notes           store a note for an account, by its work ID
//	GET  /notes?ref=ID    the notes with a work ID; without ref all notes
//	GET, PUT /rules       the faults; see [Rule]
//
// A request whose client went away is worked all the same, as servers do.
type CRM struct {
	duplicates bool
	mux        *http.ServeMux

	mu       sync.Mutex
	journal  *journal
	requests int
	rules    []Rule
	notes    []Note
	byWork   map[string]int // work ID → its first note's place in notes
	late     sync.WaitGroup
	failed   error // the file cannot be written: nothing more is answered
}

// Note is what the CRM keeps for an account.
type Note struct {
	ID string `json:"id"`
	// Ref is the work ID that the note came under.
	Ref     string `json:"ref"`
	Account string `json:"account"`
	// Content is the body that came last.
	Content string `json:"content"`
	// Writes counts how often it was stored.
	Writes int `json:"writes"`
}

// NewCRM opens a CRM. Close it.
func NewCRM(c CRMConfig) (*CRM, error) {
	j, requests, err := openJournal(c.File)
	if err != nil {
		return nil, err
	}
	s := &CRM{duplicates: c.Duplicates, mux: http.NewServeMux(), journal: j, requests: len(requests), rules: c.Rules, byWork: map[string]int{}}
	s.notes = Notes(requests)
	for i, n := range s.notes {
		if _, there := s.byWork[n.Ref]; !there {
			s.byWork[n.Ref] = i
		}
	}
	s.mux.HandleFunc("POST /notes", s.post)
	s.mux.HandleFunc("GET /notes", s.get)
	s.mux.HandleFunc("GET /rules", s.showRules)
	s.mux.HandleFunc("PUT /rules", s.putRules)
	return s, nil
}

// Notes are what a CRM holds after these requests, in the order of their IDs.
func Notes(requests []Request) []Note {
	var notes []Note
	place := map[string]int{}
	for _, r := range requests {
		if r.Note == "" {
			continue
		}
		i, there := place[r.Note]
		if !there {
			i = len(notes)
			place[r.Note] = i
			notes = append(notes, Note{ID: r.Note, Ref: r.WorkID, Account: r.Account})
		}
		notes[i].Content = r.Content
		notes[i].Writes++
	}
	return notes
}

// Close waits for notes that are to be stored late, and closes the file.
func (s *CRM) Close() error {
	s.late.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.file.Close()
}

// ServeHTTP answers one request.
func (s *CRM) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// maxBody bounds a request's body, in bytes.
const maxBody = 1 << 20

func (s *CRM) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var content struct {
		Account string `json:"account"`
	}
	work := r.Header.Get("Dibs-Work-Id")
	if work == "" {
		work = r.Header.Get("Idempotency-Key")
	}
	if err == nil {
		err = json.Unmarshal(body, &content)
	}
	if err != nil || content.Account == "" || work == "" {
		answer(w, http.StatusBadRequest, map[string]string{"error": "want a JSON object with an account, and a work ID"})
		return
	}
	n, t, err := s.receive(line{Account: content.Account, WorkID: work, Run: r.Header.Get("Dibs-Run"), Content: string(body)})
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	note := Note{Ref: work, Account: content.Account, Content: string(body)}
	pause(context.WithoutCancel(r.Context()), t.slow)
	switch t.fault {
	case FaultFail:
		s.answer(w, n, http.StatusInternalServerError, map[string]string{"error": "try later"})
		return
	case FaultAway:
		s.cut(n)
	case FaultLate:
		s.late.Go(func() {
			pause(context.WithoutCancel(r.Context()), t.after)
			_, _ = s.store(n, note) // a failure is remembered, and ends the CRM's answers
		})
		s.cut(n)
	}
	note, err = s.store(n, note)
	switch {
	case err != nil:
		s.answer(w, n, http.StatusInternalServerError, map[string]string{"error": err.Error()})
	case t.fault == FaultDrop:
		s.cut(n)
	case t.fault == FaultErrorAfter:
		s.answer(w, n, http.StatusInternalServerError, map[string]string{"error": "lost my head"})
	default:
		s.answer(w, n, http.StatusOK, note)
	}
}

// receive records that a request came and finds what it meets.
func (s *CRM) receive(l line) (int, treatment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return 0, treatment{}, s.failed
	}
	var t treatment
	s.rules, t = treat(s.rules, func(r Rule) bool { return r.concerns(l.Account) })
	l.Event, l.Request, l.At = eventReceived, s.requests+1, time.Now()
	if s.failed = s.journal.write(l, false); s.failed != nil {
		return 0, t, s.failed
	}
	s.requests++
	return l.Request, t, nil
}

// store keeps a note, on the disk before it returns.
func (s *CRM) store(n int, note Note) (Note, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return note, s.failed
	}
	i, there := s.byWork[note.Ref]
	if there && !s.duplicates {
		note.ID, note.Writes = s.notes[i].ID, s.notes[i].Writes
	} else {
		note.ID = fmt.Sprintf("note-%06d", len(s.notes)+1)
	}
	note.Writes++
	if s.failed = s.journal.write(line{Event: eventStored, Request: n, At: time.Now(), Note: note.ID}, true); s.failed != nil {
		return note, s.failed
	}
	if there && !s.duplicates {
		s.notes[i] = note
		return note, nil
	}
	if !there {
		s.byWork[note.Ref] = len(s.notes)
	}
	s.notes = append(s.notes, note)
	return note, nil
}

// answer records the answer, then gives it.
func (s *CRM) answer(w http.ResponseWriter, n, status int, body any) {
	s.answered(n, status)
	answer(w, status, body)
}

// cut records the end of a request and cuts its connection. It does not return.
func (s *CRM) cut(n int) {
	s.answered(n, 0)
	panic(http.ErrAbortHandler)
}

func (s *CRM) answered(n, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = s.journal.write(line{Event: eventAnswered, Request: n, At: time.Now(), Status: status}, false)
	}
}

func (s *CRM) get(w http.ResponseWriter, r *http.Request) {
	ref := r.URL.Query().Get("ref")
	s.mu.Lock()
	var t treatment
	s.rules, t = treat(s.rules, Rule.concernsLookups)
	results := []Note{}
	for _, n := range s.notes {
		if ref == "" || n.Ref == ref {
			results = append(results, n)
		}
	}
	s.mu.Unlock()
	pause(r.Context(), t.slow)
	switch t.fault {
	case FaultAway:
		panic(http.ErrAbortHandler)
	case FaultFail:
		answer(w, http.StatusInternalServerError, map[string]string{"error": "try later"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"results": results})
}

func (s *CRM) showRules(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	rules := append([]Rule{}, s.rules...)
	s.mu.Unlock()
	answer(w, http.StatusOK, rules)
}

func (s *CRM) putRules(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var rules []Rule
	if err == nil {
		rules, err = ParseRules(body)
	}
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	s.mu.Lock()
	s.rules = rules
	s.mu.Unlock()
	answer(w, http.StatusOK, rules)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that went away is told nothing
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
