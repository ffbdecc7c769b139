// Package server starts and stops private PostgreSQL and MariaDB servers for
// tests: each in a folder of its own, on a free port of the loopback address,
// as an unprivileged user, with a random password, and with another clock if
// wanted. Every process is ended by its own pid; nothing is looked for by name.
//
// It must not know the testing package, any database driver or any other
// package of this module: it deals in processes, folders and URLs. Servers that
// are already installed on the machine, and their data, are never touched.
package server
