#!/bin/bash
# Builds the source distribution and the wheel of the Python package, and tests the wheel in a clean virtual environment of
# every Python from 3.9 on that can be found. Takes the profile of the build: "wheel" (the default) builds the wheel from the
# source distribution, which shows that it is complete; "dev" compiles faster and is tested with the oldest and the newest
# Python only.
#
# Exit status 3: the tools did not install from PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${1:-wheel}
tools=target/tools/maturin
wheels=target/wheels/$profile
if [[ ! -x $tools/bin/maturin ]] && ! { python3 -m venv "$tools" &&
    timeout 5m "$tools/bin/pip" install --quiet 'maturin>=1.8,<2'; }; then
    echo "maturin did not install from PyPI" >&2
    exit 3
fi
rm -rf "$wheels"
build=("$tools/bin/maturin" build --quiet --manifest-path crates/python/Cargo.toml --profile "$profile" --out "$wheels")
if [[ $profile == dev ]]; then
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
    CARGO_TARGET_DIR=$PWD/target "${build[@]}" --sdist
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
tested=0
for minor in "${minors[@]}"; do
    place=$(mktemp -d)
    "${found[$minor]}" -m venv "$place/venv"
    if ! timeout 5m "$place/venv/bin/pip" install --quiet --disable-pip-version-check "$wheels"/*.whl pytest hypothesis fsspec; then
        echo "Python 3.$minor: SKIPPED, pytest did not install from PyPI"
        rm -rf "$place"
        continue
    fi
    # Tests that compare with them are skipped without them. Nothing is compiled for that.
    timeout 5m "$place/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary numpy numpy webdataset ||
        echo "Python 3.$minor: NumPy and webdataset did not install from PyPI"
    echo "Python 3.$minor"
    # From another folder, so that the installed package is tested, and not the sources.
    cp -r crates/python/tests "$place/tests"
    (cd "$place" && timeout 5m venv/bin/python -m pytest -q -p no:cacheprovider tests)
    rm -rf "$place"
    tested=$((tested + 1))
done
((tested)) || { echo "no Python could be tested" >&2; exit 3; }
