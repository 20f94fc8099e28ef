#!/usr/bin/env bash
# The main job on a real root file system: packs DIRECTORY, and a tar archive of it, with every codec,
# mounts each image on the running kernel and compares everything with the source, without packfs's help.
#
#   usage: verify-root.sh DIRECTORY [PACKFS]      (as root; DIRECTORY for example from debootstrap)
set -euo pipefail

source=$(realpath "${1:?usage: verify-root.sh DIRECTORY [PACKFS]}")
packfs=$(realpath "${2:-target/release/packfs}")
codecs=(none gzip xz xz:6:bcj=auto lzo lzo:algorithm=lzo1x_1 lz4 lz4hc zstd)

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

describe "$source" >"$work/want"
tar -C "$source" --xattrs --xattrs-include='*' --numeric-owner --sort=name -cf "$work/root.tar" .
echo "$source: $(wc -l <"$work/want") lines of description"

for codec in "${codecs[@]}"; do
    for from in "$source" "$work/root.tar"; do
        "$packfs" build "$from" -o "$work/image" --codec "$codec" --force --quiet
        "$packfs" check "$work/image" --quiet
        mount -t squashfs -o loop,ro "$work/image" "$work/mnt"
        describe "$work/mnt" >"$work/got"
        umount "$work/mnt"
        if ! diff -u "$work/want" "$work/got" | head -20; then
            echo "$codec from $from: the mount differs from the source" >&2
            exit 1
        fi
        printf '%-24s %-10s %12d bytes, mounts, no difference\n' "$codec" "$(basename "$from")" \
            "$(stat -c %s "$work/image")"
    done
done
