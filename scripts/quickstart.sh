#!/bin/bash
# Builds packfs and packs a real directory with it: scripts/quickstart.sh [DIR] [BUILD OPTION...]
# The image is read back, checked, and compared with the directory byte by byte.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh

need_rust
need build-essential cc
install_missing

source_dir=${1:-/usr/share}
shift || true
image=${CARGO_TARGET_DIR:-target}/quickstart.sqfs

cargo build --release --locked --package packfs
packfs=${CARGO_TARGET_DIR:-target}/release/packfs

say
say "== packing $source_dir"
"$packfs" build "$source_dir" --output "$image" --force "$@"
say
say "== reading it back: every structure, every block, and every byte against $source_dir"
"$packfs" check "$image" --against "$source_dir"
say
say "== the image: $image"
"$packfs" info "$image"
say
say "Mount it with:    mount -o loop,ro $image /mnt"
say "Look inside with: $packfs list -l $image | less"
