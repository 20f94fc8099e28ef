#!/bin/bash
# Random trees with random options, read by the kernel: scripts/random-trees.sh [COUNT [SEED]], as root.
#
# Builds COUNT trees (2,000) as SquashFS and as many as EROFS, from a new seed unless one is given. Has each image read by
# the kernel in all its ways, fsck.erofs, erofsfuse, unsquashfs, squashfuse, our reader and check, compares it with its
# source, and builds it again with another number of threads. The first failing case is shrunk and printed. ONLY=erofs
# and ONLY=squashfs choose a format.
set -euo pipefail
cd "$(dirname "$0")/.."

export PACKFS_RANDOM_TREES=${1:-2000}
export PACKFS_RANDOM_SEED=${2:-$((RANDOM * 32768 + RANDOM))}
export PACKFS_REQUIRE_ORACLES=1
[[ ! -x target/peers/bin/mkfs.erofs ]] || PATH=$PWD/target/peers/bin:$PATH

echo "$PACKFS_RANDOM_TREES trees a format, seed $PACKFS_RANDOM_SEED"
cargo test --locked -p packfs-image --lib "${ONLY:+$ONLY::}tests::random::random_trees_with_random_options_on_the_kernel"
