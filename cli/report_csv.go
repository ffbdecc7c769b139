package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// csv writes one line for each outcome, and one for each trigger without any.
func (e evidence) csv(w io.Writer) error {
	out := csv.NewWriter(w)
	line := func(cells ...string) {
		for i := range cells {
			cells[i] = harmless(cells[i])
		}
		_ = out.Write(cells) // the writer keeps the first error
	}
	line("trigger", "origin", "slot", "came_at", "decision", "reason", "run", "run_state", "key", "work_id", "attempt", "outcome",
		"outcome_reason", "late", "receipt_id", "error", "recorded_at", "effect_state", "effect_destination_id")
	runs := map[string]dibs.Run{}
	for _, r := range e.Runs {
		runs[r.ID] = r
	}
	outcomes := map[string][]dibs.OutcomeRecord{}
	for _, o := range e.Outcomes {
		outcomes[o.RunID] = append(outcomes[o.RunID], o)
	}
	effects := map[string]dibs.Effect{}
	for _, one := range e.Effects {
		effects[one.WorkID] = one
	}
	told := map[string]bool{}
	for _, t := range e.Triggers {
		head := []string{t.ID, string(t.Origin), when(t.Slot), when(t.CreatedAt), string(t.Decision), string(t.Reason), t.RunID, string(runs[t.RunID].State)}
		list := outcomes[t.RunID]
		if told[t.RunID] { // of several triggers that one run covers, the first has the lines
			list = nil
		}
		told[t.RunID] = true
		if len(list) == 0 {
			line(append(head, make([]string, 11)...)...)
		}
		for _, o := range list {
			late := ""
			if o.Late {
				late = "late"
			}
			effect := effects[o.WorkID]
			line(append(head[:len(head):len(head)], o.Key, o.WorkID, strconv.Itoa(o.Attempt), string(o.Outcome), string(o.Reason), late,
				o.ReceiptID, o.Error, when(o.RecordedAt), string(effect.State), effect.DestinationID)...)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return utc(t)
}

// harmless keeps a spreadsheet from taking a text for a formula.
func harmless(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
