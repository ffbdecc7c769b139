package dibs

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Outcome is how an item ended in a run.
type Outcome string

// The outcomes of an item.
const (
	OutcomeCompleted   Outcome = "completed"
	OutcomeAlreadyDone Outcome = "already_done"
	OutcomeFailed      Outcome = "failed"
	OutcomeRejected    Outcome = "rejected"
	OutcomeUncertain   Outcome = "uncertain"
	OutcomeHeld        Outcome = "held"
	OutcomeReleased    Outcome = "released"
	OutcomeLost        Outcome = "lost"
)

// Status is the state of a claimable row; labels in a user's table are mapped
// to these.
type Status string

// The states of a claimable row.
const (
	StatusIdle        Status = "IDLE"
	StatusInProgress  Status = "IN_PROGRESS"
	StatusFailed      Status = "FAILED"
	StatusDone        Status = "DONE"
	StatusQuarantined Status = "QUARANTINED"
)

// Item is one unit of work as a handler receives it.
type Item struct {
	Job   string
	RunID string
	Key   Key
	// WorkID says which business action this is: the same in every retry,
	// recovery and replay of it.
	WorkID string
	Fence  Fence
	// Attempt counts from 1.
	Attempt int
	// Cycle is a recurring row's count of completed actions.
	Cycle int64
	// Payload holds the selected columns as a JSON object.
	Payload json.RawMessage

	Origin  Origin
	Slot    time.Time
	Covered []time.Time
	// WindowStart and WindowEnd bound the time that the slot stands for,
	// half-open: from the slot before (of a catch-up or coalesced run, before the
	// first one covered) to the slot itself. Zero when there is no slot.
	WindowStart, WindowEnd time.Time
	// LastSuccess is when this row last succeeded, if the table records it.
	LastSuccess time.Time
	// Deadline is when the handler's context ends, by this process's clock.
	Deadline time.Time
	// Concurrent is true when an earlier attempt may still be alive.
	Concurrent bool
	// Previous says how an earlier attempt ended without an outcome: "lost:RUN".
	Previous string

	tx ItemTx
}

// ItemTx completes one item in a transaction together with fn's writes.
type ItemTx func(ctx context.Context, fn func(ctx context.Context, tx Tx) (Receipt, error)) error

// WithTx returns the item with what its Tx does. It is for runners.
func (it Item) WithTx(tx ItemTx) Item {
	it.tx = tx
	return it
}

// Tx completes the item in one transaction on the database that its row is in:
// fn's writes come first, the settle, which proves the claim, comes last, and
// both commit or neither does. Open it after all remote work. fn may be called
// again when the transaction had to be repeated; it must not begin, commit or
// roll back. On SQLite, where one writer keeps out all others, fn must end
// within less than a beat.
//
// A nil error means that the item is completed and nothing that the handler
// returns can change that. [ErrLeaseLost] means that the item was no longer this
// run's, and that fn's writes were undone, as with any other error.
func (it Item) Tx(ctx context.Context, fn func(ctx context.Context, tx Tx) (Receipt, error)) error {
	if it.tx == nil {
		return fmt.Errorf("item %s: no transaction: the job has no rows of its own database", it.Key)
	}
	return it.tx(ctx, fn)
}

// Decode fills v, a pointer to a struct or map, from the item's payload.
// Column names match field names without regard to case and underscores, so
// that external_ref fills ExternalRef.
func (it Item) Decode(v any) error {
	payload := it.Payload
	if len(payload) == 0 {
		payload = []byte("{}")
	}
	if t := reflect.TypeOf(v); t != nil && t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		renamed, err := renameToFields(payload, t.Elem())
		if err != nil {
			return fmt.Errorf("decode item %s: %w", it.Key, err)
		}
		payload = renamed
	}
	if err := json.Unmarshal(payload, v); err != nil {
		return fmt.Errorf("decode item %s: %w", it.Key, err)
	}
	return nil
}

func renameToFields(payload []byte, t reflect.Type) ([]byte, error) {
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(payload, &columns); err != nil {
		return nil, err
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	fields := map[string]string{}
	for i := range t.NumField() {
		f := t.Field(i)
		if _, tagged := f.Tag.Lookup("json"); f.IsExported() && !tagged {
			fields[plain(f.Name)] = f.Name
		}
	}
	for name, value := range columns {
		if field, ok := fields[plain(name)]; ok && field != name {
			delete(columns, name)
			columns[field] = value
		}
	}
	return json.Marshal(columns)
}

// Receipt is the proof that a destination has applied an item.
type Receipt struct {
	// ID is the destination's own name for what it did.
	ID string `json:"id,omitempty"`
	// Evidence are named fields worth keeping.
	Evidence map[string]string `json:"evidence,omitempty"`
}

// Result is a handler's answer for one item of a batch.
type Result struct {
	Receipt Receipt
	Err     error
}
