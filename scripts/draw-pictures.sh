#!/bin/bash
# Draws the pictures of the documentation from docs/results and from sessions: scripts/draw-pictures.sh  (needs chromium, xz)
# The page's own scripts draw them. Those of docs/guide/bench.md, one for each kind of chart, have the widths of a phone
# and of a desktop: look at them after a change to the page.
set -euo pipefail
cd "$(dirname "$0")/.."
packfs=$(realpath "${PACKFS:-target/release/packfs}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for kind in codecs build read split; do
    xz -dc "docs/results/$kind.jsonl.xz" > "$work/$kind.jsonl"
done
"$packfs" bench report "$work"/{codecs,build,read,split}.jsonl --output "$work/page.html"
# The two sessions of codecs have some cells in common. Status 1 says that something got slower.
first=$(sed -n 's/.*"kind":"session","session":"\([^"]*\)".*/\1/p;q' "$work/codecs.jsonl")
grep -F "\"$first\"" "$work/codecs.jsonl" > "$work/first.jsonl"
grep -vF "\"$first\"" "$work/codecs.jsonl" > "$work/second.jsonl"
"$packfs" bench report "$work/second.jsonl" --against "$work/first.jsonl" --output "$work/changes.html" || [[ $? == 1 ]]

codecs=silesia9-7e9c-sector-4096-128k-1t builds=builds-debroot-f01f read=read-debroot-b44e
erofs=$builds-erofs-128k-fragments-dedupe squashfs=$builds-squashfs-128k-fragments-dedupe
scripts/draw-charts.py "$work/page.html" docs/pictures \
    $builds-squashfs-size-and-time=build-front $codecs-in=codecs-in $codecs-out=codecs-out \
    relative-savings-128k=codecs-savings sizes-silesia9-7e9c-sector-4096-4k-1t=codecs-blocks \
    $squashfs-time=build-squashfs $squashfs-speedup=build-speedup $erofs-time=build-erofs \
    $read-size=read-sizes $read-sequential-data=read-sequential $read-full-random-data=read-random \
    $read-program-speeds=read-programs split-speedup-memory-6597-50=split-memory \
    split-uneven-memory-6597-50-50-50-200=split-uneven

kinds=()
for width in 350 540; do
    screen=$((width == 350 ? 390 : 1400))
    for chart in $codecs-in=points $codecs-mix=mixtures $codecs-device=rows $squashfs-speedup=multiples \
        $read-full-random-data=lines $read-size=sizes published-packing-gzip=published; do
        kinds+=("${chart%=*}=kind-${chart#*=}-$screen@$width")
    done
    changes+=("ratios-compressing=kind-changes-$screen@$width")
done
scripts/draw-charts.py "$work/page.html" docs/pictures "${kinds[@]}"
scripts/draw-charts.py "$work/changes.html" docs/pictures "${changes[@]}"

# The pictures of the README.
scripts/record-terminal.py "$packfs" docs/pictures/terminal.svg
"$packfs" build /usr/share/perl -o "$work/perl.sqfs" --quiet
"$packfs" explore "$work/perl.sqfs" -o "$work/explore.html" >/dev/null
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,760 --virtual-time-budget=5000 \
    --screenshot=docs/pictures/explore.png "file://$work/explore.html" 2>/dev/null
