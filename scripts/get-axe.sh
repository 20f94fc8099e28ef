#!/bin/bash
# Fetches axe, which looks for what keeps people from using a page, into target/axe for the tests of the report's page:
# scripts/get-axe.sh. Its licence is MPL-2.0, so it is used and not kept. Needs npm, or curl and tar.
set -euo pipefail
cd "$(dirname "$0")/.."
version=4.14.1
[[ ! -e target/axe/axe.min.js ]] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v npm >/dev/null; then
    (cd "$work" && npm pack --silent "axe-core@$version" >/dev/null)
else
    curl -fsSL -o "$work/axe-core-$version.tgz" "https://registry.npmjs.org/axe-core/-/axe-core-$version.tgz"
fi
tar -xzf "$work/axe-core-$version.tgz" -C "$work" package/axe.min.js
mkdir -p target/axe
mv "$work/package/axe.min.js" target/axe/
