package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dibs-run/dibs"
)

// Dibs is the job in the root package's terms, without a handler: whoever runs
// it makes one of j.Handler. A job of a loaded file converts without error.
func (j *Job) Dibs() (dibs.Job, error) {
	out := dibs.Job{
		Name:        j.Name,
		Overlap:     j.Overlap,
		OnUncertain: j.OnUncertain,
		Lock:        j.Lock,
		Operation:   j.Operation,
		Identity:    j.Identity,
		LookupAfter: time.Duration(j.LookupAfter),
		Batch:       j.Batch,
		Concurrency: j.Concurrency,
		Lease:       time.Duration(j.Lease),
		NoHeartbeat: j.Heartbeat == "off",
		Grace:       time.Duration(j.Grace),
		Timeout:     time.Duration(j.Timeout),
		MaxItems:    j.MaxItems,
		MaxDuration: time.Duration(j.MaxDuration),
		Definition:  j.Definition,
		Labels:      j.Labels,
		Owner:       j.Owner,
		Early:       time.Duration(j.Early),
		QueueLimit:  j.QueueLimit,
		RunOn:       j.RunOn,
		Breaker:     j.Breaker,
		PerHost:     j.PerHost,
		NotWithin:   time.Duration(j.NotWithin),
	}
	out.RecoverLimit = j.RecoverLimit
	if c := j.CatchUp; c != nil {
		out.CatchUp = dibs.CatchUp{Mode: c.Mode, Limit: c.Limit, Window: time.Duration(c.Window)}
	}
	if j.schedule != nil { // a nil of its type would not be nil any more
		out.Schedule = j.schedule
	}
	out.ReceiptRequired = j.Receipt == "required"
	if i := j.Idempotency; i != nil {
		out.Idempotency.ValidFor = time.Duration(i.ValidFor)
	}
	if r := j.Retry; r != nil {
		out.Retry = dibs.Retry{Min: r.Backoff.Min, Max: r.Backoff.Max, MaxAttempts: r.MaxAttempts, MaxExpirations: r.MaxExpirations}
	}
	if j.Source == nil {
		return out, nil
	}
	table, err := j.table()
	if err != nil {
		return dibs.Job{}, fmt.Errorf("job %s: %w", j.Name, err)
	}
	out.Source = table
	return out, nil
}

func (j *Job) table() (dibs.Table, error) {
	s := j.Source
	schema, name, problem := s.names()
	if problem != "" {
		return dibs.Table{}, &dibs.ConfigError{Subject: "job " + j.Name, Field: "source.table", Problem: problem}
	}
	t := dibs.Table{
		Schema: schema, Name: name, Where: s.Where, Select: s.Select,
		TwoColumn: s.TwoColumn, OneShot: s.OneShot, Every: s.again(),
	}
	t.Scheduled = j.Schedule != nil && t.Every == 0 && !s.OneShot
	if len(s.Key) == 1 {
		t.Key = s.Key[0]
	} else {
		t.Keys = s.Key
	}
	if s.Columns != nil {
		t.Columns = dibs.Columns(*s.Columns)
	}
	if s.Labels != nil {
		t.Labels = dibs.Labels(*s.Labels)
	}
	return t, nil
}

// Hash names the definition: the hexadecimal SHA-256 of its text.
func (j *Job) Hash() string {
	sum := sha256.Sum256([]byte(j.Definition))
	return hex.EncodeToString(sum[:])
}

// MarshalJSON shows the definition as the file has it, so that no value of the
// environment is ever printed.
func (j *Job) MarshalJSON() ([]byte, error) {
	if j.Definition == "" {
		return []byte("null"), nil
	}
	return json.RawMessage(j.Definition), nil
}

// Failed is true when so many failed items of all that were claimed make a
// command exit with 3.
func (f FailWhen) Failed(failed, claimed int) bool {
	switch {
	case failed <= 0:
		return false
	case f.All:
		return failed >= claimed
	case f.Percent > 0:
		return float64(failed)*100 >= f.Percent*float64(claimed)
	}
	return true
}
