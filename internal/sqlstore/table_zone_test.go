package sqlstore_test

import (
	"database/sql"
	"net/url"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

// inZone opens a second store on the database whose sessions are in a zone. On
// MySQL it also does without what testdb's connections have: rows found instead
// of rows changed, and parameters put into the text.
func inZone(t *testing.T, kind, address, zone string) *sqlstore.Store {
	t.Helper()
	driver, dsn, err := testdb.DSN(address)
	if err != nil {
		t.Fatal(err)
	}
	switch kind {
	case "postgres":
		dsn += "&timezone=" + url.QueryEscape(zone)
	case "mysql":
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.Params = map[string]string{"time_zone": "'" + zone + "'"}
		config.ClientFoundRows, config.InterpolateParams = false, false
		dsn = config.FormatDSN()
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // only a test's second pool
	s := open(t, kind, db, "")
	show := words(s, "", "SELECT current_setting('timezone')", "SELECT @@session.time_zone")
	if have := single[string](t, s, show); have != zone {
		t.Fatalf("the session is in zone %q, want %q", have, zone)
	}
	return s
}

// TestCaseB03SessionZones has three sessions in zones of different sign work on one
// table at once: a lease means the same to all. (B03)
func TestCaseB03SessionZones(t *testing.T) {
	zones := map[string][]string{
		"postgres": {"UTC", "America/New_York", "Pacific/Kiritimati"},
		"mysql":    {"+00:00", "-05:00", "+13:00"},
	}
	types := map[string][]string{
		"postgres": {"timestamptz", "timestamp"},
		"mysql":    {"DATETIME(6)", "TIMESTAMP(6) NULL", "DATETIME"},
	}
	testdb.All(t, func(t *testing.T, kind, address string) {
		if kind == "sqlite" {
			return // it has no sessions with zones
		}
		base := open(t, kind, testdb.Open(t, address), "")
		migrate(t, base)
		for i, declared := range types[kind] {
			name := "zoned_" + string(rune('a'+i))
			execute(t, base, "CREATE TABLE "+name+" (id INT NOT NULL PRIMARY KEY, status VARCHAR(20) DEFAULT 'IDLE', claim_token VARCHAR(96), fence BIGINT, "+
				"attempts INT, expirations INT, cycle BIGINT, started_at "+declared+", claimable_at "+declared+")")
			execute(t, base, "INSERT INTO "+name+" (id) VALUES (1), (2), (3)")
			execute(t, base, "CREATE TABLE two_"+name+" (id INT NOT NULL PRIMARY KEY, status VARCHAR(20) DEFAULT 'IDLE', started_at "+declared+")")
			execute(t, base, "INSERT INTO two_"+name+" (id) VALUES (1), (2), (3)")
			t.Run(declared, func(t *testing.T) {
				for _, table := range []string{name, "two_" + name} {
					var all []dibs.Claims
					for _, zone := range zones[kind] {
						all = append(all, claimsOn(t, inZone(t, kind, address, zone), dibs.Table{Name: table, Key: "id"}))
					}
					zoneRound(t, base, all)
				}
			})
		}
	})
}

func zoneRound(t *testing.T, s *sqlstore.Store, all []dibs.Claims) {
	if _, err := all[1].Sweep(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	r := start(t, s, "job", time.Hour, false)
	lease := func(q *dibs.ClaimRequest) { q.Lease, q.Scope.Lease = 30*time.Second, 30*time.Second }
	for i, c := range all {
		got := claim(t, c, r, 1, lease)
		if len(got.Items) != 1 {
			t.Fatalf("session %d claimed %+v", i, got.Items)
		}
		for j, other := range all {
			row := look(t, other, got.Items[0].Key...)
			if !row.StartedAt.Equal(got.Items[0].Stamp) || !other.TwoColumn() && !row.ClaimableAt.Equal(got.Items[0].EndsAt) {
				t.Errorf("session %d sees %s to %s, session %d wrote %s to %s", j, row.StartedAt, row.ClaimableAt, i, got.Items[0].Stamp, got.Items[0].EndsAt)
			}
			if off := row.StartedAt.Sub(row.Now).Abs(); off > 20*time.Second {
				t.Errorf("session %d: the start is %s away from now", j, off)
			}
		}
		if left := got.Items[0].EndsAt.Sub(got.Now); left < 28*time.Second || left > 32*time.Second {
			t.Errorf("session %d: lease ends in %s", i, left)
		}
	}
	for i, c := range all {
		if got := claim(t, c, r, 3, lease); len(got.Items) != 0 {
			t.Errorf("session %d stole %s", i, keys(got.Items))
		}
		// Every other copy of the question gives the same answer.
		scope := dibs.Scope{Lease: 30 * time.Second}
		if n, err := c.Remaining(t.Context(), scope, 10); err != nil || n != 0 {
			t.Errorf("session %d: %d remain, %v", i, n, err)
		}
		if rows, err := c.Rows(t.Context(), dibs.RowFilter{Due: true, Scope: scope}); err != nil || len(rows) != 0 {
			t.Errorf("session %d lists as due: %+v, %v", i, rows, err)
		}
		key := dibs.Key{string(rune('1' + (i+1)%3))}
		if got := claim(t, c, r, 1, lease, func(q *dibs.ClaimRequest) { q.Scope.Key = key }); len(got.Items) != 0 {
			t.Errorf("session %d stole %s by key", i, key)
		}
	}
}

func TestTimestampUnderDaylightSavingIsRefused(t *testing.T) {
	address := testdb.MySQL(t)
	s := open(t, "mysql", testdb.Open(t, address), "")
	execute(t, s, "CREATE TABLE x (id INT NOT NULL PRIMARY KEY, status VARCHAR(20), started_at TIMESTAMP(6) NULL)")
	// The zone tables of a fresh server are empty: teach it one zone.
	for _, statement := range []string{
		"INSERT IGNORE INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (9001, 'N')",
		"INSERT IGNORE INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('Test/Shifting', 9001)",
		"INSERT IGNORE INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation) VALUES (9001, 0, -18000, 0, 'EST'), (9001, 1, -14400, 1, 'EDT')",
		"INSERT IGNORE INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id) VALUES (9001, 0, 0), (9001, 1772953200, 1), (9001, 1793512800, 0)",
	} {
		execute(t, s, statement)
	}
	shifting := inZone(t, "mysql", address, "Test/Shifting")
	refused(t, shifting, dibs.Table{Name: "x", Key: "id"}, "started_at", "daylight saving", "DATETIME(6)")
	claimsOn(t, s, dibs.Table{Name: "x", Key: "id"})
}
