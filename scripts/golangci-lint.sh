#!/usr/bin/env bash
# Runs golangci-lint in the one version this project uses. It is built from
# source the first time (two to five minutes) and kept in the user's cache folder
# for all checkouts.
set -euo pipefail

version=v2.15.0
folder=${XDG_CACHE_HOME:-${HOME:?}/.cache}/dibs-tools/golangci-lint-$version-$(go env GOVERSION)
program=$folder/golangci-lint

if [[ ! -x $program ]]; then
	echo "Building golangci-lint $version (once, some minutes) …" >&2
	mkdir -p "$folder"
	# Into a folder of this process, then moved: two checkouts may do this at once.
	building=$(mktemp -d "$folder/building.XXXXXX")
	trap 'rm -rf "$building"' EXIT
	# Outside the checkout: its go.mod has no say in how the tool is built.
	(cd "$building" && GOBIN=$building GOFLAGS='' go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version")
	mv -f "$building/golangci-lint" "$program"
	rm -rf "$building"
fi
[[ $# -gt 0 ]] || exit 0
exec "$program" "$@"
