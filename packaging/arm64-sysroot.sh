#!/bin/bash
# SPDX-License-Identifier: MIT
# arm64-sysroot.sh FOLDER: Debian's arm64 packages that a cross compiler needs (lines
# "arm64-sysroot" of debian-packages.txt), unpacked into FOLDER. Nothing is installed, and nobody
# needs to be root: apt keeps its lists of that architecture in FOLDER.apt.
set -euo pipefail
list=$(cd "$(dirname "$0")" && pwd)/debian-packages.txt
root=$(realpath -m "$1")
apt=$root.apt
mapfile -t packages < <(awk '$1 == "arm64-sysroot" { print $2 }' "$list")

# Unpacked already, and since the list was changed?
[ ! "$root/.packages" -nt "$list" ] || exit 0

as_arm64=(-qq -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache"
	-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root)
rm -rf "$root"
mkdir -p "$root" "$apt/lists/partial" "$apt/cache/archives/partial"
apt-get "${as_arm64[@]}" update
(cd "$apt" && rm -f ./*.deb && apt-get "${as_arm64[@]}" download "${packages[@]}")
for package in "$apt"/*.deb; do
	dpkg-deb -x "$package" "$root"
done
touch "$root/.packages"
