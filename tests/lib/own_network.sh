#!/bin/bash
# SPDX-License-Identifier: MIT
# own_network.sh [--or-host] PROGRAM [ARGUMENT]...: run it in a network namespace of its own, which
# has an address of each kind. Nobody else there has bound RoCEv2's port.
# --or-host: where no such network can be had, in that of the host, one program at a time.
# Exit status: the program's; 77: there is no such network, or the host's port is taken.
set -u
or_host=
if [ "$1" = --or-host ]; then
	or_host=yes
	shift
fi

in_host() {
	if [ -z "$or_host" ]; then
		echo "$1"
		exit 77
	fi
	# The lock is on a folder that all users share, so none has to make a file there.
	flock "${TMPDIR:-/tmp}" bash -c 'if grep -qE "^ *[0-9]+: [0-9A-F]+:12B7 " /proc/net/udp*
	then
		echo "no network of its own ($1), and UDP port 4791 of the host is taken"
		exit 77
	fi
	shift
	"$@"' own_network.sh "$@"
	exit
}

if [ "${OWN_NETWORK:-}" != yes ]; then
	namespaces=-n
	unshare -n true 2>/dev/null || namespaces=-rn # so may root of a container
	if ! command -v ip >/dev/null || ! unshare "$namespaces" true 2>/dev/null; then
		in_host "no ip(8), or no permission to create a network namespace" "$@"
	fi
	OWN_NETWORK=yes exec unshare "$namespaces" "$0" ${or_host:+--or-host} "$@"
fi
# All that there will be is there at once: the kernel's own link-local addresses would come two
# seconds later, in the middle of a test, with an event for each program.
ip -batch - 2>/dev/null <<'END' || in_host "no veth interfaces here" "$@"
link set lo up
link add v0 mtu 9000 type veth peer name v1 mtu 9000
link set v0 addrgenmode none
link set v1 addrgenmode none
addr add 192.0.2.1/24 dev v0
addr add fd00::1/64 dev v0 nodad
addr add fe80::1/64 dev v0 nodad
addr add fe80::2/64 dev v1 nodad
link set v0 up
link set v1 up
END
exec "$@"
