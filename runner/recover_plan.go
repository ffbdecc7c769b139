package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// planned is one selected item as a plan keeps it.
type planned struct {
	Work string    `json:"w"`
	Key  string    `json:"k"`
	Slot time.Time `json:"s,omitzero"`
	// Was is where the action stood when the plan was made.
	Was ending `json:"was"`
}

// send tells whether the plan could send the action.
func (p planned) send() bool { return p.Was == endRemaining || p.Was == endUncertain }

// Planned is a stored plan and what it selects.
type Planned struct {
	Plan dibs.Plan `json:"plan"`
	// Sum counts the items as they stand now; nothing is done now yet.
	Sum RecoverySum `json:"sum"`
	// Runs are the runs that attempted them.
	Runs []string `json:"runs"`
	// Send lists the keys that would be sent, those that are uncertain among them.
	Send []string `json:"send"`
	// Limit is the job's recover_limit.
	Limit int `json:"recover_limit"`
}

// PlanRecovery selects the items that the runs of a range attempted, and stores
// the plan of replaying what of them is safe to replay. Nothing else is changed.
func (r *Runner) PlanRecovery(ctx context.Context, name string, g Range, by, why string) (Planned, error) {
	var out Planned
	span, err := g.span()
	if err != nil {
		return out, err
	}
	j, claims, err := r.recoverable(ctx, name)
	if err != nil {
		return out, err
	}
	if out.Limit = j.RecoverLimit; out.Limit <= 0 {
		out.Limit = DefaultRecoverLimit
	}
	sel := &selection{r: r, job: j, claims: claims, bounds: g, seen: map[string]bool{}}
	if err := sel.find(ctx); err != nil {
		return out, err
	}
	if len(sel.items) == 0 {
		return out, &dibs.ConfigError{Subject: "job " + j.Name, Field: "range", Problem: "selects nothing: no run attempted an item in " + span, Fix: "list what is incomplete: runs --incomplete"}
	}
	c := &census{r: r, job: j, claims: claims}
	ends, err := c.take(ctx, sel.items)
	if err != nil {
		return out, err
	}
	out.Sum.Selected, out.Send = len(sel.items), []string{}
	for i := range sel.items {
		sel.items[i].Was = ends[i]
		*out.Sum.field(ends[i])++
		if sel.items[i].send() {
			out.Send = append(out.Send, sel.items[i].Key)
		}
	}
	out.Runs = sel.order
	out.Plan = dibs.Plan{Job: j.Name, Span: span, State: dibs.PlanOpen, Count: len(out.Send), By: orElse(by, r.by), Why: why}
	if out.Plan.ID, err = dibs.NewPlanID(); err != nil {
		return out, err
	}
	if out.Plan.Items, err = json.Marshal(sel.items); err != nil {
		return out, fmt.Errorf("keep the plan: %w", err)
	}
	return out, r.store.PutPlan(ctx, out.Plan)
}

func readPlan(p dibs.Plan) ([]planned, error) {
	var items []planned
	if err := json.Unmarshal(p.Items, &items); err != nil {
		return nil, fmt.Errorf("read plan %s: %w", p.ID, err)
	}
	return items, nil
}
