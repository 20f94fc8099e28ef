//! Which files of a mounted image are read, and in which order.
//!
//! Nothing here reads a clock or leaves the mount: paths come from the image, names are looked up relative to its root
//! or to their directory, and only regular files are opened.

use packfs_image::name::display;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::{Errno, read, retry_on_intr};

use super::cells::{ImageFiles, ReadOrder};
use crate::rng::SeededRng;

/// Number of files of a small random read.
pub const SMALL_READ_FILES: usize = 500;

/// Bytes per read.
const READ_LEN: usize = 128 << 10;

/// Returns the files to read in random order, which is the same for every image of a source: all, or the first few.
pub(super) fn files_in_random_order(tree: &ImageFiles, order: ReadOrder, seed: u64) -> Vec<&Path> {
    let mut paths: Vec<&Path> = tree.files().iter().map(|file| file.path.as_path()).collect();
    SeededRng::new(seed).shuffle(&mut paths);
    if order == ReadOrder::Small {
        paths.truncate(SMALL_READ_FILES);
    }
    paths
}

/// Reads files or attributes, and counts the bytes.
#[derive(Debug)]
pub(super) struct TimedReader {
    piece: Vec<u8>,
    /// True to read files, false to read attributes only.
    data: bool,
    bytes: u64,
}

impl TimedReader {
    pub(super) fn new(data: bool) -> Self {
        TimedReader { piece: vec![0; READ_LEN], data, bytes: 0 }
    }

    /// Reads everything below a directory in directory order. Returns the number of bytes.
    pub(super) fn read_tree(&mut self, root: BorrowedFd<'_>) -> io::Result<u64> {
        self.read_directory(root)?;
        Ok(self.bytes)
    }

    /// Reads files by path. Returns the number of bytes.
    pub(super) fn read_files(&mut self, root: BorrowedFd<'_>, paths: &[&Path]) -> io::Result<u64> {
        for path in paths {
            let done = match self.data {
                true => open_within(root, *path, OFlags::empty()).and_then(|file| self.read_file(file)),
                false => statat(root, *path, AtFlags::SYMLINK_NOFOLLOW).map(drop),
            };
            done.map_err(|error| io::Error::other(format!("{}: {error}", display(path))))?;
        }
        Ok(self.bytes)
    }

    fn read_directory(&mut self, dir: BorrowedFd<'_>) -> io::Result<()> {
        let mut names: Vec<CString> = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name.to_owned());
            }
        }
        for name in names {
            // Attributes of each entry are part of the work, as in `ls -l` and `find`.
            let stat = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => self.read_directory(open_within(dir, &name, OFlags::DIRECTORY)?.as_fd())?,
                FileType::RegularFile if self.data => self.read_file(open_within(dir, &name, OFlags::empty())?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_file(&mut self, file: OwnedFd) -> Result<(), Errno> {
        loop {
            match retry_on_intr(|| read(&file, &mut self.piece[..]))? {
                0 => return Ok(()),
                got => self.bytes += got as u64,
            }
        }
    }
}

fn open_within(dir: BorrowedFd<'_>, path: impl rustix::path::Arg, more: OFlags) -> Result<OwnedFd, Errno> {
    // Links are not followed: nothing outside the image may be read.
    openat(dir, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | more, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ImageFormat;
    use crate::read::ImageFile;
    use crate::read::cells::tests::image;
    use rustix::fs::CWD;

    #[test]
    fn the_same_seed_chooses_the_same_files() {
        let names: Vec<String> = (0..2000).map(|number| format!("dir/{number}")).collect();
        let files = |step: usize| names.iter().cycle().skip(step).take(2000);
        let tree = |step| {
            let file = |name: &String| ImageFile { path: name.into(), len: 1, data: 1 };
            ImageFiles::new(files(step).map(file).collect())
        };
        let one = tree(0);
        let other = tree(700);
        let small = files_in_random_order(&one, ReadOrder::Small, 1);
        assert_eq!((small.len(), &small), (SMALL_READ_FILES, &files_in_random_order(&other, ReadOrder::Small, 1)));
        assert_ne!(small, files_in_random_order(&one, ReadOrder::Small, 2));
        let full = files_in_random_order(&one, ReadOrder::Full, 1);
        // The small selection is the beginning of the full one.
        assert_eq!((full.len(), &full[..SMALL_READ_FILES]), (2000, &small[..]));
        let mut sorted = full.clone();
        sorted.sort();
        sorted.dedup();
        assert!(sorted.len() == 2000 && sorted != full);
        let few = image(ImageFormat::Erofs, &[("a", 1), ("b", 1)]);
        assert_eq!(files_in_random_order(&few.tree, ReadOrder::Small, 1).len(), 2);
    }

    #[test]
    fn every_byte_is_read_and_nothing_else_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/large"), vec![1; 300_000]).unwrap();
        std::fs::write(dir.path().join("a/small"), "12345").unwrap();
        std::fs::write(dir.path().join("empty"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        // Opening it would block until there is a writer.
        rustix::fs::mkfifoat(CWD, dir.path().join("fifo"), Mode::RUSR).unwrap();
        let root = std::fs::File::open(dir.path()).unwrap();
        assert_eq!(TimedReader::new(true).read_tree(root.as_fd()).unwrap(), 300_005);
        assert_eq!(TimedReader::new(false).read_tree(root.as_fd()).unwrap(), 0);
        let paths = ["a/small", "a/b/large", "a/small"].map(Path::new);
        assert_eq!(TimedReader::new(true).read_files(root.as_fd(), &paths).unwrap(), 300_010);
        assert_eq!(TimedReader::new(false).read_files(root.as_fd(), &paths).unwrap(), 0);
        for data in [true, false] {
            let error = TimedReader::new(data).read_files(root.as_fd(), &[Path::new("gone")]).unwrap_err().to_string();
            assert!(error.starts_with("gone: No such file"), "{error}");
        }
    }
}
