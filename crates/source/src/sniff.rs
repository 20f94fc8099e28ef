//! Detects the type of a file from its first bytes, and whether its name suggests an archive.
//!
//! Names never decide how a file is read. They only show that an archive was meant if the bytes
//! match no format, so that a damaged one is not packed as a plain file.

use std::path::Path;

use packfs_blocks::system::OsStrExt;

use super::cpio;
use super::stream_formats::{STREAM_FORMATS, StreamCodec, StreamFormat, refused_compression};
use super::tar;

/// Type of a file according to its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// A tar archive.
    Tar,
    /// A cpio archive.
    Cpio,
    /// A zip archive.
    Zip,
    /// A compressed file, which may contain an archive.
    Compressed(StreamCodec),
    /// A SquashFS image.
    SquashFs,
    /// An EROFS image.
    Erofs,
    /// An archive or compression that is not supported: with an article, "a zip archive".
    Foreign(&'static str),
    /// Anything else.
    Other,
}

/// Number of bytes that [`sniff`] needs. Of all magics, that of EROFS is farthest from the beginning, at byte 1024.
pub const SNIFF_LEN: usize = 2048;

/// Byte offset of the superblock of EROFS, and its magic.
const EROFS_MAGIC: (usize, [u8; 4]) = (1024, [0xe2, 0xe1, 0xf5, 0xe0]);

/// Magics of SquashFS images: of version 4, of big-endian images of earlier versions, and of
/// incomplete images. The reader reports the latter two.
const SQUASHFS_MAGICS: [&[u8]; 3] = [b"hsqs", b"sqsh", b"HSQS"];

/// First bytes of zip archives: with members, empty, and split into several files.
const ZIP_MAGICS: [&[u8]; 3] = [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"];

/// First bytes of archives that are not supported.
const FOREIGN: [(&[u8], &str); 2] = [(b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (b"Rar!\x1a\x07", "a rar archive")];

/// Name suffixes of archives and images that are not compressed as a whole.
const ARCHIVE_ENDS: [&str; 10] = ["tar", "cpio", "zip", "7z", "rar", "sqfs", "squashfs", "sfs", "sqsh", "erofs"];

impl FileFormat {
    /// Returns true for a SquashFS or EROFS image.
    pub fn is_image(self) -> bool {
        matches!(self, FileFormat::SquashFs | FileFormat::Erofs)
    }
}

/// Returns the type of a file from its first [`SNIFF_LEN`] bytes (fewer if it is shorter).
pub fn sniff(head: &[u8]) -> FileFormat {
    let (erofs_off, erofs) = EROFS_MAGIC;
    // First, as compression hides whatever is within.
    if let Some(codec) = StreamCodec::recognise(head) {
        return FileFormat::Compressed(codec);
    }
    if SQUASHFS_MAGICS.iter().any(|magic| head.starts_with(magic)) {
        return FileFormat::SquashFs;
    }
    // After SquashFS: its data may lie where EROFS has its magic.
    if head.get(erofs_off..).is_some_and(|rest| rest.starts_with(&erofs)) {
        return FileFormat::Erofs;
    }
    // After images: a v7 header has no magic, only a checksum, which other bytes may match by chance.
    if tar::is_header(head) {
        return FileFormat::Tar;
    }
    if cpio::is_header(head) {
        return FileFormat::Cpio;
    }
    if is_zip(head) {
        return FileFormat::Zip;
    }
    let archive = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, what)| *what);
    match archive.or_else(|| refused_compression(head)) {
        Some(what) => FileFormat::Foreign(what),
        None => FileFormat::Other,
    }
}

/// Returns true for the first bytes of a zip archive.
pub(super) fn is_zip(head: &[u8]) -> bool {
    ZIP_MAGICS.iter().any(|magic| head.starts_with(magic))
}

/// Returns true if a file of this name is meant to be an archive or an image.
pub fn is_archive_name(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    let mut parts = name.rsplit(|byte| *byte == b'.').map(|part| std::str::from_utf8(part).unwrap_or_default());
    let last = parts.next().unwrap_or_default();
    let before = parts.next().unwrap_or_default();
    // A name without a dot, or with its only dot in front, has no suffix.
    if before.is_empty() {
        return false;
    }
    let is_any =
        |is_ending: fn(&StreamFormat, &str) -> bool| STREAM_FORMATS.iter().any(|format| is_ending(format, last));
    // `name.tar.gz`, but not `.tar.gz`, which has no name.
    let is_compressed_archive = is_any(StreamFormat::is_file_ending)
        && ["tar", "cpio"].contains(&before)
        && parts.next().is_some_and(|stem| !stem.is_empty());
    ARCHIVE_ENDS.contains(&last) || is_any(StreamFormat::is_tar_ending) || is_compressed_archive
}

/// Returns true if the bytes start a tar archive without members: zero blocks.
pub fn is_empty_tar(head: &[u8]) -> bool {
    head.len() >= tar::format::BLOCK && head.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, tar_bytes};

    #[test]
    fn files_are_recognised_by_their_first_bytes() {
        let erofs = [vec![0; 1024], vec![0xe2, 0xe1, 0xf5, 0xe0]].concat();
        let mut v7 = tar_bytes();
        v7[257..265].fill(0);
        let sum: u32 =
            v7[..512].iter().enumerate().map(|(at, b)| if (148..156).contains(&at) { 32 } else { u32::from(*b) }).sum();
        v7[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut damaged = tar_bytes();
        damaged[3] ^= 1;
        let table: [(&[u8], FileFormat); 21] = [
            (&tar_bytes(), FileFormat::Tar),
            (&v7, FileFormat::Tar),
            (&damaged, FileFormat::Tar),
            (&tar_bytes()[..511], FileFormat::Tar),
            (&v7[..511], FileFormat::Other),
            (&gzip(b""), FileFormat::Compressed(StreamCodec::Gzip)),
            (b"\xfd7zXZ\0\0", FileFormat::Compressed(StreamCodec::Xz)),
            (b"\x28\xb5\x2f\xfd....", FileFormat::Compressed(StreamCodec::Zstd)),
            (b"BZh91AY&SY", FileFormat::Compressed(StreamCodec::Bzip2)),
            (b"BZh9 but not bzip2", FileFormat::Other),
            (b"hsqs", FileFormat::SquashFs),
            (b"sqsh", FileFormat::SquashFs),
            (b"HSQS", FileFormat::SquashFs),
            (&erofs, FileFormat::Erofs),
            (b"PK\x03\x04", FileFormat::Zip),
            (b"7z\xbc\xaf\x27\x1c", FileFormat::Foreign("a 7z archive")),
            (b"070701000", FileFormat::Cpio),
            (b"070707000", FileFormat::Cpio),
            (b"\x1f\x9d\x90", FileFormat::Foreign("compressed with compress")),
            (&[0; SNIFF_LEN], FileFormat::Other),
            (b"", FileFormat::Other),
        ];
        for (head, kind) in table {
            assert_eq!(sniff(head), kind, "{}", head[..head.len().min(20)].escape_ascii());
        }
    }

    #[test]
    fn names_of_archives() {
        for name in [
            "a.tar",
            "d/a.TAR.gz",
            "a.tzstd",
            "a.tb2",
            "a.taz",
            "a.b.tgz",
            "a.tar.Z",
            "x.tar.lz4",
            "i.cpio.xz",
            "r.sqfs",
            "r.erofs",
            "z.zip",
        ] {
            assert!(is_archive_name(Path::new(name)), "{name}");
        }
        for name in ["tar", "zip", "a.gz", "a.tar.sig", "a.tar.gz.sha256", "vmlinuz", ".tar", "a.tar.d/x", "a.target"] {
            assert!(!is_archive_name(Path::new(name)), "{name}");
        }
    }
}
