#!/bin/bash
# Compiles packfs for other machines and systems, and tests it there: scripts/other-targets.sh [check|x86|arm64]
#
# check: what reads images compiles for Windows and macOS. x86: the libraries pass their tests on x86 of 32 bits. arm64: the
# program makes and reads images in QEMU, the same bytes as here. Without a word, all three: half an hour if nothing is
# compiled yet, most of it for three standard libraries and the program.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh

check() {
    local target
    for target in x86_64-pc-windows-msvc aarch64-apple-darwin; do
        scripts/target-cargo.sh $target check --quiet --locked -p packfs-image --no-default-features --features rust-only
        say "$target: the reading libraries compile"
    done
}

# Without tests that mount: they take most of the time, and what they test does not depend on the machine.
x86() {
    scripts/target-cargo.sh i686-unknown-linux-gnu test --quiet --locked --no-fail-fast --lib -p packfs-codec -p packfs-blocks \
        -p packfs-tree -p packfs-source -p packfs-image -- --skip mount --skip on_the_kernel
}

arm64() {
    local target=aarch64-unknown-linux-gnu work codec name
    scripts/target-cargo.sh $target build --quiet --locked -p packfs
    cargo build --quiet --locked -p packfs
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    foreign() {
        qemu-aarch64-static -L /usr/aarch64-linux-gnu "${CARGO_TARGET_DIR:-target/other}/$target/debug/packfs" "$@"
    }
    native() { "${CARGO_TARGET_DIR:-target}/debug/packfs" "$@"; }
    for codec in none gzip xz lzo lz4 lz4hc zstd:3 zstd:15 erofs.none erofs.lz4 erofs.lz4hc erofs.lzma erofs.deflate \
        erofs.zstd:3 erofs.zstd:15; do
        local options=(--format squashfs --codec "$codec")
        [[ $codec != erofs.* ]] || options=(--format erofs --target-kernel 6.12 --codec "${codec#erofs.}")
        name=$work/${codec/:/-}
        foreign build --quiet "${options[@]}" docs -o "$name.there"
        native build --quiet "${options[@]}" docs -o "$name.here"
        cmp "$name.there" "$name.here"
        foreign check --quiet "$name.here" --against docs
    done
    foreign extract --quiet "$work/xz.here" -C "$work/tree"
    diff -r docs "$work/tree"
    foreign tar "$work/erofs.lzma.here" | tar -C "$work" -t >/dev/null
    say "$target: images have the same bytes as here, and are read"
}

case ${1-all} in
all)
    # One a line: in a list with &&, bash would go on after a failure.
    check
    x86
    arm64
    ;;
check | x86 | arm64) "$1" ;;
*) say "$1: check, x86 or arm64" && exit 2 ;;
esac
