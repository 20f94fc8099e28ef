//! Files that a build copies without reading them: the file system shares their blocks with the image, or the kernel
//! copies them.

use std::sync::Arc;

use packfs_blocks::Output;

use super::cut::{FileCutter, FileSegment, SEGMENT_LEN};
use crate::source::Contents;
use crate::{Error, Result};

/// Shorter files are read, so that they are found if they are equal: opening them takes most of the time anyway.
pub(crate) const UNREAD_MIN: u64 = 64 << 10;

/// A file of which only the layout and the last bytes are known.
pub(crate) struct UnreadFile {
    from: Arc<dyn Contents>,
    key: u64,
    /// Data and holes, in order. Data has at most [`SEGMENT_LEN`] bytes, or one piece.
    pub(crate) segments: Vec<FileSegment>,
    /// The bytes after the last whole block, unless they are in a hole.
    pub(crate) tail: Vec<u8>,
}

impl std::fmt::Debug for UnreadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unread").field("segments", &self.segments).finish_non_exhaustive()
    }
}

impl UnreadFile {
    /// Looks for the holes of a file of `size` bytes and reads what does not fill a block of `block` bytes.
    pub(super) fn look(
        cutter: &FileCutter<'_>,
        from: &Arc<dyn Contents>,
        key: u64,
        size: u64,
        block: usize,
    ) -> Result<UnreadFile> {
        let mut open = from.open(key)?;
        let segments = cutter.segments(&mut *open, size)?;
        let ends_with_data = segments.last().is_some_and(|segment| !segment.hole);
        let len = if ends_with_data { size % block as u64 } else { 0 };
        let mut tail = vec![0; usize::try_from(len).expect("less than a block")];
        open.read_exact_at(&mut tail, size - len)?;
        open.finish()?;
        drop(open);
        Ok(UnreadFile { from: Arc::clone(from), key, segments, tail })
    }

    /// Returns a copier of `len` bytes at `start`.
    pub(crate) fn range(&self, start: u64, len: u64) -> UnreadRange {
        UnreadRange { from: Arc::clone(&self.from), key: self.key, start, len }
    }
}

/// Whole blocks of an unread file.
pub(crate) struct UnreadRange {
    from: Arc<dyn Contents>,
    key: u64,
    start: u64,
    len: u64,
}

impl UnreadRange {
    /// Copies the range to byte `at` of `output`, and fails if that cannot be written. Returns apart from this the error of
    /// the file, which may have changed since it was listed: only that file is affected.
    pub(crate) fn copy(&self, output: &Output, at: u64) -> Result<Result<()>> {
        let UnreadRange { from, key, start, len } = self;
        let mut open = match from.open(*key) {
            Ok(open) => open,
            Err(error) => return Ok(Err(error)),
        };
        let cannot_write = || Error::io("cannot write", output.target());
        let mut done = match open.file() {
            Some(file) => output.copy_unread(file, *start, *len, at).map_err(cannot_write())?,
            None => 0,
        };
        // What the kernel does not copy goes through memory, which also tells why.
        let most = usize::try_from((*len - done).min(SEGMENT_LEN)).expect("at most a segment");
        let mut bytes = vec![0; most];
        while done < *len {
            let piece = &mut bytes[..usize::try_from(*len - done).unwrap_or(most).min(most)];
            if let Err(error) = open.read_exact_at(piece, start + done) {
                return Ok(Err(error));
            }
            output.write_all_at(piece, at + done).map_err(cannot_write())?;
            done += piece.len() as u64;
        }
        Ok(open.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Read;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    use packfs_blocks::Buffers;
    use packfs_blocks::stages::Stages;

    use super::*;
    use crate::source::{Dir, FileReader, Source, Store, dir};
    use crate::tree::{FileData, Kind, Tree};

    struct NoStore;

    impl Store for NoStore {
        fn put(&mut self, _: &mut dyn Read, _: u64, _: &[(u64, u64)]) -> Result<u32> {
            unreachable!("files of a directory are read later")
        }
    }

    #[test]
    fn a_file_that_changed_after_it_was_listed_is_not_copied() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("file");
        std::fs::write(&path, vec![7; 100_001]).unwrap();
        let mut tree = Tree::default();
        Dir::new(temporary.path(), dir::Options::default()).scan(&mut tree, &mut NoStore).unwrap();
        let Kind::File { size, data: FileData::Source { from, key } } = tree.inode(tree.lookup(b"file").unwrap()).kind
        else {
            panic!("the file was listed")
        };
        let (stages, buffers) = (Stages::default(), Buffers::new(4096));
        let cutter = FileCutter { block_len: 4096, sparse: true, buffers, stages: &stages, sums: None };
        let unread = UnreadFile::look(&cutter, from, key, size, 4096).unwrap();
        assert_eq!(unread.tail, vec![7; 100_001 % 4096]);

        let output = Output::create(&temporary.path().join("image"), 0o600, false).unwrap();
        unread.range(4096, 8192).copy(&output, 100).unwrap().unwrap();
        let mut copied = vec![0; 8192];
        output.read_exact_at(&mut copied, 100).unwrap();
        assert_eq!(copied, vec![7; 8192]);

        // A length that no clock is needed to tell.
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"more", 100_001).unwrap();
        let error = unread.range(0, 4096).copy(&output, 0).unwrap().unwrap_err().to_string();
        assert!(error.contains("was 100001 bytes long when listed"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = UnreadFile::look(&cutter, from, key, size, 4096).unwrap_err().to_string();
        assert!(error.contains("vanished after it was listed"), "{error}");
    }

    /// A file that another process has shortened since its attributes were last looked at.
    #[derive(Debug)]
    struct Shortened(File);

    impl Contents for Shortened {
        fn open(&self, _: u64) -> Result<Box<dyn FileReader + '_>> {
            Ok(Box::new(ShortenedReader(&self.0)))
        }

        fn path(&self, _: u64) -> PathBuf {
            "source".into()
        }
    }

    struct ShortenedReader<'f>(&'f File);

    impl FileReader for ShortenedReader<'_> {
        fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
            let change = |_| Error::Changed { path: "source".into(), why: "is shorter now".into() };
            self.0.read_exact_at(buf, offset).map_err(change)
        }

        fn next_data(&mut self, _: u64) -> Result<Option<(u64, u64)>> {
            Ok(None)
        }

        fn file(&self) -> Option<&File> {
            Some(self.0)
        }

        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_error_names_the_file_that_has_it() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let from: Arc<dyn Contents> = Arc::new(Shortened(File::open(&path).unwrap()));
        let unread = UnreadFile { from, key: 0, segments: Vec::new(), tail: Vec::new() };
        let full = Output::over(OpenOptions::new().write(true).open("/dev/full").unwrap(), "image");
        let error = unread.range(0, 4096).copy(&full, 0).unwrap_err().to_string();
        assert!(error.starts_with("image: cannot write: No space left"), "{error}");
        let output = Output::create(&temporary.path().join("image"), 0o600, false).unwrap();
        let error = unread.range(4096, 100_000).copy(&output, 0).unwrap().unwrap_err().to_string();
        assert_eq!(error, "source: is shorter now");
        // What the kernel has copied is not read.
        let mut copied = vec![0; 100_000 - 4096];
        output.read_exact_at(&mut copied, 0).unwrap();
        assert!(copied.iter().all(|byte| *byte == 7));
    }
}
