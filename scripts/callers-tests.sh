#!/bin/bash
# Programs that call mksquashfs, tar2sqfs, unsquashfs and mkfs.erofs, unchanged, in a minimal Debian made by debootstrap:
# scripts/callers-tests.sh [PACKFS [CACHE]], as root.
#
#   PACKFS  the program              (default target/release/packfs)
#   CACHE   where the Debian is kept (default target/debootstrap)
#
# Each caller runs twice: with the programs of Debian, and with the links of packfs first in PATH. Both results are mounted
# and compared: names, contents, types, permissions, owners, times, targets and extended attributes. A caller whose second
# run did not call packfs fails. Prints a line for each; docs/guide/drop-in.md has the results. Takes some minutes and 1 GB.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
packfs=$(realpath "${1:-target/release/packfs}")
cache=$(realpath -m "${2:-target/debootstrap}")
release=bookworm
packages="genimage squashfs-tools squashfs-tools-ng erofs-utils diffoscope-minimal mmdebstrap snapd rauc systemd openssl
    ca-certificates fdisk attr zstd xz-utils dracut-squash live-build cpio"

[[ $(id -u) == 0 ]] || { echo "callers-tests: mounting needs root" >&2; exit 1; }
need debootstrap debootstrap
need attr getfattr
install_missing

root=$cache/callers
if [[ ! -e $root/complete ]]; then
    rm -rf --one-file-system "$root" && mkdir -p "$root"
    debootstrap --variant=minbase $release "$root" >"$cache/callers.log" || { tail "$cache/callers.log"; exit 1; }
    touch "$root/complete"
fi
seen=$(mktemp -d)
finish() {
    umount -q "$seen" || true
    umount -qR "$root/proc" "$root/sys" "$root/dev" || true
    rmdir "$seen"
}
trap finish EXIT
for dir in proc sys dev; do
    mount --rbind "/$dir" "$root/$dir"
    mount --make-rslave "$root/$dir"
done
cp /etc/resolv.conf "$root/etc/"
chroot "$root" env DEBIAN_FRONTEND=noninteractive bash -c "apt-get update -qq && apt-get install -y -qq \
    --no-install-recommends $(echo $packages)" >"$cache/callers.log" 2>&1 || { tail "$cache/callers.log"; exit 1; }

# The links, and a note of each call.
rm -rf "$root/packfs" && mkdir -p "$root/packfs/links" "$root/packfs/bin"
cp "$packfs" "$root/packfs/packfs"
chroot "$root" /packfs/packfs as --install /packfs/links >/dev/null
for link in "$root"/packfs/links/*; do
    name=$(basename "$link")
    printf '#!/bin/bash\necho "%s" >>/packfs/called\nexec /packfs/links/%s "$@"\n' "$name" "$name" >"$root/packfs/bin/$name"
    chmod 755 "$root/packfs/bin/$name"
done

# A tree with links, owners, times, a device and attributes, and what the callers need beside it.
chroot "$root" bash -ec 'rm -rf /case && mkdir -p /case && cd /case
    mkdir -p tree/etc tree/usr/bin tree/var/empty tree/meta
    seq 30000 >tree/usr/bin/text; cp tree/usr/bin/text tree/usr/bin/copy; echo hi >tree/etc/motd; chmod 640 tree/etc/motd
    ln -s motd tree/etc/link; ln tree/etc/motd tree/etc/hard; chown -h 5:6 tree/etc/link tree/usr/bin/copy
    setfattr -n user.a -v 1 tree/usr/bin/text; chmod 4755 tree/usr/bin/copy; truncate -s 2M tree/var/hole
    printf "name: hello\nversion: \"1\"\nsummary: s\ndescription: d\nbase: core22\n" >tree/meta/snap.yaml
    find tree -exec touch -h -d @1600000000 {} +
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 9 -subj /CN=packfs 2>/dev/null
    mkdir bundle; echo data >bundle/root.img
    printf "[update]\ncompatible=packfs\nversion=1\n[image.rootfs]\nfilename=root.img\n" >bundle/manifest.raucm
    printf "image result { squashfs { compression = zstd block-size = 65536 } }\n" >genimage.cfg
    mkdir repart.d; printf "[Partition]\nType=root\nFormat=squashfs\nCopyFiles=/case/tree:/\nMinimize=best\n" >repart.d/a.conf
    mksquashfs tree a.sqfs -quiet; echo more >>tree/etc/motd; touch -d @1600000000 tree/etc tree/etc/motd
    mksquashfs tree b.sqfs -quiet' >/dev/null

# in_root PATH COMMANDS: runs commands in the root, in an empty /job.
in_root() {
    rm -rf "$root/job" && mkdir "$root/job"
    chroot "$root" env -i HOME=/root LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=1700000000 PATH="$1/usr/sbin:/usr/bin:/sbin:/bin" \
        timeout 600 bash -ec "cd /job; $2" >"$cache/callers.log" 2>&1 </dev/null
}

# listed FILE: what a result has: the entries of an image, or the lines of a text.
listed() {
    if ! mount -o loop,ro "$1" "$seen" 2>/dev/null; then
        cat "$1"
        return
    fi
    # squashfs-tools-ng counts the links of directories in its own way.
    (cd "$seen" && find . -type d -printf '%P d %m %U:%G %T@\n' -o -printf '%P %y %m %U:%G %T@ %l %n\n' | sort
        find . -type f -exec sha256sum {} + | sort -k2
        # An image without attributes has no such operation.
        find . | sort | xargs -d '\n' getfattr -hd -m - 2>/dev/null || true)
    umount "$seen"
}

passed=0 failed=0
# caller NAME PROGRAMS COMMANDS: runs a caller twice; its commands leave /job/result, and call one of the programs.
caller() {
    local name=$1 said=passed
    : >"$root/packfs/called"
    if ! in_root "" "$3" || [[ ! -e $root/job/result ]]; then
        said="does not run with Debian's programs: $(tail -n1 "$cache/callers.log")"
    else
        listed "$root/job/result" >"$cache/theirs.txt"
        if ! in_root /packfs/bin: "$3" || [[ ! -e $root/job/result ]]; then
            said="FAILED: $(tail -n1 "$cache/callers.log")"
        elif ! grep -qxE "$2" "$root/packfs/called"; then
            said="FAILED: packfs was not called"
        else
            listed "$root/job/result" >"$cache/ours.txt"
            cmp -s "$cache/theirs.txt" "$cache/ours.txt" || said="FAILED: $(diff "$cache/theirs.txt" "$cache/ours.txt" | head -n 6 || true)"
        fi
    fi
    [[ $said == passed ]] && passed=$((passed + 1)) || failed=$((failed + 1))
    echo "$name: $said"
}

caller "snap pack" mksquashfs 'snap pack /case/tree . --filename=result'
caller genimage mksquashfs 'mkdir tmp; genimage --rootpath /case/tree --tmppath tmp --inputpath . --outputpath . --config /case/genimage.cfg'
caller "systemd-repart" mksquashfs 'truncate -s 64M disk; systemd-repart --definitions=/case/repart.d --empty=require --dry-run=no --no-pager disk
    start=$(sfdisk -J disk | sed -n "s/.*\"start\": \([0-9]*\).*/\1/p" | head -1); dd if=disk of=result bs=512 skip=$start status=none'
caller "rauc bundle" mksquashfs 'rauc bundle --cert=/case/cert.pem --key=/case/key.pem /case/bundle result'
caller "mmdebstrap" tar2sqfs 'mmdebstrap --variant=extract --include=base-files '"$release"' result.squashfs; mv result.squashfs result'
caller "diffoscope" unsquashfs 'diffoscope --text=result /case/a.sqfs /case/b.sqfs || [[ $? == 1 ]]'
# It has a path of its own.
caller dracut mksquashfs 'DRACUT_PATH=${PATH//:/ } dracut --no-kernel --no-hostonly --force --no-compress --reproducible --squash-compressor zstd -m "base squash" \
    out.img 6.1.0; cpio -i --quiet <out.img; mv $(find . -name "*squash*.img" | head -n 1) result'
caller live-build mksquashfs 'lb config --build-with-chroot false --chroot-filesystem squashfs -d '"$release"'
    mkdir -p chroot .build; cp -a /case/tree/. chroot; touch .build/config .build/bootstrap .build/binary_chroot; lb binary_rootfs
    mv binary/live/filesystem.squashfs result'
echo "$passed passed, $failed did not"
[[ $failed == 0 ]]
