package cli

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// pinger tells a monitor such as Healthchecks that a run started and how it
// ended. It never delays or fails the run: what is not answered in time is not
// waited for. A nil pinger does nothing.
type pinger struct {
	url  *url.URL
	done []chan struct{}
}

// pingWait bounds the wait for the last answer, after the outcome is recorded.
const pingWait = 5 * time.Second

func newPinger(address string) *pinger {
	u, err := url.Parse(address)
	if address == "" || err != nil {
		return nil
	}
	return &pinger{url: u}
}

// send makes a request in the background.
func (p *pinger) send(suffix string) {
	if p == nil {
		return
	}
	u := *p.url
	u.Path = strings.TrimSuffix(u.Path, "/") + suffix
	done := make(chan struct{})
	p.done = append(p.done, done)
	before := p.done[:len(p.done)-1]
	go func() {
		defer close(done)
		for _, earlier := range before { // in order: start before its end
			<-earlier
		}
		ctx, cancel := context.WithTimeout(context.Background(), pingWait)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return // a monitor that is down notices by itself
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
		_ = res.Body.Close()
	}()
}

// finish reports the end and waits a little for what is on its way.
func (p *pinger) finish(good bool) {
	if p == nil {
		return
	}
	suffix := ""
	if !good {
		suffix = "/fail"
	}
	p.send(suffix)
	over := time.NewTimer(pingWait)
	defer over.Stop()
	for _, done := range p.done {
		select {
		case <-done:
		case <-over.C:
			return
		}
	}
}
