package storetest

import (
	"slices"
	"strings"

	"github.com/dibs-run/dibs"
)

// unclaimable is a name whose row the tables of [bundle.full] and [bundle.two]
// refuse to have in progress, by a CHECK.
const unclaimable = "unclaimable"

const refusing = "CHECK (name <> '" + unclaimable + "' OR status <> 'IN_PROGRESS')"

// refuseChecks are about rows whose claim the database itself refuses: law 8,
// one bad item fails only itself.
func refuseChecks() []check {
	return []check{
		{"one refused claim fails alone", func(b *bundle) { b.full(7); claimsRefused(b) }},
		{"one refused claim fails alone, two columns", func(b *bundle) { b.two(7); claimsRefused(b) }},
		{"a claim goes on behind many refused rows", refusedAtTheHead},
		{"the only row asked for is refused", refusedByKey},
	}
}

func refusedKeys(c dibs.Claimed) string {
	var keys []string
	for _, f := range c.Refused {
		keys = append(keys, f.Key.String())
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

func claimsRefused(b *bundle) {
	b.set("name = '"+unclaimable+"'", "id IN (1, 4)")
	r := b.start()
	q := b.request(r, 4)
	got := b.claimRequest(q)
	if len(got.Items)+len(got.Refused) != 4 || len(got.Refused) == 0 {
		b.Fatalf("claimed %d and was refused %d, want 4 together", len(got.Items), len(got.Refused))
	}
	claimed, refused := len(got.Items), got.Refused
	for len(got.Items)+len(got.Refused) > 0 {
		q := b.request(r, 4)
		for _, f := range refused {
			q.Skip = append(q.Skip, f.Key)
		}
		got = b.claimRequest(q)
		claimed += len(got.Items)
		refused = append(refused, got.Refused...)
		if claimed+len(refused) > 7 {
			b.Fatalf("%d claimed and %d refused of 7 rows", claimed, len(refused))
		}
	}
	if claimed != 5 || refusedKeys(dibs.Claimed{Refused: refused}) != "1 4" {
		b.Errorf("claimed %d and was refused %q, want 5 and 1 4", claimed, refusedKeys(dibs.Claimed{Refused: refused}))
	}
	for _, id := range []int{1, 4} {
		if row := b.look(keyOf(id)...); row.Status != dibs.StatusIdle || row.Token != "" || row.Fence != 0 {
			b.Errorf("the refused row is %+v, not as it was", row)
		}
	}
	failed := 0
	for _, o := range b.outcomes(r.ID) {
		if o.Outcome == dibs.OutcomeFailed && o.Reason == dibs.ReasonClaimRefused && o.Error != "" {
			failed++
		}
	}
	if failed != 2 {
		b.Errorf("%d outcomes of refused claims, want 2", failed)
	}
}

func refusedAtTheHead(b *bundle) {
	b.full(60)
	b.set("name = '"+unclaimable+"'", "id <= 50")
	r := b.start()
	var skip []dibs.Key
	claimed := 0
	for step := 0; ; step++ {
		q := b.request(r, 10)
		q.Skip = skip
		got := b.claimRequest(q)
		if len(got.Items)+len(got.Refused) == 0 {
			break
		}
		claimed += len(got.Items)
		for _, f := range got.Refused {
			skip = append(skip, f.Key)
		}
		if step > 20 {
			b.Fatal("no end")
		}
	}
	if claimed != 10 || len(skip) != 50 {
		b.Errorf("claimed %d and was refused %d, want 10 and 50", claimed, len(skip))
	}
}

func refusedByKey(b *bundle) {
	b.full(2)
	b.set("name = '"+unclaimable+"'", "id = 2")
	q := b.request(b.start(), 1)
	q.Scope.Key = keyOf(2)
	if got := b.claimRequest(q); len(got.Items) != 0 || refusedKeys(got) != "2" {
		b.Errorf("claimed %d, refused %q", len(got.Items), refusedKeys(got))
	}
}

func (b *bundle) claimRequest(q dibs.ClaimRequest) dibs.Claimed {
	b.Helper()
	got, err := b.claims.Claim(b.Context(), q)
	b.must("claim", err)
	return got
}
