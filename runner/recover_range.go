package runner

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// Range bounds a recovery. Exactly one of the window, the cursor, the run and
// the key alone; a key may also narrow one of the others.
type Range struct {
	// From and To are half-open, over the slot, or, where there is none, over when
	// the trigger came.
	From, To time.Time
	// After and Until bound the key: greater than After, up to Until.
	After, Until string
	Run          string
	Key          string
}

// IsZero tells whether nothing is bounded: then there is no recovery.
func (g Range) IsZero() bool { return g == Range{} }

// span is the range's canonical text.
func (g Range) span() (string, error) {
	fault := func(problem, fix string) (string, error) {
		return "", &dibs.ConfigError{Subject: "range", Problem: problem, Fix: fix}
	}
	window, cursor := !g.From.IsZero() || !g.To.IsZero(), g.After != "" || g.Until != ""
	var parts []string
	switch {
	case window && (g.From.IsZero() || g.To.IsZero()):
		return fault("is open at one end", "give both --from and --to")
	case window && !g.From.Before(g.To):
		return fault(fmt.Sprintf("ends at %s, not after its start at %s", g.To.UTC().Format(time.RFC3339), g.From.UTC().Format(time.RFC3339)), "swap --from and --to")
	case cursor && (g.After == "" || g.Until == ""):
		return fault("is open at one end", "give both --after and --until")
	case cursor && compareKeys(g.After, g.Until) >= 0:
		return fault(fmt.Sprintf("%q does not come before %q", g.After, g.Until), "swap --after and --until")
	case window && cursor, window && g.Run != "", cursor && g.Run != "":
		return fault("is bounded in two ways", "use one of --from/--to, --after/--until and --run")
	case g.IsZero():
		return fault("is missing: there is no \"run everything again\"", "give --from and --to, --after and --until, --run, or --key")
	case window:
		parts = append(parts, "from "+g.From.UTC().Format(time.RFC3339Nano)+" to "+g.To.UTC().Format(time.RFC3339Nano))
	case cursor:
		parts = append(parts, fmt.Sprintf("after %q until %q", g.After, g.Until))
	case g.Run != "":
		parts = append(parts, "run "+g.Run)
	}
	if g.Key != "" {
		parts = append(parts, fmt.Sprintf("key %q", g.Key))
	}
	return strings.Join(parts, " "), nil
}

// holds tells whether a key lies in the range.
func (g Range) holds(key string) bool {
	if g.Key != "" && key != g.Key {
		return false
	}
	return g.Until == "" || compareKeys(key, g.After) > 0 && compareKeys(key, g.Until) <= 0
}

// longestNumber is the most digits of a key that is a number.
const longestNumber = 100

// compareKeys orders whole numbers by their value, and all else by its bytes.
func compareKeys(a, b string) int {
	if len(a) <= longestNumber && len(b) <= longestNumber {
		x, okX := new(big.Int).SetString(a, 10)
		y, okY := new(big.Int).SetString(b, 10)
		if okX && okY {
			return x.Cmp(y)
		}
	}
	return strings.Compare(a, b)
}
