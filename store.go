package dibs

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

// Store is everything that a runner needs from a database. A consumer asks for
// the narrowest interface that serves it.
type Store interface {
	Runs
	Ledger
	Plans
	// Claims opens the claim primitive on a table. It reads the catalogue and
	// refuses, with a [ConfigError] naming the offending thing, what cannot be
	// supported. It changes nothing.
	Claims(ctx context.Context, t Table) (Claims, error)
	// Reserve takes one connection out of the pool for renewals alone, so that
	// handlers can never starve them. It fails with [ErrPoolTooSmall] when the
	// pool has no room. Calls nest; the connection returns with the last release.
	Reserve(ctx context.Context) (release func(), err error)
}

// Claims is the one claim primitive, bound to one table. Every method is one
// transaction, retried by itself on deadlocks, serialization failures and lock
// time-outs. A lost connection during COMMIT yields [ErrUnanswered].
type Claims interface {
	// Table is the mapping as it was resolved.
	Table() Table
	// TwoColumn tells whether only status and started_at are used; the exact
	// stored stamp is then the fence.
	TwoColumn() bool
	// OneWriter tells whether the database lets one transaction write at a time:
	// settling beside a claim would then only add a commit.
	OneWriter() bool

	// Claim checkpoints the run (its first statement), settles what is handed
	// over, and then takes up to Limit due rows. It never takes more than Limit.
	// Nothing is claimed, and Over is set, when the run is no longer running.
	Claim(ctx context.Context, r ClaimRequest) (Claimed, error)
	// Renew extends the run's lease and those of the items in hand, in one
	// transaction on the reserved connection.
	Renew(ctx context.Context, r RenewRequest) (Renewed, error)
	// Settle checkpoints the run with its progress and writes outcomes; each
	// write proves ownership. Settling twice is success.
	Settle(ctx context.Context, r SettleRequest) ([]Settled, error)
	// Find asks which rows carry a token whose claim was never answered.
	Find(ctx context.Context, token Token) ([]Held, error)
	// Look reads one row without locking it.
	Look(ctx context.Context, key Key) (Row, error)
	// Rows lists rows by state for people and for dry runs, without locks,
	// in claiming order for due rows.
	Rows(ctx context.Context, f RowFilter) ([]Row, error)
	// Remaining counts, without locks and up to limit, the rows that a claim with
	// the same scope could still take or that others have locked right now.
	Remaining(ctx context.Context, s Scope, limit int) (int64, error)
	// Sweep repairs states that no claim can pick up: in progress without a
	// lease end gets one lease from now; idle without a due time is due now.
	Sweep(ctx context.Context, lease time.Duration) (Swept, error)
	// Clip cuts, inside a decision that asks a run to stop, the lease ends of the
	// rows that the run has in hand to until at the latest, and says how many it
	// cut. A two-column table has no lease end: nothing is cut there.
	Clip(ctx context.Context, on Desk, r RunRef, until time.Time) (int64, error)
	// Stats counts the rows by state.
	Stats(ctx context.Context) (TableStats, error)
}

// Scope restricts which due rows a run may take.
type Scope struct {
	// StartedBefore is the run's own start: a row started since is not attempted
	// again within the run.
	StartedBefore time.Time
	// IdleStartedBefore is, for a retry run and for a later run of a slot, the
	// start of the slot's first run; idle rows started since then are left
	// alone. Zero means StartedBefore.
	IdleStartedBefore time.Time
	// Key narrows to one row, which need not be due. Nil: any.
	Key Key
	// Backoff is the pause after a failure in a two-column table, whose failed
	// rows are due at started_at + Backoff.
	Backoff time.Duration
	// Every is the pause after a start in a two-column table. Full tables carry
	// it in claimable_at.
	Every time.Duration
	// Lease tells when a row of a two-column table has expired.
	Lease time.Duration
}

// ClaimRequest asks for rows.
type ClaimRequest struct {
	Run RunRef
	// Token is new for each claim.
	Token Token
	Scope Scope
	// Limit is the most rows to take; positive.
	Limit int
	// Lease is at least two units of the table's time columns.
	Lease time.Duration
	// Mark lets the scan start where the last one ended, so that dead row
	// versions kept alive by a forgotten transaction do not make claims crawl.
	// Zero: from the start.
	Mark Mark
	// Progress is written to the run's row.
	Progress Progress
	// Settle is done first, in the same transaction.
	Settle []Settlement
	// Skip are rows to leave alone, since an earlier claim found them refused. A
	// claim with any takes rows one by one, which is slower.
	Skip []Key
}

// Mark is a position in claiming order.
type Mark struct {
	ClaimableAt time.Time
	Key         Key
}

// Progress is what a run's row tells about it while it runs.
type Progress struct {
	Counts   Counts
	Position string
}

// Claimed is what a claim won. It counts only if the lease end is still ahead
// by the caller's own reckoning; see Lease.Now.
type Claimed struct {
	Items []Held
	// Settled answers for ClaimRequest.Settle, in order.
	Settled []Settled
	// EndsAt is the end of the items' leases, Now the database's time.
	EndsAt time.Time
	Now    time.Time
	// Refused are due rows that the database would not let be claimed. They are as
	// they were, with an outcome on record; together with Items they are at most
	// the limit.
	Refused []RefusedClaim
	// Over is true when the checkpoint found the run no longer running (or past
	// its stop-by): nothing was claimed.
	Over bool
	// Mark is where this claim began, for the next one.
	Mark Mark
}

// RefusedClaim is a row whose claim the database refuses for what is in it: a
// trigger of the table's own raises an error, a CHECK fails.
type RefusedClaim struct {
	Key Key
	Err error
}

// Held is a row that this claim owns, with what was there before.
type Held struct {
	Key   Key
	Token Token
	Fence Fence
	// Stamp is the stored started_at, exactly as read back.
	Stamp time.Time
	// EndsAt is the row's lease end.
	EndsAt      time.Time
	Cycle       int64
	Attempts    int
	Expirations int
	LastSuccess time.Time
	Payload     json.RawMessage
	Prior       Prior
	// Problem is set when the row could not be read; such an item fails alone.
	Problem string
}

// Prior is what a claim found on the row.
type Prior struct {
	Status Status
	// Token is present when the former claim left no outcome.
	Token Token
	Fence Fence
	// StartedAt and ClaimableAt are zero when NULL.
	StartedAt   time.Time
	ClaimableAt time.Time
	Expirations int
}

// Expired tells whether the row was taken from a former claim whose lease had
// ended.
func (p Prior) Expired() bool { return p.Status == StatusInProgress }

// RenewRequest extends leases.
type RenewRequest struct {
	Run   RunRef
	Lease time.Duration
	Items []Held
	// Effects are the effects that go with Items, in order; an empty WorkID means
	// none. Nil: none at all.
	Effects []EffectRef
}

// Renewed answers a renewal.
type Renewed struct {
	// Run is the run's new lease end, zero when the run was refused.
	Run time.Time
	// Ends is the end of the run's lease as it stands, also when the renewal was
	// refused because the time to stop has come; zero when the run is not running
	// any more, or not this token's.
	Ends time.Time
	// StopBy is set when somebody asked the run to stop.
	StopBy time.Time
	// Items holds, for each item in order, its new lease end (and stamp, on a
	// two-column table), or a zero EndsAt when it is no longer ours.
	Items []RenewedItem
	// Now is the database's time.
	Now time.Time
}

// RenewedItem is one item's new lease.
type RenewedItem struct {
	EndsAt time.Time
	Stamp  time.Time
}

// RowChange is what a settle writes on the row.
type RowChange struct {
	Status Status
	// DueIn is when the row is claimable again, from now; nil writes NULL: never.
	DueIn *time.Duration
	// Attempts and Expirations are absolute.
	Attempts    int
	Expirations int
	// Succeeded moves cycle by one and stamps last_success_at.
	Succeeded bool
	// Error is for last_error; empty clears it.
	Error string
	// Restore gives the row back as Prior had it, all but the fence.
	Restore bool
}

// Settlement is one item's outcome.
type Settlement struct {
	Held    Held
	Outcome Outcome
	Change  RowChange
	Record  OutcomeRecord
	// LateOnly records the outcome as late and leaves the row alone: the caller
	// no longer believes in its lease, whatever the database would still accept.
	LateOnly bool
	// Effect is settled in the same transaction, by its own proof; nil: none.
	Effect *EffectChange
	// Findings are recorded in the same transaction.
	Findings []Finding
	// Work runs first, inside the settling transaction and under a savepoint of
	// its own: it commits together with the settle or not at all, and may be
	// called again when the transaction had to be repeated. Nil: none.
	// Its receipt takes the place of the record's.
	Work func(ctx context.Context, tx Tx) (Receipt, error)
}

// Tx is the settling transaction as user code sees it: it reads and writes, and
// leaves beginning and ending to the store.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// OutcomeRecord is the row of history that proves a settle.
type OutcomeRecord struct {
	Token     Token           `json:"-"`
	Key       string          `json:"key"`
	Late      bool            `json:"late,omitempty"`
	RunID     string          `json:"run"`
	Job       string          `json:"job"`
	WorkID    string          `json:"work_id"`
	Fence     Fence           `json:"fence"`
	Attempt   int             `json:"attempt"`
	Outcome   Outcome         `json:"outcome"`
	Reason    Reason          `json:"reason,omitempty"`
	ReceiptID string          `json:"receipt_id,omitempty"`
	Evidence  json.RawMessage `json:"evidence,omitempty"`
	Error     string          `json:"error,omitempty"`
	// Took is how long the handler ran, by this process's monotonic clock; in JSON
	// took_us has it in whole microseconds.
	Took       time.Duration `json:"-"`
	RecordedAt time.Time     `json:"recorded_at"`
}

// plainOutcome is an OutcomeRecord without its methods.
type plainOutcome OutcomeRecord

// MarshalJSON writes Took as took_us. See [encoding/json.Marshaler].
func (r OutcomeRecord) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		plainOutcome
		TookUS int64 `json:"took_us"`
	}{plainOutcome(r), r.Took.Microseconds()})
}

// UnmarshalJSON reads what MarshalJSON wrote. See [encoding/json.Unmarshaler].
func (r *OutcomeRecord) UnmarshalJSON(data []byte) error {
	var in struct {
		plainOutcome
		TookUS int64 `json:"took_us"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*r = OutcomeRecord(in.plainOutcome)
	r.Took = time.Duration(in.TookUS) * time.Microsecond
	return nil
}

// SettleRequest writes outcomes.
type SettleRequest struct {
	Run      RunRef
	Progress Progress
	Items    []Settlement
	// Beside leaves the run's row alone: another transaction of the same run,
	// which checkpoints it, is under way, and each would wait for the other.
	Beside bool
	// WorkLimit bounds each item's Work where one writer keeps out all others, so
	// that renewals are not starved. Zero: no bound.
	WorkLimit time.Duration
}

// Settled answers one settlement.
type Settled struct {
	// OK is true when the outcome stands, now or since an earlier try.
	OK bool
	// Late is true when the row was no longer ours: the outcome was recorded as
	// late, beside whatever stands.
	Late bool
	// EffectLost is true when the item's effect was no longer this claim's.
	EffectLost bool
	// Err is set when the database refused this item's data even by itself, or
	// when its Work failed: then nothing of it was written.
	Err error
}

// Row is a row's state as seen without a lock.
type Row struct {
	Key         Key             `json:"key"`
	Status      Status          `json:"status"`
	Label       string          `json:"label"`
	StartedAt   time.Time       `json:"started_at,omitzero"`
	ClaimableAt time.Time       `json:"claimable_at,omitzero"`
	Token       Token           `json:"-"`
	Run         string          `json:"run,omitempty"`
	Fence       Fence           `json:"fence"`
	Attempts    int             `json:"attempts"`
	Expirations int             `json:"expirations"`
	Cycle       int64           `json:"cycle"`
	LastSuccess time.Time       `json:"last_success_at,omitzero"`
	LastError   string          `json:"last_error,omitempty"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	// Filtered is true when the job's where excludes the row.
	Filtered bool `json:"filtered,omitempty"`
	// Now is the database's time of the look.
	Now time.Time `json:"-"`
}

// RowFilter selects rows to list.
type RowFilter struct {
	// Status restricts to one state; empty: all.
	Status Status
	// Due restricts to rows that a claim with Scope would take now.
	Due   bool
	Scope Scope
	// Orphaned restricts to rows that only a sweep can pick up.
	Orphaned bool
	Limit    int
}

// Swept counts what a sweep repaired.
type Swept struct {
	InProgressWithoutLease int64
	IdleWithoutDue         int64
}

// TableStats counts a table's rows.
type TableStats struct {
	Idle, InProgress, Expired, Failed, Done, Quarantined, Other, Due int64
	// OldestDue is the earliest due time; zero when nothing is due.
	OldestDue time.Time
	Now       time.Time
}

// Retryable tells whether an error says of itself that the same call may be
// repeated: a deadlock, a serialization failure, a lock time-out, a lost
// connection before COMMIT. The dialect's classifier gives the answer.
func Retryable(err error) bool {
	for e := err; e != nil; {
		if r, ok := e.(interface{ Retryable() bool }); ok {
			return r.Retryable()
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		e = u.Unwrap()
	}
	return false
}
