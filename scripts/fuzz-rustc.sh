#!/bin/bash
# The compiler for scripts/fuzz.sh: adds edge counters to our own crates only, so that the fuzzer follows our code and
# spends no time in libraries. All options are those of the stable compiler.
case " $* " in
*" --crate-name packfs_"* | *" --crate-name "*" fuzz_targets/"*)
    exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1
    ;;
*) exec "$@" ;;
esac
