#!/bin/bash
# Builds and installs the program from the packages that would be published, away from this repository: a file that a
# package lacks, a path that only the workspace has, or a setting of its .cargo/config.toml that a build cannot do
# without shows here and nowhere else. Takes some minutes. Usage: scripts/packages.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(realpath -m "${1:-target/packages}")
crates=(codec blocks image dump bench mount)

rm -rf "$place/src" "$place/bin"
mkdir -p "$place/src"
cargo package --quiet --workspace --no-verify --allow-dirty --locked
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
for crate in target/package/packfs*-"$version".crate; do
    tar -xzf "$crate" -C "$place/src"
done

# In the place of the registry, which does not have them yet.
patches=()
for crate in "${crates[@]}"; do
    patches+=(--config "patch.crates-io.packfs-$crate.path='$place/src/packfs-$crate-$version'")
done
cd "$place"
cargo install --quiet --debug --path "src/packfs-$version" --root "$place" --target-dir "$place/target" "${patches[@]}"

# It works, and reads what it writes.
"$place/bin/packfs" build --quiet --force "src/packfs-$version" -o "$place/packages.sqfs"
"$place/bin/packfs" check "$place/packages.sqfs" --against "src/packfs-$version"
