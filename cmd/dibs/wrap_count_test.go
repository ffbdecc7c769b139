package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dibs-run/dibs/internal/testdb"
)

// The round trips that a wrapper makes to a server, from its first statement to
// the start of the command, and after its end. Each has its reason:
//
//	before  read whose the tables are, begin, write the lock's row, read its run, the time with
//	        the waiters, the job, insert the trigger, take the lock, insert the run, commit,
//	        look how the former run ended
//	after   begin, write the lock's row, read its run, the time with the waiters, end the run
//	        and free the lock, commit
const (
	tripsBefore = 11
	tripsAfter  = 6
)

// TestWrapperMakesFewRoundTrips counts what a wrapper asks a server, at the
// protocol.
func TestWrapperMakesFewRoundTrips(t *testing.T) {
	t.Parallel()
	binary := buildBinary(t)
	w := newWrapWorld(t, "postgres", testdb.Postgres(t), binary)
	counted := countTrips(t, w.url)
	before, after := int64(1000), int64(1000)
	for i := range 4 { // now and then one looks for the dead; the least counts
		counted.trips.Store(0)
		w.file("hold", 0o600, "")
		p := w.wrap("touch ready; while [ -e hold ]; do sleep 0.01; done", "--db", counted.url)
		w.await("ready")
		started := counted.trips.Load()
		w.remove("hold")
		w.wantCode(p, 0)
		w.remove("ready")
		if i > 0 { // the first one registers the job
			before, after = min(before, started), min(after, counted.trips.Load()-started)
		}
	}
	t.Logf("%d round trips before the command, %d after it", before, after)
	if before > tripsBefore || after > tripsAfter {
		t.Errorf("%d round trips before the command and %d after it, want at most %d and %d", before, after, tripsBefore, tripsAfter)
	}
	if before < 5 || after < 3 {
		t.Errorf("counted %d and %d round trips: the proxy does not see them", before, after)
	}
}

// trips is a proxy that counts how often the client waits for the server.
type trips struct {
	url   string
	trips atomic.Int64
}

func countTrips(t *testing.T, address string) *trips {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.Host = listener.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	c := &trips{url: u.String()}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			group.Go(func() { c.carry(t, client, target) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return c
}

func (c *trips) carry(t *testing.T, client net.Conn, target string) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server) // ends with either side
		_ = client.Close()
	}()
	if err := c.read(bufio.NewReader(client), server); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		return // the client went without a word
	}
}

// read passes the client's messages on. Only Query and Sync make it wait.
func (c *trips) read(r *bufio.Reader, server io.Writer) error {
	kind := byte(0) // the first message has no kind
	for first := true; ; first = false {
		if !first {
			var err error
			if kind, err = r.ReadByte(); err != nil {
				return err
			}
		}
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(size[:])-4)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		message := append(size[:], body...)
		if !first {
			message = append([]byte{kind}, message...)
		}
		if kind == 'Q' || kind == 'S' {
			c.trips.Add(1)
		}
		if _, err := server.Write(message); err != nil {
			return err
		}
	}
}
