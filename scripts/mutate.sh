#!/usr/bin/env bash
# Sets every field of every structure of small images, one at a time, to wrong values. Images that `check` still calls
# sound are mounted and compared with what packfs reads. Needs root, loop devices and mkfs.erofs 1.9.
#
#   scripts/mutate.sh [PART]    PART: only images with this in their names, such as lz4
#
# With PACKFS_MUTATIONS_REJECTED=DIR, images that check rejects are left in DIR for scripts/guest-kernels.py --rejected.
#
# Mounts in a namespace of its own, and ends after LIMIT seconds (7200). Images that kernel and packfs read differently are
# kept in target/mutations.
set -euo pipefail
cd "$(dirname "$0")/.."
export PACKFS_MUTATIONS=${1:-1}
export PACKFS_MUTATIONS_KEEP=$PWD/target/mutations
mkdir -p "$PACKFS_MUTATIONS_KEEP"
exec unshare -m timeout "${LIMIT:-7200}" \
    cargo test -p packfs-image --lib -- --test-threads=1 no_field_can_be_wrong_unnoticed
