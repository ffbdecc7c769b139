package sqlstore_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

func TestDataErrorsFailAlone(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		c := makeItems(t, s, 3)
		execute(t, s, map[string]string{
			"sqlite":   "CREATE TRIGGER no BEFORE UPDATE ON items WHEN NEW.attempts = 7 BEGIN SELECT RAISE(ABORT, 'constraint failed: no sevens'); END",
			"postgres": "ALTER TABLE items ADD CONSTRAINT no CHECK (attempts <> 7)",
			"mysql":    "ALTER TABLE items ADD CONSTRAINT no CHECK (attempts <> 7)",
		}[s.Dialect().Name])
		r := start(t, s, "job", time.Minute, true)
		got := claim(t, c, r, 3)
		items := completed(r, got.Items)
		items[1].Change.Attempts = 7
		out := settle(t, c, r, items)
		if !out[0].OK || !out[2].OK || out[1].OK || out[1].Err == nil {
			t.Errorf("settled %+v", out)
		}
		if row := look(t, c, "2"); row.Status != dibs.StatusInProgress {
			t.Errorf("the refused row is %+v", row)
		}
	})
}

func TestPayloadKeepsTypes(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		kind := s.Dialect().Name
		types := map[string]string{
			"sqlite":   "big INTEGER, price DECIMAL(10,2), flag BOOLEAN, at DATETIME, day DATE, raw BLOB, doc JSON, real REAL, txt TEXT, none TEXT",
			"postgres": "big bigint, price numeric(10,2), flag boolean, at timestamptz, day date, raw bytea, doc jsonb, real float8, txt text, none text",
			"mysql":    "big BIGINT, price DECIMAL(10,2), flag BOOLEAN, at DATETIME(3), day DATE, raw BLOB, doc JSON, `real` DOUBLE, txt TEXT, none TEXT",
		}[kind]
		execute(t, s, "CREATE TABLE odd (id INTEGER NOT NULL PRIMARY KEY, "+types+", "+fullColumns(kind)+")")
		raw := map[string]string{"sqlite": "x'00ff'", "postgres": `'\x00ff'`, "mysql": "x'00ff'"}[kind]
		at := map[string]string{"sqlite": "'2026-11-29T12:00:00.250Z'", "postgres": "'2026-11-29 13:00:00.25+01'", "mysql": "'2026-11-29 12:00:00.250'"}[kind]
		flag := map[string]string{"sqlite": "1", "postgres": "true", "mysql": "true"}[kind]
		real := map[string]string{"mysql": "`real`"}[kind]
		if real == "" {
			real = "real"
		}
		execute(t, s, "INSERT INTO odd (id, big, price, flag, at, day, raw, doc, "+real+", txt) VALUES (1, 9007199254740993, 12.50, "+flag+", "+at+
			", '2026-02-03', "+raw+`, '{"a": [1, 2]}', 0.1, 'q"é')`)
		c := claimsOn(t, s, dibs.Table{Name: "odd", Key: "id",
			Select: []string{"big", "price", "flag", "at", "day", "raw", "doc", "real", "txt", "none"}})
		got := claim(t, c, start(t, s, "job", time.Minute, true), 1)
		if len(got.Items) != 1 || got.Items[0].Problem != "" {
			t.Fatalf("claimed %+v", got.Items)
		}
		var have map[string]json.RawMessage
		if err := json.Unmarshal(got.Items[0].Payload, &have); err != nil {
			t.Fatalf("payload %s: %v", got.Items[0].Payload, err)
		}
		for name, want := range map[string]string{
			"big": "9007199254740993", "price": "12.50", "flag": "true", "at": `"2026-11-29T12:00:00.25Z"`, "day": `"2026-02-03"`,
			"raw": `"AP8="`, "real": "0.1", "txt": `"q\"é"`, "none": "null",
		} {
			if string(have[name]) != want && !(name == "price" && string(have[name]) == "12.5") {
				t.Errorf("%s is %s, want %s", name, have[name], want)
			}
		}
		if doc := strings.ReplaceAll(string(have["doc"]), " ", ""); doc != `{"a":[1,2]}` {
			t.Errorf("doc is %s", have["doc"])
		}
	})
}
