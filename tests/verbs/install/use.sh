#!/bin/bash
# SPDX-License-Identifier: MIT
# use.sh PREFIX LIBDIR CONSUMER EXAMPLES: what was installed below PREFIX, with libraries in LIBDIR,
# is found and used by programs of others: by way of pkg-config, and of CMake. Needs a compiler,
# pkg-config and cmake; prints what does not hold.
set -u
prefix=$1 libdir=$2 consumer=$3 examples=$4
failures=0
work=$(mktemp -d)
shared=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)" anyverbs-test-XXXXXX)
trap 'rm -rf "$work" "$shared"' EXIT
unset ANYVERBS_DEVICES ANYVERBS_LIBRARY LD_PRELOAD
export ANYVERBS_DIR=$shared LD_LIBRARY_PATH=$libdir
cc=${CC:-cc}

holds() {
	local rule=$1
	shift
	"$@" >"$work/out" 2>&1 && return
	echo "does not hold: $rule ($*)" >&2
	cat "$work/out" >&2
	failures=$((failures + 1))
}

prints_the_expected() {
	"$@" | diff "$examples/tutorial.expected" -
}

# What pkg-config says of a package, with what is installed here before everything else.
flags() {
	PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --cflags --libs "$1"
}

# Linked with the library: no "anyverbs run" is needed.
# shellcheck disable=SC2046
holds pkg_config_plain "$cc" "$examples/tutorial.c" -o "$work/plain" $(flags anyverbs)
holds plain_program_runs prints_the_expected "$work/plain"
# shellcheck disable=SC2046
holds pkg_config_experimental "$cc" "$consumer/own_headers.c" -o "$work/experimental" \
	$(flags anyverbs-exp)
holds experimental_program_runs "$work/experimental"
# Linked with the system's library alone.
holds without_us "$cc" "$examples/tutorial.c" -o "$work/unaware" -libverbs
holds unaware_program_runs_by_the_command \
	prints_the_expected "$prefix/bin/anyverbs" run -- "$work/unaware"
holds unaware_program_finds_no_device_alone bash -c '! "$1"' bash "$work/unaware"

if command -v cmake >/dev/null; then
	holds cmake_finds_the_package cmake -S "$consumer" -B "$work/build" \
		-DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLES="$examples"
	holds cmake_builds cmake --build "$work/build"
	holds cmake_plain_program_runs prints_the_expected "$work/build/tutorial"
	holds cmake_experimental_program_runs "$work/build/experimental"
	holds other_major_version_is_not_taken bash -c '
		sed "s/anyverbs 0.1/anyverbs 9/" "$1/CMakeLists.txt" >"$2/CMakeLists.txt" &&
		! cmake -S "$2" -B "$2/other" -DCMAKE_PREFIX_PATH="$3" -DEXAMPLES="$4"' \
		bash "$consumer" "$work" "$prefix" "$examples"
fi
holds devices "$prefix/bin/anyverbs" devices
holds mlxconfig "$prefix/bin/anyverbs" run -- mlxconfig -d any0 query
holds headers_do_not_shadow_the_system test ! -e "$prefix/include/infiniband/verbs_exp.h"
holds pages_are_installed test -e "$prefix/share/man/man1/anyverbs.1" \
	-o -e "$prefix/share/man/man1/anyverbs.1.gz"
test "$failures" = 0
