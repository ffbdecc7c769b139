// Command hello links the SQLite driver and prints a line: the least time that
// such a program takes to start.
package main

import (
	"fmt"

	_ "github.com/ncruces/go-sqlite3/driver" // the driver "sqlite3"
)

func main() { fmt.Println("hello") }
