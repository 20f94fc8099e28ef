#!/bin/bash
# Tests the packages that build-packages.sh made, in roots that have nothing else: an empty one, and a minimal Debian
# made by debootstrap, which is kept in CACHE. Needs root. Usage: scripts/test-packages.sh [DIRECTORY [CACHE [MACHINE]]]
#
# MACHINE is that of build-packages.sh. For another one than this, the kernel is told to run its programs in QEMU, which
# lasts until it restarts.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/needs.sh
source scripts/debian-roots.sh
place=$(realpath "${1:-target/packages}")
cache=$(realpath -m "${2:-target/debootstrap}")
machine=${3:-$(uname -m)}
architecture=$(debian_architecture "$machine")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=packfs-$version-$machine-linux
deb=$place/packfs_$version-1_$architecture.deb

need_debian_root "$machine"
need lintian lintian
need binutils readelf
tools=$machine-linux-gnu
[[ $machine == "$(uname -m)" ]] || need "binutils-$tools" "$tools-nm"
need xz-utils xz
need python3 python3
install_missing
run_in_qemu "$machine"

work=$(mktemp -d)
trap 'leave_debian "$work/debian"; rm -rf --one-file-system "$work"' EXIT
failed() { say "failed: $*"; exit 1; }
step() { say "-- $*"; }

step checksums
(cd "$place" && sha256sum --quiet --check SHA256SUMS)

step "the tarball in an empty root"
mkdir -p "$work/empty/in"
tar -xJf "$place/$name.tar.xz" -C "$work/empty" --strip-components=1
alone() { chroot "$work/empty" /bin/packfs "$@"; }
cp -r "$work/empty/share/doc" "$work/empty/in"
for image in a.sqfs a.erofs; do
    alone build --quiet --no-xattrs in -o "$image"
    alone check "$image"
    alone extract --quiet "$image" -C "$image.d"
    diff -r "$work/empty/in" "$work/empty/$image.d"
    alone list -l "$image" >/dev/null
done
# Without services that only a dynamic program could load, names come from the files, and hosts from DNS.
mkdir "$work/empty/etc"
echo 'alice:x:4321:4321::/:' >"$work/empty/etc/passwd"
echo 'crew:x:8765:' >"$work/empty/etc/group"
printf '%s: sss systemd files\n' passwd group hosts >"$work/empty/etc/nsswitch.conf"
alone build --quiet --no-xattrs --owner alice:crew in -o named.sqfs
alone list -l --names named.sqfs | grep -q ' alice *crew ' || failed "a name was not looked up"
cp /etc/resolv.conf "$work/empty/etc"
alone list http://packfs.invalid/a.sqfs 2>"$work/said" && failed "a host that does not exist answered"
grep -qi 'name or service not known\|resolve\|lookup' "$work/said" || failed "$(cat "$work/said")"
for page in "$work/empty"/share/man/man1/*.1; do
    [[ -s $page ]] || failed "$page is empty"
done
for schema in $("$work/empty/bin/packfs" help json-schema); do
    [[ -s $work/empty/share/packfs/schemas/$schema.schema.json ]] || failed "there is no JSON Schema of $schema"
done
for shell in bash-completion/completions/packfs zsh/site-functions/_packfs fish/vendor_completions.d/packfs.fish; do
    [[ -s $work/empty/share/$shell ]] || failed "there is no $shell"
done

step "the debug information"
tar -xJf "$place/$name-debug.tar.xz" -C "$work"
id=$(readelf --notes "$work/empty/bin/packfs" | sed -n 's/.*Build ID: //p')
debug=$(echo "$work/$name-debug"/usr/lib/debug/.build-id/*/*.debug)
[[ $debug == */${id:0:2}/${id:2}.debug ]] || failed "$debug belongs to another program than $id"
main=$("$tools-nm" "$debug" | sed -n 's/ . main$//p')
[[ -n $main ]] || failed "$debug names no function"
"$tools-addr2line" -e "$debug" "$("$tools-nm" "$debug" | awk '/packfs.*names.*keep_to_files|6packfs4main/ { print $1; exit }')" |
    grep -q 'crates/cli/src/.*rs:[0-9]' || failed "$debug has no lines of main"

step "the list of components"
libraries=()
[[ $machine == "$(uname -m)" ]] || mapfile -t libraries < <(find target/tools/rust/root -path '*/library/Cargo.lock')
python3 - "$place/packfs-$version.cdx.json" "$work/empty/bin/packfs" "${libraries[@]}" <<'END'
import json, re, sys
listed = {(part["name"], part["version"]): part for part in json.load(open(sys.argv[1]))["components"]}
locked = {}
for entry in open("Cargo.lock").read().split("[[package]]")[1:]:
    field = dict(re.findall(r'^(\w+) = "(.*)"$', entry, re.M))
    locked[field["name"], field["version"]] = field.get("checksum")
# What the program's own messages name is linked for sure.
named = {match.decode() for match in re.findall(rb"/registry/[^/]+/([A-Za-z0-9_.+-]+)/", open(sys.argv[2], "rb").read())}
known = {f"{name}-{version}" for name, version in listed}
# A standard library that was compiled here, for another machine, names what it is made of, as one from Rust does not.
for lock in sys.argv[3:]:
    known |= {f"{name}-{version}" for name, version in re.findall(r'name = "(.*)"\nversion = "(.*)"', open(lock).read())}
assert len(named) > 20, named
assert named <= known, f"linked, but not listed: {named - known}"
for key, part in listed.items():
    assert part["licenses"][0]["expression"], key
    if part["purl"].startswith("pkg:cargo/"):
        assert key in locked, f"listed, but not locked: {key}"
        checksum = part.get("hashes", [{}])[0].get("content")
        assert checksum == locked[key], f"another checksum: {key}"
END

step lintian
lintian --fail-on error,warning --allow-root "$deb"

step "a minimal Debian"
enter_debian "$machine" "$cache" "$work/debian"
inside() { DEBIAN_FRONTEND=noninteractive LC_ALL=C chroot "$work/debian" "$@"; }
# Everything but what packages and logs of dpkg change, to compare.
state() { inside find / -xdev \( -path /proc -o -path /dev -o -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/lib/dpkg \
    -o -path /var/lib/apt \) -prune -o -printf '%p %l\n' | sort; }
# owns NAME: prints whose program answers to NAME.
owns() { inside readlink -f "/usr/bin/$1"; }
expect() { [[ $2 == "$3" ]] || failed "$1: $2, not $3"; }
inside apt-get -qq update
cp "$deb" "$work/debian/tmp/packfs.deb"
state >"$work/before"

step "install, use"
inside apt-get install -qq -y --no-install-recommends /tmp/packfs.deb >"$work/apt.log" 2>&1 || failed "$(cat "$work/apt.log")"
inside sh -ec '
    test "$(packfs --version)" = "packfs '"$version"'"
    packfs build --quiet /usr/share/doc -o /tmp/a.sqfs
    packfs check /tmp/a.sqfs --against /usr/share/doc
    packfs list -l /tmp/a.sqfs > /tmp/list
    mksquashfs /usr/share/doc /tmp/b.sqfs -noappend -comp zstd > /tmp/said
    unsquashfs -d /tmp/b /tmp/b.sqfs > /tmp/said
    packfs diff /tmp/b /usr/share/doc --ignore xattrs,time
    rm -r /tmp/b'
tr ' ' '\n' <scripts/packaging/deb/groups | while read -r program; do
    expect "$program" "$(owns "$program")" /usr/bin/packfs
    inside "$program" --help >"$work/said" 2>&1 || true
    grep -qi "packfs\|$program" "$work/said" || failed "$program --help: $(head -3 "$work/said")"
done
inside mksquashfs -version | grep -q packfs || failed "mksquashfs -version is not ours"
for page in packfs packfs-build packfs-as; do
    inside gzip -t "/usr/share/man/man1/$page.1.gz"
done

step "every codec" # Storing equal functions once must not mix them up.
for codec in gzip xz lzo lz4 lz4hc zstd erofs.lz4 erofs.lz4hc erofs.lzma erofs.deflate erofs.zstd; do
    format=(--format squashfs)
    [[ $codec != erofs.* ]] || format=(--format erofs --target-kernel 6.12)
    inside packfs build --quiet "${format[@]}" --codec "${codec#erofs.}" /usr/share/doc -o "/tmp/$codec.image"
    inside packfs check --quiet "/tmp/$codec.image" --against /usr/share/doc
done

step "squashfs-tools comes, is chosen, is left, goes"
inside apt-get install -qq -y --no-install-recommends squashfs-tools >"$work/apt.log" 2>&1 || failed "$(cat "$work/apt.log")"
expect "with squashfs-tools" "$(owns mksquashfs)" /usr/bin/mksquashfs.distrib
inside mksquashfs -version | grep -q packfs && failed "mksquashfs is not the one of squashfs-tools"
inside update-alternatives --quiet --set mksquashfs /usr/lib/packfs/mksquashfs
for program in mksquashfs unsquashfs sqfscat sqfstar; do
    expect "switched" "$(owns $program)" /usr/bin/packfs
done
inside update-alternatives --quiet --auto mksquashfs
expect "switched back" "$(owns unsquashfs)" /usr/bin/unsquashfs.distrib
inside apt-get remove -qq -y squashfs-tools >"$work/apt.log" 2>&1 || failed "$(cat "$work/apt.log")"
expect "without squashfs-tools" "$(owns mksquashfs)" /usr/bin/packfs
inside apt-get install -qq -y --no-install-recommends squashfs-tools >"$work/apt.log" 2>&1 || failed "$(cat "$work/apt.log")"

step "reinstall, purge"
inside dpkg --install /tmp/packfs.deb >"$work/apt.log" 2>&1 || failed "$(cat "$work/apt.log")"
expect "reinstalled" "$(owns mksquashfs)" /usr/bin/mksquashfs.distrib
inside dpkg --purge packfs >"$work/apt.log" 2>&1 || failed "$(cat "$work/apt.log")"
expect "purged" "$(owns mksquashfs)" /usr/bin/mksquashfs
inside mksquashfs -version | grep -q packfs && failed "mksquashfs is still ours"
inside apt-get purge -qq -y --autoremove squashfs-tools >"$work/apt.log" 2>&1 || failed "$(cat "$work/apt.log")"
state >"$work/after"
inside dpkg-divert --list | grep 'by packfs$' >&2 && failed "diversions are left"
diff "$work/before" "$work/after" >&2 || failed "files are left behind"
say "all passed"
