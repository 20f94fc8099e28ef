#!/bin/bash
# Runs all tests: scripts/test.sh [CARGO TEST OPTION...]
#
# Many tests compare packfs with other programs or with the kernel. As root on Debian what they need is
# installed and a missing one is a failure; otherwise the tests that need it say SKIPPED and why.
# PACKFS_REQUIRE_ORACLES= (empty) turns that off for root, =1 turns it on for everyone.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh

need_rust
need build-essential cc
install_missing

need squashfs-tools mksquashfs unsquashfs
need squashfs-tools-ng tar2sqfs sqfs2tar gensquashfs rdsquashfs sqfsdiff
need erofs-utils mkfs.erofs fsck.erofs dump.erofs
need attr setfattr getfattr
need acl setfacl getfacl
need tar tar
need curl curl
need libarchive-tools bsdtar
need gzip gzip
need xz-utils xz
need cpio cpio
need zip zip
need zstd zstd
need bzip2 bzip2
need lzop lzop
need util-linux unshare setsid
need fdisk sfdisk
need mount mount umount losetup
need makedumpfile makedumpfile
need crash crash
need chromium chromium
need libnbd-bin nbdinfo nbdcopy
need qemu-utils qemu-img qemu-io
need fio fio
need strace strace
need openssl openssl
need cryptsetup-bin veritysetup
need fsverity fsverity
need systemd-container systemd-dissect
need rauc rauc
need zsync zsync zsyncmake
need minisign minisign
need docker-registry docker-registry
need umoci umoci
need skopeo skopeo
need fuse3 fusermount3
need squashfuse squashfuse
need btrfs-progs mkfs.btrfs
need munge munged
need slurm-client sbatch scontrol sinfo squeue
need slurmctld slurmctld
need slurmd slurmd
# Libraries: headers and a module say whether they are there.
[[ -e /usr/include/lzo/lzo1x.h ]] || missing+=(liblzo2-dev)
[[ -e /usr/include/openssl/ssl.h ]] || missing+=(libssl-dev pkg-config)
need python3 python3
python3 -c 'import jsonschema' 2>/dev/null || missing+=(python3-jsonschema)
install_missing || say "tests that need them will be skipped"
# If fuse3 was configured before udev was there, its device is still closed to users.
[[ $(id -u) != 0 || ! -c /dev/fuse ]] || chmod a+rw /dev/fuse

# Debian 12 has squashfs-tools 4.5 and erofs-utils 1.5, which neither make nor read most of what there is to compare, and
# print other lines.
if [[ $(id -u) == 0 && ($(mkfs.erofs -V 2>&1 | grep -o '[0-9]\.[0-9]*' | head -1) < 1.9 ||
    $(unsquashfs -version | grep -o '[0-9]\.[0-9]*' | head -1) < 4.7) ]]; then
    [[ -x target/peers/bin/mkfs.erofs && -x target/peers/bin/unsquashfs ]] ||
        scripts/build-peers.sh target/peers sid squashfs-tools erofs-utils ||
        say "tests that need squashfs-tools 4.7 or erofs-utils 1.9 will be skipped"
    PATH=$PWD/target/peers/bin:$PATH
fi

# What makes images of composefs.
if ! command -v composefs-oracle >/dev/null; then
    [[ -x target/peers/bin/composefs-oracle ]] || scripts/build-composefs-oracle.sh target/peers ||
        say "the tests that need composefs-oracle will be skipped"
    PATH=$PATH:$PWD/target/peers/bin
fi

# What makes, signs and verifies SIF files.
if ! command -v sif-oracle >/dev/null; then
    [[ -x target/peers/bin/sif-oracle ]] || scripts/build-sif-oracle.sh target/peers ||
        say "the tests that need sif-oracle will be skipped"
    PATH=$PATH:$PWD/target/peers/bin
fi

# What finds pages that some people cannot use.
scripts/get-axe.sh || say "the test that needs axe will be skipped"

# python_tool NAME PACKAGE: installs a package from PyPI into target/tools/NAME unless it is there.
python_tool() {
    local at=target/tools/$1
    [[ -e $at/installed ]] || {
        python3 -m venv "$at" && timeout 5m "$at/bin/pip" install --quiet "$2" && touch "$at/installed"
    }
}
# What serves buckets.
if ! command -v moto_server >/dev/null; then
    python_tool moto 'moto[server]' || say "the test that needs moto will be skipped"
    PATH=$PATH:$PWD/target/tools/moto/bin
fi
# What runs tasks on many machines, besides Slurm.
python_tool hyperqueue 'hyperqueue==0.27.0' || say "the test that needs HyperQueue will be skipped"

if [[ $(id -u) == 0 ]]; then
    export PACKFS_REQUIRE_ORACLES=${PACKFS_REQUIRE_ORACLES-1}
fi
[[ -n ${PACKFS_REQUIRE_ORACLES-} ]] || unset PACKFS_REQUIRE_ORACLES

# Images and trees of tests in memory, where there is room for them: tests that mount take two thirds of the time then.
room=$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -1)
if [[ -z ${TMPDIR:-} && ${room:-0} -ge 10 ]]; then
    TMPDIR=$(mktemp -d /dev/shm/packfs-tests-XXXXXX)
    export TMPDIR
    # As /tmp: some tests run programs as another user.
    chmod 1777 "$TMPDIR"
    trap 'rm -rf --one-file-system "$TMPDIR"' EXIT
fi

# Many tests wait for other programs, for the kernel or for a clock: with a thread for each processor, a third of their time
# was idle.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 2))}
cargo test --workspace --locked --no-fail-fast "$@"
