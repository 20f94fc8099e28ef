#!/bin/bash
# Runs the fuzz targets, guided by coverage, on the stable compiler: scripts/fuzz.sh [TARGET [AMOUNT]]
#
#   TARGET  one of fuzz/fuzz_targets, or `all`, one after the other (the default)
#   AMOUNT  seconds for each (the default is 60), or executions, as in 1000000x; 0x only runs the corpus.
#           `minimise` copies the fewest and shortest inputs that reach the same code to target/fuzz/kept-TARGET
#
# FUZZ_CODEC=lz4hc:12, for example, has codec_encode try that codec alone, FUZZ_LEN=1024 only inputs up to that length.
#
# With the same FUZZ_SEED (a number) and the same initial inputs, a run tries much the same inputs. What hash tables and
# threads reach differs from run to run, and with it which inputs are kept and changed.
#
# New inputs stay in target/fuzz/TARGET, where the next run begins. An input that breaks something is written to
# target/fuzz/found-TARGET-* and printed in base64, as another run may not find it, and the script fails.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
need_rust
need build-essential c++
install_missing

target=${1:-all}
amount=${2:-60}
built=target/fuzz/release
mkdir -p target/fuzz

RUSTC_WRAPPER=$PWD/scripts/fuzz-rustc.sh CARGO_TARGET_DIR=target/fuzz \
    cargo build --quiet --locked --release --manifest-path fuzz/Cargo.toml

# Longest inputs. Longer ones find little that shorter do not, and take their time.
longest() {
    case ${FUZZ_LEN:-$1} in
    [0-9]*) echo "$FUZZ_LEN" ;;
    dump_part) echo 16384 ;;
    erofs_image) echo 8192 ;;
    pack_list | two_formats | tar_peer) echo 1024 ;;
    *) echo 4096 ;;
    esac
}

fuzz() {
    local name=$1 options=()
    if [[ $name == pack_list && $(id -u) != 0 ]]; then
        echo "SKIPPED $name: it leaves the system's files behind by chroot, as root"
        return
    fi
    mkdir -p "target/fuzz/$name" "fuzz/corpus/$name"
    case $amount in
    minimise)
        local kept=target/fuzz/kept-$name
        rm -rf "$kept"
        mkdir "$kept"
        # By edges alone: how often each one runs multiplies the inputs by ten.
        "$built/$name" -set_cover_merge=1 -use_counters=0 -max_len="$(longest "$name")" \
            "$kept" "fuzz/corpus/$name" "target/fuzz/$name"
        echo "$name: $(find "$kept" -type f | wc -l) inputs in $kept"
        return
        ;;
    *x) options=(-runs="${amount%x}") ;;
    *) options=(-max_total_time="$amount") ;;
    esac
    [[ -z ${FUZZ_SEED:-} ]] || options+=(-seed="$FUZZ_SEED")
    local log=target/fuzz/$name.log
    if ! "$built/$name" "target/fuzz/$name" "fuzz/corpus/$name" "${options[@]}" -max_len="$(longest "$name")" \
        -timeout="${FUZZ_TIMEOUT:-10}" -rss_limit_mb=512 -print_final_stats=1 -reload=0 \
        -artifact_prefix="target/fuzz/found-$name-" 2>"$log"; then
        tail -40 "$log"
        local found
        found=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
        [[ ! -e $found ]] || base64 "$found"
        echo "$name: FAILED; the input is above, and below target/fuzz"
        return 1
    fi
    printf '%-15s %12d executions, %s\n' "$name" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -1)"
}

if [[ $target != all ]]; then
    fuzz "$target"
    exit
fi
failed=()
for name in fuzz/fuzz_targets/*.rs; do
    name=$(basename "$name" .rs)
    fuzz "$name" || failed+=("$name")
done
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}"; exit 1; }
