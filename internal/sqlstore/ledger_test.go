package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

// intention is one of job j about the key's only action.
func intention(work, key string, token dibs.Token) dibs.Intention {
	return dibs.Intention{WorkID: work, Key: key, Cycle: 7, Token: token, RequestHash: "h1"}
}

func intend(t testing.TB, s *sqlstore.Store, lease time.Duration, list ...dibs.Intention) []dibs.Intent {
	t.Helper()
	got, err := s.Intend(t.Context(), dibs.IntendRequest{Job: "j", RunID: "run_1", Lease: lease, LookupAfter: time.Minute, Items: list})
	if err != nil {
		t.Fatalf("intend: %v", err)
	}
	return got
}

func settleEffect(t testing.TB, s *sqlstore.Store, e dibs.Effect, state dibs.EffectState) {
	t.Helper()
	in := time.Duration(0)
	if err := s.SettleEffect(t.Context(), dibs.EffectChange{EffectRef: e.Ref(), State: state, ReceiptID: "d-1", LookIn: &in}); err != nil {
		t.Fatalf("settle effect as %s: %v", state, err)
	}
}

// The state table: what an intention finds decides.
func TestIntendFollowsTheStateTable(t *testing.T) {
	const a, b = dibs.Token("run_1/1"), dibs.Token("run_2/1")
	for _, c := range []struct {
		name    string
		state   dibs.EffectState // that the first attempt left; empty: still under way
		ended   bool             // the first attempt's lease has ended
		claimed bool
		found   dibs.EffectState
		now     dibs.EffectState
	}{
		{"live lease", "", false, false, dibs.EffectIntended, dibs.EffectIntended},
		{"intended and expired", "", true, true, dibs.EffectIntended, dibs.EffectUncertain},
		{"confirmed", dibs.EffectConfirmed, false, false, dibs.EffectConfirmed, dibs.EffectConfirmed},
		{"not applied", dibs.EffectNotApplied, false, true, dibs.EffectNotApplied, dibs.EffectIntended},
		{"rejected", dibs.EffectRejected, false, true, dibs.EffectRejected, dibs.EffectIntended},
		{"uncertain", dibs.EffectUncertain, false, true, dibs.EffectUncertain, dibs.EffectUncertain},
		{"held", dibs.EffectHeld, false, false, dibs.EffectHeld, dibs.EffectHeld},
	} {
		t.Run(c.name, func(t *testing.T) {
			onAll(t, func(t *testing.T, s *sqlstore.Store) {
				first := intend(t, s, time.Minute, intention("j/1", "1", a))[0]
				if !first.Claimed || first.Found != "" || first.Effect.Fence != 1 {
					t.Fatalf("the first intention: %+v", first)
				}
				if c.state != "" {
					settleEffect(t, s, first.Effect, c.state)
				}
				if c.ended {
					endLeases(t, s)
				}
				in := intention("j/1", "1", b)
				in.RequestHash = "h2"
				got := intend(t, s, time.Minute, in)[0]
				e, err := s.Effect(t.Context(), "j/1")
				if err != nil {
					t.Fatal(err)
				}
				if got.Claimed != c.claimed || got.Found != c.found || e.State != c.now || got.Effect.State != c.now {
					t.Errorf("claimed %v, found %s, now %s (answered %s)", got.Claimed, got.Found, e.State, got.Effect.State)
				}
				if got.Claimed && (e.Fence != 2 || e.Token != b || got.Effect.Fence != 2) {
					t.Errorf("the fence was not raised: %+v", e)
				}
				wantHash := "h1"
				if c.now == dibs.EffectIntended && c.claimed {
					wantHash = "h2"
				}
				if e.RequestHash != wantHash {
					t.Errorf("request hash %s, want %s", e.RequestHash, wantHash)
				}
				if c.now == dibs.EffectUncertain && (e.LookAt.IsZero() || e.SentUntil.IsZero()) {
					t.Errorf("nobody knows from when absence counts: %+v", e)
				}
			})
		})
	}
}

// endLeases moves all effects' leases into the past.
func endLeases(t testing.TB, s *sqlstore.Store) {
	t.Helper()
	past := map[string]string{
		"sqlite": "lease_end - 7200000000", "postgres": "lease_end - interval '2 hours'", "mysql": "lease_end - INTERVAL 2 HOUR",
	}[s.Dialect().Name]
	execute(t, s, "UPDATE dibs_effects SET lease_end = "+past+" WHERE lease_end IS NOT NULL")
}

// Asking twice, as after a lost answer, is harmless; two rows with one work ID
// are not one claim, also within one request.
func TestCaseB12IntendTwiceIsOneClaim(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		list := []dibs.Intention{intention("j/b", "2", "run_1/1"), intention("j/a", "1", "run_1/1"), intention("j/a", "3", "run_1/1")}
		for range 2 {
			got := intend(t, s, time.Minute, list...)
			if !got[0].Claimed || !got[1].Claimed || got[2].Claimed {
				t.Fatalf("claimed %v %v %v, want yes yes no", got[0].Claimed, got[1].Claimed, got[2].Claimed)
			}
			if got[2].Found != dibs.EffectIntended || got[2].Effect.Key != "1" {
				t.Errorf("the second row of one action met %+v", got[2].Effect)
			}
			if got[0].Effect.Fence != 1 || got[0].Effect.WorkID != "j/b" {
				t.Errorf("the repeated claim raised the fence: %+v", got[0].Effect)
			}
		}
		if n := single[int](t, s, "SELECT count(*) FROM dibs_effects"); n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
	})
}

// B39: the work ID is unique by the index, whoever looks first; another job's
// action with the same work ID is refused, not taken for one's own.
func TestCaseB39WorkIDsAreUniqueByTheIndex(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		const n = 8
		won := make(chan bool, n)
		for i := range n {
			token := dibs.ClaimToken("run_"+string(rune('a'+i)), 1)
			go func() {
				got, err := s.Intend(t.Context(), dibs.IntendRequest{Job: "j", RunID: "run_1", Lease: time.Minute,
					Items: []dibs.Intention{intention("j/x", "1", token), intention("j/y", "2", token)}})
				if err != nil {
					t.Error(err)
					got = make([]dibs.Intent, 2)
				}
				won <- got[0].Claimed
			}()
		}
		winners := 0
		for range n {
			if <-won {
				winners++
			}
		}
		if winners != 1 {
			t.Errorf("%d claims won one action", winners)
		}
		got, err := s.Intend(t.Context(), dibs.IntendRequest{Job: "other", RunID: "run_2", Lease: time.Minute,
			Items: []dibs.Intention{intention("j/x", "1", "run_2/1"), intention(strings.Repeat("w", 3000), "1", "run_2/1")}})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Claimed || got[0].Refused == nil || got[1].Refused == nil {
			t.Errorf("another job's work ID, and one too long, were taken: %+v", got)
		}
	})
}

// Every later write proves the claim; a repeated one is success.
func TestEffectWritesProveTheClaim(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		first := intend(t, s, time.Minute, intention("j/1", "1", "run_1/1"))[0].Effect
		endLeases(t, s)
		second := intend(t, s, time.Minute, intention("j/1", "1", "run_2/1"))[0].Effect
		err := s.SettleEffect(t.Context(), dibs.EffectChange{EffectRef: first.Ref(), State: dibs.EffectConfirmed})
		if !errors.Is(err, dibs.ErrStaleFence) {
			t.Errorf("the first claim settled what is another's: %v", err)
		}
		found := dibs.Finding{RunID: "run_2", Job: "j", WorkID: "j/1", Key: "1", Kind: dibs.FindingConfirmedLate, DestinationID: "d-9"}
		for range 2 {
			if err := s.SettleEffect(t.Context(), dibs.EffectChange{EffectRef: second.Ref(), State: dibs.EffectConfirmed, ReceiptID: "d-9"}, found); err != nil {
				t.Fatal(err)
			}
		}
		list, err := s.ListFindings(t.Context(), dibs.FindingFilter{WorkID: "j/1"})
		if err != nil || len(list) != 1 || list[0].DestinationID != "d-9" {
			t.Errorf("findings %+v, %v", list, err)
		}
		if e, err := s.Effect(t.Context(), "j/1"); err != nil || e.DestinationID != "d-9" || !e.LeaseEnd.IsZero() || e.SettledAt.IsZero() {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// An effect that was looked up and is absent becomes intended under the same
// claim; only the one who looked may say so.
func TestAClearedEffectBecomesIntended(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		intend(t, s, time.Minute, intention("j/1", "1", "run_1/1"))
		endLeases(t, s)
		mine := intention("j/1", "1", "run_2/1")
		looked := intend(t, s, time.Minute, mine)[0]
		if !looked.Claimed || looked.Effect.State != dibs.EffectUncertain {
			t.Fatalf("%+v", looked)
		}
		other := intention("j/1", "1", "run_3/1")
		other.Cleared = looked.Effect.Fence
		if got := intend(t, s, time.Minute, other)[0]; got.Claimed {
			t.Error("a stranger cleared the effect")
		}
		mine.Cleared, mine.RequestHash = looked.Effect.Fence, "h3"
		for range 2 {
			got := intend(t, s, time.Minute, mine)[0]
			if !got.Claimed || got.Found != "" || got.Effect.State != dibs.EffectIntended || got.Effect.Fence != 3 {
				t.Errorf("%+v", got)
			}
		}
	})
}

// The sweep makes what a dead process left uncertain, once, and leaves the
// living alone; a late settle by the claim itself still counts.
func TestSweepEffects(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		dead := intend(t, s, time.Minute, intention("j/dead", "1", "run_1/1"), intention("j/slow", "2", "run_1/1"))
		endLeases(t, s)
		intend(t, s, time.Minute, intention("j/live", "3", "run_1/2"))
		for _, want := range []int64{2, 0} {
			if n, err := s.SweepEffects(t.Context(), "j", time.Minute); err != nil || n != want {
				t.Errorf("swept %d, %v; want %d", n, err, want)
			}
		}
		list, err := s.ListEffects(t.Context(), dibs.EffectFilter{Job: "j", State: dibs.EffectUncertain, Free: true})
		if err != nil || len(list) != 2 || list[0].WorkID != "j/dead" || list[0].LookAt.Sub(list[0].SentUntil) != time.Minute {
			t.Errorf("%+v, %v", list, err)
		}
		if next, err := s.ListEffects(t.Context(), dibs.EffectFilter{Job: "j", State: dibs.EffectUncertain, After: "j/dead"}); err != nil || len(next) != 1 {
			t.Errorf("second page: %+v, %v", next, err)
		}
		settleEffect(t, s, dead[1].Effect, dibs.EffectConfirmed)
	})
}

// Reconcile and resolve claim one effect, whatever its state.
func TestClaimEffect(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		claim := dibs.EffectClaim{WorkID: "j/1", RunID: "run_9", Token: "run_9/1", Lease: time.Minute}
		if _, err := s.ClaimEffect(t.Context(), claim); !errors.Is(err, dibs.ErrNotFound) {
			t.Errorf("claimed what is not there: %v", err)
		}
		first := intend(t, s, time.Minute, intention("j/1", "1", "run_1/1"))[0].Effect
		var held *dibs.HeldError
		if _, err := s.ClaimEffect(t.Context(), claim); !errors.As(err, &held) || held.Run != "run_1" {
			t.Errorf("claimed what another has: %v", err)
		}
		settleEffect(t, s, first, dibs.EffectHeld)
		e, err := s.ClaimEffect(t.Context(), claim)
		if err != nil || e.State != dibs.EffectHeld || e.Fence != 2 {
			t.Fatalf("%+v, %v", e, err)
		}
		if got := intend(t, s, time.Minute, intention("j/1", "1", "run_3/1"))[0]; got.Claimed || !got.Effect.Live() {
			t.Errorf("an intention met a claim: %+v", got)
		}
		settleEffect(t, s, e, dibs.EffectNotApplied)
	})
}

// acts makes a full table of n due rows.
func acts(t testing.TB, s *sqlstore.Store, n int) {
	t.Helper()
	at := map[string]string{"sqlite": "bigint", "postgres": "timestamptz", "mysql": "datetime(6)"}[s.Dialect().Name]
	due := map[string]string{"sqlite": "1000000", "postgres": "'1970-01-02Z'", "mysql": "'1970-01-02'"}[s.Dialect().Name]
	execute(t, s, "CREATE TABLE acts (id integer PRIMARY KEY, status varchar(20) NOT NULL, started_at "+at+" NULL, claimable_at "+at+" NULL, "+
		"claim_token varchar(96), fence bigint NOT NULL DEFAULT 0, attempts integer NOT NULL DEFAULT 0, "+
		"expirations integer NOT NULL DEFAULT 0, cycle bigint, total integer NOT NULL DEFAULT 0)")
	for i := range n {
		execute(t, s, fmt.Sprintf("INSERT INTO acts (id, status, claimable_at) VALUES (%d, 'IDLE', %s)", i+1, due))
	}
}

// The effect is renewed and settled in the transaction of its item.
func TestEffectsGoWithTheirItems(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		acts(t, s, 2)
		claims, err := s.Claims(t.Context(), dibs.Table{Name: "acts", Key: "id", Every: dibs.Always})
		if err != nil {
			t.Fatal(err)
		}
		run := start(t, s, "j", time.Minute, false)
		got, err := claims.Claim(t.Context(), dibs.ClaimRequest{Run: run.Ref(), Token: dibs.ClaimToken(run.ID, 1), Limit: 2, Lease: time.Minute})
		if err != nil || len(got.Items) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		var effects []dibs.EffectRef
		for _, h := range got.Items {
			effects = append(effects, intend(t, s, time.Minute, intention("j/"+h.Key.String(), h.Key.String(), h.Token))[0].Effect.Ref())
		}
		renewed, err := claims.Renew(t.Context(), dibs.RenewRequest{Run: run.Ref(), Lease: time.Hour, Items: got.Items, Effects: effects})
		if err != nil || renewed.Items[0].EndsAt.IsZero() || renewed.Items[1].EndsAt.IsZero() {
			t.Fatalf("%+v, %v", renewed, err)
		}
		e, err := s.Effect(t.Context(), effects[0].WorkID)
		if err != nil || e.LeaseEnd.Before(renewed.Items[0].EndsAt.Add(-time.Second)) {
			t.Errorf("the effect's lease ends %s, the item's %s (%v)", e.LeaseEnd, renewed.Items[0].EndsAt, err)
		}
		stolen := effects[1]
		stolen.Fence++
		if lost, err := claims.Renew(t.Context(), dibs.RenewRequest{Run: run.Ref(), Lease: time.Hour, Items: got.Items, Effects: []dibs.EffectRef{effects[0], stolen}}); err != nil || !lost.Items[1].EndsAt.IsZero() {
			t.Errorf("an item whose effect is another's was renewed: %+v, %v", lost, err)
		}
		due := time.Hour
		var list []dibs.Settlement
		for i, h := range got.Items {
			st := dibs.Settlement{Held: h, Outcome: dibs.OutcomeCompleted, Change: dibs.RowChange{Status: dibs.StatusIdle, DueIn: &due, Succeeded: true}}
			st.Record = dibs.OutcomeRecord{RunID: run.ID, Job: "j", WorkID: effects[i].WorkID}
			st.Effect = &dibs.EffectChange{EffectRef: effects[i], State: dibs.EffectConfirmed, ReceiptID: "d", Evidence: []byte(`{"a":"b"}`)}
			st.Findings = []dibs.Finding{{RunID: run.ID, Job: "j", WorkID: effects[i].WorkID, Key: h.Key.String(), Kind: dibs.FindingAbsent}}
			list = append(list, st)
		}
		for range 2 { // settling twice is success, and finds once
			settled, err := claims.Settle(t.Context(), dibs.SettleRequest{Run: run.Ref(), Items: list})
			if err != nil || !settled[0].OK || !settled[1].OK || settled[0].EffectLost {
				t.Fatalf("%+v, %v", settled, err)
			}
		}
		if n := single[int](t, s, "SELECT count(*) FROM dibs_effects WHERE state = 'confirmed' AND lease_end IS NULL AND destination_id = 'd'"); n != 2 {
			t.Errorf("%d effects confirmed, want 2", n)
		}
		if n := single[int](t, s, "SELECT count(*) FROM dibs_findings"); n != 2 {
			t.Errorf("%d findings, want 2", n)
		}
	})
}

// A settle with work commits both or neither, also when it is repeated.
func TestSettleWithWork(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		acts(t, s, 1)
		claims, err := s.Claims(t.Context(), dibs.Table{Name: "acts", Key: "id", Every: dibs.Always})
		if err != nil {
			t.Fatal(err)
		}
		run := start(t, s, "j", time.Minute, false)
		got, err := claims.Claim(t.Context(), dibs.ClaimRequest{Run: run.Ref(), Token: dibs.ClaimToken(run.ID, 1), Limit: 1, Lease: time.Minute})
		if err != nil || len(got.Items) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		due := time.Hour
		boom := errors.New("boom")
		var fail error
		st := dibs.Settlement{Held: got.Items[0], Outcome: dibs.OutcomeCompleted, Change: dibs.RowChange{Status: dibs.StatusIdle, DueIn: &due, Succeeded: true}}
		st.Record = dibs.OutcomeRecord{RunID: run.ID, Job: "j", WorkID: "w"}
		st.Work = func(ctx context.Context, tx dibs.Tx) (dibs.Receipt, error) {
			_, err := tx.ExecContext(ctx, "UPDATE acts SET total = total + 1")
			return dibs.Receipt{ID: "tx"}, errors.Join(err, fail)
		}
		settle := func() dibs.Settled {
			t.Helper()
			out, err := claims.Settle(t.Context(), dibs.SettleRequest{Run: run.Ref(), Items: []dibs.Settlement{st}, WorkLimit: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		total := func(want int) {
			t.Helper()
			if n := single[int](t, s, "SELECT total FROM acts"); n != want {
				t.Errorf("total %d, want %d", n, want)
			}
		}
		fail = boom
		if out := settle(); !errors.Is(out.Err, boom) || out.OK {
			t.Errorf("failed work: %+v", out)
		}
		total(0)
		fail = nil
		for range 2 {
			if out := settle(); !out.OK || out.Err != nil {
				t.Errorf("settled: %+v", out)
			}
			total(1)
		}
		st.Held.Fence++ // a claim that is not ours
		st.Outcome, st.Record.Outcome = dibs.OutcomeFailed, dibs.OutcomeFailed
		if out := settle(); out.OK || !out.Late {
			t.Errorf("a stranger's: %+v", out)
		}
		total(1)
	})
}
