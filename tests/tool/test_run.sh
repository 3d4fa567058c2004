#!/bin/bash
# SPDX-License-Identifier: MIT
# "anyverbs run": what the program finds in its environment, and what comes back.
. "$(dirname "$0")/lib.sh"
# Programs that are not ours may leak, and a library is preloaded into the tool itself.
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0

exits status_of_the_program_comes_back 7 "$tool" run -- sh -c 'exit 7'
exits options_end_at_the_program 3 "$tool" run sh -c 'exit 3'
exits program_not_found_is_127 127 "$tool" run -- no-such-program
exits program_not_executable_is_126 126 "$tool" run -- /etc
exits no_program_is_125 125 "$tool" run
exits unknown_option_is_125 125 "$tool" run --no-such-option true
exits library_not_found_is_125 125 env ANYVERBS_LIBRARY=/nowhere "$tool" run true
exits misunderstood_device_is_125 125 "$tool" run --device any0:color=red true

env=$("$tool" run env)
says library_is_preloaded '^LD_PRELOAD=(.*:)?/[^:]*/libanyverbs\.so\.1' "$env"
holds devices_are_left_alone test -z "$(grep ^ANYVERBS_DEVICES= <<<"$env")"

holds shared_heap_is_not_preloaded test -z "$(grep anyverbs-heap <<<"$env")"

heap='^LD_PRELOAD=(.*:)?/[^:]*/libanyverbs\.so\.1[^:]*:/[^:]*/anyverbs/anyverbs-heap\.so'
env=$("$tool" run --shared-heap env)
says shared_heap_comes_behind "$heap" "$env"
env=$(ANYVERBS_SHARED_HEAP=1 "$tool" run env)
says shared_heap_by_variable "$heap" "$env"
env=$(ANYVERBS_SHARED_HEAP=0 "$tool" run env)
holds shared_heap_is_only_1 test -z "$(grep anyverbs-heap.so <<<"$env")"

env=$(LD_PRELOAD=libc.so.6 "$tool" run env)
says what_was_preloaded_comes_behind '^LD_PRELOAD=.*libanyverbs[^:]*:libc\.so\.6$' "$env"

env=$(ANYVERBS_DEVICES=old0 "$tool" run -d a0 --device b0:mtu=1024 env)
says device_options_replace_the_setting '^ANYVERBS_DEVICES=a0,b0:mtu=1024$' "$env"

holds arguments_arrive_unchanged test "$("$tool" run -- printf '%s|' 'a b' '' '*')" = 'a b||*|'

# The library of a folder whose name LD_PRELOAD cannot hold.
folder=$(mktemp -d "${TMPDIR:-/tmp}/any verbs.XXXXXX")
touch "$folder/libanyverbs.so.1"
exits path_with_a_space_is_refused 125 \
	env ANYVERBS_LIBRARY="$folder/libanyverbs.so.1" "$tool" run true
rm -r "$folder"
finish
