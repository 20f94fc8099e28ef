//! Any bytes as a tar archive, read in place.

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use packfs_image::source::{Contents, Source, Store, archive};
use packfs_image::tree::{FileData, Kind};
use packfs_image::{Error, Result, Tree};

/// Enough of each file; more would only find decompression slow.
const FILE_MAX: u64 = 1 << 16;

/// Takes files down as a stream hands them over: their bytes without holes.
struct Keep(Vec<Vec<u8>>);

impl Store for Keep {
    fn put(&mut self, from: &mut dyn Read, _size: u64, _data: &[(u64, u64)]) -> Result<u32> {
        let mut bytes = Vec::new();
        from.take(FILE_MAX).read_to_end(&mut bytes).map_err(Error::io("cannot read", "input"))?;
        if bytes.len() as u64 == FILE_MAX {
            return Err(Error::Misuse("long enough".into()));
        }
        self.0.push(bytes);
        Ok(self.0.len() as u32 - 1)
    }
}

/// A description of the entries, and the bytes of the files.
fn scan(mut source: Box<dyn Source>) -> Option<Vec<String>> {
    let (mut tree, mut store) = (Tree::default(), Keep(Vec::new()));
    source.scan(&mut tree, &mut store).ok()?;
    let mut out = Vec::new();
    tree.walk(|ino, path| {
        let inode = tree.inode(ino);
        let what = match &inode.kind {
            Kind::File { size, data } => {
                format!("{size} {:?}", bytes(data, *size, &store))
            }
            Kind::Dir => "dir".to_owned(),
            kind => format!("{kind:?}"),
        };
        let meta = tree.meta(ino);
        let xattrs = tree.xattrs.get(meta.xattrs);
        let (mode, uid, gid, mtime) = (meta.mode, meta.uid, meta.gid, meta.mtime);
        out.push(format!("{path:?} {mode:o} {uid} {gid} {mtime:?} {xattrs:?} {} {what}", inode.links));
        Ok(())
    })
    .ok()?;
    Some(out)
}

/// Bytes of a file without its holes; `None` where they are many or cannot be read.
fn bytes(data: &FileData<&Arc<dyn Contents>>, size: u64, store: &Keep) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    match data {
        FileData::Empty => {}
        FileData::Stored(n) => bytes = store.0[*n as usize].clone(),
        FileData::Source { from, key } => {
            let mut file = from.open(*key).ok()?;
            let mut at = 0;
            while at < size
                && let Some((start, end)) = file.next_data(at).ok()?
            {
                assert!(at <= start && start < end && end <= size, "data in order: {at}, {start}..{end} of {size}");
                let from = bytes.len();
                if from as u64 + end - start >= FILE_MAX {
                    return None;
                }
                bytes.resize(from + (end - start) as usize, 0);
                file.read_exact_at(&mut bytes[from..], start).ok()?;
                at = end;
            }
        }
    }
    Some(bytes)
}

const NAME: &str = "input";

/// Reads it in place.
pub fn look(bytes: &[u8]) {
    in_place(crate::zeros::unpack(bytes));
}

pub(crate) fn in_place(bytes: Vec<u8>) -> Option<Vec<String>> {
    scan(archive::from_bytes(Arc::new(bytes), Path::new(NAME), archive::Options::default()).ok()?)
}

pub(crate) fn as_stream(bytes: Vec<u8>) -> Option<Vec<String>> {
    scan(archive::from_stream(Box::new(Cursor::new(bytes)), Path::new(NAME), archive::Options::default()).ok()?)
}
