package dibs

import (
	"context"
	"time"
)

// Overlap says what happens to a trigger that arrives while a live run has the
// lock.
type Overlap string

// The overlap policies.
const (
	Skip     Overlap = "skip"     // the next slot covers the work
	Queue    Overlap = "queue"    // every trigger is a distinct window
	Coalesce Overlap = "coalesce" // one more run covers all that arrived
	Replace  Overlap = "replace"  // only the newest matters
	Allow    Overlap = "allow"    // items exclude one another by their own claims
)

// OnUncertain says what happens to an item whose earlier attempt began and
// left no outcome.
type OnUncertain string

// The choices for uncertain items.
const (
	Replay OnUncertain = "replay" // the handler is idempotent: run it again
	Lookup OnUncertain = "lookup" // ask the destination
	Hold   OnUncertain = "hold"   // a person decides
)

// Handle processes one item. A nil error means done. See [Reject],
// [NotApplied] and [Later] for what else it can say; any other error means that
// the outcome is unknown. The context ends with the time-out and with the lease
// ([ErrLeaseLost]); a handler that ignores it keeps its slot and its lease
// until it returns. Handle is called from several goroutines at once.
type Handle func(ctx context.Context, it Item) (Receipt, error)

// HandleBatch processes all items of a batch in one call and answers for each,
// in order. An error of its own counts for every item without an answer.
type HandleBatch func(ctx context.Context, items []Item) ([]Result, error)

// Job is a named definition: what to claim, what to do with it, and what
// happens when triggers collide. The zero value of every optional field has a
// stated default.
type Job struct {
	// Name: 1 to 200 bytes of UTF-8, no control characters, no outer white
	// space, compared byte for byte.
	Name string
	// Overlap is required.
	Overlap Overlap
	// OnUncertain is required for a job with items.
	OnUncertain OnUncertain
	// Lock lets jobs exclude one another. Default: the job's name.
	Lock string
	// Source is where the items come from; nil makes the run itself the one
	// item.
	Source Source
	// Operation is the middle part of the default work ID. Default: "run".
	Operation string
	// Identity is the template of the work ID, parts joined by "/": {job},
	// {operation}, {key}, {key.N} or {key.COLUMN}, {cycle}, {slot}, {trigger}, or
	// a selected column. Default: {job}/{operation}/{key}, and for recurring rows
	// also {cycle}, or, where a row has none, the slot or the trigger.
	Identity string
	// ReceiptRequired makes done without a destination ID an unknown outcome.
	ReceiptRequired bool
	// Lookup asks the destination about one item. Required with [Lookup].
	Lookup LookupFunc
	// LookupAfter is how long after the last instant at which an attempt could
	// have sent an absent answer is believed. Default: twice Timeout, or twice
	// Lease without one.
	LookupAfter time.Duration
	// Idempotency bounds the belief that the destination recognises a replay.
	Idempotency Idempotency

	// Batch is the most rows that one claim takes. Default 100.
	Batch int
	// Concurrency is the number of handlers running at once. Default 1.
	Concurrency int
	// Lease is how long a claim lasts without renewal. Default 60 s.
	Lease time.Duration
	// NoHeartbeat turns renewal off: the lease must then outlast the run.
	NoHeartbeat bool
	// Grace is how long a cancelled handler may take to stop. Default: the
	// smaller of 10 s and a quarter of the lease.
	Grace time.Duration
	// Timeout is the limit per item (of a unit job: per run). Default: none.
	Timeout time.Duration
	// MaxItems and MaxDuration end a run early. Zero: no limit.
	MaxItems    int
	MaxDuration time.Duration

	Retry Retry

	// Schedule says when the job is due; nil: something else says when.
	Schedule Scheduler
	// CatchUp says what happens to slots that passed unfired.
	CatchUp CatchUp
	// Early is how long before a slot a request for it is already in time.
	// Default: the smaller of 10 s and a tenth of the schedule's interval.
	Early time.Duration
	// QueueLimit is the most triggers that wait under [Queue]. Default 10.
	QueueLimit int
	// NotWithin refuses a trigger so soon after the last run that succeeded. For
	// jobs that something else fires. A person's own trigger is not refused.
	NotWithin time.Duration
	// PerHost gives each host a job of its own, named NAME@HOST: its own lock,
	// slots and history. Only without a source.
	PerHost bool
	// RunOn names the hosts that may run the job. Empty: every host. Elsewhere a
	// slot is left waiting for one of them.
	RunOn []string
	// Breaker is how many consecutive answers that the destination is down or
	// refuses us altogether make a run stop claiming. Default 10; negative: never.
	Breaker int

	// RecoverLimit is how many items a recovery may replay without being told that
	// it is a large one. Default 1000.
	RecoverLimit int

	// Handle or HandleBatch does the work.
	Handle      Handle
	HandleBatch HandleBatch

	// Definition is the text whose hash names this version of the job in
	// history. Default: what the other fields say.
	Definition string
	Labels     map[string]string
	Owner      string
}

// Idempotency is what a destination promises about repeated requests.
type Idempotency struct {
	// ValidFor is how long after the first attempt a replay is recognised; after
	// that, an unknown outcome is held. Zero: for ever.
	ValidFor time.Duration
}

// Retry says how failed items come back.
type Retry struct {
	// Min and Max bound the exponential backoff, which has full jitter.
	// Defaults 30 s and 1 h.
	Min, Max time.Duration
	// MaxAttempts is the budget of a one-shot row. Default 8. Recurring rows
	// retry without limit unless it is set.
	MaxAttempts int
	// MaxExpirations is how many lease expirations in a row quarantine a row.
	// Default 3.
	MaxExpirations int
}

// Source is where a job's items come from. Table is the only one.
type Source interface{ source() }

// Always as a Table's Every says that a completed row may come again at once,
// in the next run: "I know".
const Always time.Duration = -1

// Table is a claimable table: the user's own, or one of ours.
type Table struct {
	// Schema is empty for the connection's default.
	Schema string
	Name   string
	// Key names the key column; Keys the columns of a composite one. Together
	// they must be primary or unique.
	Key  string
	Keys []string
	// Where restricts which rows are claimed: one SQL expression over the
	// table's own columns.
	Where string
	// Select names the columns that handlers receive.
	Select []string
	// Columns and Labels map our words to the table's. The zero value means our
	// own names.
	Columns Columns
	Labels  Labels
	// TwoColumn uses status and started_at alone even where the others exist.
	TwoColumn bool
	// OneShot rows are done after one success. Other rows recur.
	OneShot bool
	// Every is how long after a success a row is due again; [Always] means in
	// the next run.
	Every time.Duration
	// Scheduled is true when the job's own schedule says when rows come again.
	Scheduled bool
}

func (Table) source() {}

// KeyColumns returns the key's columns in order.
func (t Table) KeyColumns() []string {
	if len(t.Keys) > 0 {
		return t.Keys
	}
	if t.Key == "" {
		return nil
	}
	return []string{t.Key}
}

// String is the table's name for people.
func (t Table) String() string {
	if t.Schema != "" {
		return t.Schema + "." + t.Name
	}
	return t.Name
}

// Columns maps our column names to a table's own. An empty field means our own
// name for the columns that a full table needs, and "not there" for
// LastSuccessAt and LastError.
type Columns struct {
	Status        string
	StartedAt     string
	ClaimableAt   string
	ClaimToken    string
	Fence         string
	Attempts      string
	Expirations   string
	Cycle         string
	LastSuccessAt string
	LastError     string
}

// WithDefaults fills empty fields of the needed columns with our own names.
func (c Columns) WithDefaults() Columns {
	for _, f := range []struct {
		field *string
		name  string
	}{
		{&c.Status, "status"}, {&c.StartedAt, "started_at"}, {&c.ClaimableAt, "claimable_at"},
		{&c.ClaimToken, "claim_token"}, {&c.Fence, "fence"}, {&c.Attempts, "attempts"},
		{&c.Expirations, "expirations"}, {&c.Cycle, "cycle"},
	} {
		if *f.field == "" {
			*f.field = f.name
		}
	}
	return c
}

// Labels maps our states to a table's own labels. Empty Done and Quarantined
// mean that the table has no such state.
type Labels struct {
	Idle        string
	InProgress  string
	Failed      string
	Done        string
	Quarantined string
}

// WithDefaults fills the three needed labels with our own words; oneShot also
// fills Done.
func (l Labels) WithDefaults(oneShot bool) Labels {
	if l.Idle == "" {
		l.Idle = string(StatusIdle)
	}
	if l.InProgress == "" {
		l.InProgress = string(StatusInProgress)
	}
	if l.Failed == "" {
		l.Failed = string(StatusFailed)
	}
	if l.Done == "" && oneShot {
		l.Done = string(StatusDone)
	}
	return l
}
