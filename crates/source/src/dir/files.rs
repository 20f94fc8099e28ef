//! The files of a directory, opened when a writer needs them, and checked to be still as listed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{self, FileType, SeekFrom};
use rustix::io::{self, Errno};

use super::attrs::EntryAttrs;
use super::changed;
use super::root::ScanRoot;
use crate::tree::Time;
use crate::{Contents, FileFingerprint, FileReader};
use crate::{Error, Result};

/// All regular files of one source. Filled when the scan is over, opened only after that.
#[derive(Debug)]
pub(super) struct ListedFiles {
    pub(super) root: ScanRoot,
    records: OnceLock<FileRecords>,
}

/// Locations of files and their state when listed, in a few bytes each.
#[derive(Debug, Default)]
pub(super) struct FileRecords {
    dirs: Vec<u32>,
    dir_names: NameTable,
    files: Vec<FileRecord>,
    file_names: NameTable,
}

/// A file as it was when listed. There may be millions of them, so of what only has to be told from another value, 32
/// bits of a product are kept. Writing changes both times, and a file is taken for unchanged only if both products
/// stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileRecord {
    /// Length in bytes; with [`FileFingerprint::SPARSE`] if less is stored, so that it may have holes.
    size: u64,
    ino: u32,
    mtime: u32,
    ctime: u32,
    /// Index of its directory.
    dir: u32,
}

const _: () = assert!(size_of::<FileRecord>() <= 24);

/// Names, concatenated.
#[derive(Debug, Default)]
struct NameTable {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl NameTable {
    fn push(&mut self, name: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(name);
        // Offsets of 32 bits, as there may be millions of names.
        let end = u32::try_from(self.bytes.len())
            .map_err(|_| Error::TooMany { what: "bytes of names in one directory source", max: u32::MAX.into() })?;
        self.ends.push(end);
        Ok(())
    }

    fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start as usize..self.ends[at] as usize]
    }
}

impl FileRecord {
    fn new(attrs: &EntryAttrs, dir: u32) -> Self {
        // Odd factors with well-mixed bits; two, so that equal times do not give equal products.
        const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];
        let EntryAttrs { id, size, is_sparse, mtime, ctime, .. } = *attrs;
        let upper = |value: u64, factor: u64| (value.wrapping_mul(factor) >> 32) as u32;
        FileRecord {
            size: if is_sparse { size | FileFingerprint::SPARSE } else { size },
            ino: upper(id.1, FACTORS[0]),
            mtime: upper(nanoseconds(mtime), FACTORS[0]),
            ctime: upper(nanoseconds(ctime), FACTORS[1]),
            dir,
        }
    }

    fn size(&self) -> u64 {
        self.size & !FileFingerprint::SPARSE
    }

    fn is_sparse(&self) -> bool {
        self.size & FileFingerprint::SPARSE != 0
    }
}

impl FileRecord {
    fn seen(&self) -> FileFingerprint {
        let FileRecord { size, ino, mtime, ctime, dir: _ } = *self;
        let mut seen = [0; 20];
        seen[..8].copy_from_slice(&size.to_le_bytes());
        for (bytes, value) in seen[8..].chunks_exact_mut(4).zip([ino, mtime, ctime]) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        FileFingerprint(seen)
    }

    fn of(FileFingerprint(seen): FileFingerprint, dir: u32) -> Self {
        let word = |at: usize| u32::from_le_bytes([seen[at], seen[at + 1], seen[at + 2], seen[at + 3]]);
        let size = u64::from(word(0)) | u64::from(word(4)) << 32;
        FileRecord { size, ino: word(8), mtime: word(12), ctime: word(16), dir }
    }
}

/// Returns the state of a file that has these attributes.
pub(super) fn seen(attrs: &EntryAttrs) -> FileFingerprint {
    FileRecord::new(attrs, FileRecords::ROOT).seen()
}

/// Opens files below a directory, by path, that another process has listed. Their keys count from 0.
pub fn reopen(root: &Path, listed: &[(Vec<u8>, FileFingerprint)]) -> Result<Arc<dyn Contents>> {
    let files =
        ListedFiles::new(ScanRoot::open(root).map_err(|errno| Error::sys("cannot open the directory", root, errno))?);
    let mut records = FileRecords::default();
    // Compared when a file is opened, not now.
    for (path, seen) in listed {
        index(records.files.len())?;
        records.files.push(FileRecord::of(*seen, FileRecords::ROOT));
        records.file_names.push(path)?;
    }
    files.fill(records);
    Ok(Arc::new(files))
}

/// Returns a time as one number. It wraps around after 584 years, which does not matter for telling
/// two times apart.
fn nanoseconds(time: Time) -> u64 {
    time.secs.wrapping_mul(1_000_000_000).wrapping_add(time.nanos.into()).cast_unsigned()
}

impl FileRecords {
    /// Index of the root directory.
    pub(super) const ROOT: u32 = u32::MAX;

    /// Records a directory and returns its index.
    pub(super) fn add_dir(&mut self, parent: u32, name: &[u8]) -> Result<u32> {
        let at = index(self.dirs.len())?;
        self.dirs.push(parent);
        self.dir_names.push(name)?;
        Ok(at)
    }

    /// Records a file and returns its key.
    pub(super) fn add_file(&mut self, dir: u32, name: &[u8], attrs: &EntryAttrs) -> Result<u64> {
        let at = index(self.files.len())?;
        self.files.push(FileRecord::new(attrs, dir));
        self.file_names.push(name)?;
        Ok(u64::from(at))
    }

    /// Returns the path of a directory relative to the root.
    pub(super) fn dir_path(&self, dir: u32) -> Vec<u8> {
        self.path_to(dir, Vec::new())
    }

    fn path_to<'n>(&'n self, mut dir: u32, mut names: Vec<&'n [u8]>) -> Vec<u8> {
        // Names from the file upwards.
        while dir != Self::ROOT {
            names.push(self.dir_names.get(dir as usize));
            dir = self.dirs[dir as usize];
        }
        names.reverse();
        names.join(&b'/')
    }
}

/// [`FileRecords::ROOT`] is not a valid index.
fn index(len: usize) -> Result<u32> {
    let at = u32::try_from(len).ok().filter(|at| *at != FileRecords::ROOT);
    at.ok_or_else(|| Error::TooMany { what: "entries", max: u32::MAX.into() })
}

impl ListedFiles {
    pub(super) fn new(root: ScanRoot) -> Self {
        ListedFiles { root, records: OnceLock::new() }
    }

    /// Ends the scan.
    pub(super) fn fill(&self, records: FileRecords) {
        // A second scan makes a `ListedFiles` of its own, so this one is still empty.
        let _ = self.records.set(records);
    }

    fn find(&self, key: u64) -> Option<(Vec<u8>, FileRecord)> {
        let records = self.records.get()?;
        let at = usize::try_from(key).ok()?;
        let listed = *records.files.get(at)?;
        Some((records.path_to(listed.dir, vec![records.file_names.get(at)]), listed))
    }
}

impl Contents for ListedFiles {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        let (path, listed) = self.find(key).ok_or_else(|| Error::Misuse(format!("there is no file {key}")))?;
        let fd = self.root.open_file(&path).map_err(|errno| match errno {
            // Gone, or no longer below the same directories.
            Errno::NOENT | Errno::NOTDIR => changed(&self.root.name(&path), "vanished after it was listed"),
            // A link or a pipe has taken its place: `open` neither follows nor waits.
            Errno::LOOP | Errno::NXIO => changed(&self.root.name(&path), "is no longer the file that was listed"),
            errno => Error::sys("cannot open", self.root.name(&path), errno),
        })?;
        Ok(Box::new(ListedFileReader { files: self, path, listed, fd: fd.into() }))
    }

    fn path(&self, key: u64) -> PathBuf {
        self.find(key).map_or_else(|| self.root.name(b""), |(path, _)| self.root.name(&path))
    }

    fn origin(&self, key: u64) -> Option<(&Path, Vec<u8>, FileFingerprint)> {
        let (path, listed) = self.find(key)?;
        Some((self.root.path(), path, listed.seen()))
    }
}

struct ListedFileReader<'f> {
    files: &'f ListedFiles,
    path: Vec<u8>,
    listed: FileRecord,
    fd: File,
}

impl ListedFileReader<'_> {
    fn shown(&self) -> PathBuf {
        self.files.root.name(&self.path)
    }

    /// Returns the change of a file instead of the error that it caused, if there is one.
    fn error(&self, what: &'static str, errno: Errno) -> Error {
        // A file that changed explains any error better.
        match self.verify() {
            Err(change) => change,
            Ok(()) => Error::sys(what, self.shown(), errno),
        }
    }

    fn verify(&self) -> Result<()> {
        let stat =
            fs::fstat(&self.fd).map_err(|errno| Error::sys("cannot read the attributes", self.shown(), errno))?;
        let was = self.listed;
        let now = FileRecord::new(&EntryAttrs::of(&stat), self.listed.dir);
        // A file system may store less of a file later.
        if (FileRecord { size: now.size(), ..now }) == (FileRecord { size: was.size(), ..was }) {
            return Ok(());
        }
        // The inode number of a deleted file may be given to a new one, of any type.
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let why = if now.ino != was.ino || !regular {
            "another file has taken its place since it was listed".to_owned()
        } else if now.size() != was.size() {
            format!("was {} bytes long when listed and has {} now", was.size(), now.size())
        } else if now.mtime != was.mtime {
            "was written to after it was listed".to_owned()
        } else {
            "its attributes changed after it was listed".to_owned()
        };
        Err(changed(&self.shown(), why))
    }
}

impl FileReader for ListedFileReader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        // `pread`, so that any number of readers share the descriptor.
        while done < buf.len() {
            match io::pread(&self.fd, &mut buf[done..], offset.saturating_add(done as u64)) {
                Ok(0) => {
                    self.verify()?;
                    let why = format!("ends at byte {} of {}", offset.saturating_add(done as u64), self.listed.size());
                    return Err(changed(&self.shown(), why));
                }
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error("cannot read", errno)),
            }
        }
        Ok(())
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let size = self.listed.size();
        if offset >= size {
            return Ok(None);
        }
        // Without blocks missing there are no holes to look for.
        if !self.listed.is_sparse() {
            return Ok(Some((offset, size)));
        }
        let start = match fs::seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(start) => start,
            // No data after the offset.
            Err(Errno::NXIO) => return Ok(None),
            // The file system does not report holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some((offset, size))),
            Err(errno) => return Err(self.error("cannot look for holes", errno)),
        };
        let end =
            fs::seek(&self.fd, SeekFrom::Hole(start)).map_err(|errno| self.error("cannot look for holes", errno))?;
        // Of a file that has grown, only the listed length counts.
        Ok((start < size).then(|| (start, end.min(size))))
    }

    fn file(&self) -> Option<&File> {
        Some(&self.fd)
    }

    fn finish(&mut self) -> Result<()> {
        self.verify()
    }
}
