#!/bin/bash
# Fetches the accessibility checker axe into target/axe, for the tests of the report's page: scripts/get-axe.sh
# Its licence (MPL-2.0) keeps it out of the repository. Needs npm, or pip, whose package contains an older axe.
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.14.1
[[ ! -e target/axe/axe.min.js ]] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v npm >/dev/null; then
    (cd "$work" && npm pack --silent "axe-core@$version" >/dev/null)
    tar -xzf "$work/axe-core-$version.tgz" -C "$work" package/axe.min.js
    found=$work/package/axe.min.js
else
    python3 -m pip download --quiet --no-deps --dest "$work" axe-core-python
    (cd "$work" && python3 -m zipfile -e ./*.whl .)
    found=$(find "$work" -name 'axe.min.js' | head -1)
fi
mkdir -p target/axe
mv "$found" target/axe/axe.min.js
