#!/bin/bash
# SPDX-License-Identifier: MIT
# "sudo make install" builds as the user whose tree it is: what root leaves in there stands in the
# way of the next "make". It installs as root.
# Usage: test_sudo.sh SOURCE
set -eu
[ "$(id -u)" = 0 ] || {
	echo "only root can be somebody else"
	exit 77
}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cp "$1/Makefile" "$work"
mkdir "$work/bin"
cat >"$work/bin/cmake" <<'END'
#!/bin/sh
echo "$(id -u) $(id -g) $1"
END
chmod -R a+rX "$work"
chmod +x "$work/bin/cmake"

# installs OWNER USER: what "make install" runs in a tree of OWNER's by sudo of USER's
installs() {
	chown "$1:$1" "$work"
	env PATH="$work/bin:$PATH" ${2:+SUDO_UID=$2 SUDO_GID=$2} make -s -C "$work" install |
		tr '\n' ' '
}

# holds SAID WANTED
holds() {
	[ "$1" = "$2" ] && return
	echo "'$1', not '$2'" >&2
	failed=1
}

failed=0
by_root='0 0 --preset 0 0 --build 0 0 --install '
holds "$(installs 65534 65534)" '65534 65534 --preset 65534 65534 --build 0 0 --install '
holds "$(installs 0 65534)" "$by_root"
holds "$(installs 65534 1)" "$by_root"
holds "$(installs 65534 '')" "$by_root"
exit $failed
