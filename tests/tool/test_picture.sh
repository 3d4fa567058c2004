#!/bin/bash
# SPDX-License-Identifier: MIT
# The picture of the README shows what its commands print today, but for numbers and addresses.
# Usage: test_picture.sh TOOL SOURCE
. "$(dirname "$0")/lib.sh"
source=$2
commands=$source/docs/pictures/explain.commands
command -v ibv_rc_pingpong script >/dev/null || skip "no ibv_rc_pingpong or script here"

# What the connection is between differs, and so does where long lines are broken.
words() {
	grep -v ' address: ' | sed -E 's/&amp;/\&/g; s/0x[0-9a-f]+|[0-9:.]*[0-9]/N/g' |
		tr -s ' \n' ' '
}

drawn=$(sed -nE 's|^<text[^>]*>(.*)</text>$|\1|p' "$source/docs/pictures/explain.svg" | words)
today=$(ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 \
	python3 -B "$source/scripts/terminal-picture.py" --text \
	"$(dirname "$tool")" "$commands" | words)
holds picture_is_of_today test "$drawn" = "$today"
finish
