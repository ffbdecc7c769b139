package dibs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dibs-run/dibs"
)

// What JSON calls took_us is in microseconds.
func TestOutcomeRecordInJSON(t *testing.T) {
	want := dibs.OutcomeRecord{Key: "a", RunID: "run_1", Job: "sync", Outcome: dibs.OutcomeCompleted, Took: 1500 * time.Microsecond,
		Evidence: json.RawMessage(`{"etag":"x"}`), RecordedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	if fields["took_us"] != 1500.0 || fields["outcome"] != "completed" || fields["Took"] != nil {
		t.Errorf("JSON: %s", text)
	}
	var back dibs.OutcomeRecord
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Errorf("reads back differently:\n%s", diff)
	}
}
