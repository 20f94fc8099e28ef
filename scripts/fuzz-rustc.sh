#!/bin/bash
# A compiler for scripts/fuzz.sh: counts the edges that run, in our own crates and in no others, so that the fuzzer
# follows our code and its speed is not lost in that of libraries. Options of the stable compiler all.
case " $* " in
*" --crate-name packfs_"* | *" --crate-name "*" fuzz_targets/"*)
    exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1
    ;;
*) exec "$@" ;;
esac
