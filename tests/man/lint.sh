#!/bin/bash
# SPDX-License-Identifier: MIT
# lint.sh PAGE...: mandoc has nothing to complain of.
command -v mandoc >/dev/null || exit 77
# A reference to a page that is not installed here is no fault of ours.
! mandoc -T lint -W style "$@" 2>&1 | grep -vE 'referenced manual not found|outdated mandoc.db|see above the output'
