#!/bin/sh
# SPDX-License-Identifier: MIT
# layout-number.sh OUTPUT HEADER...: write a C source that defines av_layout (registry/folder.c): a
# checksum of the headers, without comments and blanks.
set -eu
output=$1
shift
number=$(cat "$@" | perl -0777 -pe 's{/\*.*?\*/}{}gs; s/\s+//g' | cksum | cut -d ' ' -f 1)
cat >"$output" <<END
#include "registry/directory.h"

const uint32_t av_layout = ${number}u;
__attribute__((used)) const char av_layout_mark[] = AV_LAYOUT_MARK "${number}";
END
