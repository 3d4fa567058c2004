#!/bin/bash
# SPDX-License-Identifier: MIT
# What the guides about containers say to do with docker, to the letter, by an engine that is there.
# Usage: engine.sh SOURCE
#
# Where no registry answers, mmdebstrap makes the image of the bare Debian. The images stay, since
# an engine finds their layers again.
set -euo pipefail
cd "$1"
docker info >/dev/null 2>&1 || {
	echo "no engine here that docker talks to"
	exit 77
}
base=$(sed -n 's/^FROM \([^ ]*\)$/\1/p' Containerfile)
docker image inspect "$base" >/dev/null 2>&1 || docker pull "$base" ||
	mmdebstrap --variant=minbase bookworm - | docker import - "$base"

# Debian calls the plug-in by a name of its own.
page() {
	local compose="docker compose"
	docker compose version >/dev/null 2>&1 || compose=docker-compose
	sed -n "s/^    \(docker .*anyverbs.*\|docker compose .*\)/\1/p" "docs/guide/$1.md" |
		sed "s/^docker compose/$compose/"
}

# The commands of page $1, of which there are $2; then their output has to match $3.
follow() {
	test "$(page "$1" | wc -l)" = "$2"
	page "$1" | while read -r command; do
		echo "\$ $command"
		$command </dev/null
	done | tee "$out"
	grep -Eq "$3" "$out" || {
		echo "$1.md: nothing looks like '$3'" >&2
		exit 1
	}
}

out=$(mktemp)
trap 'rm -f "$out"' EXIT
follow container 2 '^hca_id:[[:space:]]any0'
follow two-containers 3 '^ 65536 +[0-9]+ +[0-9.]+ +[0-9.]+'
