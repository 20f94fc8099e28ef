#!/bin/bash
# The tests of the programs that packfs answers to, run with packfs under their names:
# scripts/incumbents-tests.sh [PACKFS [DEST]], as root.
#
#   PACKFS  the program               (default target/release/packfs)
#   DEST    where sources and results go (default target/incumbents)
#
# Takes the tests of erofs-utils (31, its branch experimental-tests), of squashfuse (4) and of squashfs-tools-ng (2) from
# their repositories; EROFS_UTILS, SQUASHFUSE and SQUASHFS_TOOLS_NG name others, also directories. Builds nothing of them
# but two small programs that the tests call. Prints a line for each test; their output is in DEST/results.
# docs/design/test-runs.md lists the tests that do not pass, with the reasons. Takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

packfs=$(realpath "${1:-target/release/packfs}")
dest=${2:-target/incumbents}
erofs_utils=${EROFS_UTILS:-https://git.kernel.org/pub/scm/linux/kernel/git/xiang/erofs-utils.git}
squashfuse=${SQUASHFUSE:-https://github.com/vasi/squashfuse.git}
squashfs_tools_ng=${SQUASHFS_TOOLS_NG:-https://github.com/AgentD/squashfs-tools-ng.git}

[[ $(id -u) == 0 ]] || { echo "incumbents-tests: mounting needs root" >&2; exit 1; }
mkdir -p "$dest"
dest=$(realpath "$dest")
results=$dest/results
rm -rf "$results" "$dest/bin"
mkdir -p "$results" "$dest/bin"
"$packfs" as --install "$dest/bin" >/dev/null
export PATH=$dest/bin:$PATH

# source NAME REPOSITORY BRANCH...: has the sources of a project in DEST/NAME, from the first branch that is there.
source_of() {
    local name=$1 repository=$2 branch
    [[ ! -e $dest/$name/.git ]] || return 0
    for branch in "${@:3}"; do
        git clone -q --depth 1 -b "$branch" "$repository" "$dest/$name" 2>/dev/null && return 0
    done
    echo "incumbents-tests: cannot get $name from $repository" >&2
    return 1
}

passed=0 failed=0 skipped=0
# run NAME COMMAND...: runs a test in the working directory; status 77 is a test that cannot run here.
run() {
    local name=$1 status=0
    timeout 600 "${@:2}" >"$results/${name//\//-}" 2>&1 </dev/null || status=$?
    case $status in
    0) passed=$((passed + 1)) said=passed ;;
    77) skipped=$((skipped + 1)) said="not run: $(tail -n1 "$results/${name//\//-}")" ;;
    *) failed=$((failed + 1)) said="FAILED, status $status" ;;
    esac
    echo "$name: $said"
}

erofs() {
    source_of erofs-utils "$erofs_utils" experimental-tests
    cd "$dest/erofs-utils/tests"
    # What configuring would find out. Without extended attributes fssum says nothing, and all trees are the same.
    mkdir -p "$dest/empty" && touch "$dest/empty/config.h"
    local has="-DHAVE_LINUX_TYPES_H -DHAVE_SYS_SYSMACROS_H -DHAVE_SYS_XATTR_H -DHAVE_ENDIAN_H"
    [[ -x src/fssum ]] || cc -O1 -w -D_GNU_SOURCE $has -I"$dest/empty" -I../include -o src/fssum src/fssum.c ../lib/sha256.c
    [[ $(src/fssum -MAC .) == *:* ]] || { echo "incumbents-tests: fssum does not work" >&2; return 1; }
    [[ -x src/badlz4 ]] || cc -O1 -w -I"$dest/empty" -o src/badlz4 src/badlz4.c -llz4 || echo "badlz4 is not built"
    export SCRATCH_MNT=$dest/scratch SCRATCH2_MNT=$dest/scratch2 RESULT_DIR=$results
    export MKFS_EROFS_PROG=$dest/bin/mkfs.erofs FSCK_EROFS_PROG=$dest/bin/fsck.erofs
    export DUMP_EROFS_PROG=$dest/bin/dump.erofs EROFSFUSE_PROG=$dest/bin/erofsfuse
    export lz4_on=1 lz4hc_on=1 lzma_on=1 deflate_on=1 zstd_on=1
    mkdir -p "$SCRATCH_MNT" "$SCRATCH2_MNT" "$results/erofs"
    local test
    for test in erofs/[0-9][0-9][0-9]; do
        srcdir=. run "$test" bash "./$test"
    done
}

# filled FILE: the script that configuring makes of FILE.in.
filled() {
    sed -e 's,@build_os@,linux-gnu,g' -e 's,@sq_fusermount@,fusermount3,g' -e 's,@sq_md5sum@,md5sum,g' \
        -e 's,@sq_mksquashfs_compressors@,gzip lz4 lzo xz zstd,g' -e "s,@abs_top_srcdir@,$PWD,g" \
        -e "s,@builddir@,.,g" -e "s,@abs_top_builddir@,$dest/bin,g" "$1.in" >"$1"
}

squashfuse() {
    source_of squashfuse "$squashfuse" master main
    cd "$dest/squashfuse"
    ln -sf "$dest/bin/squashfuse" "$dest/bin/squashfuse_ll" .
    local test
    for test in lib ll-smoke ll-smoke-singlethreaded umount-test; do filled tests/$test.sh; done
    chmod +x tests/*.sh
    run squashfuse/ll-smoke bash tests/ll-smoke.sh
    run squashfuse/ll-smoke-singlethreaded bash tests/ll-smoke-singlethreaded.sh
    run squashfuse/umount-test bash tests/umount-test.sh
    run squashfuse/notify_test sh tests/notify_test.sh
}

ng() {
    source_of squashfs-tools-ng "$squashfs_tools_ng" master main
    cd "$dest/squashfs-tools-ng"
    filled bin/tar2sqfs/test/test_tar_sqfs.sh
    filled bin/rdsquashfs/test/pathtraversal.sh
    rm -rf test_tar
    run squashfs-tools-ng/test_tar_sqfs sh bin/tar2sqfs/test/test_tar_sqfs.sh
    run squashfs-tools-ng/pathtraversal sh bin/rdsquashfs/test/pathtraversal.sh
}

(cd . && erofs && squashfuse && ng && echo "$passed passed, $failed failed, $skipped not run")
