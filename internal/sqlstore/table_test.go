package sqlstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
)

// words are the SQL that differs between the databases, by what it is.
func words(s *sqlstore.Store, sqlite, postgres, mysql string) string {
	return map[string]string{"sqlite": sqlite, "postgres": postgres, "mysql": mysql}[s.Dialect().Name]
}

// fullRound claims one row of a table, renews, looks, settles it and claims it
// again; it returns the key.
func fullRound(t *testing.T, s *sqlstore.Store, table dibs.Table) dibs.Key {
	t.Helper()
	c := claimsOn(t, s, table)
	r := start(t, s, "job of "+t.Name(), time.Minute, true)
	got := claim(t, c, r, 1)
	if len(got.Items) != 1 || got.Items[0].Problem != "" {
		t.Fatalf("claimed %+v", got.Items)
	}
	h := got.Items[0]
	renewed, err := c.Renew(t.Context(), dibs.RenewRequest{Run: r.Ref(), Lease: time.Minute, Items: got.Items})
	if err != nil || renewed.Items[0].EndsAt.IsZero() {
		t.Fatalf("renewed %+v, %v", renewed, err)
	}
	if c.TwoColumn() {
		got.Items[0].Stamp = renewed.Items[0].Stamp
	}
	if row := look(t, c, h.Key...); row.Status != dibs.StatusInProgress || !row.Key.Equal(h.Key) {
		t.Fatalf("row %+v", row)
	}
	byKey := func(q *dibs.ClaimRequest) { q.Scope.Key = h.Key }
	if again := claim(t, c, r, 1, byKey); len(again.Items) != 0 {
		t.Fatalf("claimed twice: %+v", again.Items)
	}
	if out := settle(t, c, r, completed(r, got.Items)); !out[0].OK {
		t.Fatalf("settled %+v", out)
	}
	if again := claim(t, c, r, 1, byKey); len(again.Items) != 1 || again.Items[0].Fence <= h.Fence {
		t.Fatalf("claimed again: %+v", again.Items)
	}
	return h.Key
}

func TestCaseB60OddIdentifiers(t *testing.T) { // B60
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		q := s.Dialect().Quote
		schema := words(s, "", `My-Sch"ema.x`, "")
		name := words(s, `Or"der.s`, `Or"der.s`, "Or`der.s")
		qualified := q(name)
		if schema != "" {
			execute(t, s, "CREATE SCHEMA "+q(schema))
			qualified = q(schema) + "." + q(name)
		}
		columns := fullColumns(s.Dialect().Name)
		columns = strings.Replace(columns, "status ", q("user")+" ", 1)
		columns = strings.Replace(columns, "started_at ", q("Started:At")+" ", 1)
		columns = strings.Replace(columns, "fence ", q("{fence}")+" ", 1)
		execute(t, s, "CREATE TABLE "+qualified+" ("+q("Key?")+" VARCHAR(20) NOT NULL PRIMARY KEY, "+q("dibs_r")+" INT, "+q("k0")+" INT, "+columns+")")
		execute(t, s, "INSERT INTO "+qualified+" ("+q("Key?")+") VALUES ('a')")
		key := fullRound(t, s, dibs.Table{
			Schema: schema, Name: name, Key: "Key?", Select: []string{"dibs_r", "k0"},
			Where:   q("Key?") + " <> 'it''s ? :x $1' AND " + q(name) + "." + q("user") + " IS NOT NULL",
			Columns: dibs.Columns{Status: "user", StartedAt: "Started:At", Fence: "{fence}"},
		})
		if key.String() != "a" {
			t.Errorf("key %q", key)
		}
	})
}

func TestKeyTypes(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		for _, k := range []struct{ name, sqlite, postgres, mysql, value, key string }{
			{"int", "INTEGER", "int", "INT", "-7", "-7"},
			{"bigint", "BIGINT", "bigint", "BIGINT", "9007199254740993", "9007199254740993"},
			{"unsigned", "", "", "BIGINT UNSIGNED", "18446744073709551615", "18446744073709551615"},
			{"text", "TEXT", "text", "VARCHAR(50)", "'a/b %é '", "a/b %é "},
			{"nocase", "TEXT COLLATE NOCASE", "", "VARCHAR(50) CHARACTER SET latin1 COLLATE latin1_german1_ci", "'Straße'", "Straße"},
			{"binary", "", `text COLLATE "C"`, "VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "'Kéy'", "Kéy"},
			{"char", "CHAR(8)", "char(8)", "CHAR(8)", "'abc'", "abc"},
			{"uuid", "UUID", "uuid", "CHAR(36)", "'0190a0b4-7e2c-7000-8000-00000000cafe'", "0190a0b4-7e2c-7000-8000-00000000cafe"},
			{"bytes", "BLOB", "bytea", "BINARY(4)", words(s, "x'00ff10AB'", `'\x00ff10ab'`, "x'00ff10ab'"), "00ff10ab"},
			{"date", "DATE", "date", "DATE", "'2026-02-28'", "2026-02-28"},
			{"numeric", "NUMERIC", "numeric", "DECIMAL(30,10)", "12345678901234567.5", words(s, "", "12345678901234567.5", "12345678901234567.5000000000")},
			{"enum", "", "mood", "ENUM('sad','it''s ok')", "'it''s ok'", "it's ok"},
		} {
			declared := words(s, k.sqlite, k.postgres, k.mysql)
			if declared == "" || k.key == "" {
				continue
			}
			t.Run(k.name, func(t *testing.T) {
				if k.name == "enum" && declared == "mood" {
					execute(t, s, "CREATE TYPE mood AS ENUM ('sad', 'it''s ok')")
				}
				name := "t_" + k.name
				execute(t, s, "CREATE TABLE "+name+" (id "+declared+" NOT NULL PRIMARY KEY, "+fullColumns(s.Dialect().Name)+")")
				execute(t, s, "INSERT INTO "+name+" (id) VALUES ("+k.value+")")
				if key := fullRound(t, s, dibs.Table{Name: name, Key: "id"}); key.String() != k.key {
					t.Errorf("key %q, want %q", key, k.key)
				}
			})
		}
	})
}

func TestCompositeKey(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		execute(t, s, "CREATE TABLE pairs (tenant VARCHAR(20) NOT NULL, id INT NOT NULL, "+fullColumns(s.Dialect().Name)+", PRIMARY KEY (tenant, id))")
		execute(t, s, "INSERT INTO pairs (tenant, id) VALUES ('a/b', 1)")
		table := dibs.Table{Name: "pairs", Keys: []string{"id", "tenant"}}
		if key := fullRound(t, s, table); key.String() != "1/a%2Fb" {
			t.Errorf("key %q", key)
		}
		execute(t, s, "INSERT INTO pairs (tenant, id) VALUES ('b', 2), ('a', 2), ('a', 3), ('a', 4)")
		c := claimsOn(t, s, table)
		r := start(t, s, "job", time.Minute, true)
		first := claim(t, c, r, 2)
		second := claim(t, c, r, 2, func(q *dibs.ClaimRequest) {
			q.Mark = dibs.Mark{ClaimableAt: first.Mark.ClaimableAt, Key: dibs.Key{"4", "a"}}
		})
		if keys(first.Items) != "2/a 2/b" || keys(second.Items) != "4/a" {
			t.Errorf("claimed %q and, from 4/a on, %q", keys(first.Items), keys(second.Items))
		}
		if out := settle(t, c, r, completed(r, first.Items)); !out[0].OK || !out[1].OK {
			t.Errorf("settled %+v", out)
		}
	})
}

func TestStatusTypesAndLabels(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		labels := dibs.Labels{Idle: "it's idle", InProgress: "running", Failed: "err", Done: "ok", Quarantined: "bad"}
		numbers := dibs.Labels{Idle: "0", InProgress: "-1", Failed: "2", Done: "3"}
		for _, k := range []struct {
			name, sqlite, postgres, mysql string
			labels                        dibs.Labels
		}{
			{"enum", "", `"My State"`, "ENUM('it''s idle','running','err','ok','bad')", labels},
			{"short", "VARCHAR(9)", "varchar(9)", "VARCHAR(9) CHARACTER SET latin1", labels},
			{"int", "INTEGER", "smallint", "TINYINT", numbers},
			{"varbinary", "", "", "VARBINARY(20)", labels},
			{"domain", "", "state_domain", "", labels},
		} {
			declared := words(s, k.sqlite, k.postgres, k.mysql)
			if declared == "" {
				continue
			}
			t.Run(k.name, func(t *testing.T) {
				switch declared {
				case `"My State"`:
					execute(t, s, `CREATE TYPE "My State" AS ENUM ('it''s idle','running','err','ok','bad')`)
				case "state_domain":
					execute(t, s, `CREATE DOMAIN state_domain AS varchar(10) NOT NULL CHECK (VALUE <> 'x')`)
				}
				columns := fullColumns(s.Dialect().Name)
				_, rest, _ := strings.Cut(columns, ",")
				execute(t, s, "CREATE TABLE s_"+k.name+" (id INT NOT NULL PRIMARY KEY, status "+declared+" NOT NULL, "+rest+")")
				execute(t, s, "INSERT INTO s_"+k.name+" (id, status) VALUES (1, '"+strings.ReplaceAll(k.labels.Idle, "'", "''")+"')")
				fullRound(t, s, dibs.Table{Name: "s_" + k.name, Key: "id", Labels: k.labels})
			})
		}
	})
}

func TestTimeTypes(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		for _, k := range []struct {
			name, sqlite, postgres, mysql string
			unit                          time.Duration
		}{
			{"zoned", "", "timestamptz", "", time.Microsecond},
			{"zoned_ms", "", "timestamptz(3)", "", time.Millisecond},
			{"plain", "", "timestamp", "DATETIME(6)", time.Microsecond},
			{"plain_s", "", "timestamp(0)", "DATETIME", time.Second},
			{"plain_cs", "", "timestamp(2)", "DATETIME(2)", 10 * time.Millisecond},
			{"stamp", "", "", "TIMESTAMP(6) NULL", time.Microsecond},
			{"stamp_s", "", "", "TIMESTAMP NULL", time.Second},
			{"number", "INTEGER", "", "", time.Microsecond},
			{"text", "TEXT", "", "", time.Millisecond},
			{"datetime", "DATETIME", "", "", time.Millisecond},
		} {
			declared := words(s, k.sqlite, k.postgres, k.mysql)
			if declared == "" {
				continue
			}
			t.Run(k.name, func(t *testing.T) { timeRound(t, s, "t_"+k.name, declared, k.unit) })
		}
	})
}

// timeRound checks that leases in a column of a coarse type are never shorter
// than asked for.
func timeRound(t *testing.T, s *sqlstore.Store, name, declared string, unit time.Duration) {
	execute(t, s, "CREATE TABLE "+name+" (id INT NOT NULL PRIMARY KEY, status VARCHAR(20) DEFAULT 'IDLE', claim_token VARCHAR(96), fence BIGINT, "+
		"attempts INT, expirations INT, cycle BIGINT, started_at "+declared+", claimable_at "+declared+", last_success_at "+declared+")")
	execute(t, s, "INSERT INTO "+name+" (id) VALUES (1)")
	c := claimsOn(t, s, dibs.Table{Name: name, Key: "id", Columns: dibs.Columns{LastSuccessAt: "last_success_at"}})
	r := start(t, s, name, time.Minute, true)
	if swept, err := c.Sweep(t.Context(), time.Minute); err != nil || swept.IdleWithoutDue != 1 {
		t.Fatalf("swept %+v, %v", swept, err)
	}
	lease := 2*unit + time.Millisecond
	if _, err := c.Claim(t.Context(), dibs.ClaimRequest{Run: r.Ref(), Token: "t/1", Limit: 1, Lease: unit}); err == nil {
		t.Error("a lease of one unit was not refused")
	}
	before := now(t, s)
	got := claim(t, c, r, 1, func(q *dibs.ClaimRequest) { q.Lease = lease })
	if len(got.Items) != 1 {
		t.Fatalf("claimed %+v", got.Items)
	}
	h := got.Items[0]
	if end := before.Add(lease); h.EndsAt.Before(end) || h.EndsAt.Sub(end) > unit+10*time.Second {
		t.Errorf("lease ends %s, want at or shortly after %s", h.EndsAt, end)
	}
	if h.Stamp.Truncate(unit) != h.Stamp || h.Stamp.After(now(t, s)) || h.Stamp.Before(before.Add(-unit-time.Millisecond)) {
		t.Errorf("stamp %s, claimed between %s and %s", h.Stamp, before, now(t, s))
	}
	if row := look(t, c, "1"); !row.ClaimableAt.Equal(h.EndsAt) || !row.StartedAt.Equal(h.Stamp) {
		t.Errorf("row %+v, claimed %+v", row, h)
	}
	// At most once in a run, however coarse the column.
	settle(t, c, r, completed(r, got.Items))
	if again := claim(t, c, r, 1, func(q *dibs.ClaimRequest) { q.Scope.StartedBefore = before }); len(again.Items) != 0 {
		t.Errorf("attempted twice in one run: %+v", again.Items)
	}
	if row := look(t, c, "1"); row.LastSuccess.Before(before.Add(-unit-time.Millisecond)) || row.ClaimableAt.After(row.Now) {
		t.Errorf("row after success %+v", row)
	}
}

func now(t testing.TB, s *sqlstore.Store) time.Time {
	t.Helper()
	at, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// refused opens a table that must be refused, naming what is wrong and the fix.
func refused(t *testing.T, s *sqlstore.Store, table dibs.Table, want ...string) {
	t.Helper()
	_, err := s.Claims(t.Context(), table)
	var fault *dibs.ConfigError
	if !errors.As(err, &fault) || fault.Fix == "" || fault.Problem == "" {
		t.Errorf("table %s: %v; want a ConfigError with a fix", table, err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("table %s: %q does not say %q", table, err, w)
		}
	}
}

func TestRefusedTables(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		makeItems(t, s, 0)
		columns := fullColumns(s.Dialect().Name)
		item := dibs.Table{Name: "items", Key: "id"}
		with := func(change func(*dibs.Table)) dibs.Table { out := item; change(&out); return out }

		refused(t, s, with(func(x *dibs.Table) { x.Name = "itms" }), "itms", "does not exist", `"items"`)
		refused(t, s, with(func(x *dibs.Table) { x.Name = "" }), "name")
		refused(t, s, with(func(x *dibs.Table) { x.Key = "" }), "key")
		refused(t, s, with(func(x *dibs.Table) { x.Key = "idd" }), "idd", "does not exist", `"id"`)
		refused(t, s, with(func(x *dibs.Table) { x.Key = "name" }), "name", "neither the primary key nor unique", "(id)")
		refused(t, s, with(func(x *dibs.Table) { x.Key, x.Keys = "", []string{"id", "name"} }), "unique")
		refused(t, s, with(func(x *dibs.Table) { x.Select = []string{"nme"} }), "nme", `"name"`)
		refused(t, s, with(func(x *dibs.Table) { x.Columns.Status = "name"; x.Columns.StartedAt = "name" }), "name", "mapped twice")
		refused(t, s, with(func(x *dibs.Table) { x.Columns.Fence = "fense" }), "fense", "do not exist")
		refused(t, s, with(func(x *dibs.Table) { x.Columns.LastError = "lost_error" }), `"last_error"`)
		refused(t, s, with(func(x *dibs.Table) { x.Labels.Idle = `a\b` }), "backslash")
		refused(t, s, with(func(x *dibs.Table) { x.Labels.Failed = "IDLE" }), "stands for both")
		refused(t, s, with(func(x *dibs.Table) { x.Where = "nme = 1" }), "where", "nme")

		execute(t, s, "CREATE VIEW seen AS SELECT * FROM items")
		refused(t, s, with(func(x *dibs.Table) { x.Name = "seen" }), "view")
		execute(t, s, "CREATE TABLE halfway (id INT NOT NULL PRIMARY KEY, status VARCHAR(20), started_at "+words(s, "INTEGER", "timestamptz", "DATETIME(6)")+", fence INT)")
		refused(t, s, with(func(x *dibs.Table) { x.Name = "halfway" }), "claimable_at, claim_token", "although fence does")
		execute(t, s, "CREATE TABLE floats (id "+words(s, "REAL", "float8", "DOUBLE")+" NOT NULL PRIMARY KEY, "+columns+")")
		refused(t, s, with(func(x *dibs.Table) { x.Name = "floats" }), "id", "floating point")
		execute(t, s, "CREATE TABLE partly (id INT NOT NULL, doc INT, "+columns+")")
		if s.Dialect().Name != "mysql" {
			execute(t, s, "CREATE UNIQUE INDEX partly_id ON partly (id) WHERE doc > 1")
		}
		refused(t, s, with(func(x *dibs.Table) { x.Name = "partly" }), "unique")
		execute(t, s, "CREATE TABLE empties (id INT UNIQUE, "+columns+")")
		refused(t, s, with(func(x *dibs.Table) { x.Name = "empties" }), "unique")
		execute(t, s, "CREATE TABLE strict_ (id INT NOT NULL PRIMARY KEY, "+strings.NewReplacer("claim_token text", "claim_token text NOT NULL",
			"claim_token TEXT", "claim_token TEXT NOT NULL", "claim_token VARCHAR(96)", "claim_token VARCHAR(10) NOT NULL").Replace(columns)+")")
		refused(t, s, with(func(x *dibs.Table) { x.Name = "strict_" }), "claim_token", "NULL")
	})
}

func TestRefusedTablesOfOneDatabase(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		columns := fullColumns(s.Dialect().Name)
		switch s.Dialect().Name {
		case "mysql":
			execute(t, s, "CREATE TABLE isam (id INT NOT NULL PRIMARY KEY, "+columns+") ENGINE=MyISAM")
			refused(t, s, dibs.Table{Name: "isam", Key: "id"}, "MyISAM", "InnoDB")
			execute(t, s, "CREATE TABLE self (id INT NOT NULL PRIMARY KEY, "+strings.Replace(columns, "started_at DATETIME(6)",
				"started_at DATETIME(6) ON UPDATE CURRENT_TIMESTAMP(6)", 1)+")")
			refused(t, s, dibs.Table{Name: "self", Key: "id"}, "started_at", "ON UPDATE")
			execute(t, s, "CREATE TABLE prefixes (id VARCHAR(50) NOT NULL, UNIQUE (id(10)), "+columns+")")
			refused(t, s, dibs.Table{Name: "prefixes", Key: "id"}, "unique")
			execute(t, s, "CREATE TABLE moods (id INT NOT NULL PRIMARY KEY, "+strings.Replace(columns, "status VARCHAR(20) NOT NULL DEFAULT 'IDLE'", "status ENUM('IDLE','FAILED')", 1)+")")
			refused(t, s, dibs.Table{Name: "moods", Key: "id"}, "IN_PROGRESS", "IDLE, FAILED")
		case "postgres":
			execute(t, s, "CREATE TABLE gen (id int PRIMARY KEY, x int, "+strings.Replace(columns, "attempts int", "attempts int GENERATED ALWAYS AS (x) STORED", 1)+")")
			refused(t, s, dibs.Table{Name: "gen", Key: "id"}, "attempts", "generated")
			execute(t, s, "CREATE TABLE docs (id jsonb NOT NULL UNIQUE, "+columns+")")
			refused(t, s, dibs.Table{Name: "docs", Key: "id"}, "jsonb")
			refused(t, s, dibs.Table{Name: "Docs", Key: "id"}, "does not exist", `"docs"`)
			refused(t, s, dibs.Table{Schema: "nowhere", Name: "docs", Key: "id"}, "nowhere.docs", "does not exist")
		case "sqlite":
			execute(t, s, "CREATE TABLE days (id INT NOT NULL PRIMARY KEY, "+columns+")")
			execute(t, s, "INSERT INTO days (id, claimable_at) VALUES (1, 'tomorrow')")
			refused(t, s, dibs.Table{Name: "days", Key: "id"}, "claimable_at", "tomorrow")
		}
	})
}

func TestWhereIsOneExpression(t *testing.T) {
	onAll(t, func(t *testing.T, s *sqlstore.Store) {
		makeItems(t, s, 4)
		bad := []string{
			"", " ", "id = 1; DROP TABLE items", "id = 1 -- x", "id = 1 /* x */", "true) or (true", "(id = 1", "id = 1)",
			"name = 'x", `name = "x`, "id = 1, 2", "name = 'a\x00'", "[(])", "name = 'it''s", "name = 'x' 'y",
		}
		switch s.Dialect().Name {
		case "postgres":
			bad = append(bad, "id = $1", "name = $a$x", `name = E'\'`, `name = 'a\' or 1=1 or name = 'b'`, "name = $1$ x $1$")
		case "mysql":
			bad = append(bad, "id = ?", "id = @x", "id = 1 # x", "name = `x", `name = 'a\' or 1=1 or name = 'b'`, `name = "a\"`)
		case "sqlite":
			bad = append(bad, "id = ?", "id = ?1", "id = :x", "id = @x", "id = $x", "[id = 1", "name = `x")
		}
		for _, w := range bad {
			if w == "" {
				continue // no where at all
			}
			refused(t, s, dibs.Table{Name: "items", Key: "id", Where: w}, "where")
		}
		good := []string{"id < 3", "(id < 3)", "id IN (1, 2, 4)", "name <> 'a;b--c/*d*/?:x$1@y'", "items.id < 3", "EXISTS (SELECT 1 FROM items x WHERE x.id = items.id AND x.id < 3)", "id < 3 OR id < 2"}
		switch s.Dialect().Name {
		case "postgres":
			good = append(good, `name <> E'it\'s'`, "name <> $$a'b$1:c$$", "name <> $q$ ; $q$", `(ARRAY[1,2])[1:2] IS NOT NULL`, "id::text <> 'x'", `name ~ '\d'`)
		case "mysql":
			good = append(good, `name <> 'a\\'`, "`name` <> 'x'", `name <> "q'q"`)
		case "sqlite":
			good = append(good, `[name] <> 'a\'`, "`name` <> 'x'", `"name" <> 'x'`)
		}
		r := start(t, s, "job", time.Minute, true)
		for _, w := range good {
			c, err := s.Claims(t.Context(), dibs.Table{Name: "items", Key: "id", Where: w})
			if err != nil {
				t.Errorf("where %q: %v", w, err)
				continue
			}
			got := claim(t, c, r, 10)
			if len(got.Items) < 2 || strings.Contains(w, "< 3") && len(got.Items) != 2 {
				t.Errorf("where %q claimed %s", w, keys(got.Items))
			}
			restore := make([]dibs.Settlement, len(got.Items))
			for i, h := range got.Items {
				restore[i] = settlement(r, h, dibs.OutcomeReleased, dibs.RowChange{Restore: true})
			}
			settle(t, c, r, restore)
			if row := look(t, c, "4"); row.Filtered != strings.Contains(w, "< 3") {
				t.Errorf("where %q: row 4 filtered is %v", w, row.Filtered)
			}
		}
	})
}
