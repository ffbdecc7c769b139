package dibs

import (
	"fmt"
	"strings"
	"time"
)

// RunKind tells a run over items, a run of one command, and the runs that
// repair.
type RunKind string

// The kinds of a run.
const (
	KindItems     RunKind = "items"
	KindCommand   RunKind = "command"
	KindReconcile RunKind = "reconcile"
	KindRecovery  RunKind = "recovery"
)

// RunState is where a run stands: running, then one of the five ends.
type RunState string

// The states of a run.
const (
	RunRunning   RunState = "running"
	RunSucceeded RunState = "succeeded"
	RunPartial   RunState = "partial"
	RunFailed    RunState = "failed"
	RunCancelled RunState = "cancelled"
	RunLost      RunState = "lost"
)

// Run is one execution: it answers "which execution attempted this?".
type Run struct {
	ID      string   `json:"id"`
	Job     string   `json:"job"`
	Lock    string   `json:"lock,omitempty"`
	Trigger string   `json:"trigger"`
	Origin  Origin   `json:"origin"`
	Kind    RunKind  `json:"kind"`
	State   RunState `json:"state"`
	Reason  Reason   `json:"reason,omitempty"`
	// Slot is the slot that the run is for; zero when there is none.
	Slot time.Time `json:"slot,omitzero"`
	// Key, when set, narrows the run to one item.
	Key        string `json:"key,omitempty"`
	Definition string `json:"definition,omitempty"`

	Holder Holder    `json:"holder"`
	Token  Token     `json:"-"`
	Lease  time.Time `json:"lease_end"`
	// LeaseFor is the length of lease the holder asked for.
	LeaseFor  time.Duration `json:"-"`
	Heartbeat time.Time     `json:"heartbeat"`
	StopBy    time.Time     `json:"stop_by,omitzero"`
	StartedAt time.Time     `json:"started_at"`
	EndedAt   time.Time     `json:"ended_at,omitzero"`

	Counts Counts `json:"counts"`
	// Position says how far the run came, for people: the last key settled.
	Position string `json:"position,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Error    string `json:"error,omitempty"`
	Output   string `json:"output,omitempty"`
	// Recovers is the run that this one repairs.
	Recovers string `json:"recovers,omitempty"`
	// Previous says how the former holder of the lock ended when it did not end
	// by itself: "lost:RUN".
	Previous string `json:"previous,omitempty"`
}

// Ref is what every later write about the run proves itself with.
func (r Run) Ref() RunRef { return RunRef{ID: r.ID, Token: r.Token} }

// RunRef names a run and proves ownership of it.
type RunRef struct {
	ID    string
	Token Token
}

// Counts is the sum that balances: Selected = Completed + AlreadyDone + Failed
// + Rejected + Uncertain + Held + Released + Lost once a run has ended.
type Counts struct {
	Selected    int64 `json:"selected"`
	Completed   int64 `json:"completed"`
	AlreadyDone int64 `json:"already_done"`
	Failed      int64 `json:"failed"`
	Rejected    int64 `json:"rejected"`
	Uncertain   int64 `json:"uncertain"`
	Held        int64 `json:"held"`
	Released    int64 `json:"released"`
	Lost        int64 `json:"lost"`
	// Remaining is what was left eligible when the run ended.
	Remaining int64 `json:"remaining"`
}

// Add counts n items with an outcome.
func (c *Counts) Add(o Outcome, n int64) {
	switch o {
	case OutcomeCompleted:
		c.Completed += n
	case OutcomeAlreadyDone:
		c.AlreadyDone += n
	case OutcomeFailed:
		c.Failed += n
	case OutcomeRejected:
		c.Rejected += n
	case OutcomeUncertain:
		c.Uncertain += n
	case OutcomeHeld:
		c.Held += n
	case OutcomeReleased:
		c.Released += n
	case OutcomeLost:
		c.Lost += n
	}
}

// Ended is the number of items that have an outcome.
func (c Counts) Ended() int64 {
	return c.Completed + c.AlreadyDone + c.Failed + c.Rejected + c.Uncertain + c.Held + c.Released + c.Lost
}

// Balanced tells whether every selected item ended in exactly one outcome.
func (c Counts) Balanced() bool { return c.Selected == c.Ended() }

// String writes the sum, leaving out what is zero except completed, uncertain
// and remaining.
func (c Counts) String() string {
	parts := []string{fmt.Sprintf("%d completed", c.Completed)}
	for _, p := range []struct {
		n    int64
		word string
	}{
		{c.AlreadyDone, "already done"}, {c.Failed, "failed"}, {c.Rejected, "rejected"},
		{c.Held, "held"}, {c.Released, "released"}, {c.Lost, "lost"},
	} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return fmt.Sprintf("%d claimed = %s, %d uncertain, %d remaining",
		c.Selected, strings.Join(parts, " + "), c.Uncertain, c.Remaining)
}

// Report is how one trigger ended, as the process that brought it saw it.
type Report struct {
	Trigger Trigger
	// Run is the run that was started, if any, as it ended.
	Run *Run
	// Spent is, for a duplicate, the run that spent the slot, whose verdict holds
	// for this trigger too; for a skip, nil.
	Spent *Run
	// Next is the job's next slot, when nothing was due; zero: none.
	Next time.Time
}

// String says the decision and, for a run, its sum.
func (r Report) String() string {
	if r.Run == nil {
		s := string(r.Trigger.Decision)
		if r.Trigger.Reason != "" {
			s += " (" + string(r.Trigger.Reason) + ")"
		}
		return s
	}
	return string(r.Trigger.Decision) + ": " + r.Run.Counts.String()
}
