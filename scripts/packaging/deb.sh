#!/bin/bash
# Makes a .deb from the tree of a tarball: deb.sh TREE VERSION DIRECTORY ARCHITECTURE LIBC PROGRAM. build-packages.sh
# calls this. LIBC is Debian's package of the C library that is linked in, and PROGRAM runs the tree's packfs here.
#
# The names of other programs are alternatives, one group for each package of Debian that has them: switching mksquashfs
# switches unsquashfs, too. Those packages do not use alternatives, so their files are diverted to NAME.distrib.
set -euo pipefail
tree=$(realpath "$1")
version=$2
place=$(realpath "$3")
architecture=$4
libc_package=$5
program=$(realpath "$6")
cd "$(dirname "$0")/deb"
maintainer="${DEBFULLNAME:-The packfs developers} <${DEBEMAIL:-packfs@packfs.invalid}>"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

usr=$work/root/usr
mkdir -p "$usr/lib/packfs" "$work/root/DEBIAN" "$usr/share/lintian/overrides"
cp -r "$tree/bin" "$tree/share" "$usr"
mkdir "$usr/share/zsh/vendor-completions"
mv "$usr/share/zsh/site-functions/_packfs" "$usr/share/zsh/vendor-completions"
rmdir "$usr/share/zsh/site-functions"

# Every name is in a group.
"$program" as --install "$usr/lib/packfs" | sed 's|.*/||' | sort >"$work/names"
diff "$work/names" <(tr ' ' '\n' <groups | sort) >&2 || {
    echo "packaging/deb/groups and packfs as --install name different programs" >&2
    exit 1
}
while read -r name; do
    ln -sfn ../../bin/packfs "$usr/lib/packfs/$name"
done <"$work/names"

doc=$usr/share/doc/packfs
rm "$doc/LICENSE-MIT" "$doc/LICENSE-APACHE"
{
    cat copyright
    # The licence's text, in the form of the file: indented, a dot for an empty line.
    sed -e '1,4d' -e 's/^$/./' -e 's/^/ /' "$tree/share/doc/packfs/LICENSE-MIT"
} >"$doc/copyright"
mv "$doc/CHANGELOG.md" "$doc/changelog"
cat >"$doc/changelog.Debian" <<END
packfs ($version-1) unstable; urgency=medium

  * Version $version, packaged from the project's release; changelog.gz
    tells what is new.

 -- $maintainer  $(LC_ALL=C date -uRd "@$SOURCE_DATE_EPOCH")
END
cp README.Debian "$doc"
gzip -9n "$doc"/{changelog,changelog.Debian,THIRD-PARTY} "$usr"/share/man/man1/*
cp lintian-overrides "$usr/share/lintian/overrides/packfs"

for script in preinst postinst prerm postrm; do
    sed -e "/^@GROUPS@/ { r groups
        d }" "$script" >"$work/root/DEBIAN/$script"
    chmod 755 "$work/root/DEBIAN/$script"
done
sed -e 's|.*|interest-noawait /usr/bin/&\ninterest-noawait /usr/bin/&.distrib|' "$work/names" >"$work/root/DEBIAN/triggers"
(cd "$work/root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
# The page of the crate until there is a public address of the code.
homepage=$(sed -n 's/^repository = "\(.*\)"/\1/p' ../../../Cargo.toml)
libc=$(dpkg-query -W -f '${source:Package} (= ${source:Version})' "$libc_package")
sed -e "s/@VERSION@/$version-1/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@MAINTAINER@/$maintainer/" -e "s/@BUILT_USING@/$libc/" \
    -e "s|@HOMEPAGE@|${homepage:-https://crates.io/crates/packfs}|" \
    -e "s/@SIZE@/$(du -k --apparent-size -s "$usr" | cut -f1)/" control >"$work/root/DEBIAN/control"

# Newer files than the commit get its time, as dpkg-deb does; older ones do not exist.
find "$work/root" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
dpkg-deb --root-owner-group -Zxz --build "$work/root" "$place/packfs_$version-1_$architecture.deb" >&2
