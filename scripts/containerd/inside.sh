#!/bin/bash
# The tests of scripts/test-containerd.sh, in namespaces of their own: inside.sh WORK TOOLS PACKFS NAMESPACE [PRODUCT...]
#
#   WORK       an empty directory
#   TOOLS      where containerd, its shim, ctr and crane are
#   PACKFS     the program
#   NAMESPACE  of containerd, which also names the control groups of containers
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
work=$1
tools=$2
packfs=$3
namespace=$4
products=("${@:5}")
((${#products[@]})) || products=(convert cache drop_in export squashfs merge)
source scripts/needs.sh
source scripts/containerd/image.sh
source scripts/containerd/daemons.sh
prepare_namespaces
layers=5

# Compressed clusters that Linux reads here; it has zstd since 6.10.
codec=(--codec zstd:3 --target-kernel 6.12)
if [[ $(printf '%s\n' 6.10 "$(uname -r)" | sort -V | head -n 1) != 6.10 ]]; then
    codec=(--codec lz4)
fi

# has COUNT PATTERN FILE: a file has this many lines with the pattern.
has() {
    local found
    found=$(grep -c -- "$2" "$3" || true)
    if [[ $found != "$1" ]]; then
        say "$3 has $found lines with \"$2\", and not $1"
        return 1
    fi
}

# The container says what is expected.
seen_as_expected() {
    cmp -s "$work/expected.txt" "$containerd_dir/seen.txt" && return
    say "the container sees other files, < expected, > seen:"
    diff "$work/expected.txt" "$containerd_dir/seen.txt" | head -n 12 >&2
    head -n 3 "$containerd_dir/errors.txt" >&2
    return 1
}

# The container has files of this file system, in this many mounts below one of overlayfs.
mounted() {
    local file_system=$1
    local count=$2
    local found
    found=$(grep -c "^$file_system " "$containerd_dir/mounts.txt" || true)
    if [[ $found != "$count" ]] || ! grep -q "^overlay .*$containerd_dir\|^overlay .*$work" "$containerd_dir/mounts.txt"; then
        say "$found mounts of $file_system, and not $count:"
        grep "$file_system\|overlay" "$containerd_dir/mounts.txt" >&2
        return 1
    fi
}

# pull SNAPSHOTTER TAG [FEATURES]: lets containerd fetch and unpack an image. One whose layers are EROFS images is for
# another platform, with FEATURES "(+erofs)".
pull() {
    timeout 300 "${ctr[@]}" images pull --plain-http --snapshotter "$1" --platform "linux${3:-}/$architecture" \
        "$registry/t:$2" >/dev/null
}

# note_calls DIR PROGRAM: makes an mkfs.erofs in DIR that notes the options of each call that makes an image, and then runs
# PROGRAM.
note_calls() {
    mkdir -p "$1"
    printf '#!/bin/sh\ncase "$*" in --help) ;; *) echo "$*" >>%q ;; esac\nexec %q "$@"\n' "$1/calls" "$2" >"$1/mkfs.erofs"
    chmod 755 "$1/mkfs.erofs"
    : >"$1/calls"
}

# Layers of EROFS from a registry. containerd wants an mkfs.erofs for them, but never makes an image by it.
try_convert() {
    local dir=$work/convert
    "$packfs" oci convert "oci://$registry/t:v1" "oci://$registry/t:erofs" "${codec[@]}" -q
    # Other programs take the image as it is.
    skopeo inspect --raw --tls-verify=false "docker://$registry/t:erofs" >"$dir.manifest"
    has 1 'application/vnd.erofs.layer.v1' <(jq -r '.layers[].mediaType' "$dir.manifest" | sort -u)
    "$tools/crane" --insecure copy "$registry/t:erofs" "$registry/t:erofs-copy"
    [[ $("$tools/crane" --insecure digest "$registry/t:erofs") == $("$tools/crane" --insecure digest "$registry/t:erofs-copy") ]]

    printf '#!/bin/sh\necho " --tar=X"\n' >"$work/pretender"
    chmod 755 "$work/pretender"
    note_calls "$dir-programs" "$work/pretender"
    start_containerd "$dir" erofs "$dir-programs"
    pull erofs erofs-copy "(+erofs)"
    has $layers mode=fastcopy "$dir/log"
    run_container erofs "$registry/t:erofs-copy"
    seen_as_expected
    mounted erofs $layers
    has 0 . "$dir-programs/calls"
    stop_containerd
}

# An image of tar layers, of which containerd downloads no layer. There is no mkfs.erofs.
try_cache() {
    local dir=$work/cache
    local size
    local image
    "$packfs" oci cache "oci://$registry/t:v1" "$dir-layers" "${codec[@]}" -q
    start_containerd "$dir" walking "$dir-programs" "$dir-layers"
    pull erofs v1
    has $layers "layer content cache hit" "$dir/log"
    # Its documents, without the blobs of layers.
    size=$(du -s --apparent-size -B 1 "$dir/root/io.containerd.content.v1.content/blobs" | cut -f 1)
    if ((size > 65536)); then
        say "containerd has $size bytes of contents"
        return 1
    fi
    run_container erofs "$registry/t:v1"
    seen_as_expected
    mounted erofs $layers
    stop_containerd

    # These tests would notice a layer with wrong data: one block in the middle of the largest layer.
    image=$(find "$dir-layers" -name '*.erofs' -printf '%s %p\n' | sort -rn | sed -n '1s/^[0-9]* //p')
    dd if=/dev/zero of="$image" bs=4096 seek=$(($(stat -c %s "$image") / 8192)) count=1 conv=notrunc status=none
    start_containerd "$dir-damaged" walking "$dir-programs" "$dir-layers"
    pull erofs v1
    run_container erofs "$registry/t:v1"
    stop_containerd
    if seen_as_expected 2>/dev/null; then
        say "a damaged layer is not noticed"
        return 1
    fi
}

# packfs as mkfs.erofs, when containerd unpacks tar layers, and when it converts an image.
try_drop_in() {
    local dir=$work/drop-in
    mkdir -p "$dir-links"
    "$packfs" as --install "$dir-links" >/dev/null
    note_calls "$dir-programs" "$dir-links/mkfs.erofs"
    start_containerd "$dir" erofs "$dir-programs"
    pull erofs v1
    has $layers "Applied layer using tar conversion mode" "$dir/log"
    has $layers --tar=f "$dir-programs/calls"
    run_container erofs "$registry/t:v1"
    seen_as_expected
    mounted erofs $layers

    : >"$dir-programs/calls"
    "${ctr[@]}" content fetch --plain-http "$registry/t:v1" >/dev/null
    PATH=$dir-programs:$PATH "${ctr[@]}" images convert --erofs raw --erofs-compressors lz4hc,9 "$registry/t:v1" \
        "$registry/t:by-ctr"
    has $layers "-zlz4hc,9" "$dir-programs/calls"
    "${ctr[@]}" images push --plain-http "$registry/t:by-ctr" >/dev/null
    stop_containerd
    start_containerd "$dir-converted" erofs "$dir-programs"
    pull erofs by-ctr "(+erofs)"
    has $layers mode=fastcopy "$dir-converted/log"
    run_container erofs "$registry/t:by-ctr"
    seen_as_expected
    mounted erofs $layers
    stop_containerd
}

# Tar layers made of EROFS layers, with overlayfs; and the original archives.
try_export() {
    local dir=$work/export
    "$packfs" oci export "oci://$registry/t:erofs" "oci://$registry/t:tar" -q
    # Verifies the digests of all layers, and the diffIDs of their archives. It takes gzip only.
    "$tools/crane" --insecure validate --remote "$registry/t:tar"
    start_containerd "$dir" walking "$dir-programs"
    pull overlayfs tar
    run_container overlayfs "$registry/t:tar"
    seen_as_expected
    mounted erofs 0

    "$packfs" oci convert "$work/layout" "$dir-kept" --reversible "${codec[@]}" -q
    "$packfs" oci export "$dir-kept" "$dir-original" --compress zstd -q
    skopeo copy -q --dest-tls-verify=false "oci:$dir-original:v1" "docker://$registry/t:original"
    # The archives are the original ones: they have the same diffIDs.
    cmp <("$tools/crane" --insecure config "$registry/t:v1" | jq -cS .rootfs) \
        <("$tools/crane" --insecure config "$registry/t:original" | jq -cS .rootfs)
    pull overlayfs original
    run_container overlayfs "$registry/t:original"
    seen_as_expected
    stop_containerd
}

# containerd 2.4.2 has nothing that mounts SquashFS. Its layers go through the registry, are mounted by hand, and containerd
# gets the directory.
try_squashfs() {
    local dir=$work/squashfs
    local digest
    local lower=
    local number=0
    "$packfs" oci convert "oci://$registry/t:v1" "oci://$registry/t:squashfs" --format squashfs -q
    skopeo copy -q --src-tls-verify=false "docker://$registry/t:squashfs" "dir:$dir-blobs"
    while read -r digest; do
        number=$((number + 1))
        mkdir -p "$dir-mounts/$number"
        mount -t squashfs -o ro,loop "$dir-blobs/${digest#sha256:}" "$dir-mounts/$number"
        lower=$dir-mounts/$number${lower:+:$lower}
    done < <(jq -r '.layers[].digest' "$dir-blobs/manifest.json")
    mkdir "$dir-root" "$dir-upper" "$dir-scratch"
    mount -t overlay -o "lowerdir=$lower,upperdir=$dir-upper,workdir=$dir-scratch" overlay "$dir-root"
    start_containerd "$dir" walking "$dir-programs"
    run_container --rootfs "$dir-root"
    seen_as_expected
    mounted squashfs $layers
    stop_containerd
    umount "$dir-root" "$dir-mounts"/*
}

# Merged metadata. containerd 2.4.2 mounts it instead of the layers if the directory of the topmost snapshot has it, and has
# no other entrance for it.
try_merge() {
    local dir=$work/merge
    local top
    local layer
    local snapshot=
    "$packfs" oci merge "oci://$registry/t:erofs" -o "$dir.image" -q
    note_calls "$dir-programs" "$work/pretender"
    start_containerd "$dir" erofs "$dir-programs"
    pull erofs erofs "(+erofs)"
    top=$("$tools/crane" --insecure manifest "$registry/t:erofs" | jq -r '.layers[-1].digest')
    for layer in "$dir/root"/io.containerd.snapshotter.v1.erofs/snapshots/*/layer.erofs; do
        [[ sha256:$(sha256sum <"$layer" | cut -d ' ' -f 1) != "$top" ]] || snapshot=$(dirname "$layer")
    done
    cp "$dir.image" "$snapshot/fsmeta.erofs"
    run_container erofs "$registry/t:erofs"
    seen_as_expected
    mounted erofs 1
    stop_containerd
}

start_registry
say "making the image"
run_logged "$work/image.log" make_test_image "$work/layout" &
ended_well $! "$work/image.log"
skopeo copy -q --dest-tls-verify=false "oci:$work/layout:v1" "docker://$registry/t:v1"

# What the containers are to say: the facts that the image was made for, and the files that umoci unpacks.
umoci unpack --image "$work/layout:v1" "$work/bundle" >"$work/unpack.log" 2>&1
{
    cat <<'END'
fact: deleted file: absent
fact: deleted directory: absent
fact: removed by a whiteout: absent
fact: opaque directory has: new
fact: changed file: changed
fact: hard links: 3 of one file
fact: attribute: hello
fact: capability: 0x0100000200200000000000000000000000000000
fact: a user has: CapEff:	0000000000002000
fact: numbers: 700000 in 4788895 bytes
fact: directory that was a file: usr/share/t/becomes-directory/inside
fact: file that was a directory: a file
END
    chroot "$work/bundle/rootfs" /bin/sh /usr/libexec/check.sh list
} >"$work/expected.txt"
[[ $(wc -l <"$work/expected.txt") -gt 700 ]]
rm -rf "$work/bundle"

failed=0
for product in "${products[@]}"; do
    run_logged "$work/$product.log" "try_$product" &
    if ended_well $! "$work/$product.log"; then
        say "$product: passed"
    else
        failed=$((failed + 1))
        say "$product: FAILED"
    fi
done
[[ $failed == 0 ]]
