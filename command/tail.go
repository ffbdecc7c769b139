package command

import (
	"fmt"
	"sync"
)

// tail keeps the last limit bytes of what is written to it. It knows bytes
// only, so neither NUL nor a line without end can disturb it. It is safe for
// concurrent use: both output streams write to one tail.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   []byte // grows up to limit, then is a ring
	next  int    // where the next byte goes once buf is full
	total int64
}

func newTail(limit int) *tail {
	if limit <= 0 {
		return nil
	}
	return &tail{limit: limit}
}

// add appends p. A nil tail takes nothing.
func (t *tail) add(p []byte) {
	if t == nil || len(p) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	if len(p) >= t.limit {
		t.buf = append(t.buf[:0], p[len(p)-t.limit:]...)
		t.next = 0
		return
	}
	if room := t.limit - len(t.buf); room > 0 {
		n := min(room, len(p))
		t.buf = append(t.buf, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(t.buf[t.next:], p)
		t.next = (t.next + n) % t.limit
		p = p[n:]
	}
}

// bytes gives a copy of what is kept and the number of bytes before it.
func (t *tail) bytes() (kept []byte, dropped int64) {
	if t == nil {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	kept = make([]byte, 0, len(t.buf))
	if len(t.buf) == t.limit {
		kept = append(kept, t.buf[t.next:]...)
		kept = append(kept, t.buf[:t.next]...)
	} else {
		kept = append(kept, t.buf...)
	}
	return kept, t.total - int64(len(kept))
}

// marked is bytes with a first line that says what is missing.
func (t *tail) marked() (kept []byte, truncated bool) {
	kept, dropped := t.bytes()
	if dropped == 0 {
		return kept, false
	}
	mark := fmt.Appendf(nil, "[dibs: %d bytes cut]\n", dropped)
	return append(mark, kept...), true
}
