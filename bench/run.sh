#!/bin/bash
# SPDX-License-Identifier: MIT
# run.sh BUILD-FOLDER: measure, and print a table.
set -euo pipefail
printf '%-24s %10s %12s %12s\n' BENCHMARK SIZE MEDIAN SPREAD
echo "No benchmarks exist yet."
