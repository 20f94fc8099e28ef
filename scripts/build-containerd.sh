#!/bin/bash
# Builds containerd 2.4.2, and crane, from the Go module proxy: scripts/build-containerd.sh [DEST], as root where Go is missing.
#
#   DEST  where to install (default target/peers)
#
# containerd, containerd-shim-runc-v2, ctr and crane go to DEST/bin. Nothing is built where they are there already, and
# nothing else is kept. Takes 280 s of processor time, and 2 GB of disk meanwhile.
# If Go is too old, the proxy has a newer one. Exit status 3: Go or the sources could not be had.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
source scripts/needs-go.sh
containerd="github.com/containerd/containerd/v2"
containerd_version=v2.4.2
crane="github.com/google/go-containerregistry/cmd/crane"
crane_version=v0.22.1

mkdir -p "${1:-target/peers}/bin"
dest=$(realpath "${1:-target/peers}")
programs=("$dest"/bin/{containerd,containerd-shim-runc-v2,ctr,crane})
have_all() {
    local program
    for program in "${programs[@]}"; do
        [[ -x $program ]] || return 1
    done
    [[ $("$dest/bin/containerd" --version) == *" ${containerd_version#v}"* ]]
}
if have_all; then
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prepare_go "$work" || exit 3
export GOBIN=$work/bin

begun=$SECONDS
# What the tests do not use: three snapshotters that need libraries, Kubernetes, traces and systemd. That is a fifth of all.
CGO_ENABLED=0 "$go" install -trimpath -ldflags "-s -w" \
    -tags "no_btrfs no_devmapper no_zfs no_cri no_tracing no_systemd" \
    "$containerd/cmd/containerd@$containerd_version" "$containerd/cmd/ctr@$containerd_version" \
    "$containerd/cmd/containerd-shim-runc-v2@$containerd_version" || exit 3
CGO_ENABLED=0 "$go" install -trimpath -ldflags "-s -w" "$crane@$crane_version" || exit 3
install -m755 "$work"/bin/* "$dest/bin/"
say "containerd ${containerd_version#v} and crane ${crane_version#v}: built in $((SECONDS - begun)) s"
have_all
