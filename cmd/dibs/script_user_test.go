package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dibs-run/dibs/internal/testdb"
)

// user TABLE PRIVILEGES makes a user of the database server who may do anything
// with our own tables and only this with the table, and leaves its URL in
// $USER_URL, with a wrong password in $WRONG_URL, and its name in $USER_NAME.
func user(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: user TABLE PRIVILEGES")
	}
	address, err := url.Parse(ts.Getenv("DIBS_DATABASE_URL"))
	ts.Check(err)
	name := "u_" + strings.ToLower(rand.Text()[:12])
	driver, dsn, err := testdb.DSN(address.String())
	ts.Check(err)
	db, err := sql.Open(driver, dsn)
	ts.Check(err)
	ts.Defer(func() { _ = db.Close() })
	ctx := context.Background()
	run := func(statements ...string) {
		for _, one := range statements {
			if _, err := db.ExecContext(ctx, one); err != nil {
				ts.Fatalf("%s: %v", one, err)
			}
		}
	}
	role, drop := name, "DROP OWNED BY "+name+"; DROP ROLE "+name
	if address.Scheme == "mysql" {
		role, drop = name+"@'%'", "DROP USER "+name+"@'%'"
		run("CREATE USER " + role + " IDENTIFIED BY 'secret'")
	} else {
		run("CREATE ROLE "+name+" LOGIN PASSWORD 'secret'", "GRANT USAGE ON SCHEMA public TO "+name)
	}
	ts.Defer(func() {
		for _, one := range strings.Split(drop, "; ") {
			if _, err := db.ExecContext(ctx, one); err != nil {
				ts.Logf("%s: %v", one, err)
			}
		}
	})
	rows, err := db.QueryContext(ctx, "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'dibs%' AND table_schema IN ('public', '"+strings.TrimPrefix(address.Path, "/")+"')")
	ts.Check(err)
	defer rows.Close()
	var grants []string
	for rows.Next() {
		var table string
		ts.Check(rows.Scan(&table))
		grants = append(grants, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s", table, role))
	}
	ts.Check(rows.Err())
	run(append(grants, fmt.Sprintf("GRANT %s ON %s TO %s", args[1], args[0], role))...)
	address.User = url.UserPassword(name, "secret")
	ts.Setenv("USER_URL", address.String())
	ts.Setenv("USER_NAME", role)
	address.User = url.UserPassword(name, "guess")
	ts.Setenv("WRONG_URL", address.String())
}
