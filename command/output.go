package command

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

const (
	chunkBytes = 32 << 10
	// drainBytes bounds what is still read at the cut: more than a pipe holds,
	// and an end for a left-behind process that never stops writing.
	drainBytes = 1 << 20
	// drainWait is how long one read of the drain may wait for bytes that are
	// there already; the pipe is empty when it passes.
	drainWait = 10 * time.Millisecond
)

// streamState is what the copier of a stream is doing.
type streamState int

const (
	reading streamState = iota
	writing             // inside dst.Write, for as long as that takes
	readingOver
)

// stream carries one output pipe of the child to its destination and into the
// records. It reads chunks, never lines. A destination that fails is dropped
// and the reading goes on, so the child never notices.
type stream struct {
	src     *os.File
	dst     io.Writer // nil discards; used by the copier alone
	records []*tail
	read    chan struct{} // closed when the records are complete
	done    chan struct{} // closed when the copier has ended

	mu      sync.Mutex
	state   streamState
	kicked  bool   // the copier's read was ended by a deadline
	pending []byte // read by cut while the copier was writing
	eof     bool   // the last writer has closed the pipe
	err     error
}

func newStream(src *os.File, dst io.Writer, records ...*tail) *stream {
	return &stream{src: src, dst: dst, records: records, read: make(chan struct{}), done: make(chan struct{})}
}

// copy runs until the end of the pipe or until cut.
func (s *stream) copy() {
	defer close(s.done)
	defer s.src.Close()
	buf := make([]byte, chunkBytes)
	for {
		n, err := s.src.Read(buf)
		if n > 0 && !s.deliver(buf[:n]) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			rest, err := s.drain()
			s.endReading(errors.Is(err, io.EOF))
			s.write(rest)
			return
		}
		if err != nil {
			s.endReading(err == io.EOF)
			return
		}
	}
}

// deliver records and writes one chunk and reports whether to read on. The
// record comes first: a blocked destination must not hide the end.
func (s *stream) deliver(p []byte) bool {
	s.record(p)
	s.enter(writing)
	s.write(p)
	if s.enter(reading) {
		return true
	}
	s.write(s.pending) // complete: nothing adds to it once reading is over
	return false
}

// enter changes the state and reports whether reading goes on.
func (s *stream) enter(state streamState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == readingOver {
		return false
	}
	s.state = state
	return true
}

// endReading marks the records complete; the copier and cut never both do.
func (s *stream) endReading(eof bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eof, s.state = eof, readingOver
	close(s.read)
}

func (s *stream) reachedEnd() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eof
}

func (s *stream) record(p []byte) {
	for _, t := range s.records {
		t.add(p)
	}
}

func (s *stream) write(p []byte) {
	if s.dst == nil || len(p) == 0 {
		return
	}
	if _, err := s.dst.Write(p); err != nil {
		s.dst = nil
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
}

func (s *stream) firstErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// drain reads and records what is in the pipe already and says why it ended.
func (s *stream) drain() (rest []byte, err error) {
	buf := make([]byte, chunkBytes)
	for err == nil && len(rest) < drainBytes {
		// A read under a deadline that has passed gives nothing even if bytes
		// are there, hence one slightly ahead for each read.
		if err = s.src.SetReadDeadline(time.Now().Add(drainWait)); err != nil {
			break
		}
		var n int
		n, err = s.src.Read(buf)
		rest = append(rest, buf[:n]...)
	}
	s.record(rest)
	return rest, err
}

// cut ends the reading. What the pipe holds is still recorded: by the copier
// when it waits for output, or here when it is inside a slow Write; it then
// delivers the rest after that. A copier between the two is caught by calling
// cut again.
func (s *stream) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == writing:
		var err error
		s.pending, err = s.drain()
		s.eof, s.state = errors.Is(err, io.EOF), readingOver
		close(s.read)
	case s.state == reading && !s.kicked:
		s.kicked = true
		_ = s.src.SetReadDeadline(time.Now()) // fails only if closed already
	}
}

// cutAndWait ends the reading and waits until the records are complete.
func (s *stream) cutAndWait() {
	again := time.NewTicker(10 * drainWait)
	defer again.Stop()
	for {
		s.cut()
		select {
		case <-s.read:
			return
		case <-again.C:
		}
	}
}

// finish waits for the streams up to grace and ends the reading of those that
// are left. It reports whether anything was still open then; flushed is closed
// when every copier has ended.
func finish(streams []*stream, grace time.Duration) (cut bool, flushed <-chan struct{}) {
	awaitDone(streams, grace)
	for _, s := range streams {
		s.cutAndWait()
		cut = cut || !s.reachedEnd()
	}
	all := make(chan struct{})
	if awaitDone(streams, 0) {
		close(all)
		return cut, all
	}
	go func() {
		defer close(all)
		for _, s := range streams {
			<-s.done
		}
	}()
	return cut, all
}

// awaitDone waits for all copiers up to limit and reports whether all ended.
func awaitDone(streams []*stream, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, s := range streams {
		select {
		case <-s.done:
			continue
		default:
		}
		select {
		case <-s.done:
		case <-timer.C:
			return false
		}
	}
	return true
}
