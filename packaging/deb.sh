#!/bin/bash
# SPDX-License-Identifier: MIT
# deb.sh FOLDER: make Debian packages of this tree, as it is, in FOLDER,
# and check them with lintian. Any user can do this.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "$1")
version=$(sed -n 's/^project(anyverbs VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ "$(dpkg-parsechangelog -S Version)" = "$version" ] || {
	echo "deb: debian/changelog does not have version $version of CMakeLists.txt" >&2
	exit 1
}

# Work on a copy: dpkg-buildpackage writes into the tree, and beside it.
tree=$folder/anyverbs-$version
rm -rf "$folder"
mkdir -p "$tree"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
	git ls-files -z --cached --others --exclude-standard
else
	find . -path ./build -prune -o -type f -print0
fi | while IFS= read -r -d '' file; do
	[ ! -e "$file" ] || printf '%s\0' "$file"
done | tar -c --null -T - | tar -x -C "$tree"

(
	cd "$tree" &&
		dpkg-buildpackage --build=binary \
			--unsigned-source --unsigned-changes >"$folder/log" 2>&1
) || {
	{ grep -E 'error:|^dh|^dpkg' "$folder/log" || tail -n 40 "$folder/log"; } >&2
	echo "deb: the packages could not be built; the whole log is $folder/log" >&2
	exit 1
}
architecture=$(dpkg --print-architecture)
lintian --fail-on error,warning --info "$folder/anyverbs_${version}_$architecture.changes"
ls "$folder"/*.deb
