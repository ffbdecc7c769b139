package demo

import (
	"encoding/json"
	"fmt"
	"time"
)

// Fault is a way in which the CRM misbehaves.
type Fault string

// The faults.
const (
	FaultSlow       Fault = "slow"        // takes After longer, then does as it should
	FaultFail       Fault = "fail"        // answers 500 "try later"; stores nothing
	FaultDrop       Fault = "drop"        // stores, then cuts the connection without an answer
	FaultLate       Fault = "late"        // cuts the connection, and stores only After later
	FaultErrorAfter Fault = "error_after" // stores, then answers 500
	FaultAway       Fault = "away"        // cuts every connection; stores and finds nothing
)

// Rule says which requests meet a fault. All slow rules that fit add up; of the
// other faults the first that fits is taken.
type Rule struct {
	Fault Fault `json:"fault"`
	// Account is the account that the rule is for; empty: all, also look-ups.
	Account string `json:"account,omitempty"`
	// After is the delay of slow and late.
	After Duration `json:"after,omitzero"`
	// Times is how many requests meet the fault before it is over; 0: all.
	Times int `json:"times,omitempty"`
}

// Duration is a time.Duration that JSON writes as text, such as "250ms".
type Duration time.Duration

// MarshalText writes "250ms".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "250ms".
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// ParseRules reads rules as JSON, all faults of the text at once.
func ParseRules(text []byte) ([]Rule, error) {
	var rules []Rule
	if err := json.Unmarshal(text, &rules); err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	for i, r := range rules {
		switch r.Fault {
		case FaultSlow, FaultFail, FaultDrop, FaultLate, FaultErrorAfter, FaultAway:
		default:
			return nil, fmt.Errorf("read rules: rule %d: there is no fault %q", i+1, r.Fault)
		}
		if r.Times < 0 || r.After < 0 {
			return nil, fmt.Errorf("read rules: rule %d: a number is negative", i+1)
		}
	}
	return rules, nil
}

// treatment is what one request meets.
type treatment struct {
	slow  time.Duration
	fault Fault
	after time.Duration
}

// concerns tells whether a note request for account meets the rule.
func (r Rule) concerns(account string) bool { return r.Account == "" || r.Account == account }

// concernsLookups tells whether look-ups meet the rule.
func (r Rule) concernsLookups() bool {
	return r.Account == "" && (r.Fault == FaultSlow || r.Fault == FaultFail || r.Fault == FaultAway)
}

// treat finds what a request meets, and what is left of the rules; those given
// stay as they are.
func treat(rules []Rule, concerned func(Rule) bool) ([]Rule, treatment) {
	var t treatment
	kept := make([]Rule, 0, len(rules))
	for _, r := range rules {
		used := concerned(r)
		switch {
		case used && r.Fault == FaultSlow:
			t.slow += time.Duration(r.After)
		case used && t.fault == "":
			t.fault, t.after = r.Fault, time.Duration(r.After)
		default:
			used = false
		}
		if used && r.Times > 0 {
			if r.Times--; r.Times == 0 {
				continue
			}
		}
		kept = append(kept, r)
	}
	return kept, t
}
