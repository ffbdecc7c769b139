package handler_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
)

// slot is the slot of the test item.
var slot = time.Date(2026, 3, 1, 9, 0, 0, 0, time.FixedZone("", 3600))

func item() dibs.Item {
	return dibs.Item{
		Job: "crm-sync", RunID: "run_1", Key: dibs.Key{"42"}, WorkID: "crm-sync/sync-note/42/7",
		Fence: 3, Attempt: 2, Cycle: 7, Origin: dibs.OriginSchedule, Slot: slot,
		WindowStart: slot.Add(-5 * time.Minute), WindowEnd: slot, Covered: []time.Time{slot},
		Deadline: slot.Add(time.Minute), Previous: "lost:run_0",
		Payload: json.RawMessage(`{"name":"Ada \"L\" & co/ö","big":9007199254740993,"nothing":null,"slot":"morning","evil":"a\r\nX-Injected: 1"}`),
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		}
	}
}
