#!/usr/bin/env bash
# Builds the program with which tests compare images of composefs: scripts/build-composefs-oracle.sh [DEST]
#
# It makes images with the crate composefs, and goes to DEST/bin (default target/peers). OpenSSL's headers are needed.
set -euo pipefail

here=$(realpath "$(dirname "$0")")
dest=${1:-$here/../target/peers}
mkdir -p "$dest"
cargo install --quiet --locked --debug --path "$here/composefs-oracle" --root "$dest" --target-dir "$dest/composefs-oracle"
