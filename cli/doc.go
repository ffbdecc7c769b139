// Package cli is the command line: one file per command around [Main], which a
// program that embeds the library calls to get the same commands for jobs
// written in Go.
//
// It must not know any database driver: a [Program] brings a function that
// opens the database. Of this module it may import everything below it; see
// the import table in layout_test.go.
//
// # Exit codes
//
// The codes are a contract:
//
//	0   fine, also when a trigger was skipped by policy
//	2   usage or configuration: nothing was done
//	3   items failed
//	4   uncertain or held outcomes remain
//	69  the database cannot be used: nothing was run
//	75  skipped or refused, for people and for --fail-on-skip
//	76  the lease was lost
//
// Where several apply the graver wins: 76, 4, 3. Every failure of dibs itself
// prints a line on standard error that begins with "dibs:".
//
// # JSON
//
// With --json a command writes one JSON document. Fields may be added; unknown
// ones are to be ignored. Times are RFC 3339 in UTC, keys are strings.
package cli
