package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/cli"
	"github.com/dibs-run/dibs/internal/testdb"
)

// TestMain makes this test program be dibs, and a program that embeds the
// library, when a script asks for them.
func TestMain(m *testing.M) {
	testscript.Main(tidy{m}, map[string]func(){"dibs": main, "billing": billing})
}

// billing is a program with a job written in Go.
func billing() {
	p := program()
	p.Name, p.OpenSQLite = "billing", nil
	p.Jobs = []dibs.Job{{
		Name: "month-end", Overlap: dibs.Skip,
		Handle: func(context.Context, dibs.Item) (dibs.Receipt, error) { return dibs.Receipt{}, nil },
	}}
	os.Exit(cli.Main(context.Background(), p, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// TestScripts runs the scripts that need no server.
func TestScripts(t *testing.T) {
	run(t, "../../cli/testdata/script", "sqlite", func(dir string) string { return "sqlite:" + filepath.Join(dir, "test.db") })
}

// TestScriptsOnAllDatabases runs the scripts that must hold on each kind of
// database.
func TestScriptsOnAllDatabases(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		run(t, "../../cli/testdata/script/all", "sqlite", func(dir string) string { return "sqlite:" + filepath.Join(dir, "test.db") })
	})
	t.Run("postgres", func(t *testing.T) {
		run(t, "../../cli/testdata/script/all", "postgres", func(string) string { return testdb.Postgres(t) })
	})
	t.Run("mysql", func(t *testing.T) {
		run(t, "../../cli/testdata/script/all", "mysql", func(string) string { return testdb.MySQL(t) })
	})
}

func run(t *testing.T, dir, kind string, database func(dir string) string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DIBS_DATABASE_URL", database(env.WorkDir))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TZ", "UTC")
			for _, name := range []string{"DIBS_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
				env.Setenv(name, "")
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "sqlite", "postgres", "mysql":
				return name == kind, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "sql": runSQL, "await": await, "user": user,
		},
	})
}

// exits CODE PROGRAM ARGS… runs a program and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// sql runs a statement, or the statements of a file, on the script's database
// and writes the rows of a query to standard output.
func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql STATEMENT | sql FILE.sql")
	}
	text := args[0]
	if strings.HasSuffix(text, ".sql") {
		text = ts.ReadFile(text)
	}
	driver, dsn, err := testdb.DSN(ts.Getenv("DIBS_DATABASE_URL"))
	ts.Check(err)
	db, err := sql.Open(driver, dsn)
	ts.Check(err)
	defer db.Close()
	for _, one := range strings.Split(text, ";\n") {
		if one = strings.TrimSuffix(strings.TrimSpace(one), ";"); one != "" {
			ts.Check(query(ts, db, one))
		}
	}
}

func query(ts *testscript.TestScript, db *sql.DB, text string) error {
	ctx := context.Background()
	if !strings.HasPrefix(strings.ToUpper(text), "SELECT") {
		_, err := db.ExecContext(ctx, text)
		return err
	}
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		var parts []string
		for _, v := range values {
			if !v.Valid {
				v.String = "NULL"
			}
			parts = append(parts, v.String)
		}
		fmt.Fprintln(ts.Stdout(), strings.Join(parts, "|"))
	}
	return rows.Err()
}

// await waits until a file exists.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s did not appear", args[0])
		}
	}
}
