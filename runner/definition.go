package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dispatch"
)

// define works out the text that stands for this version of the job in
// history, and its hash.
func (j *job) define() {
	j.text = j.Definition
	if j.text == "" {
		j.text = describe(j)
	}
	sum := sha256.Sum256([]byte(j.text))
	j.hash = hex.EncodeToString(sum[:])
}

// describe writes what a definition made in Go consists of, handlers aside.
func describe(j *job) string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s: %v\n", name, value) }
	line("job", j.Name)
	line("overlap", j.Overlap)
	line("on_uncertain", j.OnUncertain)
	line("lock", dispatch.LockOf(&j.Job))
	if t := j.table; t != nil {
		line("table", t.String())
		line("key", t.KeyColumns())
		line("where", t.Where)
		line("select", t.Select)
		line("columns", t.Columns)
		line("labels", t.Labels)
		line("one_shot", t.OneShot)
		line("every", t.Every)
	}
	if j.Schedule != nil {
		line("schedule", j.Schedule)
		line("catch_up", j.CatchUp)
	}
	line("operation", j.Operation)
	if j.Identity != "" {
		line("identity", j.Identity)
	}
	if j.ReceiptRequired {
		line("receipt", "required")
	}
	if j.ledger {
		line("lookup_after", j.lookupAfter)
		line("valid_for", j.Idempotency.ValidFor)
	}
	line("batch", j.Batch)
	line("concurrency", j.Concurrency)
	line("lease", j.timing.lease)
	line("timeout", j.Timeout)
	line("retry", j.Retry)
	return b.String()
}

// workID names the business action that an item stands for: the same in every
// retry and replay of it. last is the cycle, or, where a row has none, what
// identifies the trigger.
func (j *job) workID(key dibs.Key, last string) (string, error) {
	parts := []string{j.Name, j.Operation}
	parts = append(parts, key...)
	if last != "" {
		parts = append(parts, last)
	}
	return dibs.JoinWorkID(parts...)
}
