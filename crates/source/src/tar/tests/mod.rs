//! Archives from every writer, and hostile ones, through both ways of reading.

use std::io;
use std::path::Path;
use std::sync::Arc;

use zerocopy::{FromZeros, IntoBytes};

use super::format::{BLOCK, TarHeader, USTAR, checksum, signed_checksum};
use super::{Options, STRUCTURE, TarSource};
use crate::archive::stream::StreamInput;
use crate::archive::{from_bytes, from_stream, open};
use crate::testing::{Snapshot, differences, scan, scan_in_place, scan_stream, snapshot_tree};
use crate::tree::{FileData, Ino, Kind, Tree};
use crate::{Error, ExcludeRules, Result};

mod compressed;
mod forms;
mod hostile;
mod writers;

/// Lists an archive without a read-ahead thread, for tests that read thousands of them.
fn scan_forwards(archive: &[u8]) -> Result<Tree> {
    let stream = StreamInput::new(Box::new(io::Cursor::new(archive.to_vec())), "a.tar".into(), STRUCTURE, None);
    scan(Box::new(TarSource::new(stream, Options::default())))
}

/// Reads an archive both ways, with equal results.
fn read(archive: &[u8]) -> Result<Tree> {
    let (placed, streamed) = match (scan_in_place(archive), scan_forwards(archive)) {
        (Ok(placed), Ok(streamed)) => (placed, streamed),
        (Err(placed), Err(_)) => return Err(placed),
        (placed, streamed) => panic!("in place {placed:?}, as a stream {streamed:?}"),
    };
    let a = snapshot_tree(&placed)?;
    let b = snapshot_tree(&streamed)?;
    assert_eq!(differences(&a, &b), Vec::<String>::new(), "in place and as a stream");
    assert_eq!(data_ranges(&placed), data_ranges(&streamed), "in place and as a stream");
    Ok(placed)
}

fn snapshot_of(archive: &[u8]) -> Snapshot {
    snapshot_tree(&read(archive).unwrap()).unwrap()
}

/// Returns the data ranges of each file.
fn data_ranges(tree: &Tree) -> Vec<(u32, Vec<(u64, u64)>)> {
    let mut all = Vec::new();
    for ino in 0..u32::try_from(tree.len()).unwrap() {
        if let Kind::File { size, data: FileData::Source { from, key } } = &tree.inode(Ino(ino)).kind {
            let mut file = from.open(*key).unwrap();
            let mut ranges = Vec::new();
            let mut at = 0;
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
        Kind::File { size, data: FileData::Source { from, key } } => {
            let mut bytes = vec![1; usize::try_from(*size).unwrap()];
            from.open(*key).unwrap().read_exact_at(&mut bytes, 0).unwrap();
            bytes
        }
        Kind::File { data: FileData::Empty, .. } => Vec::new(),
        other => panic!("{path} is {other:?}"),
    }
}

/// Makes a header by hand; `change` is applied before the checksum.
fn header(name: &str, typeflag: u8, size: u64, change: impl FnOnce(&mut TarHeader)) -> Vec<u8> {
    let mut header = TarHeader::new_zeroed();
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
