#!/bin/bash
# Builds the reader for browsers and Node and tests it: scripts/reader.sh [build]
#
# target/reader/packfs-reader is the npm package, target/reader/viewer.html a page that opens images, in one file. `build`
# leaves out the tests, which need Node and a packfs (PACKFS, else target/debug/packfs). Status 3: there is no Rust for
# WebAssembly.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh

# What a page may add to a download before people notice.
size_max=$((500 << 10))

scripts/target-cargo.sh wasm32-unknown-unknown build --quiet --profile wasm --locked -p packfs-wasm
built=${CARGO_TARGET_DIR:-target/other}/wasm32-unknown-unknown/wasm/packfs_wasm.wasm
compressed=$(gzip -9 -c "$built" | wc -c)
say "packfs_wasm.wasm: $(stat -c %s "$built") bytes, $compressed compressed"
if ((compressed > size_max)); then
    say "that is more than $size_max: the reader is too large for a page"
    exit 1
fi

out=target/reader
package=$out/packfs-reader
rm -rf "$out" && mkdir -p "$package"
cp -r crates/wasm/npm/. LICENSE-MIT LICENSE-APACHE "$package"
cp "$built" "$package"
python3 - "$package" crates/wasm/page/viewer.html "$out/viewer.html" <<'PAGE'
import base64, pathlib, re, sys

package, template, page = map(pathlib.Path, sys.argv[1:])
reader = re.sub(r"^export ", "", (package / "reader.js").read_text(), flags=re.MULTILINE)
module = base64.b64encode((package / "packfs_wasm.wasm").read_bytes()).decode()
text = template.read_text()
for mark, content in (("/* READER */", reader), ("/* MODULE */", module)):
    assert text.count(mark) == 1, mark
    text = text.replace(mark, content)
page.write_text(text)
PAGE
[[ ${1-} != build ]] || exit 0

export PACKFS=${PACKFS:-$PWD/target/debug/packfs}
node --test "$package/test/"
