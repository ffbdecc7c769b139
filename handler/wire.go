package handler

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// maxCoveredSlots bounds DIBS_COVERED_SLOTS: Linux refuses to start a process
// with a variable above 128 KiB, and a long outage covers many slots.
const maxCoveredSlots = 1000

// variables are the names that Environ sets, all of them, always.
var variables = [...]string{
	"DIBS_JOB", "DIBS_RUN_ID", "DIBS_WORK_ID", "DIBS_KEY", "DIBS_FENCE", "DIBS_ATTEMPT", "DIBS_CYCLE",
	"DIBS_ORIGIN", "DIBS_SLOT", "DIBS_WINDOW_START", "DIBS_WINDOW_END", "DIBS_LAST_SUCCESS",
	"DIBS_COVERED_SLOTS", "DIBS_PREVIOUS", "DIBS_DEADLINE",
}

// Environ returns an item as environment variables, "K=V". Every DIBS_ variable
// of a handler is present, empty when there is nothing to say, so that none is
// inherited from an outer run. Times are RFC 3339 in UTC. Covered slots are
// joined by commas, oldest first; of more than 1,000 only the latest are listed
// (the JSON on standard input lists all).
func Environ(it dibs.Item) []string {
	covered := it.Covered
	if len(covered) > maxCoveredSlots {
		covered = covered[len(covered)-maxCoveredSlots:]
	}
	slots := make([]string, len(covered))
	for i, t := range covered {
		slots[i] = timeText(t)
	}
	values := [len(variables)]string{
		it.Job, it.RunID, it.WorkID, it.Key.String(), strconv.FormatInt(int64(it.Fence), 10),
		strconv.Itoa(it.Attempt), strconv.FormatInt(it.Cycle, 10),
		string(it.Origin), timeText(it.Slot), timeText(it.WindowStart), timeText(it.WindowEnd), timeText(it.LastSuccess),
		strings.Join(slots, ","), it.Previous, timeText(it.Deadline),
	}
	env := make([]string, len(variables))
	for i, name := range variables {
		env[i] = name + "=" + values[i]
	}
	return env
}

// timeText writes a time for other programs; the zero time is empty.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// wireItem is an item as processes and HTTP destinations receive it.
type wireItem struct {
	Job         string          `json:"job"`
	Run         string          `json:"run"`
	WorkID      string          `json:"work_id"`
	Key         string          `json:"key"`
	KeyParts    []string        `json:"key_parts"`
	Fence       dibs.Fence      `json:"fence"`
	Attempt     int             `json:"attempt"`
	Cycle       int64           `json:"cycle"`
	Origin      dibs.Origin     `json:"origin,omitempty"`
	Slot        time.Time       `json:"slot,omitzero"`
	WindowStart time.Time       `json:"window_start,omitzero"`
	WindowEnd   time.Time       `json:"window_end,omitzero"`
	Covered     []time.Time     `json:"covered_slots,omitempty"`
	LastSuccess time.Time       `json:"last_success,omitzero"`
	Deadline    time.Time       `json:"deadline,omitzero"`
	Concurrent  bool            `json:"concurrent,omitempty"`
	Previous    string          `json:"previous,omitempty"`
	Payload     json.RawMessage `json:"payload"`
}

// encodeItem writes an item on one line. An item that cannot be written is
// rejected: no later attempt would fare better.
func encodeItem(it dibs.Item) ([]byte, error) {
	w := wireItem{
		Job: it.Job, Run: it.RunID, WorkID: it.WorkID, Key: it.Key.String(), KeyParts: it.Key,
		Fence: it.Fence, Attempt: it.Attempt, Cycle: it.Cycle, Origin: it.Origin,
		Slot: it.Slot.UTC(), WindowStart: it.WindowStart.UTC(), WindowEnd: it.WindowEnd.UTC(),
		LastSuccess: it.LastSuccess.UTC(), Deadline: it.Deadline.UTC().Round(0),
		Concurrent: it.Concurrent, Previous: it.Previous, Payload: it.Payload,
	}
	if w.KeyParts == nil {
		w.KeyParts = []string{}
	}
	if len(w.Payload) == 0 {
		w.Payload = json.RawMessage("{}")
	}
	for _, t := range it.Covered {
		w.Covered = append(w.Covered, t.UTC())
	}
	b, err := json.Marshal(w)
	if err != nil {
		return nil, dibs.Reject(fmt.Errorf("write item %s as JSON: %w", it.Key, err))
	}
	return b, nil
}
