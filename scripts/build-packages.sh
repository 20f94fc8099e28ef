#!/bin/bash
# Builds what a release offers beside the crates: a static program with its pages, completions, JSON Schemas and licences,
# as a tarball and as a .deb, its debug information, the list of its components, and checksums. From the same program the
# same commit makes the same bytes. Takes some minutes. Usage: scripts/build-packages.sh [DIRECTORY [MACHINE]]
#
# MACHINE is x86_64 or aarch64. Programs for another machine than this one are compiled by scripts/target-cargo.sh, and run
# in QEMU to write their own pages.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
place=$(realpath -m "${1:-target/packages}")
machine=${2:-$(uname -m)}
target=$machine-unknown-linux-gnu
case $machine in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) say "$machine: packages are for x86_64 and aarch64" && exit 2 ;;
esac
build=${CARGO_TARGET_DIR:-target/other}/$target/release/packfs
# Debian names a compiler's programs after the machine.
tools=$machine-linux-gnu
libc=libc6
if [[ $machine != "$(uname -m)" ]]; then
    libc=libc6-$architecture-cross
    need "gcc-$machine-linux-gnu" "$tools-strip"
fi

need_rust
need binutils objcopy strip readelf
need xz-utils xz
need dpkg dpkg-deb
need python3 python3
install_missing

# The C library adds a megabyte. Packed relocations, equal functions stored once and optimising the whole program as one
# unit, which takes some minutes, take it away again. No path of this machine gets into messages.
RUSTFLAGS="-C target-feature=+crt-static"
RUSTFLAGS+=" --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/registry --remap-path-prefix=$PWD=/packfs"
# The linker of Debian's cross compiler knows neither.
[[ $libc != libc6 ]] || RUSTFLAGS+=" -C link-arg=-Wl,-z,pack-relative-relocs,--icf=all"
CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 RUSTFLAGS=$RUSTFLAGS \
    scripts/target-cargo.sh "$target" build --quiet --release --locked -p packfs

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
name=packfs-$version-$machine-linux
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
rm -rf "$place"
mkdir -p "$place"

# archive NAME: packs the directory NAME.
archive() {
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$1" |
        xz -9 --threads=1 >"$place/$1.tar.xz"
}

# Debuggers find the information by the build ID, or by the name in the program.
id=$(readelf --notes "$build" | sed -n 's/.*Build ID: //p')
debug=$name-debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
mkdir -p "$(dirname "$work/$debug")"
"$tools-objcopy" --only-keep-debug --compress-debug-sections "$build" "$work/$debug"
archive "$name-debug"

# The tree has the places below a prefix such as /usr/local.
root=$work/$name
share=$root/share
mkdir -p "$root/bin" "$share/doc/packfs" "$share/bash-completion/completions" "$share/zsh/site-functions" \
    "$share/fish/vendor_completions.d" "$share/packfs/schemas"
"$tools-strip" --strip-all --remove-section=.comment -o "$root/bin/packfs" "$build"
"$tools-objcopy" --add-gnu-debuglink="$work/$debug" "$root/bin/packfs"
program=$root/bin/packfs
if [[ $libc != libc6 ]]; then
    program=$work/run-packfs
    printf '#!/bin/sh\nexec qemu-%s-static "%s" "$@"\n' "$machine" "$root/bin/packfs" >"$program"
    chmod +x "$program"
fi
"$program" man --dir "$share/man/man1"
"$program" completions bash >"$share/bash-completion/completions/packfs"
"$program" completions zsh >"$share/zsh/site-functions/_packfs"
"$program" completions fish >"$share/fish/vendor_completions.d/packfs.fish"
for schema in $("$program" help json-schema); do
    "$program" help json-schema "$schema" >"$share/packfs/schemas/$schema.schema.json"
done
cp LICENSE-MIT LICENSE-APACHE "$share/doc/packfs"
PACKFS=$program scripts/site.sh "$share/doc/packfs/html"
# Pages and pictures that they link to are in the manual beside them.
for page in README.md CHANGELOG.md; do
    scripts/site/stage.py --for-package "$page" >"$share/doc/packfs/$page"
done
{
    python3 scripts/packaging/components.py notices
    cat scripts/site/notices
} >"$share/doc/packfs/THIRD-PARTY"
archive "$name"

scripts/packaging/deb.sh "$root" "$version" "$place" "$architecture" "$libc" "$program"
python3 scripts/packaging/components.py sbom >"$place/packfs-$version.cdx.json"
(cd "$place" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
size=$(stat -c %s "$root/bin/packfs")
[[ $machine != x86_64 ]] || ((size < 13000000)) || { say "the program has $size bytes: 13 MB is the limit (docs/decisions/0044-program-size.md)"; exit 1; }
say "$place: the program has $size bytes"
