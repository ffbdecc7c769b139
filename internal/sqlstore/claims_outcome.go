package sqlstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dibs-run/dibs"
)

// settleItem encodes one settlement.
func (c *claims) settleItem(s dibs.Settlement, plain bool) item {
	rec := s.Record
	rec.Token, rec.Key, rec.Fence = s.Held.Token, s.Held.Key.String(), s.Held.Fence
	if rec.Outcome == "" {
		rec.Outcome = s.Outcome
	}
	if plain {
		rec.Error, rec.Evidence, rec.ReceiptID = ascii(rec.Error), nil, ascii(rec.ReceiptID)
	}
	it := keyed(s.Held.Key)
	it.outcome(rec)
	it.instant("b", s.Held.Stamp)
	if s.Change.Restore {
		prior := s.Held.Prior
		it.set("back", "1")
		it.set("s", c.m.label(c.priorStatus(prior)))
		it.instant("c", prior.ClaimableAt)
		it.instant("b2", prior.StartedAt)
		if prior.Token != "" {
			it.set("pt", string(prior.Token))
		}
		it.number("a", int64(s.Held.Attempts))
		it.number("x", int64(prior.Expirations))
		return it
	}
	it.set("s", c.m.label(c.stored(s.Change.Status)))
	if s.Change.DueIn != nil {
		it.number("d", span(*s.Change.DueIn))
	}
	it.number("a", int64(s.Change.Attempts))
	it.number("x", int64(s.Change.Expirations))
	if s.Change.Succeeded {
		it.set("ok", "1")
	}
	if s.Change.Error != "" {
		it.set("le", c.errorText(s.Change.Error, plain))
	}
	return it
}

// mostError is the most characters that are kept of an error.
const mostError = 2000

// errorText makes an error fit for its column.
func (c *claims) errorText(s string, plain bool) string {
	if plain {
		s = ascii(s)
	}
	most := mostError
	if n := c.m.lastError.Length; n > 0 {
		most = min(most, n)
	}
	return cut(clean(s), most)
}

// mostReceipt is the most bytes that are kept of a destination's own name.
const mostReceipt = 1024

// cutBytes cuts between two characters.
func cutBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

func cut(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most])
}

func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x20 && r < 0x7f || r == '\n' || r == '\t' {
			return r
		}
		return '?'
	}, s)
}

// outcome adds the fields of an outcome row.
func (it *item) outcome(r dibs.OutcomeRecord) {
	it.set("t", string(r.Token))
	it.set("ik", r.Key)
	it.set("rid", r.RunID)
	it.set("job", r.Job)
	it.set("wid", clean(r.WorkID))
	it.set("o", string(r.Outcome))
	it.number("f", int64(r.Fence))
	it.number("n", int64(r.Attempt))
	it.number("tk", span(r.Took))
	for _, f := range []field{
		{"re", string(r.Reason)}, {"rc", cutBytes(clean(r.ReceiptID), mostReceipt)}, {"oe", cut(clean(r.Error), mostError)},
		{"ev", strings.ReplaceAll(clean(string(r.Evidence)), `\u0000`, `\u2400`)},
	} {
		if f.value != "" {
			it.set(f.name, f.value)
		}
	}
}

// proof names the outcome row of an item.
func (it item) proof() string {
	token, _ := it.get("t")
	key, _ := it.get("ik")
	return token + "\x00" + key
}

var errNoLabel = errors.New("the table has no label for this state")

// checkChanges refuses changes that the table cannot hold.
func (c *claims) checkChanges(items []dibs.Settlement) error {
	for _, s := range items {
		state := c.stored(s.Change.Status)
		if s.Change.Restore {
			state = c.priorStatus(s.Held.Prior)
		}
		if c.m.label(state) == "" {
			return fmt.Errorf("settle item %s as %s: %w", s.Held.Key, state, errNoLabel)
		}
	}
	return nil
}

// stored is the state that is written for another: a table without QUARANTINED
// says FAILED.
func (c *claims) stored(s dibs.Status) dibs.Status {
	if s == dibs.StatusQuarantined && c.m.Labels.Quarantined == "" {
		return dibs.StatusFailed
	}
	return s
}

// priorStatus is the state that a release gives back. A row of a two-column
// table that was taken from an expired claim cannot be in progress again, since
// its stamp never moves back: it has failed.
func (c *claims) priorStatus(p dibs.Prior) dibs.Status {
	if c.m.two && p.Status == dibs.StatusInProgress {
		return dibs.StatusFailed
	}
	return p.Status
}
