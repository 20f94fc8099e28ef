//! Archives as sources (tar, cpio, zip), recognised by their first bytes, and the part that their formats share. Tar
//! and cpio archives may be compressed and come from a pipe.
//!
//! An uncompressed tar or cpio archive in a file is only scanned: contents are read in place later, by any thread. Any
//! other archive is read once, and its data is passed on as it arrives.
//!
//! - `input` with `seekable` (and `contents`) and `stream`: provide the bytes.
//! - `place`: adds members to a tree.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;
use packfs_blocks::system::{self, FileTypeExt};

use self::contents::ArchiveFile;
use self::input::StoredMember;
use self::seekable::SeekableInput;
use self::stream::StreamInput;
use super::cpio::{self, CpioSource};
use super::decompress::{self, DecompressedStream};
use super::readahead::ReadAhead;
use super::sniff::is_zip;
use super::stream_formats::{STREAM_MAGIC_LEN, StreamCodec};
use super::tar::{self, TarSource};
use super::{ExcludeRules, Source};
use crate::name::display;
use crate::tree::{DeviceNumber, Time, XattrSet};
use crate::{Error, Result};

pub(super) mod contents;
pub(super) mod input;
pub(super) mod place;
pub(super) mod seekable;
pub(super) mod stream;

/// Selection of what to take from an archive.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Entries to leave out.
    pub exclude: ExcludeRules,
    /// True to take extended attributes.
    pub xattrs: bool,
    /// True if an image is to refer to the archive, which then becomes a [device](crate::Tree::devices). Its data is
    /// skipped, even in a stream. It must be an uncompressed tar archive.
    pub refer: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { exclude: ExcludeRules::default(), xattrs: true, refer: false }
    }
}

impl Options {
    /// Refuses an archive, by its first bytes, whose data an image cannot refer to.
    fn check(&self, head: &[u8], name: &Path) -> Result<()> {
        let what = match StreamCodec::recognise(head) {
            _ if !self.refer => return Ok(()),
            Some(_) => "its data is compressed: decompress it first",
            None if cpio::is_header(head) => "its data does not begin at multiples of a block: convert it to tar",
            None if is_zip(head) => "its data is compressed: convert it to tar",
            // Neither cpio nor zip aligns data to blocks, which an image can only refer to as a whole.
            None => return Ok(()),
        };
        Err(Error::Unsupported(format!("{}: an image cannot refer to this archive, as {what}", display(name))))
    }
}

/// Maximum length of a path or link target, in bytes.
pub(crate) const MAX_PATH: usize = 65_535;

/// Buffer for headers and small files of an uncompressed stream: as long as a pipe. Longer reads bypass it. With 16 KiB
/// or 256 KiB, reading takes as much processor time or up to a tenth more.
const PIPE_LEN: usize = 64 << 10;

/// Maximum length of files and archives: the largest offset of the system.
pub(crate) const MAX_SIZE: u64 = i64::MAX.unsigned_abs();

/// Opens the archive at `path`, or on standard input. Its format, and its compression (gzip, xz, zstd, bzip2 or none),
/// are detected from the first bytes; what is no other archive is read as tar.
pub fn open(path: Option<&Path>, options: Options) -> Result<Box<dyn Source>> {
    let Some(path) = path else {
        let name = Path::new("standard input");
        let stdin = system::open_stdin().map_err(Error::io("cannot read", name))?;
        return from_stream(Box::new(stdin), name, options);
    };
    let file = File::open(path).map_err(Error::io("cannot open", path))?;
    let kind = file.metadata().map_err(Error::io("cannot read", path))?.file_type();
    // A block device may hold an archive, and can be read at any place.
    if kind.is_file() || kind.is_block_device() {
        return from_bytes(Arc::new(FileAt::open(path, 0).map_err(Error::io("cannot open", path))?), path, options);
    }
    from_stream(Box::new(file), path, options)
}

/// Opens an archive in `bytes`; `name` is for messages.
pub fn from_bytes(bytes: Arc<dyn ReadAt>, name: &Path, options: Options) -> Result<Box<dyn Source>> {
    let mut head = [0; STREAM_MAGIC_LEN];
    let got = bytes.read_at(&mut head, 0).map_err(Error::io("cannot read", name))?;
    let head = &head[..got];
    options.check(head, name)?;
    if StreamCodec::of_stream(head, name)?.is_some() {
        // The file is kept too, to notice that it changes.
        let from = Box::new(seekable::RemainingBytes::new(Arc::clone(&bytes)));
        return stream(from, name, Some(bytes), options);
    }
    if is_zip(head) {
        #[cfg(feature = "zip")]
        return Ok(Box::new(super::zip::ZipSource::new(bytes, name, options)));
        #[cfg(not(feature = "zip"))]
        return Err(Error::Unsupported(format!(
            "{}: this build does not read zip archives: it needs the cargo feature `zip`",
            display(name)
        )));
    }
    let path = name.to_owned();
    // By its first bytes; what is not recognised is tar, whose first header has no magic in old archives.
    if cpio::is_header(head) {
        let archive = ArchiveFile { bytes, path, of: cpio::STRUCTURE, name_of: cpio::name_of };
        return Ok(Box::new(CpioSource::new(SeekableInput::new(archive, 0), options)));
    }
    let archive = ArchiveFile { bytes, path, of: tar::STRUCTURE, name_of: tar::name_of };
    Ok(Box::new(TarSource::new(SeekableInput::new(archive, 0), options)))
}

/// Opens an archive, possibly compressed, that can be read only once; `name` is for messages.
pub fn from_stream(from: Box<dyn Read + Send>, name: &Path, options: Options) -> Result<Box<dyn Source>> {
    stream(from, name, None, options)
}

fn stream(
    from: Box<dyn Read + Send>,
    name: &Path,
    file: Option<Arc<dyn ReadAt>>,
    options: Options,
) -> Result<Box<dyn Source>> {
    let mut from = from;
    // Checked before it is decompressed, as its data could then not be referred to.
    if options.refer {
        let mut head = Vec::new();
        let read = from.by_ref().take(STREAM_MAGIC_LEN as u64).read_to_end(&mut head);
        read.map_err(Error::io("cannot read", name))?;
        options.check(&head, name)?;
        from = Box::new(io::Cursor::new(head).chain(from));
    }
    let DecompressedStream { bytes: mut from, was_compressed } = decompress::decompressed(from, name)?;
    let mut head = Vec::new();
    let read = from.by_ref().take(STREAM_MAGIC_LEN as u64).read_to_end(&mut head);
    read.map_err(Error::io("cannot read", name))?;
    // Only the end of a zip archive says where its members are.
    if is_zip(&head) {
        let why = "a zip archive has its directory at the end: save it to a file, which packfs can read";
        return Err(Error::Unsupported(format!("{}: {why}", display(name))));
    }
    let is_cpio = cpio::is_header(&head);
    let from = io::Cursor::new(head).chain(from);
    // Decompressing deserves a thread of its own. Without one, uncompressed bytes are copied once less.
    let bytes: Box<dyn Read + Send> = if was_compressed {
        Box::new(ReadAhead::new(Box::new(from)))
    } else {
        Box::new(io::BufReader::with_capacity(PIPE_LEN, from))
    };
    if options.refer {
        let input = StreamInput::new(bytes, name.to_owned(), tar::STRUCTURE, file).referred_to(tar::name_of);
        return Ok(Box::new(TarSource::new(input, options)));
    }
    Ok(match is_cpio {
        true => Box::new(CpioSource::new(StreamInput::new(bytes, name.to_owned(), cpio::STRUCTURE, file), options)),
        false => Box::new(TarSource::new(StreamInput::new(bytes, name.to_owned(), tar::STRUCTURE, file), options)),
    })
}

/// A member as described by the archive; its path and links are not checked yet.
#[derive(Debug, Clone)]
pub(crate) struct ArchiveMember {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: MemberKind,
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Time,
    pub(crate) xattrs: XattrSet,
    /// Attributes that could not be kept, each with the reason.
    pub(crate) lost: Vec<String>,
    /// Name of a member of this kind of archive, for messages.
    pub(crate) of: &'static str,
    /// Offset of the first header.
    pub(crate) at: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum MemberKind {
    File(StoredMember),
    HardLink(Vec<u8>),
    Symlink(Vec<u8>),
    Char(DeviceNumber),
    Block(DeviceNumber),
    Dir,
    Fifo,
    Socket,
}
