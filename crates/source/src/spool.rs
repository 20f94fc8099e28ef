//! Data of files that can be read only once, kept in a temporary file so that it can be read again.
//! It serves for comparing with an archive from a pipe or a decompressor.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Storage;
use packfs_blocks::io::Scratch;

use super::{Contents, FileReader, Store};
use crate::tree::{FileData, Kind};
use crate::{Error, Result, Tree};

/// Length of the pieces in which data is copied. Other lengths were not measured.
const PIECE_LEN: usize = 256 << 10;

/// A store that keeps its data in an unlinked file in the directory for temporary files.
#[derive(Debug)]
pub struct Spool {
    file: Box<dyn Storage>,
    dir: PathBuf,
    len: u64,
    files: Vec<SpooledFile>,
}

#[derive(Debug)]
struct SpooledFile {
    size: u64,
    /// Ranges of data: offset in the file, length, and offset in the spool.
    data: Vec<(u64, u64, u64)>,
}

impl Spool {
    /// Makes an empty spool in `dir`.
    pub fn new(dir: &Path) -> Result<Self> {
        // Unlinked, so that nothing remains of it after a crash.
        let file = Scratch::new(dir).file().map_err(Error::io("cannot create a temporary file", dir))?;
        Ok(Spool { file, dir: dir.to_owned(), len: 0, files: Vec::new() })
    }

    /// Makes the files of `tree` that were stored here readable from here.
    pub fn serve(self, tree: &mut Tree) -> Result<()> {
        let spool: Arc<dyn Contents> = Arc::new(self);
        for ino in tree.inos() {
            if let Kind::File { data: FileData::Stored(file), .. } = tree.inode(ino).kind {
                tree.set_data(ino, FileData::Source { from: Arc::clone(&spool), key: file.into() })?;
            }
        }
        Ok(())
    }

    fn append(&mut self, from: &mut dyn Read, mut len: u64, piece: &mut [u8]) -> io::Result<()> {
        while len > 0 {
            let most = usize::try_from(len).unwrap_or(usize::MAX).min(piece.len());
            from.read_exact(&mut piece[..most])?;
            self.file.write_all_at(&piece[..most], self.len)?;
            self.len += most as u64;
            len -= most as u64;
        }
        Ok(())
    }

    fn spooled(&self, key: u64) -> Result<&SpooledFile> {
        let file = usize::try_from(key).ok().and_then(|key| self.files.get(key));
        file.ok_or_else(|| Error::Misuse(format!("no file {key} was kept")))
    }
}

impl Store for Spool {
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32> {
        // Numbers are 32 bits in the tree.
        let number = u32::try_from(self.files.len()).map_err(|_| Error::TooMany { what: "files", max: 1 << 32 })?;
        let mut piece = vec![0; PIECE_LEN];
        let mut kept = Vec::with_capacity(data.len());
        // Holes take no room.
        for &(offset, len) in data {
            kept.push((offset, len, self.len));
            self.append(from, len, &mut piece).map_err(Error::io("cannot keep a copy of the archive", &self.dir))?;
        }
        self.files.push(SpooledFile { size, data: kept });
        Ok(number)
    }
}

/// A [`Spool`] that is made for the first file that needs it.
#[derive(Debug)]
pub struct LazySpool {
    dir: PathBuf,
    spool: Option<Spool>,
}

impl LazySpool {
    /// Makes a store that makes its spool in `dir`.
    pub fn new(dir: &Path) -> Self {
        LazySpool { dir: dir.to_owned(), spool: None }
    }

    /// Makes the files of `tree` that were stored here readable from here.
    pub fn serve(self, tree: &mut Tree) -> Result<()> {
        self.spool.map_or(Ok(()), |spool| spool.serve(tree))
    }
}

impl Store for LazySpool {
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(Spool::new(&self.dir)?),
        };
        spool.put(from, size, data)
    }
}

impl Contents for Spool {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        Ok(Box::new(SpoolReader { spool: self, spooled: self.spooled(key)? }))
    }

    fn path(&self, key: u64) -> PathBuf {
        self.dir.join(format!("file {key} of the archive"))
    }
}

struct SpoolReader<'s> {
    spool: &'s Spool,
    spooled: &'s SpooledFile,
}

impl SpoolReader<'_> {
    /// Returns the index of the first range that ends beyond `offset`.
    fn first_after(&self, offset: u64) -> usize {
        self.spooled.data.partition_point(|(start, len, _)| start + len <= offset)
    }
}

impl FileReader for SpoolReader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let end = offset.saturating_add(buf.len() as u64);
        if end > self.spooled.size {
            return Err(Error::Misuse(format!("byte {end} is beyond the end of the file")));
        }
        // Holes, and what lies between ranges.
        buf.fill(0);
        for &(start, len, at) in &self.spooled.data[self.first_after(offset)..] {
            let from = start.max(offset);
            let to = (start + len).min(end);
            if from >= to {
                break;
            }
            // `from` and `to` lie in the buffer, as they were cut to it.
            let within = |n: u64| usize::try_from(n - offset).expect("within the buffer");
            let piece = &mut buf[within(from)..within(to)];
            let read = self.spool.file.read_exact_at(piece, at + (from - start));
            read.map_err(Error::io("cannot read the copy of the archive", &self.spool.dir))?;
        }
        Ok(())
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let next = self.spooled.data.get(self.first_after(offset));
        Ok(next.map(|(start, len, _)| (offset.max(*start), start + len)))
    }

    fn finish(&mut self) -> Result<()> {
        // Nobody else can change an unlinked file.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{ConflictPolicy, InodeAttributes, ROOT};

    #[test]
    fn data_of_a_stream_can_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file is not seen");
        assert_eq!(spool.put(&mut &b"plain"[..], 5, &[(0, 5)]).unwrap(), 0);
        let sparse = spool.put(&mut &b"abcdef"[..], 20, &[(4, 4), (10, 2)]).unwrap();
        let mut tree = Tree::default();
        let kind = Kind::File { size: 20, data: FileData::Stored(sparse) };
        let ino = tree.add(ROOT, b"sparse", InodeAttributes::IMPLICIT_DIR, kind, ConflictPolicy::Refuse).unwrap();
        spool.serve(&mut tree).unwrap();
        let Kind::File { data: FileData::Source { from, key }, .. } = &tree.inode(ino).kind else {
            panic!("not served")
        };
        let mut file = from.open(*key).unwrap();
        let mut all = [1; 20];
        file.read_exact_at(&mut all, 0).unwrap();
        assert_eq!(
            all.escape_ascii().to_string(),
            "\\x00\\x00\\x00\\x00abcd\\x00\\x00ef".to_owned() + &"\\x00".repeat(8)
        );
        let mut middle = [1; 3];
        file.read_exact_at(&mut middle, 7).unwrap();
        assert_eq!(&middle, b"d\0\0");
        let next: Vec<_> = [0, 5, 8, 11, 12].map(|at| file.next_data(at).unwrap()).into();
        assert_eq!(next, [Some((4, 8)), Some((5, 8)), Some((10, 12)), Some((11, 12)), None]);
        assert!(file.read_exact_at(&mut middle, 18).is_err());
        assert!(spool_is_short().is_err());
    }

    fn spool_is_short() -> Result<u32> {
        let dir = tempfile::tempdir().unwrap();
        Spool::new(dir.path())?.put(&mut &b"ab"[..], 5, &[(0, 5)])
    }
}
