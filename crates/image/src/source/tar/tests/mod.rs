//! Archives from every writer, and hostile ones, through both ways of reading.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zerocopy::{FromZeros, IntoBytes};

use super::format::{BLOCK, Header, USTAR, checksum, signed_checksum};
use super::{Options, STRUCTURE, TarSource};
use crate::source::archive::stream::Stream;
use crate::source::archive::{from_bytes, from_stream, open};
use crate::source::{Contents, Exclude, FileReader, Source, Store};
use crate::testing::{Snapshot, differences, snapshot_tree};
use crate::tree::{Data, Ino, Kind, Tree};
use crate::{Error, Result};

mod changed;
mod compressed;
mod forms;
mod hostile;
mod writers;

/// Largest file in a test.
const MAX_FILE: u64 = 64 << 20;

/// Keeps the files that a stream passes on.
#[derive(Default)]
pub(crate) struct Kept(Vec<KeptFile>);

/// Bytes, and the ranges of them that are data.
type KeptFile = (Vec<u8>, Vec<(u64, u64)>);

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
        self.0.push((bytes, data.to_vec()));
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
        buf.copy_from_slice(&self.0[start..start + buf.len()]);
        Ok(())
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let mut after = self.1.iter().map(|(start, len)| (*start, start + len)).filter(|(_, end)| *end > offset);
        Ok(after.next().map(|(start, end)| (start.max(offset), end)))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Lists `source`, keeping the data it passes on.
pub(crate) fn scan(mut source: Box<dyn Source>) -> Result<Tree> {
    let (mut tree, mut kept) = (Tree::default(), Kept::default());
    source.scan(&mut tree, &mut kept)?;
    let kept: Arc<dyn Contents> = Arc::new(kept);
    for ino in tree.inos() {
        if let Kind::File { data: Data::Stored(n), .. } = tree.inode(ino).kind {
            tree.set_data(ino, Data::Source { from: kept.clone(), key: n.into() })?;
        }
    }
    Ok(tree)
}

pub(crate) fn scan_in_place(archive: &[u8]) -> Result<Tree> {
    scan(from_bytes(Arc::new(archive.to_vec()), Path::new("a.tar"), Options::default())?)
}

pub(crate) fn scan_stream(archive: &[u8]) -> Result<Tree> {
    let from = Box::new(io::Cursor::new(archive.to_vec()));
    scan(from_stream(from, Path::new("a.tar"), Options::default())?)
}

/// Lists an archive without a read-ahead thread, for tests that read thousands of them.
fn scan_forwards(archive: &[u8]) -> Result<Tree> {
    let stream = Stream::new(Box::new(io::Cursor::new(archive.to_vec())), "a.tar".into(), STRUCTURE, None);
    scan(Box::new(TarSource::new(stream, Options::default())))
}

/// Reads an archive both ways, with equal results.
pub(crate) fn read(archive: &[u8]) -> Result<Tree> {
    let (placed, streamed) = match (scan_in_place(archive), scan_forwards(archive)) {
        (Ok(placed), Ok(streamed)) => (placed, streamed),
        (Err(placed), Err(_)) => return Err(placed),
        (placed, streamed) => panic!("in place {placed:?}, as a stream {streamed:?}"),
    };
    let (a, b) = (snapshot_tree(&placed)?, snapshot_tree(&streamed)?);
    assert_eq!(differences(&a, &b), Vec::<String>::new(), "in place and as a stream");
    assert_eq!(data_ranges(&placed), data_ranges(&streamed), "in place and as a stream");
    Ok(placed)
}

pub(crate) fn snapshot_of(archive: &[u8]) -> Snapshot {
    snapshot_tree(&read(archive).unwrap()).unwrap()
}

/// Returns the data ranges of each file.
fn data_ranges(tree: &Tree) -> Vec<(u32, Vec<(u64, u64)>)> {
    let mut all = Vec::new();
    for ino in 0..u32::try_from(tree.len()).unwrap() {
        if let Kind::File { size, data: Data::Source { from, key } } = &tree.inode(Ino(ino)).kind {
            let (mut file, mut ranges, mut at) = (from.open(*key).unwrap(), Vec::new(), 0);
            while let Some((start, end)) = file.next_data(at).unwrap().filter(|_| at < *size) {
                ranges.push((start, end));
                at = end;
            }
            all.push((ino, ranges));
        }
    }
    all
}

/// Returns the bytes of the file at `path`.
fn content(tree: &Tree, path: &str) -> Vec<u8> {
    let ino = tree.lookup(path.as_bytes()).unwrap_or_else(|| panic!("{path} is not there"));
    match &tree.inode(ino).kind {
        Kind::File { size, data: Data::Source { from, key } } => {
            let mut bytes = vec![1; usize::try_from(*size).unwrap()];
            from.open(*key).unwrap().read_exact_at(&mut bytes, 0).unwrap();
            bytes
        }
        Kind::File { data: Data::Empty, .. } => Vec::new(),
        other => panic!("{path} is {other:?}"),
    }
}

/// Makes a header by hand; `change` is applied before the checksum.
fn header(name: &str, typeflag: u8, size: u64, change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let mut header = Header::new_zeroed();
    header.name[..name.len()].copy_from_slice(name.as_bytes());
    header.typeflag = typeflag;
    (header.magic, header.version) = USTAR;
    header.mode.copy_from_slice(b"0000644\0");
    header.size.copy_from_slice(format!("{size:011o}\0").as_bytes());
    change(&mut header);
    let sum = checksum(&header);
    header.checksum.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header.as_bytes().to_vec()
}

/// Makes a member with its data.
fn member(name: &str, typeflag: u8, data: &[u8]) -> Vec<u8> {
    [header(name, typeflag, data.len() as u64, |_| ()), padded(data)].concat()
}

fn padded(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(BLOCK), 0);
    data
}

/// Makes a pax header of records.
fn pax(typeflag: u8, records: &[(&str, &[u8])]) -> Vec<u8> {
    let records: Vec<_> = records.iter().map(|(key, value)| pax_record(key, value)).collect();
    member("pax", typeflag, &records.concat())
}

/// Joins members and adds the end of the archive.
fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    [members.concat(), vec![0; 2 * BLOCK]].concat()
}

pub(super) fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
}
