#!/bin/bash
# Runs cargo for another target: scripts/target-cargo.sh TARGET COMMAND [OPTION...], for example
# scripts/target-cargo.sh wasm32-unknown-unknown build --release -p packfs-wasm
# With "exec" for a command, it runs a program that calls cargo itself: scripts/target-cargo.sh TARGET exec PROGRAM [OPTION...]
#
# Takes the Rust in use if it has the target (rustup target add TARGET). Otherwise, on Debian, fetches the Rust that Debian
# builds browsers with into target/tools/rust, without installing it, and compiles its standard library for the target
# once, which takes two minutes. Status 3: neither can be had.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
need_rust

target=$1
shift
at=$PWD/target/tools/rust
# It is there if the standard library is, with bitcode.
std=$at/bitcode-$target
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/other}

# Debian's cross compilers have the names of their targets; their C libraries lie where no other program looks.
case $target in
aarch64-unknown-linux-gnu)
    need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
    need qemu-user-static qemu-aarch64-static
    [[ -e /usr/aarch64-linux-gnu/include/limits.h ]] || missing+=(libc6-dev-arm64-cross)
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
    ;;
i686-unknown-linux-gnu)
    need gcc-i686-linux-gnu i686-linux-gnu-gcc
    [[ -e /usr/i686-linux-gnu/include/limits.h ]] || missing+=(libc6-dev-i386-cross)
    export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=i686-linux-gnu-gcc
    # This machine's kernel runs such programs, but has no loader for them.
    export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static"
    ;;
x86_64-unknown-linux-musl)
    # Only for C: linked by it, Rust's programs, which are position-independent and static, crash where they start.
    need musl-tools musl-gcc
    need gcc gcc
    ;;
esac
install_missing || exit 3

# Programs that call cargo are told the target in their own way.
run() {
    [[ $1 != exec ]] || exec "${@:2}"
    exec "${CARGO:-cargo}" "$1" --target "$target" "${@:2}"
}

if [[ -d $(rustc --print target-libdir --target "$target" 2>/dev/null) ]]; then
    run "$@"
fi

# names PACKAGE...: what has to be fetched for these packages beside what is installed. apt decides, and installs nothing.
names() {
    apt-get --simulate --yes --no-install-recommends install "$@" | awk '/^Inst/ { print $2 }'
}

# Each step says that it failed: in a condition, bash would go on after one, and a half of a compiler is none.
fetch() {
    local llvm work=$at/fetch
    rm -rf "$at" && mkdir -p "$work" || return
    [[ -n $(apt-cache madison rustc-web 2>/dev/null) ]] || apt-get update -qq || return
    # The linker has to be of the LLVM that the compiler has.
    llvm=$(names rustc-web cargo-web | sed -n 's/^libllvm\([0-9]*\)$/\1/p')
    # The package's scripts are not run: it lies beside the Rust in use and is found by nobody else.
    (cd "$work" && names rustc-web cargo-web rust-web-src "lld-$llvm" | xargs apt-get -o APT::Sandbox::User=root download -qq) || return
    local package
    for package in "$work"/*.deb; do
        dpkg-deb --extract "$package" "$at/root" || return
    done
    rm -rf "$work"
    ln -sf "wasm-ld-$llvm" "$at/root/usr/bin/wasm-ld" && touch "$at/fetched"
}

# Compiles the standard library where the compiler looks for it.
build_std() {
    local work=$at/std-$target lib=$at/root/usr/lib/rustlib/$target/lib
    rm -rf "$work" && mkdir -p "$work/src" "$lib"
    printf '[package]\nname = "nothing"\nedition = "2021"\n[workspace]\n' >"$work/Cargo.toml"
    echo '#![no_std]' >"$work/src/lib.rs"
    # Programs that a panic ends are linked with this crate only if it is compiled as they are.
    cat >"$work/rustc" <<'END'
#!/bin/bash
[[ " $* " != *" --crate-name panic_abort "* ]] || set -- "$@" -C panic=abort
# Programs and libraries that are optimised as a whole need what cargo leaves out.
exec "$@" -C embed-bitcode=yes
END
    chmod +x "$work/rustc"
    # Only the compiler's own build may use what is unstable. How the caller optimises its program is no matter here.
    (cd "$work" && CARGO_PROFILE_RELEASE_LTO=false RUSTC_BOOTSTRAP=1 RUSTC_WRAPPER=$work/rustc CARGO_TARGET_DIR=$work/target \
        "$CARGO" build --quiet --release "-Zbuild-std=std,panic_abort,test" --target "$target")
    # Two libraries of one name, with different hashes, are as bad as none.
    rm -f "$lib"/*.rlib
    cp "$work/target/$target/release/deps/"*.rlib "$lib"
    rm "$lib"/libnothing-*
    # What was compiled with an earlier one does not fit this one.
    rm -rf "$work" "${CARGO_TARGET_DIR:?}/$target"
    touch "$std"
}

# Adds what Rust's own musl target has beside the standard library: the objects and libraries that programs are linked with.
add_musl() {
    local work=$at/musl lib=$at/root/usr/lib/rustlib/$target/lib/self-contained object
    rm -rf "$work" && mkdir -p "$work" "$lib"
    cp /usr/lib/x86_64-linux-musl/{crt1,rcrt1,Scrt1,crti,crtn}.o /usr/lib/x86_64-linux-musl/libc.a "$lib"
    for object in crtbegin.o crtbeginS.o crtend.o crtendS.o; do
        cp "$(gcc -print-file-name="$object")" "$lib"
    done
    # GCC's unwinder calls much of glibc. LLVM's calls one function that musl lacks, to say that it fails.
    (cd "$work" && apt-get -o APT::Sandbox::User=root download -qq libunwind-19-dev)
    dpkg-deb --extract "$work"/*.deb "$work"
    cp "$work/usr/lib/llvm-19/lib/libunwind.a" "$lib"
    cat >"$work/fprintf_chk.c" <<'END'
#include <stdarg.h>
#include <stdio.h>

int __fprintf_chk(FILE *stream, int level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vfprintf(stream, format, arguments);
    va_end(arguments);
    return written;
}
END
    musl-gcc -O2 -fPIC -c "$work/fprintf_chk.c" -o "$work/fprintf_chk.o"
    ar r "$lib/libunwind.a" "$work/fprintf_chk.o" 2>/dev/null
    rm -rf "$work"
}

if [[ ! -e $at/fetched ]]; then
    if ! command -v apt-get >/dev/null || ! fetch; then
        say "no Rust for $target: rustup target add $target"
        exit 3
    fi
fi
export LD_LIBRARY_PATH=$at/root/usr/lib/x86_64-linux-gnu RUSTC=$at/root/usr/bin/rustc CARGO=$at/root/usr/bin/cargo
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$at/root/usr/bin/wasm-ld
if [[ ! -e $std ]]; then
    [[ $target != *-musl ]] || add_musl
    build_std
fi
run "$@"
