#!/usr/bin/env bash
# Builds the program with which tests compare SIF files: scripts/build-sif-oracle.sh [DEST]
#
# It has the library of Apptainer, and goes to DEST/bin (default target/peers). It needs Go 1.26, or 1.21, which fetches that.
set -euo pipefail

here=$(realpath "$(dirname "$0")")
mkdir -p "${1:-$here/../target/peers}/bin"
dest=$(realpath "${1:-$here/../target/peers}")
cd "$here/sif-oracle"
go build -o "$dest/bin/sif-oracle" .
