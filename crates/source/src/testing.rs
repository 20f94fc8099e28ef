//! Archives for tests, and what [`packfs_tree::testing`] has.

use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use packfs_tree::testing::*;

use crate::archive::{Options, from_bytes, from_stream};
use crate::tree::{FileData, Kind};
use crate::{Contents, Error, FileReader, Result, Source as _, Store, Tree};

/// A store that reads everything and keeps nothing.
#[derive(Debug)]
pub struct Sink;

impl Store for Sink {
    fn put(&mut self, from: &mut dyn Read, _: u64, _: &[(u64, u64)]) -> Result<u32> {
        std::io::copy(from, &mut std::io::sink()).map_err(Error::io("cannot read", "stream"))?;
        Ok(0)
    }
}

/// Returns a tar archive of the file `inside`.
#[must_use]
pub fn tar_bytes() -> Vec<u8> {
    let mut builder = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o644);
    builder.append_data(&mut header, "inside", &b"data"[..]).unwrap();
    builder.into_inner().unwrap()
}

/// Compresses bytes as gzip does.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Largest file in a test.
const MAX_FILE: u64 = 64 << 20;

/// Keeps the files that a stream passes on.
#[derive(Debug, Default)]
pub struct Kept(Vec<KeptFile>);

/// A file, and the ranges `(offset, length)` of it that are data.
#[derive(Debug)]
struct KeptFile {
    bytes: Vec<u8>,
    data: Vec<(u64, u64)>,
}

impl Store for Kept {
    fn put(&mut self, from: &mut dyn Read, size: u64, data: &[(u64, u64)]) -> Result<u32> {
        if size > MAX_FILE {
            return Err(Error::TooMany { what: "bytes for a test", max: MAX_FILE });
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap()];
        for (offset, len) in data {
            let start = usize::try_from(*offset).unwrap();
            let part = &mut bytes[start..start + usize::try_from(*len).unwrap()];
            from.read_exact(part).map_err(Error::io("cannot read", "stream"))?;
        }
        assert_eq!(from.read(&mut [0]).unwrap(), 0, "the ranges cover all the data");
        self.0.push(KeptFile { bytes, data: data.to_vec() });
        Ok(u32::try_from(self.0.len() - 1).unwrap())
    }
}

impl Contents for Kept {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        Ok(Box::new(&self.0[usize::try_from(key).unwrap()]))
    }

    fn path(&self, _: u64) -> PathBuf {
        "kept".into()
    }
}

impl FileReader for &KeptFile {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let start = usize::try_from(offset).unwrap();
        buf.copy_from_slice(&self.bytes[start..start + buf.len()]);
        Ok(())
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let mut after = self.data.iter().map(|(start, len)| (*start, start + len)).filter(|(_, end)| *end > offset);
        Ok(after.next().map(|(start, end)| (start.max(offset), end)))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Lists `source`, keeping the data it passes on.
pub fn scan(mut source: Box<dyn crate::Source>) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut kept = Kept::default();
    source.scan(&mut tree, &mut kept)?;
    let kept: Arc<dyn Contents> = Arc::new(kept);
    for ino in tree.inos() {
        if let Kind::File { data: FileData::Stored(n), .. } = tree.inode(ino).kind {
            tree.set_data(ino, FileData::Source { from: kept.clone(), key: n.into() })?;
        }
    }
    Ok(tree)
}

/// Lists an archive whose files are read where they lie.
pub fn scan_in_place(archive: &[u8]) -> Result<Tree> {
    scan(from_bytes(Arc::new(archive.to_vec()), Path::new("a.tar"), Options::default())?)
}

/// Lists an archive that comes as a stream.
pub fn scan_stream(archive: &[u8]) -> Result<Tree> {
    let from = Box::new(Cursor::new(archive.to_vec()));
    scan(from_stream(from, Path::new("a.tar"), Options::default())?)
}
