//! An image as a file system: paths, files that implement [`Read`] and [`Seek`], directories with types, a walk.
//!
//! A thin layer over [`Image`] for programs that need files rather than inodes. Symbolic links are
//! followed within the image: its root is `/`, and nothing outside it is ever accessed.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_blocks::{Progress, ReadAt};

use crate::image::{FileType, Image, Nid, Stat};
use crate::sink::{Visit, Walk, lookup, resolve};
use crate::tree::path_of;
use crate::{AnyImage, Error, OpenOptions, Result};

/// Number of bytes that small sequential reads of a [`File`] fetch from the image at a time.
const WINDOW: usize = 64 << 10;

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
}

impl Fs {
    /// Opens the image in a file or on a block device, with the default options.
    pub fn open(path: impl AsRef<Path>) -> Result<Fs> {
        let path = path.as_ref();
        let bytes = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
        Fs::with_options(Arc::new(bytes), OpenOptions { name: path.to_owned(), ..OpenOptions::default() })
    }

    /// Opens the image in `bytes`. For bytes in memory pass a `Vec<u8>`; for other sources
    /// implement [`ReadAt`] and use [`Fs::with_options`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Fs> {
        Fs::with_options(Arc::new(bytes), OpenOptions::default())
    }

    /// Opens the image at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged or not an image; [`Error::Unsupported`] if it needs a
    /// feature that this build lacks.
    pub fn with_options(bytes: Arc<dyn ReadAt>, options: OpenOptions) -> Result<Fs> {
        Ok(Fs { image: AnyImage::open(bytes, options)?.into_image() })
    }

    /// Returns the underlying image, for sinks and for converting.
    pub fn image(&self) -> &Arc<dyn Image> {
        &self.image
    }

    /// Extracts everything into the directory `dir`, which is created if it does not exist, with
    /// the default options; see [`extract`](crate::sink::dir::extract) for other options, parts and
    /// progress.
    pub fn extract(&self, dir: impl AsRef<Path>) -> Result<crate::sink::dir::Summary> {
        let (options, progress) = (crate::sink::dir::Options::default(), Progress::default());
        crate::sink::dir::extract(&*self.image, dir.as_ref(), &options, &progress)
    }

    /// Returns the attributes of the file that `path` leads to, following symbolic links.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Stat> {
        self.image.stat(self.nid(path.as_ref())?)
    }

    /// Returns the attributes of the entry at `path`, which may be a symbolic link; no link is followed on the way.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Stat> {
        let path = path.as_ref();
        let nid = lookup(&*self.image, path.as_os_str().as_bytes())?;
        self.image.stat(nid.ok_or_else(|| not_found(path))?)
    }

    /// Opens the regular file that `path` leads to.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::WrongType`] for anything but a regular file.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let nid = self.nid(path)?;
        match self.image.stat(nid)?.kind {
            FileType::File { size } => {
                Ok(File { image: self.image.clone(), nid, size, at: 0, window: Vec::new(), from: 0 })
            }
            _ => Err(Error::WrongType { path: path.to_owned(), expected: "regular file" }),
        }
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
        let entries = self.image.read_dir(nid)?.into_iter();
        entries
            .map(|entry| Ok(DirEntry { stat: self.image.stat(entry.nid)?, name: entry.name, nid: entry.nid }))
            .collect()
    }

    /// Calls `visit` for everything in the image, a directory before its entries and names
    /// ascending, until it breaks.
    ///
    /// # Errors
    /// The first error ends the walk. To continue after errors, use [`Walk`].
    pub fn walk<B>(&self, mut visit: impl FnMut(Visit<'_>) -> ControlFlow<B>) -> Result<ControlFlow<B>> {
        let mut walk = Walk::new(&*self.image, &[])?;
        while let Some(entry) = walk.step()? {
            if let ControlFlow::Break(value) = visit(entry) {
                return Ok(ControlFlow::Break(value));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn nid(&self, path: &Path) -> Result<Nid> {
        resolve(&*self.image, path.as_os_str().as_bytes())?.ok_or_else(|| not_found(path))
    }
}

impl From<Arc<dyn Image>> for Fs {
    fn from(image: Arc<dyn Image>) -> Self {
        Fs { image }
    }
}

fn not_found(path: &Path) -> Error {
    Error::NotFound { path: path_of(path.as_os_str().as_bytes()) }
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirEntry {
    /// Name, any bytes except `/` and NUL.
    pub name: Box<[u8]>,
    /// Type and attributes of its inode. A symbolic link is not followed.
    pub stat: Stat,
    /// The inode.
    pub nid: Nid,
}

/// An open regular file of an image. Errors of the image are returned as [`io::Error`] with the [`Error`] inside.
///
/// The reader remembers the positions of the file's blocks, so reads of any size at any offset are
/// cheap; small sequential reads share decoded data.
#[derive(Debug, Clone)]
pub struct File {
    image: Arc<dyn Image>,
    nid: Nid,
    size: u64,
    /// Position of the next read.
    at: u64,
    /// Bytes of the file from `from` on.
    window: Vec<u8>,
    from: u64,
}

impl Read for File {
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
}

impl Seek for File {
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

impl ReadAt for File {
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
    use crate::sink::fake::Fake;

    fn fs(content: &[u8]) -> Fs {
        let image = Fake::default().dir(0, &[("d", 1), ("f", 2)]).dir(1, &[("x", 3)]).file(2, content).file(3, b"");
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
        let names: Vec<_> = fs.read_dir("/").unwrap().into_iter().map(|entry| (entry.name, entry.stat.kind)).collect();
        assert_eq!(names, [((*b"d").into(), FileType::Dir), ((*b"f").into(), FileType::File { size: 4 })]);
    }

    #[test]
    fn a_walk_ends_where_the_visitor_breaks() {
        let mut seen = Vec::new();
        let end = fs(b"").walk(|entry| {
            seen.push(entry.path.to_owned());
            if entry.path == b"d/x" { ControlFlow::Break(7) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(end.unwrap(), ControlFlow::Break(7));
        assert_eq!(seen, [&b""[..], b"d", b"d/x"]);
    }
}
