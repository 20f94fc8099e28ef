#!/bin/bash
# Builds what a release offers beside the crates: a static program with its pages, completions, JSON Schemas and licences,
# as a tarball and as a .deb, its debug information, the list of its components, and checksums. From the same program the
# same commit makes the same bytes. Takes some minutes. Usage: scripts/build-packages.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
place=$(realpath -m "${1:-target/packages}")
target=x86_64-unknown-linux-gnu
build=${CARGO_TARGET_DIR:-target}/$target/release/packfs

need_rust
need binutils objcopy strip readelf
need xz-utils xz
need dpkg dpkg-deb
need python3 python3
install_missing

# The C library adds a megabyte. Packed relocations, equal functions stored once and optimising the whole program as one
# unit, which takes some minutes, take it away again. No path of this machine gets into messages.
CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs,--icf=all" \
RUSTFLAGS+=" --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/registry --remap-path-prefix=$PWD=/packfs" \
    cargo build --quiet --release --locked -p packfs --target $target

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
name=packfs-$version-x86_64-linux
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
objcopy --only-keep-debug --compress-debug-sections "$build" "$work/$debug"
archive "$name-debug"

# The tree has the places below a prefix such as /usr/local.
root=$work/$name
share=$root/share
mkdir -p "$root/bin" "$share/doc/packfs" "$share/bash-completion/completions" "$share/zsh/site-functions" \
    "$share/fish/vendor_completions.d" "$share/packfs/schemas"
strip --strip-all --remove-section=.comment -o "$root/bin/packfs" "$build"
objcopy --add-gnu-debuglink="$work/$debug" "$root/bin/packfs"
"$root/bin/packfs" man --dir "$share/man/man1"
"$root/bin/packfs" completions bash >"$share/bash-completion/completions/packfs"
"$root/bin/packfs" completions zsh >"$share/zsh/site-functions/_packfs"
"$root/bin/packfs" completions fish >"$share/fish/vendor_completions.d/packfs.fish"
for schema in $("$root/bin/packfs" help json-schema); do
    "$root/bin/packfs" help json-schema "$schema" >"$share/packfs/schemas/$schema.schema.json"
done
cp LICENSE-MIT LICENSE-APACHE "$share/doc/packfs"
PACKFS=$root/bin/packfs scripts/site.sh "$share/doc/packfs/html"
# Pages and pictures that they link to are in the manual beside them.
for page in README.md CHANGELOG.md; do
    scripts/site/stage.py --for-package "$page" >"$share/doc/packfs/$page"
done
{
    python3 scripts/packaging/components.py notices
    cat scripts/site/notices
} >"$share/doc/packfs/THIRD-PARTY"
archive "$name"

scripts/packaging/deb.sh "$root" "$version" "$place"
python3 scripts/packaging/components.py sbom >"$place/packfs-$version.cdx.json"
(cd "$place" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
size=$(stat -c %s "$root/bin/packfs")
((size < 13000000)) || { say "the program has $size bytes: 13 MB is the limit (docs/decisions/0044-program-size.md)"; exit 1; }
say "$place: the program has $size bytes"
