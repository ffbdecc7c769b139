// Package sqlstore is the one executor behind every SQL store: it loads .sql
// files, binds and scans, runs transactions, classifies errors, migrates and
// introspects.
//
// A database is described by a [Dialect], which is data: embedded statement and
// schema files, a way to quote, a way to write placeholders, and a classifier
// of errors. The package must not know which databases exist, nor any driver,
// nor anything about schedules, policies or handlers. It imports only the root
// package.
package sqlstore
