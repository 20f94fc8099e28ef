#!/bin/bash
# Random trees with random options, read by the kernel: scripts/random-trees.sh [COUNT [SEED]], as root.
#
# Builds COUNT trees (1,000) as SquashFS and as many as EROFS, from a new seed unless one is given. Mounts each image and
# compares it with its source; checks it with fsck.erofs, our reader and check; and builds it again with another number of
# threads. The first failing case is shrunk and printed.
set -euo pipefail
cd "$(dirname "$0")/.."

export PACKFS_RANDOM_TREES=${1:-1000}
export PACKFS_RANDOM_SEED=${2:-$((RANDOM * 32768 + RANDOM))}
export PACKFS_REQUIRE_ORACLES=1
[[ ! -x target/peers/bin/mkfs.erofs ]] || PATH=$PWD/target/peers/bin:$PATH

echo "$PACKFS_RANDOM_TREES trees a format, seed $PACKFS_RANDOM_SEED"
cargo test --locked -p packfs-image --lib random_trees_with_random_options_on_the_kernel
