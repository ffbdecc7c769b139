// Package dibs is the dictionary of the project: the words that every other
// package uses (job, trigger, decision, run, claim, lease, fence, item,
// outcome), the errors that callers branch on, and the narrow interfaces that a
// store must satisfy.
//
// It makes every unit of scheduled work belong to exactly one run, by one
// atomic claiming UPDATE in the database that already owns the data. To run
// jobs, see package runner; to reach a database, see store/postgres,
// store/sqlite and store/mysql.
//
// This package must not know how anything is stored, scheduled, executed or
// shown: it imports no other package of this module.
//
// # Clocks
//
// Two clocks exist, and no third. The database's clock decides who owns a row:
// every [time.Time] in this package that a store returns was read there. The
// process's own clock decides when to stop believing in a lease; callers
// therefore send durations, never instants of their own making.
package dibs
