//! Finds out which source a command-line argument means.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;
use packfs_blocks::system::{FileTypeExt, OsStrExt, os_str};

use super::archive;
use super::decompress;
use super::dir;
use super::{Dir, ExcludeRules, FromImage, PackList, Source};
use crate::name::display;
use crate::tree::Time;
use crate::{AnyImage, Error, OpenOptions, Result};
pub use packfs_source::{FileFormat, SNIFF_LEN, StreamCodec, sniff};
use packfs_source::{is_archive_name, is_empty_tar};

/// Options for reading sources of every kind.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SourceReadOptions {
    /// Options for scanning directories; `exclude` and `xattrs` apply to every source.
    pub scan: dir::Options,
    /// Time of entries that have none in a pack list.
    pub time: Time,
    /// Way to open images that are no files.
    pub elsewhere: SourceOpener,
    /// True if an image is to refer to archives and images, which then become [devices](crate::Tree::devices).
    pub refer: bool,
}

/// A way to open arguments that name images outside the file system. This crate itself knows none.
#[derive(Clone, Default)]
pub struct SourceOpener(Option<Arc<OpenElsewhere>>);

/// Returns the name for messages and the bytes of an image; `None` if an argument names a file.
type OpenElsewhere = dyn Fn(&Path) -> Option<Result<(PathBuf, Arc<dyn ReadAt>)>> + Send + Sync;

impl SourceOpener {
    /// Opens with `open`, which returns the name for messages and the bytes; `None` for names of files.
    pub fn new(open: impl Fn(&Path) -> Option<Result<(PathBuf, Arc<dyn ReadAt>)>> + Send + Sync + 'static) -> Self {
        SourceOpener(Some(Arc::new(open)))
    }

    fn open(&self, argument: &OsStr) -> Option<Result<(PathBuf, Arc<dyn ReadAt>)>> {
        self.0.as_ref().and_then(|open| open(Path::new(argument)))
    }
}

impl fmt::Debug for SourceOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceOpener").field(&self.0.is_some()).finish()
    }
}

/// Prefix of a file name that packs the file as it is, whatever it holds.
const PLAIN: &[u8] = b"file:";

/// Opens the source that `argument` names: a directory, a file, an archive, an image, `@` and a
/// pack list, or `-` for an archive on standard input. Any other file is a source of one entry, and
/// so is every file with `file:` before its name.
///
/// A damaged archive, or one of an unsupported kind, is an error: it is hardly meant as a plain file.
pub fn open(argument: &OsStr, options: &SourceReadOptions) -> Result<Box<dyn Source>> {
    if argument == "-" {
        return open_archive(None, options);
    }
    if let Some(list) = argument.as_bytes().strip_prefix(b"@") {
        return Ok(Box::new(PackList::new(os_str(list).into_owned(), options.scan.clone(), options.time)));
    }
    if let Some(found) = options.elsewhere.open(argument) {
        let (name, bytes) = found?;
        return open_image(&name, bytes, options);
    }
    let plain = argument.as_bytes().strip_prefix(PLAIN).map(os_str);
    let path = Path::new(plain.as_deref().unwrap_or(argument));
    let kind = path.metadata().map_err(Error::io("cannot open", path))?.file_type();
    if plain.is_some() && !kind.is_file() {
        return Err(Error::WrongType { path: path.to_owned(), expected: "regular file" });
    }
    if kind.is_dir() || plain.is_some() {
        return Ok(Box::new(Dir::new(path, options.scan.clone())));
    }
    if kind.is_fifo() || kind.is_char_device() {
        return open_archive(Some(path), options);
    }
    match look_into(path)? {
        FileFormat::SquashFs | FileFormat::Erofs => {
            let bytes = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
            open_image(path, Arc::new(bytes), options)
        }
        FileFormat::Tar | FileFormat::Cpio | FileFormat::Zip => open_archive(Some(path), options),
        _ => Ok(Box::new(Dir::new(path, options.scan.clone()))),
    }
}

/// Detects the kind of a file; [`FileFormat::Tar`] and [`FileFormat::Cpio`] also if it is compressed, [`FileFormat::Other`] if it is to
/// be packed as it is.
fn look_into(path: &Path) -> Result<FileFormat> {
    let file = File::open(path).map_err(Error::io("cannot open", path))?;
    let head = read_head(&file).map_err(Error::io("cannot read", path))?;
    let kind = match sniff(&head) {
        FileFormat::Compressed(_) => {
            let inside = head_inside(path)?;
            match sniff(&inside) {
                kind @ (FileFormat::Tar | FileFormat::Cpio) => kind,
                _ if is_empty_tar(&inside) && is_archive_name(path) => FileFormat::Tar,
                _ => FileFormat::Other,
            }
        }
        FileFormat::Other if is_empty_tar(&head) && is_archive_name(path) => FileFormat::Tar,
        FileFormat::Foreign(what) => {
            let why =
                format!("{}: {what}, which packfs cannot read: convert it to tar, or {}", display(path), advice(path));
            return Err(Error::Unsupported(why));
        }
        kind => kind,
    };
    if kind == FileFormat::Other && is_archive_name(path) {
        let why = "its name is that of an archive or image, but its first bytes match no supported format";
        return Err(damaged(path, why));
    }
    Ok(kind)
}

/// Returns the first bytes of a compressed file, decompressed.
fn head_inside(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(Error::io("cannot open", path))?;
    let head = decompress::reader(Box::new(file), path).map(read_head)?;
    head.map_err(|error| match error.raw_os_error() {
        Some(_) => Error::io("cannot read", path)(error),
        None => damaged(path, &error.to_string()),
    })
}

/// Returns the format of a file by its first bytes. A file that cannot be read has no known format: opening it as a source
/// reports why. Files that can be read only once are not touched.
pub fn file_format(path: &Path) -> FileFormat {
    let is_read_again = path.metadata().is_ok_and(|found| found.is_file() || found.file_type().is_block_device());
    if !is_read_again {
        return sniff(&[]);
    }
    // Bytes that are not read are not compared with anything.
    let head = File::open(path).and_then(read_head).unwrap_or_default();
    sniff(&head)
}

fn damaged(path: &Path, why: &str) -> Error {
    Error::Damaged { path: path.to_owned(), why: format!("{why}; {}", advice(path)) }
}

fn advice(path: &Path) -> String {
    format!("use `file:{}` to pack it as a plain file", display(path))
}

fn read_head(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(SNIFF_LEN);
    from.take(SNIFF_LEN as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn open_archive(path: Option<&Path>, options: &SourceReadOptions) -> Result<Box<dyn Source>> {
    // Hard links lead from anywhere in an archive to anywhere.
    let exclude = options.scan.exclude.clone().with_elsewhere();
    let archive_options = archive::Options::default().set(|archive_options| {
        archive_options.exclude = exclude;
        archive_options.xattrs = options.scan.xattrs;
        archive_options.refer = options.refer;
    });
    archive::open(path, archive_options)
}

fn open_image(path: &Path, bytes: Arc<dyn ReadAt>, options: &SourceReadOptions) -> Result<Box<dyn Source>> {
    let image = AnyImage::open(bytes.clone(), OpenOptions { name: path.to_owned(), ..OpenOptions::default() })?;
    let exclude = options.scan.exclude.clone();
    let xattrs = options.scan.xattrs;
    if options.refer {
        return Ok(Box::new(FromImage::referred_to(image, bytes, path, exclude, xattrs)?));
    }
    Ok(Box::new(FromImage::new(image.into_image(), path, exclude, xattrs).of_bytes(bytes)))
}

/// Opens the image in the file `path` with all that is in it, to be appended to.
pub fn whole_image(path: &Path) -> Result<FromImage> {
    let bytes: Arc<dyn ReadAt> = Arc::new(FileAt::open(path, 0).map_err(Error::io("cannot open", path))?);
    let image = AnyImage::open(bytes.clone(), OpenOptions { name: path.to_owned(), ..OpenOptions::default() })?;
    Ok(FromImage::new(image.into_image(), path, ExcludeRules::default(), true).of_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::Tree;
    use crate::testing::{Sink, gzip, tar_bytes};

    #[test]
    fn arguments_become_sources() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("dir")).unwrap();
        std::fs::write(dir.path().join("dir/inside"), "data").unwrap();
        let files: [(&str, &[u8]); 6] = [
            ("a.tar", &tar_bytes()),
            ("misnamed", &gzip(&tar_bytes())),
            ("text.gz", &gzip(b"no archive")),
            ("none.tar", &[0; 10240]),
            ("text", b"some text"),
            ("list", b"content /inside 0644 0 0 \"data\""),
        ];
        for (name, bytes) in files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let list = format!("@{}", display(&dir.path().join("list")));
        for (argument, expected) in [
            ("dir", "inside"),
            ("a.tar", "inside"),
            ("misnamed", "inside"),
            ("text.gz", "text.gz"),
            ("file:a.tar", "a.tar"),
            ("text", "text"),
            (&list, "inside"),
        ] {
            let path = match argument.strip_prefix("file:") {
                Some(name) => format!("file:{}", display(&dir.path().join(name))).into(),
                None if argument.starts_with('@') => argument.into(),
                None => dir.path().join(argument),
            };
            for excluded in [false, true] {
                let exclude = ExcludeRules::new(excluded.then_some("inside")).unwrap();
                let scan = dir::Options::default().set(|scan| scan.exclude = exclude);
                let options = SourceReadOptions { scan, ..Default::default() };
                let mut tree = Tree::default();
                open(path.as_os_str(), &options).unwrap().scan(&mut tree, &mut Sink).unwrap();
                let found = tree.lookup(expected.as_bytes()).is_some();
                assert_eq!(found, !(excluded && expected == "inside"), "{argument}");
            }
        }
        let error = open(dir.path().join("gone").as_os_str(), &SourceReadOptions::default()).err().unwrap();
        assert!(error.to_string().contains("gone: cannot open"), "{error}");
    }

    /// Returns the error of opening and scanning a file of these bytes; `None` if it becomes a source.
    fn refused(name: &str, bytes: &[u8]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let read =
            |argument: &OsStr| open(argument, &SourceReadOptions::default())?.scan(&mut Tree::default(), &mut Sink);
        read(format!("file:{}", display(&path)).as_ref()).expect("as a plain file");
        read(path.as_os_str()).err().map(|error| error.to_string())
    }

    fn changed(bytes: &[u8], at: usize) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 0xff;
        bytes
    }

    #[test]
    fn damaged_and_foreign_archives_are_not_plain_files() {
        let archive = tar_bytes();
        let (gz, xz) = (gzip(&archive), {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(&archive).unwrap();
            encoder.finish().unwrap()
        });
        let zst = zstd::encode_all(&archive[..], 1).unwrap();
        let bz2 = {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(&archive).unwrap();
            encoder.finish().unwrap()
        };
        let by_name = "its name is that of an archive";
        let mut cases: Vec<(&str, Vec<u8>, &str)> = vec![
            ("empty.tar", vec![], by_name),
            ("short.tar", archive[..200].to_vec(), by_name),
            ("text.tar.gz", gzip(b"text"), by_name),
            ("a.sqfs", b"HsQs".to_vec(), by_name),
            ("a.tar.Z", b"\x1f\x9d\x90".to_vec(), "compressed with compress, which packfs cannot read"),
            ("a", b"\x04\x22\x4d\x18".to_vec(), "compressed with lz4"),
            ("a.tar.lzo", b"\x89LZO\0\r\n".to_vec(), "compressed with lzop"),
            ("a.zip", b"PK\x03\x04".to_vec(), "zip archive: Missing end of central directory"),
            (
                "a.7z",
                b"7z\xbc\xaf\x27\x1c".to_vec(),
                "a 7z archive, which packfs cannot read: convert it to tar, or use `file:",
            ),
            ("initrd", b"0707010000".to_vec(), "truncated"),
            ("stream", [b"HSQS".to_vec(), vec![0; 200]].concat(), "a streamed image without a superblock"),
            ("old", [b"sqsh".to_vec(), vec![0; 200]].concat(), "big-endian"),
            ("magic", changed(&archive, 5), "tar header at byte 0: its checksum does not match"),
            ("magic", archive[..400].to_vec(), "the archive ends after 400 of 512 bytes"),
        ];
        // One wrong byte in each of the first blocks' fields.
        for at in [0, 1, 100, 150, 257, 260, 511] {
            cases.push(("wrong.tar", changed(&archive, at), ""));
        }
        for (name, bytes) in [("a.tar.gz", &gz), ("a.tar.xz", &xz), ("a.tar.zst", &zst), ("a.tar.bz2", &bz2)] {
            for at in 0..4 {
                cases.push((name, changed(bytes, at), ""));
            }
            for len in [0, 3, 11, bytes.len() / 2] {
                cases.push((name, bytes[..len].to_vec(), ""));
            }
            // Recognised by its magic, whatever its name.
            cases.push(("misnamed", bytes[..bytes.len() / 2].to_vec(), " data "));
            assert_eq!(refused(name, bytes), None, "{name}");
        }
        for (name, bytes, want) in cases {
            let said = refused(name, &bytes);
            assert!(said.as_ref().is_some_and(|said| said.contains(want)), "{name}, {want}: {said:?}");
        }
        for (name, bytes) in [("text.gz", gzip(b"text")), ("a.tar.sig", b"text".to_vec()), ("BZh9", b"BZh9".to_vec())] {
            assert_eq!(refused(name, &bytes), None, "{name}");
        }
    }
}
