package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
)

// The promise: what a daemon with ten thousand schedules and nothing to do may
// take.
const (
	idleShare  = 1.0 // per cent of a core
	idleMemory = 64  // MiB
)

// BenchmarkIdleServe measures a daemon that has nothing to do, in its own
// process: its share of a core and its resident memory. `make bench` runs it.
func BenchmarkIdleServe(b *testing.B) {
	path := buildBinary(b)
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for kind, url := range map[string]string{"sqlite": testdb.SQLite(b), "postgres": testdb.Postgres(b)} {
				b.Run(kind, func(b *testing.B) {
					for range b.N {
						share, mib := idle(b, path, url, n)
						b.ReportMetric(share, "%core")
						b.ReportMetric(mib, "MiB")
						if share > idleShare || mib > idleMemory {
							b.Errorf("an idle daemon takes %.2f %% of a core and %.0f MiB", share, mib)
						}
					}
				})
			}
		})
	}
}

// idle watches a daemon for a while after it has settled.
func idle(b *testing.B, program, url string, jobs int) (share, mib float64) {
	b.Helper()
	w := &world{binary: program, dir: b.TempDir(), url: url}
	var file strings.Builder
	fmt.Fprintf(&file, "database: %q\ndefaults: {overlap: skip, on_uncertain: replay, time_zone: Europe/Berlin}\njobs:\n", url)
	for i := range jobs {
		fmt.Fprintf(&file, "  job%d: {schedule: \"%d %d %d 2 *\", handler: {exec: [\"true\"]}}\n", i, i%60, i%24, 1+i%28)
	}
	if err := os.WriteFile(w.dir+"/dibs.yaml", []byte(file.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	setup := w.command("init")
	if err := setup.Run(); err != nil {
		b.Fatalf("init: %v\n%s", err, setup.out)
	}
	at := address(b)
	serve := w.command("serve", "--listen", at)
	if err := serve.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		if err := serve.Wait(); err != nil {
			b.Errorf("serve: %v\n%s", err, serve.out)
		}
	}()
	for code := 0; code != 200; pause(time.Second) {
		code, _ = get(b, "http://"+at+"/readyz")
	}
	pause(10 * time.Second)
	before := cpuTime(b, serve.Process.Pid)
	pause(30 * time.Second)
	spent := cpuTime(b, serve.Process.Pid) - before
	return 100 * spent.Seconds() / 30, residentMiB(b, serve.Process.Pid)
}

func pause(d time.Duration) { <-time.After(d) }

// cpuTime is what a process has taken so far, by the kernel's count in
// hundredths of a second.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after) // from the state on
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func residentMiB(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}
