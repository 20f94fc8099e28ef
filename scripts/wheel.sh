#!/bin/bash
# Builds the wheel of the Python package, and tests it: scripts/wheel.sh [PROFILE [MACHINE]]
#
# PROFILE is that of the build. "wheel" (the default) makes what a release offers: a source distribution, and from it, which
# shows that it is complete, the wheel, for any Linux with glibc 2.17 or newer (manylinux2014). "dev" compiles faster, for
# the glibc of this machine. The wheel is tested in a clean virtual environment of every Python from 3.9 on that can be
# found, that of "dev" with the oldest and the newest only.
#
# MACHINE is x86_64 or aarch64. A wheel for another one than this machine is compiled by scripts/target-cargo.sh from the
# repository, always for manylinux2014, and tested with Debian's Python in QEMU, which needs root.
#
# Exit status 3: the tools could not be had.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
source scripts/debian-roots.sh
profile=${1:-wheel}
machine=${2:-$(uname -m)}
target=$machine-unknown-linux-gnu
foreign=
[[ $machine == "$(uname -m)" ]] || foreign=yes
wheels=target/wheels/$profile${foreign:+-$machine}
tools=$PWD/target/tools/maturin
need_rust
# maturin looks for zig in the path.
build=(env PATH="$tools/bin:$PATH" maturin build --quiet --manifest-path crates/python/Cargo.toml --profile "$profile" --out "$wheels")
packages=('maturin>=1.8,<2')
installed=$tools/bin/maturin
if [[ $foreign || $profile == wheel ]]; then
    # It links for any version of glibc, which the system's compiler only does for its own.
    build+=(--zig --compatibility manylinux2014)
    # Its versions are incompatible as long as they begin with 0.
    packages+=(ziglang==0.17.1)
    installed=$tools/bin/python-zig
fi
if [[ ! -x $installed ]] && ! { python3 -m venv "$tools" && timeout 5m "$tools/bin/pip" install --quiet "${packages[@]}"; }; then
    echo "${packages[*]}: did not install from PyPI" >&2
    exit 3
fi

rm -rf "$wheels"
if [[ $foreign ]]; then
    # maturin would keep the linker that scripts/target-cargo.sh names.
    scripts/target-cargo.sh "$target" exec env --unset=CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER \
        "${build[@]}" --locked --target "$target"
elif [[ $profile == dev ]]; then
    "${build[@]}" --locked
    "$tools/bin/maturin" sdist --manifest-path crates/python/Cargo.toml --out "$wheels"
    unpacked=$(mktemp -d)
    tar -xzf "$wheels"/*.tar.gz -C "$unpacked"
    # All crates that it needs are in it: nothing is compiled, as that takes minutes.
    cargo metadata --quiet --format-version 1 --manifest-path "$unpacked"/*/Cargo.toml >"$unpacked/metadata"
    rm -rf "$unpacked"
else
    # Not with --locked: the lock file of a source distribution also has what only the program needs, and cargo drops that.
    cargo metadata --quiet --locked --format-version 1 >/dev/null
    CARGO_TARGET_DIR=$PWD/target "${build[@]}" --sdist --target "$target"
fi
wheel=$(basename "$wheels"/*.whl)
say "$wheels/$wheel"

place=$(mktemp -d)
clean_up() {
    local job
    for job in $(jobs -p); do
        pkill --parent "$job" || true
        kill "$job" || true
    done
    leave_debian "$place/debian"
    rm -rf --one-file-system "$place"
}
trap clean_up EXIT
# Tests that compare with the last two are skipped without them.
peers=(numpy webdataset)
pytest=(-m pytest -q -rs -p no:cacheprovider tests)

# With Debian's Python for that machine, in a root that has nothing else.
test_in_qemu() {
    local root=$place/debian test=$place/debian/test program version
    need_debian_root "$machine"
    install_missing || exit 3
    run_in_qemu "$machine"
    enter_debian "$machine" target/debootstrap "$root"
    inside() { DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$root" "$@"; }
    inside apt-get -qq update
    inside apt-get install -qq -y --no-install-recommends python3 >"$place/apt.log" 2>&1 || { cat "$place/apt.log"; exit 3; }
    version=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    # Installed from here, because that takes minutes in QEMU. The tags are of those that pip in this Debian takes.
    mkdir "$test"
    timeout 5m "$tools/bin/pip" install --quiet --disable-pip-version-check --target "$test/packages" --only-binary :all: \
        --python-version "$version" --platform "manylinux2014_$machine" --platform "manylinux_2_28_$machine" \
        "$wheels/$wheel" pytest hypothesis fsspec "${peers[@]}" || exit 3
    # Splitting and joining is compared with the program, if it is built.
    for program in target/other/"$target"/{debug,release}/packfs; do
        [[ ! -x $program ]] || cp "$program" "$root/usr/local/bin"
    done
    cp -r crates/python/tests "$test"
    echo "Python $version, $machine"
    # The child waits for locks of QEMU itself, which other threads held when the process was copied.
    local hanging=(test_a_forked_child_reads_while_the_parent_does test_a_forked_child_prefetches_on_its_own)
    echo "SKIPPED ${hanging[*]}: QEMU cannot fork while other threads run"
    inside env --chdir=/test PYTHONPATH=/test/packages timeout 40m python3 "${pytest[@]}" \
        "${hanging[@]/#/--deselect=tests/test_read.py::}"
}

if [[ $foreign ]]; then
    test_in_qemu
    exit
fi

# Each version once, oldest first.
declare -A found
for python in python3 ~/.pyenv/versions/3.*/bin/python3; do
    minor=$("$python" -c 'import sys; print(sys.version_info[1])' 2>/dev/null) || continue
    [[ $minor -lt 9 || -n ${found[$minor]:-} ]] || found[$minor]=$python
done
((${#found[@]})) || { echo "there is no Python from 3.9 on" >&2; exit 3; }
mapfile -t minors < <(printf '%s\n' "${!found[@]}" | sort -n)
# What works in the oldest and the newest works in those between, which only a wheel to give away is tested with.
[[ $profile != dev || ${#minors[@]} -lt 3 ]] || minors=("${minors[0]}" "${minors[-1]}")

# Splitting and joining is compared with the program, if it is built.
export PATH=$PWD/target/release:$PWD/target/debug:$PATH

# test_python MINOR: status 75, which pytest has not, if pytest could not be had. Changes the directory, so it
# is to run in a shell of its own.
test_python() {
    local at=$place/$1
    local venv=$at/venv
    "${found[$1]}" -m venv "$venv"
    if ! timeout 5m "$venv/bin/pip" install --quiet --disable-pip-version-check "$wheels/$wheel" pytest hypothesis fsspec; then
        echo "Python 3.$1: SKIPPED, pytest did not install from PyPI"
        return 75
    fi
    # Nothing is compiled for that.
    timeout 5m "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary numpy "${peers[@]}" ||
        echo "Python 3.$1: NumPy and webdataset did not install from PyPI"
    echo "Python 3.$1"
    # From another folder, so that the installed package is tested, and not the sources.
    cp -r crates/python/tests "$at/tests"
    cd "$at"
    timeout 10m venv/bin/python "${pytest[@]}"
}

tested=0

# finish_python MINOR: waits for its tests and shows what they said.
finish_python() {
    local status=0
    wait "${running[$1]}" || status=$?
    cat "$place/$1.log"
    rm -rf "${place:?}/$1"
    case $status in
    0) tested=$((tested + 1)) ;;
    75) ;;
    *) exit $status ;;
    esac
}

# Two at a time: most tests run in one thread.
declare -A running
previous=
for minor in "${minors[@]}"; do
    mkdir "$place/$minor"
    test_python "$minor" >"$place/$minor.log" 2>&1 &
    running[$minor]=$!
    [[ ! $previous ]] || finish_python "$previous"
    previous=$minor
done
finish_python "$previous"
((tested)) || { echo "no Python could be tested" >&2; exit 3; }
