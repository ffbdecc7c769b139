package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

func keyChecks() []check {
	return []check{
		{"big integers keep every digit", bigKeys},
		{"texts are compared byte for byte", textKeys},
		{"composite keys never read alike", compositeKeys},
	}
}

// keyed makes a full table with key columns of its own and opens it.
func (b *bundle) keyed(columns, primary string, keys []string, rows ...string) {
	b.Helper()
	b.table = fmt.Sprintf("items%d", b.tables.Add(1))
	b.exec(fmt.Sprintf(`CREATE TABLE %s (%s, status VARCHAR(20) DEFAULT 'IDLE' NOT NULL, started_at %[3]s, claimable_at %[3]s DEFAULT %[4]s,
		claim_token VARCHAR(96), fence BIGINT, attempts INT, expirations INT, cycle BIGINT, PRIMARY KEY (%s))`,
		b.table, columns, b.sql.Time, b.sql.Epoch, primary))
	b.exec("INSERT INTO " + b.table + " (" + strings.Join(keys, ", ") + ") VALUES " + strings.Join(rows, ", "))
	b.open(dibs.Table{Name: b.table, Keys: keys})
}

// life takes every row through claim, renewal, look, find, failure, claim by key
// and settling, each by its own key.
func (b *bundle) life(keys ...dibs.Key) {
	b.Helper()
	r := b.start()
	got := b.claim(r, len(keys)+1).Items
	if len(got) != len(keys) {
		b.Fatalf("claimed %d rows of %d", len(got), len(keys))
	}
	byText := map[string]dibs.Held{}
	for _, h := range got {
		byText[fmt.Sprintf("%q", []string(h.Key))] = h
	}
	for i, it := range b.renew(r, got...).Items {
		if it.EndsAt.IsZero() {
			b.Errorf("%q was not renewed", got[i].Key)
		}
	}
	for n, key := range keys {
		h, ok := byText[fmt.Sprintf("%q", []string(key))]
		if !ok {
			b.Errorf("no item %q among %v", key, byText)
			continue
		}
		if row := b.look(key...); !row.Key.Equal(key) || row.Token != h.Token {
			b.Errorf("looked at %q and saw %+v", key, row)
		}
		b.settled(r, failed(r, h, lease, ""))
		again := b.claim(r, 1, byKey(key...))
		if len(again.Items) != 1 || !again.Items[0].Key.Equal(key) || again.Items[0].Attempts != 1 {
			b.Errorf("the key %q claimed %+v", key, again.Items)
			continue
		}
		b.settled(r, completedIn(lease, r, again.Items...)...)
		if done := b.recorded(r.ID, dibs.OutcomeCompleted, false); done != n+1 {
			b.Errorf("%d completed after %q, want %d", done, key, n+1)
		}
	}
}

func bigKeys(b *bundle) {
	b.full(0)
	var keys []dibs.Key
	for i, id := range []string{"9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808", "0"} {
		b.exec(fmt.Sprintf("INSERT INTO %s (id, name) VALUES (%s, 'n%d')", b.table, id, i))
		keys = append(keys, dibs.Key{id})
	}
	b.life(keys...)
}

// textKeys is the whole kind of case B58 as far as rows are concerned.
func textKeys(b *bundle) {
	texts := []string{"Report", "report", "réport", "re\u0301port", "k1", "k1 ", " k1", "K1", "it's", `a"b\c`, "a/b", "a%2Fb", "1", "01", "", "ß", "ss", "日本"}
	var keys []dibs.Key
	var rows []string
	for _, s := range texts {
		keys = append(keys, dibs.Key{s})
		rows = append(rows, "("+b.literal(s)+")")
	}
	b.keyed("k "+b.sql.Bytes+" NOT NULL", "k", []string{"k"}, rows...)
	b.life(keys...)
}

// literal is a text as SQL; a backslash means something in some databases.
func (b *bundle) literal(s string) string {
	b.Helper()
	if b.number(`SELECT length('\\')`) == 1 {
		s = strings.ReplaceAll(s, `\`, `\\`)
	}
	return literals(s)
}

func compositeKeys(b *bundle) {
	keys := []dibs.Key{{"a", "b/c", "7"}, {"a/b", "c", "7"}, {"a", "b", "7"}, {"a", "b", "77"}, {"", "a", "-1"}, {"a%2Fb", "c", "7"}}
	var rows []string
	for _, k := range keys {
		rows = append(rows, fmt.Sprintf("(%s, %s)", literals(k[0], k[1]), k[2]))
	}
	b.keyed(fmt.Sprintf("tenant %s NOT NULL, name %s NOT NULL, n BIGINT NOT NULL", b.sql.Bytes, b.sql.Bytes),
		"tenant, name, n", []string{"tenant", "name", "n"}, rows...)
	b.life(keys...)
}

// caseB58 checks that names which some collation takes for equal are different
// jobs, locks, slots and identities.
func caseB58(b *bundle) {
	ctx := b.Context()
	texts := []string{"Report", "report", "réport", "re\u0301port", "REPORT", "report\u00a0x", "k1", "K1", "ß", "ss"}
	slot := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	var runs []dibs.Run
	var jobs []dibs.JobRecord
	for i, name := range texts {
		jobs = append(jobs, dibs.JobRecord{Name: name, Hash: fmt.Sprint("h", i), Text: name})
	}
	b.must("register", b.store.Register(ctx, jobs))
	for i, name := range texts {
		if job, err := b.store.Job(ctx, name); err != nil || job.Name != name || job.Definition != jobs[i].Hash {
			b.Errorf("job %q is %+v, %v", name, job, err)
		}
		r := b.newRun(name)
		r.Slot = slot
		b.decide(name, func(ctx context.Context, d dibs.Desk) error {
			if d.Holder() != nil {
				b.Errorf("the lock %q is held by %s", name, d.Holder().Job)
			}
			return startOn(ctx, d, &r)
		})
		runs = append(runs, r)
	}
	for i, name := range texts {
		list, err := b.store.ListRuns(ctx, dibs.RunFilter{Job: name, Limit: 10})
		if err != nil || len(list) != 1 || list[0].ID != runs[i].ID {
			b.Errorf("runs of %q: %+v, %v", name, list, err)
		}
		b.decide(name, func(_ context.Context, d dibs.Desk) error {
			if d.Holder() == nil || d.Holder().ID != runs[i].ID {
				b.Errorf("the lock %q is held by %+v", name, d.Holder())
			}
			return nil
		})
	}
}
