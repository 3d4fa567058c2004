#!/bin/bash
# SPDX-License-Identifier: MIT
# The virtual sysfs where the kernel has devices, too: both are there. The kernel's are played by
# files in a mount namespace of our own.
# Usage: real_devices.sh LIBANYVERBS
. "$(dirname "$0")/lib.sh"
export ANYVERBS_DEVICES=any0,real1
ib=/sys/class/infiniband verbs=/sys/class/infiniband_verbs

if [ "${IN_NAMESPACE:-}" != yes ]; then
	map=
	[ "$(id -u)" = 0 ] || map=-r
	if ! unshare $map -m true 2>/dev/null; then
		echo "no permission to create a mount namespace"
		exit 77
	fi
	require_preload
	IN_NAMESPACE=yes exec unshare $map -m "$0" "$@"
fi

mount -t tmpfs none /sys/class && mount -t tmpfs none /dev || exit 77
mkdir -p $ib/real0/ports/1 $ib/real1 $verbs/uverbs0 $verbs/uverbs7 /dev/infiniband
echo theirs >$ib/real0/node_guid
echo theirs >$ib/real1/node_guid
echo 99 >$verbs/abi_version
echo real0 >$verbs/uverbs7/ibdev
echo theirs >/dev/infiniband/uverbs0
echo theirs >/dev/infiniband/rdma_cm

prints both_are_listed_once "any0
real0
real1" ls $ib
prints theirs_are_read theirs cat $ib/real0/node_guid
prints theirs_are_read_by_way_of_ours theirs cat $ib/any0/subsystem/real0/node_guid
prints ours_come_before_theirs_of_the_same_name "4: ACTIVE" cat $ib/real1/ports/1/state
prints shared_files_are_theirs 99 cat $verbs/abi_version
prints find_descends_into_both "$ib/any0/node_guid
$ib/real0/node_guid
$ib/real1/node_guid" sh -c "find $ib/*/ -name node_guid | sort"
prints both_are_in_the_current_directory "any0
real0
real1
theirs
4: ACTIVE" sh -c "cd $ib && ls && cat real0/node_guid any0/ports/1/state"
prints device_nodes_are_theirs_first theirs cat /dev/infiniband/uverbs0
prints device_nodes_are_ours_else "cat: /dev/infiniband/uverbs1: No such device or address" \
	cat /dev/infiniband/uverbs1
prints device_nodes_are_listed_once "rdma_cm
uverbs0
uverbs1" ls /dev/infiniband
prints theirs_can_be_created "new" sh -c "echo new >$ib/real0/new; cat $ib/real0/new"
if command -v python3 >/dev/null; then
	prints theirs_relative_to_a_descriptor "b'theirs\\n'" python3 -c "
import os
d = os.open('$ib', os.O_RDONLY)
print(os.read(os.open('real0/node_guid', os.O_RDONLY, dir_fd=d), 99))"
	prints descriptor_and_path_are_the_same_file "True" python3 -c "
import os
print(os.fstat(os.open('$ib', os.O_RDONLY)) == os.stat('$ib'))"
fi
finish
