//! The same as `unix`, for systems that are none: Windows, and WebAssembly without a system.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use crate::mutex;

/// Names as bytes: UTF-8, but for surrogates of Windows that have no partner.
pub trait OsStrExt {
    /// Returns the bytes.
    fn as_bytes(&self) -> &[u8];
}

impl OsStrExt for OsStr {
    fn as_bytes(&self) -> &[u8] {
        self.as_encoded_bytes()
    }
}

/// Returns a name in an image as one of the system. `%XX` stands for bytes that are not UTF-8, which no name of the
/// system has: the image knows the entry by its own bytes alone.
pub fn os_str(name: &[u8]) -> Cow<'_, OsStr> {
    match std::str::from_utf8(name) {
        Ok(text) => Cow::Borrowed(OsStr::new(text)),
        Err(_) => Cow::Owned(crate::name::encode(name).into_owned().into()),
    }
}

/// Held while a file is read or written at an offset, as only its position leads there.
static POSITION: Mutex<()> = Mutex::new(());

/// Positional access to files.
pub trait FileExt {
    /// Reads at `offset`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buf` from `offset`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

/// Works with a file at an offset. Other threads wait meanwhile.
fn at<T>(file: &File, offset: u64, work: impl FnOnce(&mut &File) -> io::Result<T>) -> io::Result<T> {
    let _held = mutex::lock(&POSITION);
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    work(&mut file)
}

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        at(self, offset, |file| file.read(buf))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        at(self, offset, |file| file.read_exact(buf))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        at(self, offset, |file| file.write_all(bytes))
    }
}

/// Types of files that only a Unix has.
pub trait FileTypeExt {
    /// Returns true for a block device.
    fn is_block_device(&self) -> bool {
        false
    }

    /// Returns true for a character device.
    fn is_char_device(&self) -> bool {
        false
    }

    /// Returns true for a FIFO.
    fn is_fifo(&self) -> bool {
        false
    }

    /// Returns true for a socket.
    fn is_socket(&self) -> bool {
        false
    }
}

impl FileTypeExt for FileType {}

/// Returns device and inode number of a file: all files count as one, so that none is taken for two.
pub fn identity(_file: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// Returns the permission bits of a file, of which there are none to keep.
pub fn mode(_file: &Metadata) -> u32 {
    0o777
}

/// Returns the time of last modification, in seconds and nanoseconds.
pub fn modification_time(file: &Metadata) -> (i64, i64) {
    let since = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos().into())
}

/// Returns the time of the last change of attributes, which is not known.
pub fn change_time(_file: &Metadata) -> (i64, i64) {
    (0, 0)
}

/// Creates a directory, with those that lead to it, unless it exists.
pub fn create_private_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)
}
