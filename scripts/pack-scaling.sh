#!/bin/bash
# Packs all that scripts/measure-scaling.py needs into one directory, for a machine without a network: static packfs and
# peers, and the script itself.
#
#   usage: pack-scaling.sh DEST [PEERS]
#
# PEERS is the bin folder of STATIC=1 scripts/build-peers.sh (built into DEST/peers if not given). A peer that is not there
# is taken from PATH with its libraries; one that is nowhere is said to be missing. Then, on the other machine:
#
#   DEST/measure-scaling.py --programs DEST/bin --out RESULTS --seconds 420
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
need_rust
dest=$(realpath -m "$1")
target=x86_64-unknown-linux-gnu
mkdir -p "$dest/bin" "$dest/lib"

peers=${2:-}
if [[ ! $peers ]]; then
    # What cannot be built is taken from PATH below.
    STATIC=1 scripts/build-peers.sh "$dest/peers" sid squashfs-tools squashfs-tools-ng erofs-utils || true
    peers=$dest/peers/bin
fi

# A target directory of its own: other flags would make cargo build everything anew each time.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target/static}
RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked -p packfs --target "$target"
strip -o "$dest/bin/packfs" "$CARGO_TARGET_DIR/$target/release/packfs"

# carry PROGRAM: with its libraries and the loader, behind a script that starts it.
carry() {
    local program
    program=$(command -v "$1") || { say "$1 is missing: its rows will be, too"; return; }
    cp -L "$program" "$dest/lib/$1"
    ldd "$program" | grep -o '/[^ ]*' | xargs -I{} cp -nL {} "$dest/lib/"
    printf '#!/bin/sh\nlib=$(dirname "$0")/../lib\nexec "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$lib/%s" "$@"\n' \
        "$1" >"$dest/bin/$1"
    chmod +x "$dest/bin/$1"
}

for program in mksquashfs unsquashfs tar2sqfs sqfs2tar mkfs.erofs fsck.erofs; do
    if [[ -x $peers/$program ]] && ! ldd "$peers/$program" >/dev/null 2>&1; then
        cp -L "$peers/$program" "$dest/bin/$program"
    else
        carry "$program"
    fi
done
cp scripts/measure-scaling.py "$dest/"
du -sh "$dest" | sed 's/^/packed: /' >&2
