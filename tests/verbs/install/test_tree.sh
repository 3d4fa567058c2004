#!/bin/bash
# SPDX-License-Identifier: MIT
# What "make install" installs, below DESTDIR, is whole and can be used there.
# Usage: test_tree.sh BUILD PREFIX LIBDIR SOURCE
# The quick form of test_deb.sh: the root is this machine's, only our files lie elsewhere.
set -u
build=$1 prefix=$2 libdir=$3 source=$4
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failures=0

DESTDIR=$root cmake --install "$build" >"$root/log" 2>&1 || {
	cat "$root/log" >&2
	exit 1
}
for page in "$source"/man/*.[1-9]; do
	[ -e "$root$prefix/share/man/man${page##*.}/$(basename "$page")" ] && continue
	echo "not installed: $page" >&2
	failures=1
done
for file in bash-completion/completions/anyverbs zsh/site-functions/_anyverbs; do
	[ -e "$root$prefix/share/$file" ] && continue
	echo "not installed: $file" >&2
	failures=1
done
# What is installed and in no list makes rpmbuild fail.
mapfile -t listed < <(sed -n '/^%files/,$ { /^%{_/ {
	s|%{_libdir}|'"$libdir"'|; s|%{_bindir}|'"$prefix"'/bin|
	s|%{_mandir}|'"$prefix"'/share/man|
	s|%{_libexecdir}|'"$prefix"'/libexec|; s|%{_datadir}|'"$prefix"'/share|
	s|%{_includedir}|'"$prefix"'/include|; s|/$|/*|; p
} }' "$source/packaging/anyverbs.spec")
while read -r file; do
	for pattern in "${listed[@]}"; do
		# shellcheck disable=SC2053 # it is a pattern
		[[ $file == $pattern ]] && continue 2
	done
	echo "packaging/anyverbs.spec does not list $file" >&2
	failures=1
done < <(find "$root$prefix" ! -type d -printf "$prefix/%P\n")
if grep -rlI -e "$build" -e "$source" "$root$prefix"; then
	echo "these files name the tree that they were built in" >&2
	failures=1
fi
here=$source/tests/verbs/install
"$here/use.sh" "$root$prefix" "$root$libdir" "$here/consumer" "$source/examples" || failures=1
exit $failures
