#!/bin/bash
# SPDX-License-Identifier: MIT
# deps.sh [WHAT-FOR...]: install the missing packages that debian-packages.txt lists for these
# purposes (default: build, run). Who is not root does so with sudo. Who may not hears which they
# are; then it fails. Exit status 2: there is no such purpose.
set -euo pipefail
list=$(dirname "$0")/debian-packages.txt
known=$(grep -oE '^[a-z][a-z0-9-]*' "$list" | sort -u)
[ $# -gt 0 ] || set -- build run
for word; do
	grep -qxF -- "$word" <<<"$known" && continue
	echo "deps: nothing is for '$word'; there are: ${known//$'\n'/ }" >&2
	exit 2
done
what_for=$(IFS='|' && echo "$*")

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
	echo "deps: no dpkg here; packaging/debian-packages.txt has" \
		"Debian's names of what is needed" >&2
	exit 0
fi

missing=()
while read -r _ package _; do
	installed "$package" || missing+=("$package")
done < <(grep -E "^($what_for)[[:space:]]" "$list")

[ ${#missing[@]} -gt 0 ] || exit 0
as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" != 0 ]; then
	# A password is asked for only where there is somebody to ask.
	ask=()
	[ -t 0 ] || ask=(-n)
	as_root=(sudo "${ask[@]}" "${as_root[@]}")
fi
echo "deps: installing ${missing[*]}"
"${as_root[@]}" true || {
	echo "deps: packages are missing. As root:" >&2
	echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
}
# Try without updating the lists of packages first, which is quick. They may be missing or stale.
"${as_root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
	"${as_root[@]}" apt-get update -qq
	"${as_root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}
