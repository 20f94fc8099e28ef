//! Command lines of the programs' manuals: each example, and each option as its entry writes it.

use super::lines::Line;

/// Options and operands of mkfs.erofs(1): examples first. `IMAGE` is the image, as in other lines.
pub(crate) const MKFS_EROFS: &[(&str, &str)] = &[
    ("-b 4096 --dsunit 512 --chunksize 4096", "IMAGE t"),
    ("-b 4096 --dsunit 512 --chunksize 2097152", "IMAGE t"),
    ("-zlz4 --zfeature-bits=6", "IMAGE t"),
    ("--xattr-prefix=trusted.overlay.", "IMAGE t"),
    ("-zlz4hc,12", "IMAGE t"),
    ("-U c1b9d5a2-f162-11cf-9ece-0020afc76f16", "IMAGE t"),
    ("-E^inline_data --sort=none --tar=f", "IMAGE t.tar"),
    ("-b 1024", "IMAGE t"),
    ("-C 65536 -z lz4", "IMAGE t"),
    ("-m 4096:zstd -z lz4", "IMAGE t"),
    ("-m 4096", "IMAGE t"),
    ("--MZ", "IMAGE t"),
    ("--MZ=0", "IMAGE t"),
    ("--MZ=id", "IMAGE t"),
    ("-x 2", "IMAGE t"),
    ("-z zstd,level=3:lz4", "IMAGE t"),
    ("--zD -z lz4", "IMAGE t"),
    ("-d 2", "IMAGE t"),
    ("-E 48bit -z zstd", "IMAGE t"),
    ("-E 48bit,legacy-compress -z lz4", "IMAGE t"),
    ("-E all-fragments -z lz4", "IMAGE t"),
    ("-E fragments=65536,dedupe -z lz4 -C65536", "IMAGE t"),
    ("-E dot-omitted", "IMAGE t"),
    ("-E force-inode-compact", "IMAGE t"),
    ("-E force-inode-extended", "IMAGE t"),
    ("-E force-inode-blockmap --chunksize=4096", "IMAGE t"),
    ("-E force-chunk-indexes --chunksize=4096", "IMAGE t"),
    ("-E all-fragments,fragdedupe=inode -z lz4", "IMAGE t"),
    ("-E fragments,^fragdedupe -z lz4", "IMAGE t"),
    ("-E ^inline_data", "IMAGE t"),
    ("-E legacy-compress -z lz4", "IMAGE t"),
    ("-E nosbcrc", "IMAGE t"),
    ("-E plain-xattr-prefixes,fragments -z lz4", "IMAGE t"),
    ("-E xattr-name-filter", "IMAGE t"),
    ("-E ztailpacking -z lz4", "IMAGE t"),
    ("-m 4096 -E ztailpacking", "IMAGE t"),
    ("-L label", "IMAGE t"),
    ("-T 1700000000", "IMAGE t"),
    ("-T 1700000000 --all-time", "IMAGE t"),
    ("-T 1700000000 --mkfs-time", "IMAGE t"),
    ("--mkfs-time -T 1700000000 --ignore-mtime", "IMAGE t"),
    ("-T 1700000000 --mkfs-time -E force-inode-compact", "IMAGE t"),
    ("-U clear", "IMAGE t"),
    ("-U random", "IMAGE t"),
    ("--all-root", "IMAGE t"),
    ("--async-queue-limit=16", "IMAGE t"),
    ("--aufs", "IMAGE t"),
    ("--aufs --tar", "IMAGE t.tar"),
    ("--blobdev BLOB --chunksize 4096", "IMAGE t"),
    ("--chunksize 4096", "IMAGE t"),
    ("--clean", "IMAGE t"),
    ("--clean=data", "IMAGE t"),
    ("--clean=rvsp", "IMAGE t"),
    ("--clean=0", "IMAGE t"),
    ("--exclude-path=usr/bin/x", "IMAGE t"),
    ("--exclude-regex=^var/.*", "IMAGE t"),
    ("--force-uid=5", "IMAGE t"),
    ("--force-gid=5", "IMAGE t"),
    ("--gid-offset=1000", "IMAGE t"),
    ("--hard-dereference", "IMAGE t"),
    ("--ignore-mtime", "IMAGE t"),
    ("--max-extent-bytes=65536 -z lz4", "IMAGE t"),
    ("--mount-point=/system", "IMAGE t"),
    ("--offset=0", "IMAGE t"),
    ("--ovlfs-strip=0", "IMAGE t"),
    ("--preserve-mtime", "IMAGE t"),
    ("--quiet", "IMAGE t"),
    ("--sort=path --tar=f", "IMAGE t.tar"),
    ("--uid-offset=1000", "IMAGE t"),
    ("--ungzip --tar=f", "IMAGE t.tar.gz"),
    ("--gzip --tar=f", "IMAGE t.tar.gz"),
    ("--workers=1", "IMAGE t"),
    ("--xattr-inode-digest=user.digest", "IMAGE t"),
];

/// Of docs/compress-hints.example, which is installed with the manual. mkfs.erofs 1.9.4 ends by a signal here.
pub(crate) const COMPRESS_HINTS: (&str, &str) =
    ("-zlzma:lz4hc,12:lzma,109 -C131072 --compress-hints=compress-hints", "IMAGE t");
/// The file of hints of this example.
pub(crate) const HINTS: &str = "4096     1 .*\\.so.*$\n4096     1 bin/\n4096     1 sbin/\n131072   2 etc/\n";

/// Options and operands of fsck.erofs(1).
pub(crate) const FSCK_EROFS: &[(&str, &str)] = &[
    ("", "a.erofs"),
    ("-d 2", "a.erofs"),
    ("-p", "b.erofs"),
    ("--extract", "a.erofs"),
    ("--extract=to", "b.erofs"),
    ("--no-sbcrc", "a.erofs"),
    ("--nid=0", "a.erofs"),
    ("--path=/", "a.erofs"),
    ("--path=/etc --extract=to", "a.erofs"),
    ("--nid=0 --path=/usr/share --extract=to", "a.erofs"),
    ("--path=/usr/share --nid=0 --extract=to", "a.erofs"),
    ("--xattrs --extract=to", "a.erofs"),
    ("--xattrs --no-xattrs --extract=to", "a.erofs"),
    ("--no-xattrs --xattrs --extract=to", "a.erofs"),
    ("--no-preserve --preserve --extract=to", "a.erofs"),
    ("--no-preserve-perms --preserve --extract=to", "a.erofs"),
    ("--no-preserve --preserve-owner --extract=to", "a.erofs"),
    ("--extract=to --extract", "a.erofs"),
    ("--extract=nowhere --extract=to", "a.erofs"),
    ("--offset=4096 --offset=0", "a.erofs"),
    ("--extract=/", "a.erofs"),
    ("--extract=", "a.erofs"),
    ("-a", "a.erofs"),
    ("-A", "a.erofs"),
    ("-y", "a.erofs"),
];

/// Options and operands of dump.erofs(1).
pub(crate) const DUMP_EROFS: &[(&str, &str)] = &[
    ("", "a.erofs"),
    ("--ls --path=/etc", "a.erofs"),
    ("--ls --nid=36", "a.erofs"),
    ("--cat --path=/etc/motd", "a.erofs"),
    ("--path=/usr/bin/big", "b.erofs"),
    ("--nid=36", "a.erofs"),
    ("-e --path=/usr/bin/big", "b.erofs"),
    ("-s", "a.erofs"),
    ("-S", "b.erofs"),
];

/// Returns a line as the drawn ones are.
pub(crate) fn line((options, operands): (&'static str, &'static str)) -> Line {
    Line { options: options.split(' ').filter(|word| !word.is_empty()).collect(), operands }
}
