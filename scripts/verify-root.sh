#!/usr/bin/env bash
# The main job on a real root file system: packs DIRECTORY, and a tar archive of it, in both formats with
# every codec and feature, mounts each image on the running kernel and compares everything with the source,
# without packfs's help.
#
#   usage: verify-root.sh DIRECTORY [PACKFS]      (as root; DIRECTORY for example from debootstrap)
set -euo pipefail

source=$(realpath "${1:?usage: verify-root.sh DIRECTORY [PACKFS]}")
packfs=$(realpath "${2:-target/release/packfs}")
kernel=$(uname -r | grep -oE '^[0-9]+\.[0-9]+')

squashfs=(none gzip xz xz:6:bcj=auto lzo lzo:algorithm=lzo1x_1 lz4 lz4hc zstd)
# One line a build: codec, largest cluster, features.
erofs=(
    "none 64K inline-data"
    "none 64K ^inline-data"
    "none 64K chunks"
    "lz4 4K ^fragments"
    "lz4 64K fragments"
    "lz4hc 4K fragments"
    "lz4hc 16K all-fragments"
    "lz4hc 64K dedupe"
    "lz4hc 64K ztailpacking"
    "lz4hc 64K full-index,extended-inodes"
    "lz4hc 1M fragments"
    "deflate 128K fragments"
    "deflate 64K 48bit"
    "lzma 128K fragments"
    "lzma 1M all-fragments,dedupe"
    "zstd 128K fragments"
    "zstd 64K dedupe"
    "zstd 64K 48bit,dedupe"
    "lz4 64K unaligned"
    "zstd 64K unaligned"
)

work=$(mktemp -d)
mkdir "$work/mnt"
trap 'umount -q "$work/mnt" 2>/dev/null || true; rm -rf "$work"' EXIT

# Everything about a tree but its inode numbers, and its contents: one line each. Sizes of directories and
# fractions of seconds are the file system's own affair.
describe() {
    (
        cd "$1"
        find . -printf '%P\t%y\t%m\t%U:%G\t%Ts\t%l\t' \
            \( -type d -printf '\n' -o -type f -printf '%n\t%s\n' -o -printf '%n\n' \) | LC_ALL=C sort
        find . \( -type b -o -type c \) -exec stat -c '%n %t:%T' {} + | LC_ALL=C sort
        find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
        find . -type f -links +1 -printf '%P\n' | LC_ALL=C sort
        getfattr -R -h -d -m - . 2>/dev/null || true
    )
}

# verify FORMAT SOURCE LABEL BUILD-OPTION...: builds, checks, mounts and compares.
verify() {
    local format=$1 from=$2 label=$3
    shift 3
    "$packfs" build "$from" -o "$work/image" --format "$format" "$@" --force --quiet
    "$packfs" check "$work/image" --quiet
    mount -t "$format" -o loop,ro "$work/image" "$work/mnt"
    describe "$work/mnt" >"$work/got"
    umount "$work/mnt"
    if ! diff -u "$work/want" "$work/got" | head -20; then
        echo "$label from $from: the mount differs from the source" >&2
        exit 1
    fi
    printf '%-10s %-40s %-10s %12d bytes, mounts, no difference\n' "$format" "$label" "$(basename "$from")" \
        "$(stat -c %s "$work/image")"
}

describe "$source" >"$work/want"
tar -C "$source" --xattrs --xattrs-include='*' --numeric-owner --sort=name -cf "$work/root.tar" .
echo "$source: $(wc -l <"$work/want") lines of description"

for from in "$source" "$work/root.tar"; do
    for codec in "${squashfs[@]}"; do
        verify squashfs "$from" "$codec" --codec "$codec"
    done
    for build in "${erofs[@]}"; do
        read -r codec cluster features <<<"$build"
        verify erofs "$from" "$build" --codec "$codec" -b "$cluster" --features "$features" --target-kernel "$kernel"
    done
done

# From one format to the other and back.
"$packfs" build "$source" -o "$work/root.sqfs" --codec lz4 --quiet
verify erofs "$work/root.sqfs" "from SquashFS"
mv "$work/image" "$work/root.erofs"
verify squashfs "$work/root.erofs" "from EROFS" --codec lz4
