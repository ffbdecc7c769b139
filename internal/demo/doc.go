// Package demo shows the program at work on real parts: a SQLite table of 300
// accounts, a small CRM in a process of its own that keeps what it received in a
// file of its own, and the program's own commands, run as a person or a timer
// would run them. At the end it compares both sides.
//
// It knows the program only by its commands and by the rows that they leave, so
// that nothing it shows can come from inside: it must not import the runner or a
// store, and it links no database driver.
package demo
