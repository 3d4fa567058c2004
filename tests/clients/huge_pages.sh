#!/bin/bash
# SPDX-License-Identifier: MIT
# Huge pages of 2 MiB for the tests that need some. Usage: huge_pages.sh reserve|release STATE
#
# "reserve" asks the kernel for some in addition to those it has, and notes in the
# file STATE how many it got; "release" gives that many back. Free ones that are
# there already may be another run's, which gives them back at any time. To be
# refused is no failure: tests say themselves what they miss.
set -u
action=$1
state=$2
wanted=64
pool=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
boot=$(cat /proc/sys/kernel/random/boot_id)

# add NUMBER: that many more, or fewer; prints the difference it made
add() {
	local had
	had=$(<$pool)
	echo $((had + $1)) 2>/dev/null >$pool || return
	echo $(($(<$pool) - had))
}

# What an earlier run noted, and could not give back because it was killed, too;
# but not before the last boot.
release() {
	local when number
	[ -e "$state" ] || return
	read -r when number <"$state"
	[ "$when" != "$boot" ] || echo "given back: $((-$(add -"$number")))"
	rm "$state"
}

if ! [ -w $pool ]; then
	echo "the kernel has no huge pages of 2 MiB to reserve, or not for this user"
	exit 0
fi
exec 9<$pool
flock 9 # reading and writing the number is one step
release
if [ "$action" = reserve ]; then
	number=$(add $wanted)
	echo "$boot ${number:-0}" >"$state"
	echo "reserved: ${number:-0}"
fi
