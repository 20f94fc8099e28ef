#!/usr/bin/env bash
# Build current peer tools from a newer Debian suite's source packages on
# Debian 12, without touching the system's own apt sources or upgrading
# installed packages.
#
#   usage: build-peers.sh [DEST] [SUITE] [PACKAGE...]
#
#   DEST     where to install            (default /opt/peers)
#   SUITE    Debian suite of the sources (default sid)
#   PACKAGE  squashfs-tools, squashfs-tools-ng, erofs-utils or squashfuse (default the first and third)
#
# Programs go to DEST/bin, the source packages to DEST/src, the versions to
# DEST/VERSIONS. Run as root: missing -dev packages are installed with apt-get.
# JOBS sets the make jobs (default 2), MIRROR overrides the Debian mirror.
# STATIC=1 links the programs statically, to carry them to a machine without these libraries; without erofsfuse, because
# Debian has no static libfuse3.
# Exits 1 if any package could not be fetched or built; the others still are.
set -euo pipefail

dest=${1:-/opt/peers}
suite=${2:-sid}
packages=("${@:3}")
((${#packages[@]})) || packages=(squashfs-tools erofs-utils)
jobs=${JOBS:-2}
static=${STATIC:-}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

build_deps=(
    build-essential dpkg-dev pkg-config autoconf automake libtool
    zlib1g-dev liblzma-dev liblzo2-dev liblz4-dev libzstd-dev libdeflate-dev
    libattr1-dev libselinux1-dev uuid-dev libfuse3-dev
)

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'build-peers: %s\n' "$*" >&2; exit 1; }

for p in "${packages[@]}"; do
    case $p in
    squashfs-tools | squashfs-tools-ng | erofs-utils | squashfuse) ;;
    *) die "unknown package: $p" ;;
    esac
done

mkdir -p "$dest/bin" "$dest/src"
dest=$(realpath "$dest")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- build dependencies: only what is missing, nothing upgraded ------------
missing=()
for p in "${build_deps[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null) == installed ]] ||
        missing+=("$p")
done
if ((${#missing[@]})); then
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-upgrade \
        --no-install-recommends "${missing[@]}"
fi

# --- a private apt state holding only SUITE's source index -----------------
# The mirror is the one this system's own release comes from.
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=${MIRROR:-$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' |
    awk -v c="$codename" '!u && $1 == c && $2 == "main" { u = $3 } END { print u }')}
[[ $mirror ]] || die "no Debian mirror found in the apt sources; set MIRROR"
mkdir -p "$work"/{lists,cache/archives}/partial "$work"/parts
echo "deb-src [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
apt_opts=(
    -o Dir::Etc::SourceList="$work/sources.list"
    -o Dir::Etc::SourceParts="$work/parts"
    -o Dir::State::Lists="$work/lists"
    -o Dir::Cache="$work/cache"
    -o APT::Sandbox::User=root
    -o APT::Default-Release=
)
say "source index of $suite from $mirror"
apt-get "${apt_opts[@]}" update -qq

# Newest version of source package $1 in SUITE.
newest() {
    apt-cache "${apt_opts[@]}" showsrc --only-source "$1" |
        sed -n 's/^Version: //p' | sort -V | tail -n1
}

# Download source package $1 version $2 (apt checks it against the signed
# index) and unpack it, Debian's patches applied, to $work/$1.
unpack() {
    (cd "$dest/src" &&
        apt-get "${apt_opts[@]}" source -qq --download-only --only-source "$1=$2") || return 1
    rm -rf "${work:?}/$1"
    dpkg-source --no-check -x "$dest/src/$1_${2#*:}.dsc" "$work/$1" >/dev/null
}

# Each build runs with the unpacked source as its directory.
build_squashfs-tools() {
    # Same codec set as Debian's package (LZMA_XZ: the legacy lzma format).
    # CFLAGS goes in the environment: the Makefile appends to it.
    CFLAGS="-O2 -fgnu89-inline" make -C squashfs-tools -j"$jobs" \
        GZIP_SUPPORT=1 XZ_SUPPORT=1 LZO_SUPPORT=1 LZ4_SUPPORT=1 ZSTD_SUPPORT=1 \
        LZMA_XZ_SUPPORT=1 XATTR_SUPPORT=1 ${static:+LDFLAGS=-static} mksquashfs unsquashfs
    install -m755 squashfs-tools/{mksquashfs,unsquashfs} "$dest/bin/"
    # The other two are the same programs under another name.
    ln -sf mksquashfs "$dest/bin/sqfstar"
    ln -sf unsquashfs "$dest/bin/sqfscat"
}

build_squashfs-tools-ng() {
    [[ -e configure ]] || autoreconf -fi
    ./configure --prefix="$dest" --disable-shared --enable-static --without-selinux CFLAGS=-O2
    # libtool alone understands -all-static, which leaves no library to be found at run time.
    make -j"$jobs" ${static:+LDFLAGS=-all-static}
    install -m755 bin/{tar2sqfs,sqfs2tar,gensquashfs,rdsquashfs,sqfsdiff} "$dest/bin/" 2>/dev/null ||
        install -m755 tar2sqfs sqfs2tar gensquashfs rdsquashfs sqfsdiff "$dest/bin/"
}

build_erofs-utils() {
    # Compressors, threads and FUSE only: no network inputs, no ublk. SELinux and FUSE have no static libraries.
    local optional=(--with-selinux --enable-fuse)
    [[ ! $static ]] || optional=(--without-selinux --disable-fuse)
    autoreconf -fi
    ./configure --prefix="$dest" --disable-shared --enable-static \
        --enable-lz4 --enable-lzma --enable-multithreading \
        --with-zlib --with-libdeflate --with-libzstd --with-uuid \
        --without-xxhash --without-libcurl --without-openssl --without-libxml2 \
        --without-json-c --without-libnl3 --without-qpl "${optional[@]}" \
        CFLAGS=-O2
    make -j"$jobs" ${static:+LDFLAGS=-all-static}
    install -m755 mkfs/mkfs.erofs fsck/fsck.erofs dump/dump.erofs "$dest/bin/"
    [[ $static ]] || install -m755 fuse/erofsfuse "$dest/bin/"
}

build_squashfuse() {
    autoreconf -fi
    ./configure --prefix="$dest" --disable-shared --enable-static CFLAGS=-O2
    make -j"$jobs"
    # Programs of its own, not scripts that set up libtool.
    install -m755 squashfuse squashfuse_ll "$dest/bin/"
}

declare -A programs=(
    [squashfs-tools]="mksquashfs unsquashfs sqfstar sqfscat"
    [squashfs-tools-ng]="tar2sqfs sqfs2tar gensquashfs rdsquashfs sqfsdiff"
    [erofs-utils]="mkfs.erofs fsck.erofs dump.erofs erofsfuse"
    [squashfuse]="squashfuse squashfuse_ll"
)

# VERSIONS has a line per program: "program: version (source package, suite)".
record() {
    local pkg=$1 version=$2 upstream=${2#*:} program
    upstream=${upstream%-*}
    touch "$dest/VERSIONS"
    {
        grep -v "($pkg " "$dest/VERSIONS" || true
        for program in ${programs[$pkg]}; do
            echo "$program: $upstream ($pkg $version, $suite)"
        done
    } | sort >"$work/VERSIONS"
    cp "$work/VERSIONS" "$dest/VERSIONS"
}

# A child shell per build, so that its errors stop it and not the others.
export dest jobs static
failed=()
for p in "${packages[@]}"; do
    version=$(newest "$p")
    if [[ -z $version ]]; then say "$p: not in $suite"; failed+=("$p"); continue; fi
    say "$p $version"
    if ! unpack "$p" "$version"; then
        say "$p: the mirror does not serve its source"; failed+=("$p"); continue
    fi
    log=$dest/src/$p.log
    if (cd "$work/$p" && bash -euo pipefail -c "$(declare -f "build_$p"); build_$p") >"$log" 2>&1; then
        record "$p" "$version"
    else
        say "$p: build failed, see $log"; failed+=("$p")
    fi
done

[[ ! -e $dest/VERSIONS ]] || cat "$dest/VERSIONS" >&2
((${#failed[@]} == 0)) || die "not built: ${failed[*]}"
