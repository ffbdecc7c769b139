package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs"
)

func TestSkipsBecomeLoudEverMoreRarely(t *testing.T) {
	var said []int
	for n := 1; n <= 1000; n++ {
		if loud(n, 3) {
			said = append(said, n)
		}
	}
	if want := []int{3, 10, 100, 1000}; !slices.Equal(said, want) {
		t.Errorf("loud at %v, want %v", said, want)
	}
	if loud(3, 0) || !loud(1, 1) || !loud(10, 1) {
		t.Error("0 means never, 1 means from the first on")
	}
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 13: "13th", 22: "22nd", 100: "100th", 112: "112th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestCaptureReadsSizes(t *testing.T) {
	for text, want := range map[string]int{"none": 0, "0": 0, "4096": 4096, "64KiB": 65536, "100kB": 100000, "1MiB": 1 << 20, "2k": 2000} {
		if got, err := captureBytes(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "lots", "-1", "2MiB", "64KiBx", "1e3", "KiB"} {
		if got, err := captureBytes(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func TestNamesAreThoseOfThePrograms(t *testing.T) {
	for command, want := range map[string]string{
		"/srv/export.sh --all":                         "export",
		"cd /srv && ./report.py > out":                 "report",
		"A=1 nice -n 10 /usr/bin/php /www/cron.php":    "cron",
		"flock -n /tmp/x.lock /opt/sync":               "sync",
		"[ -x /usr/bin/a ] && /usr/bin/a":              "a",
		"run-parts --report /etc/cron.hourly":          "run-parts",
		"/usr/local/bin/back%up":                       "back-up",
		"true":                                         "job",
		"sh -c 'exec timeout 30s python3 -m tool.run'": "tool",
	} {
		if got := jobName(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

func TestPingsComeInOrderAndNeverHold(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.URL.String())
	}))
	defer server.Close()
	p := newPinger(server.URL + "/id?x=1")
	p.send("/start")
	p.finish(false)
	p = newPinger(server.URL + "/id")
	p.finish(true)
	if got, want := strings.Join(paths, " "), "/id/start?x=1 /id/fail?x=1 /id"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	newPinger("").finish(true) // nothing to tell
}

// answers is a database whose renewals are scripted.
type answers struct {
	dibs.Runs
	renew func() (dibs.Renewed, error)
}

func (a answers) RenewRun(context.Context, dibs.RunRef, time.Duration) (dibs.Renewed, error) {
	return a.renew()
}

// TestKeeperStopsBeforeTheLeaseEnds: the command is stopped so early that it can
// be killed, and its end written, before the database's lease end.
func TestKeeperStopsBeforeTheLeaseEnds(t *testing.T) {
	down := func() (dibs.Renewed, error) { return dibs.Renewed{}, errors.New("database is away") }
	refuse := func() (dibs.Renewed, error) { return dibs.Renewed{Now: time.Now()}, nil }
	asked := func() (dibs.Renewed, error) {
		now := time.Now()
		return dibs.Renewed{Ends: now.Add(20 * time.Second), StopBy: now.Add(-time.Second), Now: now}, nil
	}
	for name, tt := range map[string]struct {
		renew    func() (dibs.Renewed, error)
		at, kill time.Duration
		cause    error
		lost     bool
	}{
		"database away": {down, 48 * time.Second, 58 * time.Second, dibs.ErrLeaseLost, true},
		"refused":       {refuse, 20 * time.Second, 58 * time.Second, dibs.ErrLeaseLost, true},
		"asked to stop": {asked, 20 * time.Second, 38 * time.Second, errAskedToStop, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timing, err := wrapTimingOf(time.Minute, 0)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				child, stop := context.WithCancelCause(ctx)
				began := time.Now()
				k := newKeeper(&keeper{runs: answers{renew: tt.renew}, timing: timing, stop: stop, say: t.Logf}, began, time.Minute)
				done := make(chan struct{})
				go func() { k.keep(ctx); close(done) }()
				<-child.Done()
				if took := time.Since(began); took != tt.at {
					t.Errorf("stopped after %s, want %s", took, tt.at)
				}
				if kill := k.killBy().Sub(began); kill != tt.kill {
					t.Errorf("kill after %s, want %s", kill, tt.kill)
				}
				if !errors.Is(context.Cause(child), tt.cause) {
					t.Errorf("cause %v, want %v", context.Cause(child), tt.cause)
				}
				if lost, _, _, _ := k.state(); lost != tt.lost {
					t.Errorf("lost %v, want %v", lost, tt.lost)
				}
				cancel()
				<-done
			})
		})
	}
}

func TestKeeperRefusesLeasesThatFitNothing(t *testing.T) {
	if _, err := wrapTimingOf(3*time.Second, 3*time.Second); err == nil {
		t.Error("a grace as long as the lease was accepted")
	}
}
