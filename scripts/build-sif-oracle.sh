#!/bin/bash
# Builds the program with which tests compare SIF files: scripts/build-sif-oracle.sh [DEST], as root where Go is missing.
#
# It has the library of Apptainer, and goes to DEST/bin (default target/peers). Takes 70 s of processor time. If Go is too
# old, the proxy has a newer one. Exit status 3: Go or the sources could not be had.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
source scripts/needs-go.sh

mkdir -p "${1:-target/peers}/bin"
dest=$(realpath "${1:-target/peers}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prepare_go "$work" || exit 3
cd scripts/sif-oracle
CGO_ENABLED=0 "$go" build -trimpath -ldflags "-s -w" -o "$dest/bin/sif-oracle" . || exit 3
