# Shared by the scripts that test in a minimal Debian, of this machine or of another one, whose programs run in QEMU.
# Sourced after needs.sh, not run; needs root.

debian_release=bookworm

# debian_architecture MACHINE: prints the name that Debian has for it.
debian_architecture() {
    case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) say "$1: only x86_64 and aarch64 are known" && return 2 ;;
    esac
}

# need_debian_root MACHINE: remembers what the functions below need.
need_debian_root() {
    need debootstrap debootstrap
    [[ $1 == "$(uname -m)" ]] || need qemu-user-static "qemu-$1-static"
}

# run_in_qemu MACHINE: has the kernel run programs of another machine, in roots that do not have QEMU themselves, until it
# restarts.
run_in_qemu() {
    local kernel=/proc/sys/fs/binfmt_misc
    [[ $1 != "$(uname -m)" ]] || return 0
    mountpoint --quiet "$kernel" || mount -t binfmt_misc binfmt_misc "$kernel"
    [[ -e $kernel/qemu-$1 ]] || cat "/usr/lib/binfmt.d/qemu-$1.conf" >"$kernel/register"
}

# enter_debian MACHINE CACHE ROOT: makes the directory ROOT a minimal Debian to chroot into, with the network, /proc and
# /dev. CACHE keeps what debootstrap made, which takes minutes.
enter_debian() {
    local architecture archive made root=$3
    architecture=$(debian_architecture "$1")
    archive=$2/$debian_release-$architecture.tar
    if [[ ! -e $archive ]]; then
        made=$(mktemp -d)
        debootstrap --arch="$architecture" --variant=minbase --include=ca-certificates "$debian_release" "$made/root" >"$made/log" ||
            { tail "$made/log" >&2; rm -rf --one-file-system "$made"; return 1; }
        mkdir -p "$2"
        tar -C "$made/root" -cf "$archive.new" .
        mv "$archive.new" "$archive"
        rm -rf --one-file-system "$made"
    fi
    mkdir "$root"
    tar -C "$root" -xf "$archive"
    cp /etc/resolv.conf "$root/etc/"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
}

# leave_debian ROOT: unmounts what enter_debian mounted, if anything, even if a test that was stopped left a process there.
leave_debian() {
    umount --lazy "$1/proc" "$1/dev" 2>/dev/null || true
}
