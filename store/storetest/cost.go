package storetest

import (
	"strings"
	"testing"

	"github.com/dibs-run/dibs"
)

// CaseStatements counts what rows cost: a full batch, settled by the claim of the
// next, is one transaction of exactly so many statements, BEGIN and COMMIT among
// them. Fewer is as much a surprise as more.
func CaseStatements(t *testing.T, c Config, exactly int) {
	c.one(t, func(b *bundle) {
		const rows, batch = 1000, 100
		b.full(rows)
		p, faults := b.faulty()
		r := b.start()
		var settle []dibs.Settlement
		faults.Reset()
		for n := 0; ; n++ {
			q := b.request(r, batch)
			q.Settle = settle
			before := faults.Count()
			got, err := p.claims.Claim(b.Context(), q)
			b.must("claim", err)
			cost := faults.Statements()[before:]
			if full := n > 0 && len(got.Items) == batch; full && len(cost) != exactly {
				b.Fatalf("batch %d cost %d statements, not %d:\n%s", n, len(cost), exactly, strings.Join(cost, "\n---\n"))
			}
			for i, s := range got.Settled {
				if !s.OK {
					b.Fatalf("batch %d, item %d: %+v", n, i, s)
				}
			}
			if len(got.Items) == 0 {
				break
			}
			settle = completedIn(lease, r, got.Items...)
		}
		if each := float64(faults.Count()) / rows; each > float64(exactly+1)/batch {
			b.Errorf("%.3f statements for a row", each)
		}
		if n := len(b.outcomes(r.ID)); n != rows {
			b.Errorf("%d outcomes for %d rows", n, rows)
		}
	})
}
