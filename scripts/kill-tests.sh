#!/bin/bash
# Kills packfs at random moments: 1,000 times, and 1,000 times as on a file system without O_TMPFILE:
# scripts/kill-tests.sh [KILLS [SEED]]
#
# packfs builds, converts, extracts, writes tar archives, splits and joins meanwhile. After each kill the old file or the
# complete new one must exist; a split and an extraction must be resumable. The ordinary tests make 65 such kills
# (crates/cli/tests/integration/kills.rs); this is the same test with more. It ends with a summary by command.
set -euo pipefail
cd "$(dirname "$0")/.."
PACKFS_KILLS=${1:-1000} PACKFS_KILLS_SEED=${2:-$$} cargo test --locked -p packfs --test integration kills:: -- --nocapture
