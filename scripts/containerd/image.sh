# shellcheck shell=bash disable=SC2154
# Makes container images of Debian's packages in the directory $work. Sourced, not run.

# Downloads the packages of the image of the tests.
download_test_packages() {
    mkdir "$work/packages"
    (cd "$work/packages" && apt-get download -qq -o APT::Sandbox::User=root busybox-static libc6 libattr1 attr)
}

# Downloads the packages of the image that is measured, with all that they depend on: a directory for each of ten layers,
# with the packages that the layers below do not have.
download_debian_packages() {
    local archives=$work/archives
    local essential
    local packages
    local number=0
    mkdir -p "$archives/partial"
    : >"$work/nothing-installed"
    : >"$work/packages-below"
    essential=$(apt-cache dumpavail | awk '/^Package: / { name = $2 } /^Essential: yes/ { print name }' | sort -u | tr '\n' ' ')
    for packages in "$essential base-files base-passwd apt" "ca-certificates curl openssl" python3 nodejs git \
        "vim file less" nginx "gcc libc6-dev make" ruby "postgresql-client iso-codes"; do
        number=$((number + 1))
        # shellcheck disable=SC2086
        apt-get install -qq -y --download-only --no-install-recommends -o Dir::State::status="$work/nothing-installed" \
            -o Dir::Cache::archives="$archives" -o APT::Sandbox::User=root -o Debug::NoLocking=1 $packages >/dev/null
        (cd "$archives" && ls -- *.deb) >"$work/packages-now"
        mkdir -p "$work/packages/$number"
        comm -13 "$work/packages-below" "$work/packages-now" | while read -r package; do
            ln "$archives/$package" "$work/packages/$number/"
        done
        mv "$work/packages-now" "$work/packages-below"
    done
    rm -rf "$archives"
}

# unpack_packages DIR ROOT: unpacks the packages of a directory into another one.
unpack_packages() {
    local package
    for package in "$1"/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$2"
    done
}

# merged_root ROOT: makes an empty root whose /bin, /lib and so on are in /usr, as Debian's is.
merged_root() {
    local dir
    for dir in bin sbin lib lib64; do
        mkdir -p "$1/usr/$dir"
        ln -s "usr/$dir" "$1/$dir"
    done
}

# pack_layer ROOT ARCHIVE: packs a directory as the archive of a layer.
pack_layer() {
    tar --sort=name --format=posix --numeric-owner --xattrs --xattrs-include='user.*' --xattrs-include='security.*' \
        --pax-option=delete=atime,delete=ctime -C "$1" -cf "$2" .
}

# new_image LAYOUT TAG: makes a layout with an image of no layers.
new_image() {
    umoci init --layout "$1"
    umoci new --image "$1:$2"
    umoci config --image "$1:$2" --config.env PATH=/usr/bin:/bin --config.cmd /bin/sh
}

# The image of the tests: five layers with everything that a layer can say.
make_test_image() {
    local layout=$1
    local root=$work/root
    local number

    # A root that can check itself.
    mkdir -p "$root" && merged_root "$root"
    unpack_packages "$work/packages" "$root"
    mkdir -p "$root"/{etc/old,proc,sys,dev,run,root,var/cache/deep/er,usr/libexec}
    mkdir -m 1777 "$root/tmp"
    ln -s busybox "$root/usr/bin/sh"
    cp "$root/usr/bin/busybox" "$work/busybox"
    cp scripts/containerd/check.sh "$root/usr/libexec/check.sh"
    printf 'root:x:0:0::/root:/bin/sh\nworker:x:1000:1000::/:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\nworker:x:1000:\n' >"$root/etc/group"
    pack_layer "$root" "$work/1.tar"

    # Files of many kinds, some of which later layers delete or replace.
    rm -rf "$root" && mkdir -p "$root"/{etc/old,usr/bin,usr/share/t/becomes-file,usr/share/t/small,var/cache/deep/er}
    (
        cd "$root" || exit
        echo first >etc/motd
        setfattr -n user.note -v hello etc/motd
        echo gone >etc/gone
        echo a >etc/old/a
        echo x >var/cache/deep/x
        echo y >var/cache/deep/er/y
        cd usr/share/t || exit
        seq 700000 >numbers
        # Data that cannot be compressed, and a hole before it.
        seq 900000 | gzip -n9 >noise
        truncate -s 3M sparse
        head -c 100000 noise >>sparse
        head -c 70000 noise >one
        ln one two
        ln one three
        for number in {1..300}; do
            seq "$number" >"small/$number"
        done
        echo removed >removed
        echo inside >becomes-file/inside
        echo file >becomes-directory
        echo name >'grün und blau'
        ln -s ../numbers small/link
        ln -s /gone/nowhere dangling
        mkfifo -m 620 fifo
        mknod -m 640 device c 1 3
        echo set >setuid
        chmod 4755 setuid
        mkdir -m 2750 group
        echo owned >group/owned
        chown -R 1234:5678 group
        chmod 2750 group
        # The program again, with cap_net_raw as a permitted and effective capability.
        cp "$work/busybox" ../../bin/busybox-raw
        setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 ../../bin/busybox-raw
    )
    pack_layer "$root" "$work/2.tar"

    new_image "$layout" v1
    umoci raw add-layer --image "$layout:v1" "$work/1.tar"
    umoci raw add-layer --image "$layout:v1" "$work/2.tar"

    # Changes as umoci finds them.
    umoci unpack --image "$layout:v1" "$work/bundle"
    rm -r "$work"/bundle/rootfs/etc/{gone,old}
    echo changed >"$work/bundle/rootfs/etc/motd"
    umoci repack --refresh-bundle --image "$layout:v1" "$work/bundle"
    rm -rf "$work/bundle"

    # Whiteouts, an opaque directory, and entries that change their kind.
    rm -rf "$root" && mkdir -p "$root"/{usr/share/t/becomes-directory,var/cache/deep}
    touch "$root/var/cache/deep/.wh..wh..opq" "$root/usr/share/t/.wh.removed"
    echo new >"$root/var/cache/deep/new"
    echo inside >"$root/usr/share/t/becomes-directory/inside"
    echo "a file" >"$root/usr/share/t/becomes-file"
    pack_layer "$root" "$work/4.tar"
    umoci raw add-layer --image "$layout:v1" "$work/4.tar"

    # A large file that is there already, with other attributes.
    rm -rf "$root" && mkdir -p "$root/usr/share/t"
    seq 700000 >"$root/usr/share/t/numbers"
    chown 7:8 "$root/usr/share/t/numbers"
    chmod 600 "$root/usr/share/t/numbers"
    pack_layer "$root" "$work/5.tar"
    umoci raw add-layer --image "$layout:v1" "$work/5.tar"
    rm -rf "$root"
}

# The image that is measured. Its packages are not configured, as that would need a container.
make_debian_image() {
    local layout=$1
    local root=$work/root
    local number
    new_image "$layout" v1
    for number in {1..10}; do
        rm -rf "$root" && mkdir -p "$root"
        # Packages of Debian 12 have files in /bin and /lib, which are links.
        merged_root "$root"
        unpack_packages "$work/packages/$number" "$root"
        pack_layer "$root" "$work/layer.tar"
        umoci raw add-layer --image "$layout:v1" "$work/layer.tar"
        say "layer $number: $(stat -c %s "$work/layer.tar") bytes"
    done
    # umoci leaves the documents of each step.
    umoci gc --layout "$layout"
    rm -rf "$root" "$work/layer.tar"
}
