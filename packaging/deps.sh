#!/bin/bash
# SPDX-License-Identifier: MIT
# deps.sh [WHAT-FOR...]: install the packages of debian-packages.txt that are missing and for that (without arguments:
# to build, check and run); without the right to, say which they are, and fail.
set -euo pipefail
list=$(dirname "$0")/debian-packages.txt
[ $# -gt 0 ] || set -- build check run
what_for=$(IFS='|' && echo "$*")

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
	echo "deps: no dpkg here; see packaging/debian-packages.txt for what is needed under your system's names" >&2
	exit 0
fi

missing=()
while read -r _ package _; do
	installed "$package" || missing+=("$package")
done < <(grep -E "^($what_for)[[:space:]]" "$list")

[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "deps: packages are missing. As root:" >&2
	echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# The lists of packages may be missing or stale: try with what is there first, since that is quick.
apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
	apt-get update -qq
	apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}
