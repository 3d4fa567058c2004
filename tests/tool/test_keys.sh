#!/bin/bash
# SPDX-License-Identifier: MIT
# TEST TOOL MAN-FOLDER: what the manual says of the keys of ANYVERBS_DEVICES is what
# the parser takes.
. "$(dirname "$0")/lib.sh"
export ASAN_OPTIONS=detect_leaks=0 # programs that are not ours may leak
man=$2

takes() {
	"$tool" run --device "any0:link=$3:$1=$2" true
}

keys=$(sed -n 's/^\.It Li \([a-z_]\+\)= .*/\1/p' "$man/anyverbs_config.5")
holds there_are_keys test "$(wc -w <<<"$keys")" -ge 12
for key in $keys; do
	case $key in
	link) holds "$key" "$tool" run --device any0:link=ethernet true ;;
	mtu) holds "$key" takes mtu 256 ethernet ;;
	lid) holds "$key" takes lid 49151 infiniband ;;
	guid) holds "$key" takes guid 0123456789abcdef ethernet ;;
	gids) holds "$key" takes gids 64 ethernet ;;
	as) holds "$key" takes as mlx5 ethernet ;;
	seed)
		holds "$key" takes seed 18446744073709551615 ethernet
		exits "$key takes no more" 125 takes seed 18446744073709551616 ethernet
		;;
	gid_rows) holds "$key" takes gid_rows mlx5 ethernet ;;
	*)
		largest=$(sed -n "/^\.It Li $key= /{n;s/.*1 to \([0-9]*\)\.$/\1/p}" \
			"$man/anyverbs_config.5")
		holds "$key takes its documented maximum" takes "$key" "$largest" ethernet
		exits "$key takes no more" 125 takes "$key" $((largest + 1)) ethernet
		;;
	esac
done
finish
