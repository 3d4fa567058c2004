#!/bin/bash
# SPDX-License-Identifier: MIT
# newer-headers.sh [HEADERS]: build the library and its tests with the headers of a newer
# libibverbs-dev than the one that is installed, in build/newer-headers, and check there what
# depends on headers.
# HEADERS: a libibverbs-dev package (.deb), or a folder with infiniband/verbs.h in it or in its
# usr/include. Without it, the package of the suite named by NEWER_SUITE (testing) is fetched with
# apt-get, if apt knows that suite.
# Exit status: 0 all is well, 1 not, 2 no such headers, 77 apt has no newer package.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/newer-headers
suite=${NEWER_SUITE:-testing}
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT

say() {
	echo "newer-headers: $*"
}

# Fetch the suite's package into the folder and print its path.
download() {
	(cd "$unpacked" && apt-get -q download "libibverbs-dev/$suite" >&2) || return
	echo "$unpacked"/libibverbs-dev_*.deb
}

# Print the folder to compile with for what was named: a package or a folder.
include_folder() {
	local from=$1 dir
	if [ -f "$from" ]; then
		dpkg-deb -x "$from" "$unpacked/root" || return
		from=$unpacked/root
	fi
	for dir in "$from" "$from/usr/include"; do
		if [ -f "$dir/infiniband/verbs.h" ]; then
			realpath "$dir"
			return
		fi
	done
	return 1
}

headers=${1:-}
if [ -z "$headers" ] && ! headers=$(download); then
	say "apt has no libibverbs-dev/$suite here: name a package or a folder"
	exit 77
fi
if ! include=$(include_folder "$headers"); then
	say "no infiniband/verbs.h in $headers"
	exit 2
fi

# Found before the system's own, after the project's; a header's own warnings are not ours.
# What a header has is looked for anew in each run.
say "building with the headers of $headers"
rm -f "$build/CMakeCache.txt"
cmake --preset dev -B "$build" -DCMAKE_C_FLAGS="-isystem $include" >/dev/null
cmake --build "$build" -- ${NEWER_JOBS:+-j"$NEWER_JOBS"} >"$unpacked/build.log" || {
	cat "$unpacked/build.log"
	exit 1
}
# What the compiler says it read, not what it was told to.
if ! grep -qF "$include/infiniband/verbs.h" <(ninja -C "$build" -t deps); then
	say "the build used other headers than $include"
	exit 1
fi
has=$(sed -n '/_HAS_ATOMIC_WRITE:/d; s/^AV_HEADER_HAS_\([A-Z_]*\):INTERNAL=1$/\1/p' \
	"$build/CMakeCache.txt" | sort)
if [ -z "$has" ]; then
	say "these headers have nothing that those of rdma-core 44 have not"
	exit 1
fi
say "values, layouts and prototypes compared by the compiler:" $has

ctest --test-dir "$build" --output-on-failure -L '^(unit|abi)$'
grown='newer_verbs|wr_flush|flush|atomic_write|qp_table|limits|dm|rereg_kinds|rereg_traffic'
ctest --test-dir "$build" --output-on-failure --no-tests=error -R "^multi\.test_($grown)\$"
say "exported symbols, unit tests and the verbs whose structures have grown:" \
	"as with the installed headers"
