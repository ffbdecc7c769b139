package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// The events of a request, as lines of the CRM's file.
const (
	eventReceived = "received"
	eventStored   = "stored"
	eventAnswered = "answered"
)

// line is one line of the CRM's file. A request has a line when it came, one
// when its note was stored, and one when it was answered.
type line struct {
	Event   string    `json:"event"`
	Request int       `json:"request"`
	At      time.Time `json:"at"`

	// Of a received request.
	Account string `json:"account,omitempty"`
	WorkID  string `json:"work_id,omitempty"`
	Run     string `json:"run,omitempty"`
	Content string `json:"content,omitempty"`

	// Of a stored note.
	Note string `json:"note,omitempty"`

	// Of an answer; 0: the connection was cut.
	Status int `json:"status,omitempty"`
}

// Request is one note request as the CRM recorded it.
type Request struct {
	Account, WorkID, Run string
	// Content is the body that came.
	Content  string
	Received time.Time
	// Answered is when the answer was written or the connection cut; zero when
	// the CRM ended first.
	Answered time.Time
	// Status is what was answered; 0: nothing was.
	Status int
	// Note is the ID of the note that was stored; empty: none was.
	Note     string
	StoredAt time.Time
}

// journal is the CRM's own file: lines are only ever appended.
type journal struct{ file *os.File }

// openJournal opens or makes the file and reads what is there. A last line that
// was cut short is removed: it was never synced, so nobody was told of it.
func openJournal(path string) (*journal, []Request, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("open the CRM's file: %w", err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	requests, err := readRequests(bytes.NewReader(text[:whole]))
	if err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the CRM's file: %w", err)
	}
	if err := file.Truncate(int64(whole)); err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("open the CRM's file: %w", err)
	}
	return &journal{file}, requests, nil
}

// write appends a line. With sync it is on the disk when write returns, and so
// are those before it.
func (j *journal) write(l line, sync bool) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write the CRM's file: %w", err)
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the CRM's file: %w", err)
	}
	if !sync {
		return nil
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("write the CRM's file: %w", err)
	}
	return nil
}

// ReadRequests reads a CRM's file: its requests in the order in which they came.
// The file may belong to a CRM that is running.
func ReadRequests(path string) ([]Request, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the CRM's file: %w", err)
	}
	return readRequests(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
}

func readRequests(r io.Reader) ([]Request, error) {
	var all []Request
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("read the CRM's file: line %d: %w", n, err)
		}
		if l.Event == eventReceived {
			if l.Request != len(all)+1 {
				return nil, fmt.Errorf("read the CRM's file: line %d: request %d comes after %d", n, l.Request, len(all))
			}
			all = append(all, Request{Account: l.Account, WorkID: l.WorkID, Run: l.Run, Content: l.Content, Received: l.At})
			continue
		}
		if l.Request < 1 || l.Request > len(all) {
			return nil, fmt.Errorf("read the CRM's file: line %d: request %d never came", n, l.Request)
		}
		req := &all[l.Request-1]
		switch l.Event {
		case eventStored:
			req.Note, req.StoredAt = l.Note, l.At
		case eventAnswered:
			req.Answered, req.Status = l.At, l.Status
		default:
			return nil, fmt.Errorf("read the CRM's file: line %d: no event %q", n, l.Event)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the CRM's file: %w", err)
	}
	return all, nil
}
