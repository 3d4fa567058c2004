#!/bin/bash
# SPDX-License-Identifier: MIT
# own_network.sh PROGRAM [ARGUMENT]...: run it in a network namespace of its own, which has an
# address of each kind. Nobody else there has bound RoCEv2's port.
# Exit status: the program's; 77: there is no such network.
set -u
if [ "${OWN_NETWORK:-}" != yes ]; then
	namespaces=-n
	unshare -n true 2>/dev/null || namespaces=-rn # so may root of a container
	if ! command -v ip >/dev/null || ! unshare "$namespaces" true 2>/dev/null; then
		echo "no ip(8), or no permission to create a network namespace"
		exit 77
	fi
	OWN_NETWORK=yes exec unshare "$namespaces" "$0" "$@"
fi
ip link set lo up
if ! ip link add v0 mtu 9000 type veth peer name v1 mtu 9000 2>/dev/null; then
	echo "no veth interfaces here"
	exit 77
fi
# All that there will be is there at once: the kernel's own link-local addresses would come two
# seconds later, in the middle of a test, with an event for each program.
ip link set v0 addrgenmode none
ip link set v1 addrgenmode none
ip addr add 192.0.2.1/24 dev v0
ip addr add fd00::1/64 dev v0 nodad
ip addr add fe80::1/64 dev v0 nodad
ip addr add fe80::2/64 dev v1 nodad
ip link set v0 up
ip link set v1 up
exec "$@"
