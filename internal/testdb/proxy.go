package testdb

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Proxy forwards TCP connections to a database server and can break them. All
// faults act on connections that exist and on those still to come, until they
// are taken back. Its methods may be called from several goroutines.
type Proxy struct {
	address  string // of the proxy
	listener net.Listener
	done     sync.WaitGroup

	mu       sync.Mutex
	pairs    map[*pair]struct{}
	closed   bool
	refusing bool
	delay    time.Duration
	stall    chan struct{} // closed when the black hole ends; nil: there is none
	trap     *trap
}

// pair is one client's connection and ours to the server on its behalf.
type pair struct {
	client, server net.Conn
	trapped        chan struct{} // closed once the next answer is to be lost
	trap           *trap         // set before trapped is closed
}

// trap waits for a request whose answer is to be lost.
type trap struct {
	after int64  // client bytes still to pass; used when text is empty
	text  []byte // lower case
	lost  chan struct{}
}

// NewProxy starts a proxy in front of the server of a postgres:// or mysql://
// URL and returns it with the URL that leads through it. It ends with the test.
func NewProxy(t testing.TB, address string) (proxy *Proxy, through string) {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil || target.Host == "" {
		t.Fatalf("a proxy needs the URL of a server (%v)", err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	proxy = &Proxy{address: listener.Addr().String(), listener: listener, pairs: map[*pair]struct{}{}}
	ctx, server := t.Context(), target.Host
	proxy.done.Go(func() { proxy.accept(ctx, server) })
	t.Cleanup(proxy.close)
	target.Host = proxy.address
	return proxy, target.String()
}

// Cut closes all present connections, on both sides.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for one := range p.pairs {
		one.close()
	}
}

// Refuse closes every new connection at once, or stops doing so.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = on
}

// Delay holds back everything by d, in each direction.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// BlackHole keeps connections open and forwards nothing, or ends that: what was
// sent meanwhile then arrives.
func (p *Proxy) BlackHole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.stall == nil:
		p.stall = make(chan struct{})
	case !on && p.stall != nil:
		close(p.stall)
		p.stall = nil
	}
}

// DropAnswerTo forwards the next request that contains text (in any case, within
// one packet: such as "commit"), waits for the server's answer, and closes the
// connection instead of passing it on: the server has done it, and the client
// does not know. The returned channel is closed when that has happened.
func (p *Proxy) DropAnswerTo(text string) <-chan struct{} {
	return p.set(&trap{text: bytes.ToLower([]byte(text)), lost: make(chan struct{})})
}

// DropAnswerAfter is [Proxy.DropAnswerTo] for the request with which the clients
// have sent n more bytes, counted over all connections.
func (p *Proxy) DropAnswerAfter(n int64) <-chan struct{} {
	return p.set(&trap{after: n, lost: make(chan struct{})})
}

func (p *Proxy) set(t *trap) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = t
	return t.lost
}

func (p *Proxy) accept(ctx context.Context, server string) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.done.Go(func() { p.serve(ctx, client, server) })
	}
}

// serve carries one connection until one side ends it.
func (p *Proxy) serve(ctx context.Context, client net.Conn, address string) {
	p.mu.Lock()
	turnedAway := p.refusing || p.closed
	p.mu.Unlock()
	if turnedAway {
		_ = client.Close()
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	one := &pair{client: client, server: server, trapped: make(chan struct{})}
	if !p.add(one) {
		one.close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.forward(one, client, server, p.inspect) })
	both.Go(func() { p.forward(one, server, client, answer) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, one)
}

func (p *Proxy) add(one *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.pairs[one] = struct{}{}
	return true
}

// forward copies one direction. look sees each piece before it is passed on and
// may end the connection by answering false.
func (p *Proxy) forward(one *pair, from, to net.Conn, look func(*pair, []byte) bool) {
	defer one.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.hold()
			if !look(one, buffer[:n]) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold waits for the end of the black hole and of the delay.
func (p *Proxy) hold() {
	p.mu.Lock()
	stall, delay := p.stall, p.delay
	p.mu.Unlock()
	if stall != nil {
		<-stall
	}
	if delay > 0 {
		<-time.After(delay)
	}
}

// inspect looks for the request that the trap waits for.
func (p *Proxy) inspect(one *pair, request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trap
	if t == nil || one.trap != nil {
		return true
	}
	t.after -= int64(len(request))
	caught := t.after <= 0
	if len(t.text) > 0 {
		caught = bytes.Contains(bytes.ToLower(request), t.text)
	}
	if caught {
		p.trap, one.trap = nil, t
		close(one.trapped)
	}
	return true
}

// answer loses the answer to a request that was caught.
func answer(one *pair, _ []byte) bool {
	select {
	case <-one.trapped:
		one.close()
		close(one.trap.lost)
		return false
	default:
		return true
	}
}

func (one *pair) close() {
	_ = one.client.Close() // closing twice is harmless
	_ = one.server.Close()
}

// close ends the proxy and waits for its goroutines.
func (p *Proxy) close() {
	p.BlackHole(false)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.done.Wait()
}
