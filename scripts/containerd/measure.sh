#!/bin/bash
# The measurement of scripts/test-containerd.sh --time, in namespaces of its own: measure.sh WORK TOOLS PACKFS NAMESPACE [ROUNDS]
#
# Converts a ten-layer image by `packfs oci convert` and by `ctr images convert`, which runs the mkfs.erofs in TOOLS, in turn.
# Both read the same layers, compressed by gzip, and write files that nothing else refers to. Prints a table.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
work=$1
tools=$2
packfs=$3
namespace=$4
rounds=${5:-5}
source scripts/needs.sh
source scripts/containerd/image.sh
source scripts/containerd/daemons.sh
prepare_namespaces

# Prints the processor time of containerd, and of all commands that this script has waited for.
processor_seconds() {
    awk -v ticks="$(getconf CLK_TCK)" '{ sum += FILENAME ~ own ? $16 + $17 : $14 + $15 + $16 + $17 }
        END { printf "%.2f", sum / ticks }' own="/proc/$$/" "/proc/$$/stat" "/proc/$containerd_process/stat"
}

# timed FILE COMMAND...: adds a line to a file: how long a command takes, and how much processor time.
timed() {
    local begun=$EPOCHREALTIME
    local before
    before=$(processor_seconds)
    "${@:2}" >>"$work/measured.log" 2>&1
    echo "$begun $EPOCHREALTIME $before $(processor_seconds)" | awk '{ printf "%.2f %.2f\n", $2 - $1, $4 - $3 }' >>"$1"
}

# median FILE COLUMN: prints the median of a column of numbers, and their range.
median() {
    awk -v column="$2" '{ print $column }' "$1" | sort -n | awk '{ value[NR] = $1 } END {
        middle = NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2
        printf "%.2f (%.2f to %.2f)\n", middle, value[1], value[NR] }'
}

# megabytes BYTES
megabytes() {
    awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1e6 }'
}

# Deletes the image that containerd converted, and all contents that only it needed.
forget_converted() {
    "${ctr[@]}" images rm --sync converted >/dev/null 2>&1 || true
    local left
    left=$("${ctr[@]}" content ls -q 2>/dev/null | wc -l)
    if [[ $left != "$contents" ]]; then
        say "containerd still has $left contents, and not $contents"
        return 1
    fi
}

# What containerd has converted, in bytes of layers.
converted_by_ctr() {
    local manifest
    manifest=$("${ctr[@]}" images ls 2>/dev/null | awk '$1 == "converted" { print $3 }')
    "${ctr[@]}" content get "$manifest" 2>/dev/null | jq '[.layers[].size] | add'
}

# compare NAME CTR_OPTION... -- PACKFS_OPTION...
compare() {
    local name=$1
    local ctr_options=()
    local round
    local theirs
    local ours
    shift
    while [[ $1 != -- ]]; do
        ctr_options+=("$1")
        shift
    done
    shift
    : >"$work/ours"
    : >"$work/theirs"
    for ((round = 0; round < rounds; round++)); do
        rm -rf "$work/converted"
        sync
        timed "$work/ours" "$packfs" oci convert "$work/layout" "$work/converted" -q "$@"
        forget_converted
        sync
        timed "$work/theirs" "${ctr[@]}" images convert --erofs raw "${ctr_options[@]}" image converted
    done
    ours=$(jq '[.manifests[0].digest] | .[0]' -r "$work/converted/index.json")
    ours=$(jq '[.layers[].size] | add' "$work/converted/blobs/sha256/${ours#sha256:}")
    theirs=$(converted_by_ctr)
    paste "$work/ours" "$work/theirs" | awk '{ print $1 / $3, $2 / $4 }' >"$work/ratios"
    echo "| $name | $(median "$work/ours" 1) | $(median "$work/theirs" 1) | $(median "$work/ratios" 1) |" \
        "$(median "$work/ratios" 2) | $(megabytes "$ours") | $(megabytes "$theirs") |"
}

run_logged "$work/image.log" make_debian_image "$work/layout" &
ended_well $! "$work/image.log"
grep '^layer' "$work/image.log" >&2
mkdir "$work/mkfs"
ln -s "$tools/mkfs.erofs" "$work/mkfs/"
# `ctr images convert` runs mkfs.erofs itself.
PATH=$work/mkfs:$PATH
start_containerd "$work/containerd" erofs "$work/mkfs"
tar -C "$work/layout" -cf "$work/layout.tar" .
{
    "${ctr[@]}" images import --local --no-unpack --base-name image "$work/layout.tar"
    "${ctr[@]}" images tag image:v1 image
    # Deletes what no image needs: the archive's own index.
    "${ctr[@]}" images rm --sync image:v1
    contents=$("${ctr[@]}" content ls -q | wc -l)
} >"$work/import.log" 2>&1
rm "$work/layout.tar"

echo "$("$packfs" --version); containerd 2.4.2; $("$tools/mkfs.erofs" -V 2>&1 | head -n 1); $(nproc) processors;" \
    "load before: $(cut -d ' ' -f 1-3 /proc/loadavg)"
echo "$(jq '[.layers[].size] | add' "$work"/layout/blobs/sha256/"$(jq -r '.manifests[0].digest' "$work/layout/index.json" |
    cut -d : -f 2)" | awk '{ printf "%.1f", $1 / 1e6 }') MB of layers compressed by gzip; $rounds rounds; medians and ranges"
echo "| layers | packfs, s | containerd, s | ratio | ratio of processor time | packfs, MB | containerd, MB |"
echo "|---|--:|--:|--:|--:|--:|--:|"
compare "not compressed" -- --codec none
compare "zstd:3, clusters of 64 KiB" --erofs-compressors zstd,3 -- --codec zstd:3 --target-kernel 6.12 --block-size 64K
compare "lz4hc:9, clusters of 64 KiB" --erofs-compressors lz4hc,9 -- --codec lz4hc:9 --block-size 64K
echo "load after: $(cut -d ' ' -f 1-3 /proc/loadavg)"
stop_containerd
