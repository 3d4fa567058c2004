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
says library_is_preloaded '^LD_PRELOAD=(.*:)?([^:]*/)?libanyverbs\.so\.1' "$env"
# Where it is: by its path or, in a folder with a space, by LD_LIBRARY_PATH.
library=$(sed -nE 's/^LD_PRELOAD=(.*:)?([^:]*libanyverbs\.so\.1).*/\2/p' <<<"$env")
[ -e "$library" ] || library=$(sed -n 's/^LD_LIBRARY_PATH=\([^:]*\).*/\1/p' <<<"$env")/$library
holds devices_are_left_alone test -z "$(grep ^ANYVERBS_DEVICES= <<<"$env")"

heap='^LD_PRELOAD=(.*:)?([^:]*/)?libanyverbs\.so\.1[^:]*:([^:]*/anyverbs/)?anyverbs-heap\.so'
says shared_heap_comes_behind "$heap" "$env"
holds shared_heap_begins_by_itself test -z "$(grep ANYVERBS_SHARED_HEAP <<<"$env")"
env=$(ANYVERBS_SHARED_HEAP=never "$tool" run env)
holds shared_heap_by_variable test -z "$(grep anyverbs-heap.so <<<"$env")"
for option in --shared-heap -s --shared-heap=always -salways; do
	env=$(ANYVERBS_SHARED_HEAP=never "$tool" run $option env)
	says "shared_heap_by $option" "$heap" "$env"
	says "shared_heap_is_told $option" '^ANYVERBS_SHARED_HEAP=always$' "$env"
done
env=$("$tool" run --shared-heap=never env)
holds shared_heap_never test -z "$(grep anyverbs-heap.so <<<"$env")"

env=$(LD_PRELOAD=libc.so.6 "$tool" run env)
says what_was_preloaded_comes_behind \
	'^LD_PRELOAD=.*libanyverbs[^:]*:([^:]*anyverbs-heap\.so:)?libc\.so\.6$' "$env"

env=$(ANYVERBS_DEVICES=old0 "$tool" run -d a0 --device b0:mtu=1024 env)
says device_options_replace_the_setting '^ANYVERBS_DEVICES=a0,b0:mtu=1024$' "$env"

# The library is found by the name that the tool was started by, if /proc is not mounted.
without_proc() {
	unshare -rm bash -c 'mount -t tmpfs none /proc && "$@"' bash "$@" 2>&1
}
if without_proc "$tool" --version >/dev/null; then
	says library_is_found_without_proc '^LD_PRELOAD=(.*:)?([^:]*/)?libanyverbs\.so\.1' \
		"$(without_proc "$tool" run env)"
	says library_is_found_without_proc_in_path '^LD_PRELOAD=(.*:)?([^:]*/)?libanyverbs\.so\.1' \
		"$(PATH=$(dirname "$tool"):$PATH without_proc anyverbs run env)"
fi

holds arguments_arrive_unchanged test "$("$tool" run -- printf '%s|' 'a b' '' '*')" = 'a b||*|'

# Programs that the loader gives no library of ours: said before they run, which they do.
folder=$(mktemp -d)
chmod 755 "$folder"
holds ordinary_program_is_not_warned_of test -z "$("$tool" run -- true 2>&1)"
if echo 'int main(void) { return 9; }' | cc -static -x c -o "$folder/static" - 2>/dev/null; then
	said=$("$tool" run -- "$folder/static" 2>&1)
	holds static_program_is_run test $? = 9
	says static_program_is_named "^anyverbs: $folder/static is statically linked: " "$said"
	printf '#!%s/static\n' "$folder" >"$folder/script"
	printf '#!/usr/bin/env static\n' >"$folder/by-env"
	chmod +x "$folder/script" "$folder/by-env"
	for script in script by-env; do
		said=$(PATH=$folder:$PATH "$tool" run -- "$script" 2>&1)
		says "interpreter_of_$script" "^anyverbs: $folder/static is statically" "$said"
	done
fi
# An ELF header of no processor that there is.
printf '\177ELF\2\1\1%057d' 0 >"$folder/foreign"
cp "$(type -P true)" "$folder/owned"
chmod +x "$folder/foreign"
says foreign_program_is_named 'foreign is for another processor' \
	"$("$tool" run -- "$folder/foreign" 2>&1)"
if [ "$(id -u)" = 0 ] && ! findmnt -no OPTIONS -T "$folder" | grep -q nosuid; then
	for bit in u+s:user g+s:group; do
		chown 0:0 "$folder/owned"
		chmod 755 "$folder/owned"
		says "own_${bit#*:}_is_no_reason" '^$' "$("$tool" run -- "$folder/owned" 2>&1)"
		chown 12345:12345 "$folder/owned"
		chmod "${bit%:*}" "$folder/owned"
		says "set_${bit#*:}_id_is_named" "owned is set-${bit#*:}-ID" \
			"$("$tool" run -- "$folder/owned" 2>&1)"
	done
	chmod 755 "$folder/owned"
	# CAP_NET_RAW, permitted and effective.
	python3 -c 'import os, sys
os.setxattr(sys.argv[1], "security.capability", bytes.fromhex("01000002" "00200000" + 24 * "0"))' \
		"$folder/owned"
	says roots_capabilities_are_no_reason '^$' "$("$tool" run -- "$folder/owned" 2>&1)"
	# Another user, who may not be able to reach the build, has a copy of it.
	cp "$tool" "$library" "$folder/"
	said=$(setpriv --reuid=12346 --clear-groups "$folder/$(basename "$tool")" run -- \
		"$folder/owned" 2>&1)
	says file_capabilities_are_named 'owned has file capabilities' "$said"
fi
rm -r "$folder"

# The library of a folder whose name LD_PRELOAD cannot hold.
folder=$(mktemp -d "${TMPDIR:-/tmp}/any verbs.XXXXXX")
cp "$library" "$folder/libanyverbs.so.1"
env=$(ANYVERBS_LIBRARY="$folder/libanyverbs.so.1" LD_LIBRARY_PATH=/nowhere "$tool" run env)
says library_is_named_in_a_folder_with_a_space '^LD_PRELOAD=(.*:)?libanyverbs\.so\.1$' "$env"
says folder_with_a_space_comes_first "^LD_LIBRARY_PATH=$folder:/nowhere\$" "$env"
says library_in_a_folder_with_a_space_works 'any0' \
	"$(ANYVERBS_LIBRARY="$folder/libanyverbs.so.1" "$tool" run ibv_devices)"
mkdir "$folder/a:b"
cp "$library" "$folder/a:b/libanyverbs.so.1"
exits shared_heap_that_is_not_there_is_missed 125 \
	env ANYVERBS_LIBRARY="$folder/libanyverbs.so.1" "$tool" run --shared-heap true
exits path_with_a_colon_is_refused 125 \
	env ANYVERBS_LIBRARY="$folder/a:b/libanyverbs.so.1" "$tool" run true
rm -r "$folder"
finish
