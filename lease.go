package dibs

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Fence is a fencing token: it grows at every claim of a row and is never
// reset. Hand it to destinations that can refuse an older one.
type Fence int64

// Token names one act of claiming, made by the client: "RUN-ID/n". It is new
// for each claim and stable across renewals.
type Token string

// ClaimToken returns the n-th token of a run.
func ClaimToken(run string, n int) Token { return Token(run + "/" + strconv.Itoa(n)) }

// Run returns the run that made the token.
func (t Token) Run() string {
	run, _, _ := strings.Cut(string(t), "/")
	return run
}

// Lease is the time-bound right that a claim won.
type Lease struct {
	// Token proves ownership together with Fence.
	Token Token
	Fence Fence
	// EndsAt is the end by the database's clock.
	EndsAt time.Time
	// Now is the database's time when EndsAt was read.
	Now time.Time
}

// Left is the time that remained, by the database's clock, when the lease was
// read.
func (l Lease) Left() time.Duration { return l.EndsAt.Sub(l.Now) }

// Holder says which process has something. It is never a host name alone: a
// restarted process on the same host is another holder.
type Holder struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Process is random, made at process start.
	Process string `json:"process"`
	// Instance is the pod, function request or release, if there is one.
	Instance string `json:"instance,omitempty"`
}

// NewHolder describes this process. Call it once per process.
func NewHolder(instance string) (Holder, error) {
	host, err := os.Hostname()
	if err != nil {
		return Holder{}, fmt.Errorf("name this host: %w", err)
	}
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return Holder{}, fmt.Errorf("make a process name: %w", err)
	}
	return Holder{Host: host, PID: os.Getpid(), Process: hex.EncodeToString(b[:]), Instance: instance}, nil
}

// String is the stored form: host/pid/process[/instance], parts escaped so that
// different holders never read alike.
func (h Holder) String() string {
	s := escapePart(h.Host) + "/" + strconv.Itoa(h.PID) + "/" + escapePart(h.Process)
	if h.Instance != "" {
		s += "/" + escapePart(h.Instance)
	}
	return s
}

// ParseHolder reads what [Holder.String] wrote.
func ParseHolder(s string) (Holder, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 3 || len(parts) > 4 {
		return Holder{}, fmt.Errorf("holder %q: want host/pid/process[/instance]", s)
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return Holder{}, fmt.Errorf("holder %q: pid: %w", s, err)
	}
	h := Holder{Host: unescapePart(parts[0]), PID: pid, Process: unescapePart(parts[2])}
	if len(parts) == 4 {
		h.Instance = unescapePart(parts[3])
	}
	return h, nil
}

// NewRunID makes a run's name: time-ordered, unique, lower case, with its
// random part last so that a short suffix tells runs apart.
func NewRunID() (string, error) { return newID("run_") }

// NewTriggerID makes a trigger's name, in the same form.
func NewTriggerID() (string, error) { return newID("trg_") }

func newID(prefix string) (string, error) {
	u, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	enc := base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)
	return prefix + enc.EncodeToString(u[:]), nil
}

// ShortID is how people see an id: an ellipsis and its last four characters.
func ShortID(id string) string {
	if len(id) <= 4 {
		return id
	}
	return "…" + id[len(id)-4:]
}
