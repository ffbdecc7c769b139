package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/internal/testdb"
)

// manyRows is more than two batches of an adoption and not a multiple of one.
const manyRows = 11_003

// makeMany makes a table with a composite key, every seventh row in progress and
// every eleventh done.
func makeMany(t *testing.T, db *sql.DB) {
	t.Helper()
	statements := []string{"CREATE TABLE many (tenant VARCHAR(20) NOT NULL, id INT NOT NULL, status VARCHAR(20), PRIMARY KEY (tenant, id))"}
	var values []string
	for i := range manyRows {
		status := "IDLE"
		switch {
		case i%7 == 0:
			status = "IN_PROGRESS"
		case i%11 == 0:
			status = "SENT"
		}
		values = append(values, fmt.Sprintf("('t%d', %d, '%s')", i%3, i, status))
		if len(values) == 1000 || i == manyRows-1 {
			statements = append(statements, "INSERT INTO many VALUES "+strings.Join(values, ", "))
			values = nil
		}
	}
	for _, one := range statements {
		if _, err := db.ExecContext(t.Context(), one); err != nil {
			t.Fatalf("%.80s: %v", one, err)
		}
	}
}

func manyTable() dibs.Table {
	return dibs.Table{Name: "many", Keys: []string{"tenant", "id"}, Every: dibs.Always, Labels: dibs.Labels{Done: "SENT"}}
}

func count(t *testing.T, db *sql.DB, where string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM many WHERE "+where).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// checkFilled checks each row's due time by its state.
func checkFilled(t *testing.T, s *sqlstore.Store, db *sql.DB) {
	t.Helper()
	for _, tt := range []struct {
		where string
		want  int
	}{
		{"status = 'SENT' AND claimable_at IS NOT NULL", 0},
		{"status <> 'SENT' AND claimable_at IS NULL", 0},
		{"fence <> 0 OR attempts <> 0 OR expirations <> 0 OR claim_token IS NOT NULL", 0},
	} {
		if n := count(t, db, tt.where); n != tt.want {
			t.Errorf("%s: %d rows, want %d", tt.where, n, tt.want)
		}
	}
	c, err := s.Claims(t.Context(), manyTable())
	if err != nil {
		t.Fatal(err)
	}
	stats, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	idle := count(t, db, "status = 'IDLE'")
	if stats.Due != int64(idle) || stats.Expired != 0 || stats.Done == 0 {
		t.Errorf("due %d, expired %d, done %d; want all %d idle rows due and none expired", stats.Due, stats.Expired, stats.Done, idle)
	}
}

func TestAdoptManyRows(t *testing.T) {
	testdb.All(t, func(t *testing.T, name, url string) {
		db := testdb.Open(t, url)
		s := open(t, name, db, "")
		makeMany(t, db)
		plan, err := s.PlanAdoption(t.Context(), sqlstore.Adoption{Table: manyTable()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ApplyAdoption(t.Context(), plan, nil); err != nil {
			t.Fatal(err)
		}
		checkFilled(t, s, db)
		again, err := s.PlanAdoption(t.Context(), sqlstore.Adoption{Table: manyTable()})
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Steps) != 0 {
			t.Errorf("a second adoption would do: %s", again.Summary())
		}
	})
}

// TestAdoptIsContinued interrupts an adoption before each of its steps, and in
// the middle of the filling, and adopts again.
func TestAdoptIsContinued(t *testing.T) {
	testdb.All(t, func(t *testing.T, name, url string) {
		db := testdb.Open(t, url)
		s := open(t, name, db, "")
		makeMany(t, db)
		for stop := 1; ; stop++ {
			plan, err := s.PlanAdoption(t.Context(), sqlstore.Adoption{Table: manyTable()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err = s.ApplyAdoption(ctx, plan, func(int, int64) {
				if calls++; calls > stop {
					cancel()
				}
			})
			stopped := ctx.Err() != nil
			cancel()
			if err == nil {
				break
			}
			if !stopped {
				t.Fatalf("at call %d, before it was stopped: %v", stop, err)
			}
		}
		checkFilled(t, s, db)
	})
}

// TestAdoptPrintsWhatItDoes runs the printed statements as a person would.
func TestAdoptPrintsWhatItDoes(t *testing.T) {
	testdb.All(t, func(t *testing.T, name, url string) {
		db := testdb.Open(t, url)
		s := open(t, name, db, "")
		makeMany(t, db)
		plan, err := s.PlanAdoption(t.Context(), sqlstore.Adoption{Table: manyTable()})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range plan.Steps {
			for _, one := range step.SQL {
				for {
					res, err := db.ExecContext(t.Context(), one)
					if err != nil {
						t.Fatalf("%s: %v", one, err)
					}
					if n, err := res.RowsAffected(); !step.Repeat || err != nil || n == 0 {
						break
					}
				}
			}
		}
		checkFilled(t, s, db)
	})
}

func TestAdoptRefuses(t *testing.T) {
	testdb.All(t, func(t *testing.T, name, url string) {
		db := testdb.Open(t, url)
		s := open(t, name, db, "")
		for _, one := range []string{
			"CREATE TABLE plain (id VARCHAR(20) PRIMARY KEY, name VARCHAR(20), fence VARCHAR(20))",
			"CREATE VIEW seen AS SELECT * FROM plain",
		} {
			if _, err := db.ExecContext(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			table dibs.Table
			says  string
		}{
			{dibs.Table{}, "name the table"},
			{dibs.Table{Name: "plan", Key: "id"}, `did you mean "plain"`},
			{dibs.Table{Name: "plain"}, "key: is missing"},
			{dibs.Table{Name: "plain", Key: "name"}, "neither the primary key nor unique"},
			{dibs.Table{Name: "plain", Key: "id"}, "column fence: has type"},
			{dibs.Table{Name: "plain", Key: "id", Where: "true; false"}, "where"},
			{dibs.Table{Name: "plain", Key: "id", Columns: dibs.Columns{Fence: "f"}, Where: "nmae = 'x'"}, "nmae"},
			{dibs.Table{Name: "seen", Key: "id"}, "is a view"},
		} {
			_, err := s.PlanAdoption(t.Context(), sqlstore.Adoption{Table: tt.table})
			var config *dibs.ConfigError
			if !errors.As(err, &config) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v: got %v, want a ConfigError with %q", tt.table, err, tt.says)
			}
		}
	})
}
