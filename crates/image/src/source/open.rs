//! From an argument of a command to a source: what is it?

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::io::FileAt;

use super::decompress::{self, Compression};
use super::dir::{self, Dir};
use super::tar;
use super::{FromImage, PackList, Source};
use crate::tree::Time;
use crate::{AnyImage, Error, OpenOptions, Result};

/// How sources are read, whatever they are.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How directories are scanned; `exclude` and `xattrs` hold for every source.
    pub scan: dir::Options,
    /// Time of entries that a pack list gives none.
    pub time: Time,
}

/// What a file is, going by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A tar archive.
    Tar,
    /// Compressed with gzip, and so on.
    Gzip,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
    /// bzip2.
    Bzip2,
    /// A SquashFS image.
    SquashFs,
    /// An EROFS image.
    Erofs,
    /// Nothing of these.
    Other,
}

/// As many bytes as [`sniff`] wants to see.
pub const SNIFF_LEN: usize = 2048;

/// Where the superblock of EROFS is, and what it begins with.
const EROFS_MAGIC: (usize, [u8; 4]) = (1024, [0xe2, 0xe1, 0xf5, 0xe0]);

/// Says what a file is from its first [`SNIFF_LEN`] bytes (fewer if it is shorter).
pub fn sniff(head: &[u8]) -> Kind {
    let (erofs_off, erofs) = EROFS_MAGIC;
    match Compression::detect(head, Path::new("")) {
        Ok(Some(Compression::Gzip)) => Kind::Gzip,
        Ok(Some(Compression::Xz)) => Kind::Xz,
        Ok(Some(Compression::Zstd)) => Kind::Zstd,
        Ok(Some(Compression::Bzip2)) => Kind::Bzip2,
        // Images of other byte orders or not yet complete are for the reader to explain.
        _ if head.starts_with(b"hsqs") || head.starts_with(b"sqsh") || head.starts_with(b"QSSH") => Kind::SquashFs,
        _ if head.get(erofs_off..).is_some_and(|rest| rest.starts_with(&erofs)) => Kind::Erofs,
        _ if tar::is_header(head) => Kind::Tar,
        _ => Kind::Other,
    }
}

/// Opens the source that `argument` names: a directory, a file, an archive, an image, `@` and a pack list,
/// or `-` for an archive on standard input. A file that is none of these is a source of one entry.
pub fn open(argument: &OsStr, options: &Options) -> Result<Box<dyn Source>> {
    if argument == "-" {
        return open_tar(None, options);
    }
    if let Some(list) = argument.as_bytes().strip_prefix(b"@") {
        return Ok(Box::new(PackList::new(OsStr::from_bytes(list), options.scan.clone(), options.time)));
    }
    let path = Path::new(argument);
    let kind = path.metadata().map_err(Error::io("cannot open", path))?.file_type();
    if kind.is_dir() {
        return Ok(Box::new(Dir::new(path, options.scan.clone())));
    }
    if kind.is_fifo() || kind.is_char_device() {
        return open_tar(Some(path), options);
    }
    match sniff_inside(path)? {
        Kind::SquashFs | Kind::Erofs => open_image(path, options),
        Kind::Other => Ok(Box::new(Dir::new(path, options.scan.clone()))),
        _ => open_tar(Some(path), options),
    }
}

/// What a file is; a compressed one is what is inside if that is an archive, and nothing special otherwise.
fn sniff_inside(path: &Path) -> Result<Kind> {
    let file = File::open(path).map_err(Error::io("cannot open", path))?;
    let head = read_head(&file).map_err(Error::io("cannot read", path))?;
    match sniff(&head) {
        compressed @ (Kind::Gzip | Kind::Xz | Kind::Zstd | Kind::Bzip2) => {
            let again = File::open(path).map_err(Error::io("cannot open", path))?;
            // Whatever cannot be decompressed, or holds no archive, is packed as the file it is.
            let inside = decompress::reader(Box::new(again), path).ok().and_then(|inside| read_head(inside).ok());
            let is_tar = inside.is_some_and(|head| sniff(&head) == Kind::Tar);
            Ok(if is_tar { compressed } else { Kind::Other })
        }
        kind => Ok(kind),
    }
}

fn read_head(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(SNIFF_LEN);
    from.take(SNIFF_LEN as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn open_tar(path: Option<&Path>, options: &Options) -> Result<Box<dyn Source>> {
    tar::open(path, tar::Options { exclude: options.scan.exclude.clone(), xattrs: options.scan.xattrs })
}

fn open_image(path: &Path, options: &Options) -> Result<Box<dyn Source>> {
    let bytes = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
    let image = AnyImage::open(Arc::new(bytes), OpenOptions { name: path.to_owned(), ..OpenOptions::default() })?;
    Ok(Box::new(FromImage::new(image.into_image(), path, options.scan.exclude.clone(), options.scan.xattrs)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::Tree;
    use crate::source::{Exclude, Store};

    struct Sink;

    impl Store for Sink {
        fn put(&mut self, from: &mut dyn Read, _: u64, _: &[(u64, u64)]) -> Result<u32> {
            std::io::copy(from, &mut std::io::sink()).map_err(Error::io("cannot read", "stream"))?;
            Ok(0)
        }
    }

    fn tar_bytes() -> Vec<u8> {
        let mut builder = ::tar::Builder::new(Vec::new());
        let mut header = ::tar::Header::new_gnu();
        header.set_size(4);
        header.set_mode(0o644);
        builder.append_data(&mut header, "inside", &b"data"[..]).unwrap();
        builder.into_inner().unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn files_are_told_by_their_first_bytes() {
        let erofs = [vec![0; 1024], vec![0xe2, 0xe1, 0xf5, 0xe0]].concat();
        let mut v7 = tar_bytes();
        v7[257..265].fill(0);
        let sum: u32 =
            v7[..512].iter().enumerate().map(|(at, b)| if (148..156).contains(&at) { 32 } else { u32::from(*b) }).sum();
        v7[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let table: [(&[u8], Kind); 12] = [
            (&tar_bytes(), Kind::Tar),
            (&v7, Kind::Tar),
            (&tar_bytes()[..511], Kind::Other),
            (&gzip(b""), Kind::Gzip),
            (b"\xfd7zXZ\0\0", Kind::Xz),
            (b"\x28\xb5\x2f\xfd....", Kind::Zstd),
            (b"BZh91AY&SY", Kind::Bzip2),
            (b"BZh9 but not bzip2", Kind::Other),
            (b"hsqs", Kind::SquashFs),
            (&erofs, Kind::Erofs),
            (&[0; SNIFF_LEN], Kind::Other),
            (b"", Kind::Other),
        ];
        for (head, kind) in table {
            assert_eq!(sniff(head), kind, "{}", head[..head.len().min(20)].escape_ascii());
        }
    }

    #[test]
    fn arguments_become_sources() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dir")).unwrap();
        std::fs::write(dir.path().join("dir/inside"), "data").unwrap();
        let files: [(&str, &[u8]); 6] = [
            ("a.tar", &tar_bytes()),
            ("misnamed", &gzip(&tar_bytes())),
            ("text.gz", &gzip(b"no archive")),
            ("broken.gz", &gzip(&tar_bytes())[..20]),
            ("text", b"some text"),
            ("list", b"content /inside 0644 0 0 \"data\""),
        ];
        for (name, bytes) in files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let list = format!("@{}", dir.path().join("list").display());
        for (argument, expected) in [
            ("dir", "inside"),
            ("a.tar", "inside"),
            ("misnamed", "inside"),
            ("text.gz", "text.gz"),
            ("broken.gz", "broken.gz"),
            ("text", "text"),
            (&list, "inside"),
        ] {
            let path = if argument.starts_with('@') { argument.into() } else { dir.path().join(argument) };
            for excluded in [false, true] {
                let exclude = Exclude::new(excluded.then_some("inside")).unwrap();
                let options = Options { scan: dir::Options { exclude, ..Default::default() }, ..Default::default() };
                let mut tree = Tree::default();
                open(path.as_os_str(), &options).unwrap().scan(&mut tree, &mut Sink).unwrap();
                let found = tree.lookup(expected.as_bytes()).is_some();
                assert_eq!(found, !(excluded && expected == "inside"), "{argument}");
            }
        }
        let error = open(dir.path().join("gone").as_os_str(), &Options::default()).err().unwrap();
        assert!(error.to_string().contains("gone: cannot open"), "{error}");
    }
}
