#!/bin/bash
# The full run of docs/design/full-run.md: scripts/bench-full.sh DATA PEERS RESULTS
# Measures codecs, builds, reading and splitting with `packfs bench`, as root, in about 50 minutes on two processors.
# DATA is the directory of bench-data.py, with silesia9 (nine files of the Silesia corpus) in it; PEERS is the bin folder
# of build-peers.sh. Results go to RESULTS, one file for each kind. Run it again to continue an interrupted run.
set -euo pipefail

data=$(realpath "$1") peers=$(realpath "$2")
packfs=$(realpath "${PACKFS:-$(dirname "$0")/../target/release/packfs}")
mkdir -p "$3"
cd "$3"

bench() {
    local kind=$1
    shift
    echo "== packfs bench $kind $*"
    "$packfs" bench "$kind" "$@" --resume --output "$kind.jsonl" > "$kind.last.txt" || echo "some of it was left out"
}

codecs() {
    bench codecs --data "$data/silesia9" --blocks 4K..1M --sample 4M --runs 3
    bench codecs --data "$data/debroot" --blocks 4K,16K,128K,1M --sample 4M --runs 3
    # Do threads get in each other's way? Codecs that take little time, in one session and once more in another.
    quick=memcpy,lz4,snappy,zstd:1,zstd:3,gzip:6,zlib:6
    bench codecs --data "$data/silesia9" --codecs $quick --blocks 128K --sample 32M --jobs 1,2 --runs 5
    bench codecs --data "$data/silesia9" --codecs $quick --blocks 128K --sample 32M --jobs 1,2 --runs 5 --seed 2
}

build() {
    bench build "$data/debroot" --formats squashfs --codecs gzip,lz4,zstd:3,none --peers="$peers" --runs 3
    bench build "$data/debroot" --formats erofs --codecs lz4,zstd:3,none --peers="$peers" --runs 3
    # What takes minutes, once.
    bench build "$data/debroot" --formats squashfs --codecs xz,lzo,zstd --jobs 1,2 --features fragments+dedupe \
        --peers="$peers" --runs 1
    bench build "$data/debroot" --formats erofs --codecs lz4hc:12 --blocks 4K,16K,64K,128K --jobs 2 \
        --features fragments+dedupe --peers="$peers" --runs 1
}

read_back() {
    bench read --matrix "$data/debroot" --codecs lz4hc:12 --blocks 4K,16K,64K,128K --peers="$peers" --scratch /dev/shm \
        --runs 3
    bench read --matrix "$data/debroot" --codecs none --blocks 128K --peers="$peers" --scratch /dev/shm --runs 3
}

split() {
    bench split --scratch /dev/shm --runs 3
}

for kind in codecs build read_back split; do
    $kind
done
"$packfs" bench report {codecs,build,read,split}.jsonl --output report.html --md report.md --force
ls -l report.html ./*.jsonl
