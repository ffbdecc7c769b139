//go:build linux

package command

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTailAgainstAPlainModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + rnd.IntN(40)
		kept := newTail(limit)
		var all []byte
		for range rnd.IntN(30) {
			p := make([]byte, rnd.IntN(60))
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			kept.add(p)
			all = append(all, p...)
			want := all[max(0, len(all)-limit):]
			got, dropped := kept.bytes()
			if !bytes.Equal(got, want) || dropped != int64(len(all)-len(want)) {
				t.Fatalf("seed %d, limit %d: kept %x after %d, want %x after %d", seed, limit, got, dropped, want, len(all)-len(want))
			}
		}
	}
}

func TestStatOfOddNames(t *testing.T) {
	const rest = " S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2\n"
	for _, name := range []string{"sh", "a b", ") Z 1 2 3", "(", "", "x)\n("} {
		p, err := parseStat([]byte("123 (" + name + ")" + rest))
		if err != nil || p != (proc{pid: 123, parent: 7, group: 8, state: 'S', start: 4242}) {
			t.Errorf("name %q: %+v, %v", name, p, err)
		}
	}
	for _, bad := range []string{"", "123", "123 (a) S 1", ") (", "x (a)" + rest} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q read as %+v", bad, p)
		}
	}
}

// A process that KILL does not end (stuck in the kernel, or out of our reach)
// cannot be made here, so the listing claims one.
func TestUnstoppableProcessesAreNamed(t *testing.T) {
	p := &process{
		cfg: Config{}, pid: 1 << 22, tree: newTree(1<<22, false, nil), swept: map[int]bool{}, stopping: true,
		killed:  time.Now().Add(-killWait - time.Second),
		members: func() []proc { return []proc{{pid: 1<<22 + 7, group: 1 << 22, state: 'D'}} },
	}
	if p.io, _ = plumb(Config{}); p.io == nil {
		t.Fatal("no plumbing")
	}
	defer p.io.abandon()
	p.poll()
	if !p.over() {
		t.Fatal("waits for ever")
	}
	res, err := p.result()
	if !errors.Is(err, ErrNotStopped) || res.ExitCode != 137 || len(res.Unstopped) != 1 || res.Unstopped[0] != 1<<22+7 {
		t.Errorf("result %+v, error %v", res, err)
	}
}

func TestDrainAtTheCutIsBounded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	go func() { // a left-behind process that never stops writing
		defer close(stop)
		_, _ = io.Copy(w, endless{})
	}()
	kept := newTail(10)
	s := newStream(r, nil, kept)
	s.cut()
	s.copy() // comes back although there is always more to read
	if _, n := kept.bytes(); n < drainBytes-10 || n > drainBytes+chunkBytes {
		t.Errorf("drained %d bytes, want about %d", n, drainBytes)
	}
	if cut, _ := finish([]*stream{s}, 0); !cut {
		t.Error("not reported as cut")
	}
	<-stop // EPIPE: our end is closed
	_ = w.Close()
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestExistingChildrenAreStrangers(t *testing.T) {
	if before := existingChildren(); len(before) > 0 {
		t.Fatalf("children before the test: %v", before)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	pid, events, err := spawn(Config{Argv: []string{"sleep", "100"}, Env: os.Environ()}, "/bin/sleep", [3]*os.File{null, null, null})
	if err != nil {
		t.Fatal(err)
	}
	strangers := existingChildren()
	if _, ok := strangers[pid]; !ok || len(strangers) != 1 {
		t.Errorf("strangers %v, want %d", strangers, pid)
	}
	tree := newTree(1<<22, true, strangers)
	if left := tree.members(); len(left) > 0 {
		t.Errorf("a process that was there before counts as ours: %v", left)
	}
	if left := newTree(1<<22, true, nil).members(); len(left) != 1 || left[0].pid != pid {
		t.Errorf("members %v, want %d", left, pid)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	if ev := <-events; !ev.exited || ev.status.Signal() != unix.SIGKILL {
		t.Errorf("event %+v", ev)
	}
}
