#!/bin/bash
# Kills packfs at random moments, a thousand times, and a thousand times as on a file system without O_TMPFILE:
# scripts/kill-tests.sh [KILLS [SEED]]
#
# While it builds, converts, extracts, writes tar archives, splits and joins. After each kill the old file is there or the
# new one, whole; what is left of a split or an extraction can be completed. The tests make 65 such kills each time
# (crates/cli/tests/kills.rs); this is the same test with more of them. It ends with what was seen, by command.
set -euo pipefail
cd "$(dirname "$0")/.."
PACKFS_KILLS=${1:-1000} PACKFS_KILLS_SEED=${2:-$$} cargo test --locked -p packfs --test kills -- --nocapture
