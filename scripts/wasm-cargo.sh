#!/bin/bash
# Runs cargo for WebAssembly: scripts/wasm-cargo.sh COMMAND [OPTION...], for example build --release -p packfs-wasm
#
# Takes the Rust in use if it has the target wasm32-unknown-unknown (rustup target add wasm32-unknown-unknown). Otherwise,
# on Debian, fetches the Rust that Debian builds browsers with into target/tools/wasm, without installing it, and compiles
# its standard library once, which takes two minutes. Status 3: neither can be had.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
need_rust

target=wasm32-unknown-unknown
at=$PWD/target/tools/wasm
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/wasm}

if [[ -d $(rustc --print target-libdir --target $target 2>/dev/null) ]]; then
    exec cargo "$@" --target $target
fi

# names PACKAGE...: what has to be fetched for these packages beside what is installed. apt decides, and installs nothing.
names() {
    apt-get --simulate --yes --no-install-recommends install "$@" | awk '/^Inst/ { print $2 }'
}

fetch() {
    local llvm work=$at/fetch
    rm -rf "$work" && mkdir -p "$work"
    [[ -n $(apt-cache madison rustc-web 2>/dev/null) ]] || apt-get update -qq
    # The linker has to be of the LLVM that the compiler has.
    llvm=$(names rustc-web cargo-web | sed -n 's/^libllvm\([0-9]*\)$/\1/p')
    # The package's scripts are not run: it lies beside the Rust in use and is found by nobody else.
    (cd "$work" && names rustc-web cargo-web rust-web-src "lld-$llvm" | xargs apt-get download -qq)
    local package
    for package in "$work"/*.deb; do
        dpkg-deb --extract "$package" "$at/root"
    done
    rm -rf "$work"
    ln -sf "wasm-ld-$llvm" "$at/root/usr/bin/wasm-ld"
}

# Compiles the standard library where the compiler looks for it.
build_std() {
    local work=$at/std lib=$at/root/usr/lib/rustlib/$target/lib
    rm -rf "$work" && mkdir -p "$work/src" "$lib"
    printf '[package]\nname = "nothing"\nedition = "2021"\n[workspace]\n' >"$work/Cargo.toml"
    echo '#![no_std]' >"$work/src/lib.rs"
    # Only the compiler's own build may use what is unstable.
    (cd "$work" && RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$work/target "$CARGO" build --quiet --release \
        -Zbuild-std=std,panic_abort --target $target)
    cp "$work/target/$target/release/deps/"*.rlib "$lib"
    rm -f "$lib"/libnothing-*
    rm -rf "$work"
}

if [[ ! -e $at/ready ]]; then
    if ! command -v apt-get >/dev/null || ! fetch; then
        say "no Rust for $target: rustup target add $target"
        exit 3
    fi
fi
export LD_LIBRARY_PATH=$at/root/usr/lib/x86_64-linux-gnu RUSTC=$at/root/usr/bin/rustc CARGO=$at/root/usr/bin/cargo
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$at/root/usr/bin/wasm-ld
[[ -e $at/ready ]] || { build_std && touch "$at/ready"; }
exec "$CARGO" "$@" --target $target
