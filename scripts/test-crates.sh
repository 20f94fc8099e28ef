#!/bin/bash
# Builds and installs the program from the crates that would be published, away from this repository: a file that a crate
# lacks, a path that only the workspace has, or a setting of its .cargo/config.toml that a build cannot do without shows
# here and nowhere else. Takes some minutes. Usage: scripts/test-crates.sh [DIRECTORY [PROFILE]]
# DIRECTORY has to be outside the repository, too. PROFILE is dev unless given.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(realpath -m "${1:-${TMPDIR:-/tmp}/packfs-crates}")
profile=${2:-dev}

rm -rf "$place/src" "$place/bin"
mkdir -p "$place/src"
cargo package --quiet --workspace --no-verify --allow-dirty --locked
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
for crate in target/package/packfs*-"$version".crate; do
    tar -xzf "$crate" -C "$place/src"
done

for crate in "$place"/src/packfs*-"$version"; do
    for licence in LICENSE-MIT LICENSE-APACHE; do
        [[ -f $crate/$licence && ! -L $crate/$licence ]] || { echo "$crate has no text of $licence" >&2; exit 1; }
    done
done

# In the place of the registry, which does not have them yet.
patches=()
for crate in "$place"/src/packfs-*-"$version"; do
    name=$(basename "$crate" "-$version")
    patches+=(--config "patch.crates-io.$name.path='$crate'")
done
cd "$place"
cargo install --quiet --profile "$profile" --path "src/packfs-$version" --root "$place" --target-dir "$place/target" "${patches[@]}"

# It works, and reads what it writes.
"$place/bin/packfs" build --quiet --force "src/packfs-$version" -o "$place/packages.sqfs"
"$place/bin/packfs" check "$place/packages.sqfs" --against "src/packfs-$version"
