package dibs

import (
	"context"
	"encoding/json"
	"time"
)

// Ledger keeps what a job does to its destinations: one effect per business
// action, named by its work ID and claimable like a row; and the findings of
// looking effects up. An effect is settled with its item, by
// [Settlement.Effect] and [RenewRequest.Effects] of [Claims]; this interface
// holds the rest. Every method is one transaction.
type Ledger interface {
	// Intend claims the effects of items that are about to be handed out, many in
	// one transaction, before their handlers are called. The answers are in the
	// order of the request; what each allows is for the caller to decide. An
	// intention is this claim's own when token and key are: to ask twice, as
	// after [ErrUnanswered], is harmless.
	Intend(ctx context.Context, r IntendRequest) ([]Intent, error)
	// ClaimEffect claims one effect by its work ID whatever its state, to look it
	// up or to record a human decision, and leaves the state as it is. A
	// [HeldError] says who has it, [ErrNotFound] that there is none.
	ClaimEffect(ctx context.Context, c EffectClaim) (Effect, error)
	// SettleEffect settles a claimed effect by itself, without a row, and adds
	// what was found. [ErrStaleFence]: it is no longer this claim's.
	SettleEffect(ctx context.Context, c EffectChange, found ...Finding) error
	// SweepEffects makes intended effects of a job whose lease has ended
	// uncertain; absence is believed lookupAfter after that end.
	SweepEffects(ctx context.Context, job string, lookupAfter time.Duration) (int64, error)
	// Effect reads one effect by its work ID, or [ErrNotFound].
	Effect(ctx context.Context, workID string) (Effect, error)
	// ListEffects lists effects in the order of their work IDs.
	ListEffects(ctx context.Context, f EffectFilter) ([]Effect, error)
	// AddFindings records what was found.
	AddFindings(ctx context.Context, found []Finding) error
	// ListFindings lists findings, newest first.
	ListFindings(ctx context.Context, f FindingFilter) ([]Finding, error)
}

// EffectState is where a change at the destination stands.
type EffectState string

// The states of an effect.
const (
	EffectIntended   EffectState = "intended"    // its handler may be running
	EffectConfirmed  EffectState = "confirmed"   // the destination has it
	EffectRejected   EffectState = "rejected"    // refused for good, nothing applied
	EffectNotApplied EffectState = "not_applied" // certainly without effect so far
	EffectUncertain  EffectState = "uncertain"   // nobody knows yet
	EffectHeld       EffectState = "held"        // a person decides
)

// Reasons of outcomes that effects lead to.
const (
	ReasonElsewhere    Reason = "in_flight_elsewhere"  // released: another claim has the effect
	ReasonContent      Reason = "content_changed"      // held: done before, with other content
	ReasonFoundLate    Reason = "found_late"           // already done: a lookup found an earlier attempt's effect
	ReasonLookupSilent Reason = "lookup_cannot_tell"   // uncertain or held: the lookup gave no answer
	ReasonTooEarly     Reason = "absent_not_believed"  // uncertain: absent, but an attempt could still arrive
	ReasonValidFor     Reason = "idempotency_over"     // held: too late for the destination to recognise a replay
	ReasonNoReceipt    Reason = "no_receipt"           // uncertain: done without the ID that the job requires
	ReasonOtherJob     Reason = "work_id_of_other_job" // rejected: another job's action has this work ID
	ReasonHold         Reason = "outcome_unknown"      // held: the job says that a person decides
)

// Effect is one business action at a destination.
type Effect struct {
	WorkID string `json:"work_id"`
	Job    string `json:"job"`
	Key    string `json:"key"`
	// Cycle is that of the row when the action was intended; 0: the row has none.
	Cycle int64 `json:"cycle,omitempty"`
	// RunID is the run that claimed the effect last.
	RunID  string      `json:"run"`
	State  EffectState `json:"state"`
	Reason Reason      `json:"reason,omitempty"`
	// Token and Fence prove a claim of the effect. The fence grows at every claim.
	Token Token `json:"-"`
	Fence Fence `json:"fence"`
	// LeaseEnd is zero when nobody has the effect.
	LeaseEnd time.Time `json:"lease_end,omitzero"`
	// RequestHash names the content that was sent last.
	RequestHash   string          `json:"request_hash,omitempty"`
	DestinationID string          `json:"destination_id,omitempty"`
	Evidence      json.RawMessage `json:"evidence,omitempty"`
	Error         string          `json:"error,omitempty"`
	// Lookups counts lookups in a row that could not tell.
	Lookups int `json:"lookups,omitempty"`
	// LookAt is from when an absent answer is believed; zero while intended.
	LookAt time.Time `json:"look_at,omitzero"`
	// SentUntil is the last instant at which an attempt could have sent.
	SentUntil time.Time `json:"sent_until,omitzero"`
	// IntendedAt is when the first attempt since the last certain state began.
	IntendedAt time.Time `json:"intended_at"`
	SettledAt  time.Time `json:"settled_at,omitzero"`
	UpdatedAt  time.Time `json:"updated_at"`
	// Now is the database's time when the effect was read.
	Now time.Time `json:"-"`
}

// Live tells whether a claim of the effect still lasts.
func (e Effect) Live() bool { return e.LeaseEnd.After(e.Now) }

// Ref is what a later write about the effect proves itself with.
func (e Effect) Ref() EffectRef { return EffectRef{WorkID: e.WorkID, Token: e.Token, Fence: e.Fence} }

// EffectRef names an effect and proves a claim of it.
type EffectRef struct {
	WorkID string
	Token  Token
	Fence  Fence
}

// IntendRequest asks for the effects of items about to start.
type IntendRequest struct {
	Job   string
	RunID string
	// Lease must not end before the items' own.
	Lease time.Duration
	// LookupAfter is how long after the last instant at which an attempt could
	// have sent its absence is believed.
	LookupAfter time.Duration
	Items       []Intention
}

// Intention is one item about to start.
type Intention struct {
	WorkID      string
	Key         string
	Cycle       int64
	Token       Token
	RequestHash string
	// Cleared is the fence under which this very claim looked the effect up and
	// found it absent (or may run it again): it becomes intended. 0: a new claim.
	Cleared Fence
	// Again keeps the instant of the first attempt: a replay, not a new one.
	Again bool
}

// Intent answers an intention.
type Intent struct {
	// Found is the state that was found; empty: there was no effect.
	Found EffectState
	// Effect is the effect now. Only when Claimed is true is it this claim's:
	// intended, or, when its outcome is unknown, uncertain and under lease.
	Effect  Effect
	Claimed bool
	// Refused says why this intention alone could not be written.
	Refused error
}

// EffectClaim claims one effect.
type EffectClaim struct {
	WorkID string
	RunID  string
	Token  Token
	Lease  time.Duration
}

// EffectChange settles an effect: it proves the claim, writes the state, and
// ends the lease.
type EffectChange struct {
	EffectRef
	State  EffectState
	Reason Reason
	// Receipt of the destination; an empty one leaves what is there.
	ReceiptID string
	Evidence  json.RawMessage
	Error     string
	// LookIn, for uncertain, is how long from now an absent answer is not yet
	// believed. Nil leaves the instant as it is: nothing more was sent.
	LookIn *time.Duration
	// Lookups is absolute.
	Lookups int
}

// FindingKind says what a lookup found.
type FindingKind string

// The kinds of findings.
const (
	FindingConfirmedLate FindingKind = "confirmed_late"
	FindingAbsent        FindingKind = "absent"
	FindingDuplicate     FindingKind = "duplicate"
	FindingMismatch      FindingKind = "mismatch"
	FindingUnreachable   FindingKind = "unreachable"
)

// Finding is what one lookup found.
type Finding struct {
	ID            int64           `json:"id"`
	RunID         string          `json:"run"`
	Job           string          `json:"job"`
	WorkID        string          `json:"work_id"`
	Key           string          `json:"key"`
	Kind          FindingKind     `json:"kind"`
	DestinationID string          `json:"destination_id,omitempty"`
	Evidence      json.RawMessage `json:"evidence,omitempty"`
	Detail        string          `json:"detail,omitempty"`
	FoundAt       time.Time       `json:"found_at"`
}

// EffectFilter selects effects.
type EffectFilter struct {
	Job   string
	State EffectState
	Run   string
	Key   string
	// Free leaves out those that a claim still has.
	Free bool
	// From and To bound IntendedAt, half-open; zero: no bound.
	From, To time.Time
	// After is the work ID that the page before ended with.
	After string
	Limit int
}

// FindingFilter selects findings.
type FindingFilter struct {
	Job    string
	Run    string
	WorkID string
	Kind   FindingKind
	Limit  int
}
