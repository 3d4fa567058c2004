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
. "$(dirname "$0")/wait.sh"

# A link-local address comes some time after its link, and stays tentative for a second: both are
# changes of the table of GIDs, whose events no test expects.
for conf in all default; do
	echo 0 >"/proc/sys/net/ipv6/conf/$conf/accept_dad"
done 2>/dev/null
addresses_are_there() {
	[ "$(ip -6 addr show scope link | grep -c inet6)" -ge 2 ] &&
		[ -z "$(ip -6 addr show tentative)" ]
}
ip link set lo up
if ! ip link add v0 mtu 9000 type veth peer name v1 mtu 9000 2>/dev/null; then
	echo "no veth interfaces here"
	exit 77
fi
ip addr add 192.0.2.1/24 dev v0
there=true
ip addr add fd00::1/64 dev v0 nodad && there=addresses_are_there
ip link set v0 up
ip link set v1 up
wait_for "$there"
exec "$@"
