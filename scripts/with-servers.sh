#!/usr/bin/env bash
# Runs a command with a private PostgreSQL and a private MariaDB beside it:
#
#     scripts/with-servers.sh go test ./...
#
# The command finds the servers in its environment:
#
#     DIBS_TEST_POSTGRES           postgres://…, a superuser, database "postgres"
#     DIBS_TEST_MYSQL              mysql://…, a user who may do anything, no database
#     DIBS_TEST_{POSTGRES,MYSQL}_{SOCKET,PID,DATA,BIN,COMMAND}
#
# Both are gone afterwards, and the exit code is the command's. Servers that are
# missing on this machine are installed first. DIBS_BENCH=1 puts the data on disk
# with every durability setting at its default.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$root/bin"

# Built beside and moved into place: another run may be using the old one.
program=$root/bin/with-servers
go build -C "$root" -buildvcs=false -o "$program.$$" ./internal/testdb/withservers
mv -f "$program.$$" "$program"

missing=$("$program" -missing)
if [[ -n $missing ]]; then
	# shellcheck disable=SC2086 # a list of package names
	"$root/scripts/install-servers.sh" $missing
fi
exec "$program" "$@"
