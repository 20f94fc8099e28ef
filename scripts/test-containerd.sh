#!/bin/bash
# Runs containers from everything that `packfs oci` makes, and from layers of packfs as mkfs.erofs, with containerd 2.4.2:
#
#   scripts/test-containerd.sh [PRODUCT...]     the tests, as root
#   scripts/test-containerd.sh --time [ROUNDS]  how long `oci convert` and `ctr images convert` take (default 5 rounds)
#
#   PRODUCT  convert, cache, drop_in, export, squashfs or merge (default all; export and merge need convert)
#   PACKFS   environment: the program (default target/release/packfs, which is built if it is not there)
#
# An image of five layers of Debian packages goes to a docker-registry. containerd fetches what packfs makes of it, and each
# container compares its files with what umoci unpacks and with facts that are known beforehand. A layer is damaged, too,
# and that container must see other files. skopeo and crane read what packfs sends to the registry.
#
# Installs Debian packages, and builds containerd into target/peers once. Everything runs in namespaces of its own for
# processes, mounts and the network: nothing of it remains, however the script ends. A run takes 35 s of processor time and
# 300 MB of disk. The first one takes 280 s more, to build containerd.
#
# Exit status 3: something that is needed could not be had.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh

[[ $(id -u) == 0 ]] || { say "test-containerd: containers need root"; exit 1; }
source scripts/containerd/image.sh
inside=scripts/containerd/inside.sh
download=download_test_packages
if [[ ${1:-} == --time ]]; then
    inside=scripts/containerd/measure.sh
    download=download_debian_packages
    shift
fi

need umoci umoci
need skopeo skopeo
need runc runc
need docker-registry docker-registry
need jq jq
need attr setfattr getfattr
need iproute2 ip
need util-linux unshare findmnt losetup
need mount mount
need procps pgrep
install_missing || exit 3
# The images are made of packages, so their lists must be there.
apt-cache show busybox-static >/dev/null 2>&1 || apt-get update -qq
packfs=$(realpath -m "${PACKFS:-target/release/packfs}")
if [[ ! -x $packfs ]]; then
    need_rust || exit 3
    cargo build --release --locked --package packfs
fi
peers=target/peers
scripts/build-containerd.sh "$peers"
# The program that packfs is compared with.
if [[ $inside == *measure* && ! -x $peers/bin/mkfs.erofs ]]; then
    scripts/build-peers.sh "$peers" sid erofs-utils || exit 3
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/packfs-containerd-XXXXXX")
namespace=$(basename "$work")
namespaces=
# What is left of a test outside its namespaces: a directory, and control groups of containers that were killed.
finish() {
    local status=$?
    trap '' INT TERM
    # unshare ignores gentler signals. The kernel then kills everything in its namespace for processes.
    [[ -z $namespaces ]] || kill -KILL "$namespaces" 2>/dev/null || true
    wait 2>/dev/null
    find /sys/fs/cgroup -mindepth 1 -depth -type d -path "/sys/fs/cgroup*/$namespace*" -exec rmdir {} + 2>/dev/null || true
    rm -rf --one-file-system "$work"
    if findmnt -rn | grep -F "$work" || losetup -ln -O BACK-FILE | grep -F "$work" || pgrep -af "$work"; then
        say "test-containerd: this is left"
        status=1
    fi
    exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The namespaces have no network but their own.
$download

unshare --mount --pid --net --fork --kill-child --mount-proc \
    bash "$inside" "$work" "$(realpath "$peers/bin")" "$packfs" "$namespace" "$@" &
namespaces=$!
wait $namespaces
