package dibs

import (
	"context"
	"encoding/json"
	"time"
)

// Plans keeps what recoveries mean to do before they do it.
type Plans interface {
	// PutPlan inserts a plan, or updates what changes of the one with its ID: its
	// state and its runs.
	PutPlan(ctx context.Context, p Plan) error
	// LatestPlan is the newest plan of a job and range, or [ErrNotFound].
	LatestPlan(ctx context.Context, job, span string) (Plan, error)
}

// PlanState is where a plan stands.
type PlanState string

// The states of a plan.
const (
	PlanOpen PlanState = "open" // not carried out, or not to its end
	PlanDone PlanState = "done" // a recovery run came to its end
)

// Plan is a bounded replay that a person may order: the items that a range
// selects, as they stood when it was made. Its set may only shrink.
type Plan struct {
	ID  string `json:"id"`
	Job string `json:"job"`
	// Span is the canonical text of the range.
	Span  string    `json:"range"`
	State PlanState `json:"state"`
	// Count is the most that could be sent: to replay and uncertain.
	Count int `json:"count"`
	// Items is the selected set, and Runs are the recovery runs that worked on it,
	// both as the maker of the plan encodes them.
	Items     json.RawMessage `json:"items"`
	Runs      []string        `json:"runs,omitempty"`
	By        string          `json:"by,omitempty"`
	Why       string          `json:"why,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

// NewPlanID makes a plan's name, in the form of a run's.
func NewPlanID() (string, error) { return newID("pln_") }

// Reasons that repairs lead to.
const (
	ReasonRepair   Reason = "takes_no_lock"     // started: a reconcile stands beside every run
	ReasonResolved Reason = "resolved"          // a person said what became of the action
	ReasonMovedOn  Reason = "moved_on"          // released: the row is at another action by now
	ReasonLookedUp Reason = "absent_looked_up"  // released: the destination does not have it, it runs again
	ReasonRemain   Reason = "uncertain_or_held" // partial: some outcomes are still not known
)
