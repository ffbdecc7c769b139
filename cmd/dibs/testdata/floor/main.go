// Command floor is the least that a wrapper can do: it opens a database, makes
// one bare claim, runs a command, writes one bare end, and leaves with the
// command's exit code. The benchmark of the wrapper compares with it.
package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"

	_ "github.com/jackc/pgx/v5/stdlib"       // the driver "pgx"
	_ "github.com/ncruces/go-sqlite3/driver" // the driver "sqlite3"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(driver, dsn string, argv []string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	res, err := db.Exec("UPDATE floor SET holder = 'me', fence = fence + 1 WHERE id = 1 AND holder IS NULL")
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("not claimed: %d, %w", n, err)
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return err
	}
	_, err = db.Exec("UPDATE floor SET holder = NULL WHERE id = 1 AND holder = 'me'")
	return err
}
