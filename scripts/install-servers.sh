#!/usr/bin/env bash
# Installs Debian packages (database servers for the tests) without leaving a
# running service behind:
#
#     scripts/install-servers.sh postgresql mariadb-server libfaketime
#
# As root, or through sudo if that asks for no password. Otherwise it prints the
# command for you to run, and fails.
set -euo pipefail

packages=("$@")
[[ ${#packages[@]} -gt 0 ]] || packages=(postgresql mariadb-server libfaketime)

give_up() {
	echo "The tests need: ${packages[*]}" >&2
	echo "$1 Please run:" >&2
	echo "    sudo apt-get update && sudo apt-get install --no-install-recommends ${packages[*]}" >&2
	exit 1
}

command -v apt-get >/dev/null || give_up "They cannot be installed from here: there is no apt-get."

if [[ $EUID -ne 0 ]]; then
	if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		exec sudo -n bash "${BASH_SOURCE[0]}" "${packages[@]}"
	fi
	give_up "Installing them needs root, and sudo without a password is not available."
fi

# One installation at a time, whichever checkout it comes from.
exec 9>/run/lock/dibs-install-servers
flock 9

# Debian starts a server when its package is installed; policy-rc.d is the
# official way to say no. One that is there already is left as it is.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q </dev/null
apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${packages[@]}" </dev/null ||
	give_up "The installation failed."
