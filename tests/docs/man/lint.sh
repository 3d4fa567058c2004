#!/bin/bash
# SPDX-License-Identifier: MIT
# lint.sh PAGE...: mandoc has nothing to complain of.
command -v mandoc >/dev/null || exit 77
# A reference to a page that is not installed here is no fault of ours.
# Page by page: of many at once the lines get mixed up.
! for page in "$@"; do mandoc -T lint -W style "$page" 2>&1; done |
	grep -vE 'referenced manual not found|outdated mandoc.db|see above the output'
