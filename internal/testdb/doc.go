// Package testdb gives a test a fresh database on each of the three kinds of
// database that dibs works on, and the means to break it: a server with another
// clock, a server that can be stopped and started, and a proxy that loses
// connections and answers.
//
// PostgreSQL and MariaDB are the private servers that scripts/with-servers.sh
// started; run the tests with `make test`, or one package of them with
//
//	scripts/with-servers.sh go test ./store/postgres
//
// A test that finds no server fails. It is never skipped: a test that did not
// run must not look like one that passed.
//
// Only test files may import this package. It must not know the tables, the
// statements or the words of dibs: it deals in databases, addresses and faults.
package testdb
