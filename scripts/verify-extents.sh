#!/usr/bin/env bash
# Large files in encoded extents: packs one file of hundreds of megabytes, made of the files of DIRECTORY, with every
# codec and every layout of encoded extents, mounts each image on the running kernel and compares the file.
#
#   usage: verify-extents.sh DIRECTORY [MEGABYTES] [PACKFS]      (as root; DIRECTORY with machine code, such as /usr)
set -euo pipefail

source=$(realpath "${1:?usage: verify-extents.sh DIRECTORY [MEGABYTES] [PACKFS]}")
megabytes=${2:-256}
packfs=$(realpath "${3:-target/release/packfs}")

codecs=(lz4 lz4hc:1 deflate:1 deflate:6 zstd:1 lzma:0)
clusters=(4K 64K 1M)
features=(48bit,^fragments 48bit,fragments unaligned,^fragments unaligned,fragments unaligned,fragments,dedupe)

work=$(mktemp -d)
mkdir "$work/mnt" "$work/tree"
trap 'umount -q "$work/mnt" 2>/dev/null || true; rm -rf "$work"' EXIT
# `head` closes the pipe when it has enough.
(find "$source" -xdev -type f -size +16k -print0 | sort -z | xargs -0 cat 2>/dev/null || true) |
    head -c "${megabytes}M" > "$work/tree/file"
echo "$(stat -c %s "$work/tree/file") bytes"

failed=0
for codec in "${codecs[@]}"; do
    for cluster in "${clusters[@]}"; do
        for feature in "${features[@]}"; do
            what="$codec, clusters of $cluster, $feature"
            "$packfs" build -q --force "$work/tree" -o "$work/image.erofs" -c "$codec" -b "$cluster" \
                --target-kernel 6.18 --features "48bit,${feature#48bit,}"
            mount -t erofs -o loop,ro "$work/image.erofs" "$work/mnt"
            if cmp "$work/tree/file" "$work/mnt/file" && "$packfs" check -q "$work/image.erofs"; then
                echo "same: $what"
            else
                echo "DIFFERENT: $what"
                failed=1
            fi
            umount "$work/mnt"
        done
    done
done
exit "$failed"
