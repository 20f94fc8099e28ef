//! An image as a file system: paths, files that implement [`Read`] and [`Seek`], directories with types, a walk.
//!
//! A thin layer over [`Image`] for programs that need files rather than inodes. Symbolic links are
//! followed within the image: its root is `/`, and nothing outside it is ever accessed. Names and paths are [`Path`]s,
//! which hold any bytes.

mod parents;
mod read_many;

use std::ffi::OsStr;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_blocks::system::{OsStrExt, os_str};
use packfs_blocks::{Progress, ReadAt, pipeline};

use crate::diff::{self, Difference};
use crate::image::{FileType, Image, Nid, Stat};
use crate::sink::{Walk, lookup, tar};
use crate::tree::{XattrSet, path_of};
use crate::{AnyImage, Error, Finding, OpenOptions, Result};

use parents::ParentCache;
pub use read_many::{ManyBytes, ReadRequest, RequestError};

/// Number of bytes that small sequential reads of a [`ImageFile`] fetch from the image at a time.
const WINDOW: usize = 64 << 10;
/// Number of bytes that a file is read in when all of it is wanted. Memory is reserved for the whole file but used as reads
/// succeed, so that an image that only declares a huge file is found out after this much.
const READ_STEP: usize = 64 << 20;

/// Smallest default of the read limit, in bytes: most machines have as much memory to spare, and few files are longer.
const READ_LIMIT_MIN: u64 = 1 << 30;
/// Default of the read limit per byte of the image. Text compresses to a tenth: what is longer than this consists of holes
/// and repetitions.
const READ_LIMIT_RATIO: u64 = 16;

/// An opened image of any format. Clones share the image and its cache; any number of threads may use them at once.
///
/// ```
/// # use packfs_image::{Builder, Fs, source::Entry};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("root.erofs");
/// # Builder::erofs().entries([Entry::file("etc/motd", "Welcome.")]).build(&path)?;
/// let motd = Fs::open(&path)?.open_file("/etc/motd")?;
/// assert_eq!(std::io::read_to_string(motd)?, "Welcome.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Fs {
    image: Arc<dyn Image>,
    /// Maximum number of bytes that a call may return in memory of its own.
    read_limit: u64,
    /// Shared by clones.
    parents: Arc<ParentCache>,
}

impl Fs {
    /// Opens the image in a file or on a block device, with the default options.
    pub fn open(path: impl AsRef<Path>) -> Result<Fs> {
        let path = path.as_ref();
        let bytes = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
        Fs::with_options(bytes, OpenOptions { name: path.to_owned(), ..OpenOptions::default() })
    }

    /// Opens the image at the beginning of `reader`, with the default options: bytes in memory, a
    /// [`FileAt`](crate::FileAt), or a type of the caller.
    pub fn from_reader(reader: impl ReadAt + 'static) -> Result<Fs> {
        Fs::with_options(reader, OpenOptions::default())
    }

    /// Opens the image at the beginning of `reader`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged or not an image; [`Error::Unsupported`] if it needs a
    /// feature that this build lacks.
    pub fn with_options(reader: impl ReadAt + 'static, options: OpenOptions) -> Result<Fs> {
        let read_limit = READ_LIMIT_MIN.max(reader.len().saturating_mul(READ_LIMIT_RATIO));
        let image = AnyImage::open(Arc::new(reader), options)?.into_image();
        Ok(Fs { image, read_limit, parents: Arc::default() })
    }

    /// Sets the maximum number of bytes that [`Fs::read`], [`Fs::read_inode`] and [`Fs::read_many`] return: a small image
    /// may declare files, mostly holes, that fill any memory. The default is 1 GiB, or 16 times the length of the image if
    /// that is more.
    #[must_use]
    pub fn with_read_limit(self, bytes: u64) -> Fs {
        Fs { read_limit: bytes, ..self }
    }

    /// Returns the underlying image, for [sinks](crate::sink).
    pub fn image(&self) -> &dyn Image {
        &*self.image
    }

    /// Returns the underlying image, for shared ownership.
    pub fn into_image(self) -> Arc<dyn Image> {
        self.image
    }

    /// Writes everything as a tar archive, with the default options; see [`write_tar`](tar::write_tar) for others.
    pub fn write_tar(&self, mut out: impl Write) -> Result<tar::TarSummary> {
        tar::write_tar(self.image(), &mut out, &tar::TarOptions::default(), &Progress::default())
    }

    /// Calls `found` for every difference between this image, the first, and `other`, the second, in name order; see
    /// [`diff`](diff::diff) for options.
    pub fn diff(&self, other: &Fs, mut found: impl FnMut(Difference)) -> Result<()> {
        diff::diff(self.image(), other.image(), &diff::DiffOptions::default(), &Progress::default(), &mut found)
    }

    /// Verifies everything in the image on all cores and calls `found` for everything that is wrong or unusual; see
    /// [`Image::check`].
    pub fn check(&self, mut found: impl FnMut(Finding)) -> Result<()> {
        self.image.check(pipeline::cores(), &Progress::default(), &mut found)
    }

    /// Returns true if `path` leads to a file of any type, following symbolic links.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        Ok(self.parents.resolve(self.image(), path.as_ref().as_os_str().as_bytes())?.is_some())
    }

    /// Returns the attributes of the file that `path` leads to, following symbolic links.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Stat> {
        self.image.stat(self.nid(path.as_ref())?)
    }

    /// Returns the attributes of the entry at `path`, which may be a symbolic link; no link is followed on the way.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Stat> {
        let path = path.as_ref();
        let nid = lookup(self.image(), path.as_os_str().as_bytes())?;
        self.image.stat(nid.ok_or_else(|| not_found(path))?)
    }

    /// Returns the target of the symbolic link at `path`; no link is followed on the way.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::WrongType`] for anything but a symbolic link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        match self.symlink_metadata(path)?.kind {
            FileType::Symlink { target } => Ok(os_str(&target).into_owned().into()),
            _ => Err(Error::WrongType { path: path.to_owned(), expected: "symbolic link" }),
        }
    }

    /// Returns the extended attributes of the file that `path` leads to, with their full names.
    pub fn xattrs(&self, path: impl AsRef<Path>) -> Result<XattrSet> {
        self.image.xattrs(self.nid(path.as_ref())?)
    }

    /// Returns the inode that `path` leads to, following symbolic links: for [`Fs::read_many`], and to read a file again
    /// without looking up its path.
    pub fn inode(&self, path: impl AsRef<Path>) -> Result<Nid> {
        self.nid(path.as_ref())
    }

    /// Returns the bytes of the regular file that `path` leads to. Memory is what the file's
    /// [`metadata`](Fs::metadata) declares, which for holes is zeros.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::WrongType`] for anything but a regular file, [`Error::ReadLimit`] for one above
    /// [the limit](Fs::with_read_limit), and [`Error::Io`] of kind [`OutOfMemory`](io::ErrorKind::OutOfMemory).
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        self.read_whole(self.nid(path)?, || path.to_owned())
    }

    /// Returns the bytes of the regular file with this inode, as [`Fs::read`] does.
    pub fn read_inode(&self, nid: Nid) -> Result<Vec<u8>> {
        self.read_whole(nid, || inode_name(nid))
    }

    /// Fills `buf` with the beginning of the regular file that `path` leads to. Returns the number of bytes, which is less
    /// than `buf` holds only for a shorter file.
    pub fn read_into(&self, path: impl AsRef<Path>, buf: &mut [u8]) -> Result<usize> {
        let path = path.as_ref();
        let nid = self.nid(path)?;
        self.regular_size(nid, || path.to_owned())?;
        self.image.read_at(nid, buf, 0)
    }

    /// Reads many files, or ranges of them, into one buffer on up to `threads` threads. The requests may come in any order:
    /// they are sorted by their position in the image, and each stored unit is decoded once, however many requests need
    /// a part of it. The bytes do not depend on the number of threads.
    ///
    /// ```
    /// # use packfs_image::{Builder, Fs, source::Entry};
    /// # let entries = ["a", "b", "c"].map(|name| Entry::file(name, format!("This is {name}.")));
    /// # let (image, _) = Builder::squashfs().entries(entries).write_to(std::io::Cursor::new(Vec::new()))?;
    /// # let fs = Fs::from_reader(image)?;
    /// use packfs_image::ReadRequest;
    /// let requests = [ReadRequest::whole(fs.inode("c")?), ReadRequest { nid: fs.inode("a")?, range: 8..9 }];
    /// let many = fs.read_many(&requests, 2)?;
    /// assert_eq!(many.bytes, b"This is c.a");
    /// assert_eq!(many.get(1), Some(&b"a"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// That of the lowest request that failed, with its number: [`Error::ReadLimit`] for the first with which all together
    /// exceed [the limit](Fs::with_read_limit).
    pub fn read_many(&self, requests: &[ReadRequest], threads: usize) -> std::result::Result<ManyBytes, RequestError> {
        let offsets = self.limited_offsets(requests)?;
        let mut bytes = Vec::new();
        let len = offsets.last().copied().unwrap_or(0);
        if bytes.try_reserve_exact(len).is_err() {
            let largest = (1..offsets.len()).max_by_key(|n| offsets[*n] - offsets[*n - 1]).unwrap_or(1) - 1;
            let source = too_large(&inode_name(requests[largest].nid));
            return Err(RequestError { request: largest, source });
        }
        bytes.resize(len, 0);
        read_many::fill(self.image(), requests, &offsets, &mut bytes, threads)?;
        Ok(ManyBytes { bytes, offsets })
    }

    /// Returns where [`Fs::read_many_into`] puts the bytes of each request, and the end of the last: one number more than
    /// there are requests.
    pub fn read_offsets(&self, requests: &[ReadRequest]) -> std::result::Result<Vec<usize>, RequestError> {
        read_many::offsets(self.image(), requests, u64::MAX)
    }

    /// Does as [`Fs::read_offsets`], for callers that then allocate a buffer of that length, as [`Fs::read_many`] does.
    ///
    /// # Errors
    /// [`Error::ReadLimit`] for the first request with which all together exceed [the limit](Fs::with_read_limit).
    pub fn limited_offsets(&self, requests: &[ReadRequest]) -> std::result::Result<Vec<usize>, RequestError> {
        read_many::offsets(self.image(), requests, self.read_limit)
    }

    /// Does as [`Fs::read_many`], into a buffer of the caller, which has exactly the length that
    /// [`Fs::read_offsets`] ends with.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a buffer of another length.
    pub fn read_many_into(
        &self,
        requests: &[ReadRequest],
        buf: &mut [u8],
        threads: usize,
    ) -> std::result::Result<Vec<usize>, RequestError> {
        let offsets = self.read_offsets(requests)?;
        let len = offsets.last().copied().unwrap_or(0);
        if buf.len() != len {
            let source = Error::Misuse(format!("a buffer of {} bytes for {len} bytes of files", buf.len()));
            return Err(RequestError { request: 0, source });
        }
        read_many::fill(self.image(), requests, &offsets, buf, threads)?;
        Ok(offsets)
    }

    /// Opens the regular file that `path` leads to.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::WrongType`] for anything but a regular file.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<ImageFile> {
        let path = path.as_ref();
        self.open_regular(self.nid(path)?, || path.to_owned())
    }

    /// Opens the regular file with this inode, as [`Fs::read_dir`] and [`Fs::walk`] return it: without looking up its path.
    ///
    /// # Errors
    /// [`Error::WrongType`] for anything but a regular file.
    pub fn open_inode(&self, nid: Nid) -> Result<ImageFile> {
        self.open_regular(nid, || inode_name(nid))
    }

    fn open_regular(&self, nid: Nid, name: impl FnOnce() -> PathBuf) -> Result<ImageFile> {
        let size = self.regular_size(nid, name)?;
        Ok(ImageFile { image: self.image.clone(), nid, size, at: 0, window: Vec::new(), from: 0 })
    }

    /// Returns the size of a regular file, which is called `name` in an error.
    fn regular_size(&self, nid: Nid, name: impl FnOnce() -> PathBuf) -> Result<u64> {
        match self.image.stat(nid)?.kind {
            FileType::File { size } => Ok(size),
            _ => Err(Error::WrongType { path: name(), expected: "regular file" }),
        }
    }

    fn read_whole(&self, nid: Nid, name: impl Fn() -> PathBuf) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let size = self.regular_size(nid, &name)?;
        if size > self.read_limit {
            return Err(Error::ReadLimit { path: name(), needed: size, limit: self.read_limit });
        }
        append_range(self.image(), nid, &mut bytes, 0..size, name)?;
        Ok(bytes)
    }

    /// Returns the entries of the directory that `path` leads to, ascending by name, each with its
    /// type and attributes.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::WrongType`] for anything but a directory.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirEntry>> {
        let path = path.as_ref();
        let nid = self.nid(path)?;
        if self.image.stat(nid)?.kind != FileType::Dir {
            return Err(Error::WrongType { path: path.to_owned(), expected: "directory" });
        }
        let entry = |entry: crate::image::Entry| {
            let stat = self.image.stat(entry.nid)?;
            Ok(DirEntry { path: path.join(os_str(&entry.name)), stat, nid: entry.nid })
        };
        self.image.read_dir(nid)?.into_iter().map(entry).collect()
    }

    /// Calls `visit` for everything in the image, a directory before its entries and names
    /// ascending, until it breaks.
    ///
    /// # Errors
    /// The first error ends the walk. To continue after errors, or to walk over a part, use [`Walk`].
    pub fn walk<B>(&self, mut visit: impl FnMut(DirEntry) -> ControlFlow<B>) -> Result<ControlFlow<B>> {
        let mut walk = Walk::new(self.image(), &[])?;
        while let Some(found) = walk.step()? {
            let entry = DirEntry { path: os_str(found.path).into_owned().into(), stat: found.stat, nid: found.nid };
            if let ControlFlow::Break(value) = visit(entry) {
                return Ok(ControlFlow::Break(value));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn nid(&self, path: &Path) -> Result<Nid> {
        self.parents.resolve(self.image(), path.as_os_str().as_bytes())?.ok_or_else(|| not_found(path))
    }
}

impl From<Arc<dyn Image>> for Fs {
    fn from(image: Arc<dyn Image>) -> Self {
        Fs { image, read_limit: READ_LIMIT_MIN, parents: Arc::default() }
    }
}

fn not_found(path: &Path) -> Error {
    Error::NotFound { path: path_of(path.as_os_str().as_bytes()) }
}

/// Returns what errors call a file of which only the inode is known.
fn inode_name(nid: Nid) -> PathBuf {
    format!("inode {}", nid.0).into()
}

fn too_large(path: &Path) -> Error {
    Error::io("cannot hold in memory", path)(io::ErrorKind::OutOfMemory.into())
}

/// Appends a range of a regular file, which is called `name` in errors.
fn append_range(
    image: &dyn Image,
    nid: Nid,
    bytes: &mut Vec<u8>,
    range: Range<u64>,
    name: impl Fn() -> PathBuf,
) -> Result<()> {
    let mut left = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| too_large(&name()))?;
    bytes.try_reserve_exact(left).map_err(|_| too_large(&name()))?;
    let mut offset = range.start;
    while left > 0 {
        let step = left.min(READ_STEP);
        let start = bytes.len();
        bytes.resize(start + step, 0);
        if let Err(error) = read_exactly(image, nid, &mut bytes[start..], offset, &name) {
            bytes.truncate(start);
            return Err(error);
        }
        offset += step as u64;
        left -= step;
    }
    Ok(())
}

/// Fills `buf` from byte `offset` of a regular file, whose size says that it has as many.
fn read_exactly(
    image: &dyn Image,
    nid: Nid,
    buf: &mut [u8],
    offset: u64,
    name: impl FnOnce() -> PathBuf,
) -> Result<()> {
    let got = image.read_at(nid, buf, offset)?;
    if got < buf.len() {
        let why = format!("it ends at byte {}, before its size", offset + got as u64);
        return Err(Error::Damaged { path: name(), why });
    }
    Ok(())
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirEntry {
    /// Path: in [`Fs::read_dir`] that of the directory with the name, in [`Fs::walk`] that from the root, which is empty
    /// for the root itself.
    pub path: PathBuf,
    /// Type and attributes of its inode. A symbolic link is not followed.
    pub stat: Stat,
    /// The inode.
    pub nid: Nid,
}

impl DirEntry {
    /// Returns the name, the last component of the path; empty for the root.
    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }
}

/// An open regular file of an image. Errors of the image are returned as [`io::Error`] with the [`Error`] inside.
///
/// The reader remembers the positions of the file's blocks, so reads of any size at any offset are
/// cheap; small sequential reads share decoded data.
#[derive(Debug, Clone)]
pub struct ImageFile {
    image: Arc<dyn Image>,
    nid: Nid,
    size: u64,
    /// Position of the next read.
    at: u64,
    /// Bytes of the file from `from` on.
    window: Vec<u8>,
    from: u64,
}

impl Read for ImageFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || buf.is_empty() {
            return Ok(0);
        }
        if buf.len() >= WINDOW {
            let got = self.read_at(buf, self.at)?;
            self.at += got as u64;
            return Ok(got);
        }
        if !(self.from..self.from + self.window.len() as u64).contains(&self.at) {
            self.window.clear();
            let len = WINDOW.min(usize::try_from(self.size - self.at).unwrap_or(WINDOW));
            // Taken out, so that the window is empty if the read fails.
            let mut window = std::mem::take(&mut self.window);
            window.resize(len, 0);
            let got = self.read_at(&mut window, self.at)?;
            window.truncate(got);
            (self.window, self.from) = (window, self.at);
        }
        let start = usize::try_from(self.at - self.from).unwrap_or(usize::MAX);
        let rest = self.window.get(start..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        self.at += len as u64;
        Ok(len)
    }

    /// Reads the rest in one go, without the window.
    fn read_to_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let start = bytes.len();
        append_range(&*self.image, self.nid, bytes, self.at..self.size.max(self.at), || inode_name(self.nid))?;
        self.at = self.size.max(self.at);
        Ok(bytes.len() - start)
    }
}

impl Seek for ImageFile {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        let to = match pos {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl ReadAt for ImageFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.image.read_at(self.nid, buf, offset)?)
    }

    fn len(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::fake::FakeImage;

    fn fs(content: &[u8]) -> Fs {
        let image =
            FakeImage::default().dir(0, &[("d", 1), ("f", 2)]).dir(1, &[("x", 3)]).file(2, content).file(3, b"");
        Fs::from(Arc::new(image) as Arc<dyn Image>)
    }

    #[test]
    fn files_read_and_seek_like_their_bytes() {
        let content: Vec<u8> = (0..200_000u32).flat_map(|n| n.to_le_bytes()).collect();
        let (mut file, mut bytes) = (fs(&content).open_file("/f").unwrap(), io::Cursor::new(&content));
        let moves = [
            (SeekFrom::Start(0), 10),
            (SeekFrom::Current(70_000), 3),
            (SeekFrom::Current(-4), WINDOW + 1),
            (SeekFrom::End(-5), 10),
            (SeekFrom::End(5), 10),
            (SeekFrom::Start(65_530), 20),
            (SeekFrom::Start(1), 65_535),
        ];
        for (to, len) in moves {
            assert_eq!(file.seek(to).unwrap(), bytes.seek(to).unwrap(), "{to:?}");
            let (mut got, mut want) = (Vec::new(), Vec::new());
            Read::by_ref(&mut file).take(len as u64).read_to_end(&mut got).unwrap();
            Read::by_ref(&mut bytes).take(len as u64).read_to_end(&mut want).unwrap();
            assert!(got == want, "{to:?}");
        }
        assert!(file.seek(SeekFrom::Current(i64::MIN)).is_err());
        assert_eq!(ReadAt::len(&file), content.len() as u64);
    }

    #[test]
    fn error_variants_tell_missing_from_mistyped_paths() {
        let fs = fs(b"text");
        assert!(matches!(fs.open_file("gone"), Err(Error::NotFound { .. })));
        assert!(matches!(fs.open_file("d"), Err(Error::WrongType { expected: "regular file", .. })));
        assert!(matches!(fs.read_dir("f"), Err(Error::WrongType { expected: "directory", .. })));
        let names: Vec<_> = fs.read_dir("/").unwrap().into_iter().map(|entry| (entry.path, entry.stat.kind)).collect();
        assert_eq!(names, [("/d".into(), FileType::Dir), ("/f".into(), FileType::File { size: 4 })]);
    }

    #[test]
    fn a_walk_ends_where_the_visitor_breaks() {
        let mut seen = Vec::new();
        let end = fs(b"").walk(|entry| {
            seen.push((entry.path.to_str().unwrap().to_owned(), entry.name().to_owned()));
            if entry.path == Path::new("d/x") { ControlFlow::Break(7) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(end.unwrap(), ControlFlow::Break(7));
        let expected = [("", ""), ("d", "d"), ("d/x", "x")].map(|(path, name)| (path.to_owned(), name.into()));
        assert_eq!(seen, expected);
    }
}
