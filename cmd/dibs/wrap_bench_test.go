package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/testdb"
)

// BenchmarkWrapper compares the wrapper, as a whole process, with the least that
// one can do: see testdata/floor. Both run in turn, so that the machine's mood is
// the same for both; the medians of all pairs are reported.
func BenchmarkWrapper(b *testing.B) {
	if os.Getenv("DIBS_BENCH") == "" {
		b.Skip("set DIBS_BENCH=1, as make bench does: it needs servers")
	}
	dibs, floor := benchProgram(b, "."), benchProgram(b, "./testdata/floor")
	for kind, url := range map[string]func(testing.TB) string{"sqlite": testdb.SQLite, "postgres": testdb.Postgres} {
		b.Run(kind, func(b *testing.B) {
			url := url(b)
			driver, dsn, err := testdb.DSN(url)
			if err != nil {
				b.Fatal(err)
			}
			if kind == "sqlite" {
				if dsn, err = sqliteName(strings.TrimPrefix(url, "sqlite:")); err != nil {
					b.Fatal(err)
				}
			}
			quiet(b, dibs, "init", "--db", url)
			db := testdb.Open(b, url)
			for _, s := range []string{"CREATE TABLE floor (id INTEGER PRIMARY KEY, holder TEXT, fence INTEGER NOT NULL)", "INSERT INTO floor VALUES (1, NULL, 0)"} {
				if _, err := db.ExecContext(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
			comparePrograms(b, 60,
				[]string{dibs, "run", "job", "--db", url, "--", "/bin/true"},
				[]string{floor, driver, dsn, "/bin/true"})
		})
	}
}

// BenchmarkVersion compares how long dibs takes to say which version it is with
// a program that links the SQLite driver and prints a line.
func BenchmarkVersion(b *testing.B) {
	comparePrograms(b, 200, []string{benchProgram(b, "."), "version"}, []string{benchProgram(b, "./testdata/hello")})
}

// comparePrograms runs both in turn and reports the medians.
func comparePrograms(b *testing.B, pairs int, ours, floor []string) {
	peak := benchProgram(b, "./testdata/peak")
	for b.Loop() {
		var a, z []sample
		for range pairs {
			a, z = append(a, measure(b, peak, ours)), append(z, measure(b, peak, floor))
		}
		ourWall, floorWall := median(a, func(s sample) float64 { return s.wall }), median(z, func(s sample) float64 { return s.wall })
		ourPeak, floorPeak := median(a, func(s sample) float64 { return s.peak }), median(z, func(s sample) float64 { return s.peak })
		b.ReportMetric(ourWall, "ms")
		b.ReportMetric(floorWall, "floor-ms")
		b.ReportMetric(ourWall/floorWall, "×wall")
		b.ReportMetric(ourPeak, "MB")
		b.ReportMetric(floorPeak, "floor-MB")
		b.ReportMetric(ourPeak/floorPeak, "×peak")
	}
}

// sample is one process: its wall time in ms and its peak memory in MB.
type sample struct{ wall, peak float64 }

// measure runs a program twice: once for its time, once for its memory.
func measure(b *testing.B, peak string, argv []string) sample {
	began := time.Now()
	quiet(b, argv...)
	took := time.Since(began)
	kib, err := strconv.ParseFloat(strings.TrimSpace(quiet(b, append([]string{peak}, argv...)...)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return sample{float64(took.Microseconds()) / 1000, kib / 1024}
}

func median(list []sample, of func(sample) float64) float64 {
	values := make([]float64, len(list))
	for i, s := range list {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// benchProgram builds a program as it is released.
func benchProgram(b *testing.B, pkg string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "program")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

// quiet runs a program and gives its output.
func quiet(b *testing.B, argv ...string) string {
	b.Helper()
	c := exec.CommandContext(b.Context(), argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "HOME="+filepath.Dir(argv[0]))
	c.Dir = filepath.Dir(argv[0])
	out, err := c.CombinedOutput()
	if err != nil {
		b.Fatal(fmt.Errorf("%q: %w: %s", argv, err, out))
	}
	return string(out)
}
