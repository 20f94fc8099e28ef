//! A file whose data is written: little memory for the forms that most files have, as an image may have millions of them.

use super::cluster::ClusterRange;
use super::tails::KeptTail;
use crate::{Error, Result};

/// The end of a file that is not in its own clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileTail {
    /// In the packed inode from this offset on.
    Fragment(u64),
    /// A cluster after the index.
    Inline { kept: KeptTail, raw: bool, algorithm: u8 },
}

/// Data in the inode of a regular file that locates its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DataLocation {
    /// Consecutive whole blocks of a device (0: the image) from `start` on ([`None`]: a hole), and the bytes after the
    /// last whole block, which follow the inode and lie within one block.
    Plain { device: u16, start: Option<u64>, tail: KeptTail },
    /// Chunks of `1 << bits` blocks, each at a block of a device (0: the image) or a hole.
    Chunks { device: u16, bits: u8, blocks: Box<[Option<u64>]> },
    /// Compressed: its clusters, and its end. See [`StoredData::index`].
    Compressed { parts: Box<[ClusterRange]>, tail: Option<FileTail> },
}

/// A [`DataLocation`], as it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DataView<'s> {
    Plain { device: u16, start: Option<u64>, tail: KeptTail },
    Chunks { device: u16, bits: u8, blocks: &'s [Option<u64>] },
    Compressed { parts: &'s [ClusterRange], tail: Option<FileTail> },
}

/// A file whose data is written.
#[derive(Debug, Clone)]
pub(crate) struct StoredFile {
    pub(crate) size: u64,
    form: CompactLocation,
}

const _: () = assert!(size_of::<StoredFile>() <= 24);

/// A body, small if it is a usual one.
#[derive(Debug, Clone)]
enum CompactLocation {
    /// Whole blocks alone, from this one on.
    Row(u64),
    /// Nothing but what follows the inode, if anything does.
    Tail(KeptTail),
    /// All of it in the packed inode, from this offset on.
    Fragment(u64),
    /// Clusters alone.
    Clusters(ClusterRange),
    Other(Box<DataLocation>),
}

impl CompactLocation {
    fn of(body: DataLocation) -> CompactLocation {
        match &body {
            DataLocation::Plain { device: 0, start: Some(start), tail: KeptTail::NONE } => CompactLocation::Row(*start),
            DataLocation::Plain { start: None, tail, .. } => CompactLocation::Tail(*tail),
            DataLocation::Compressed { parts, tail } => match (&parts[..], tail) {
                ([], Some(FileTail::Fragment(offset))) => CompactLocation::Fragment(*offset),
                ([part], None) => CompactLocation::Clusters(*part),
                _ => CompactLocation::Other(Box::new(body)),
            },
            _ => CompactLocation::Other(Box::new(body)),
        }
    }

    fn into_body(self) -> DataLocation {
        match self {
            CompactLocation::Row(start) => DataLocation::Plain { device: 0, start: Some(start), tail: KeptTail::NONE },
            CompactLocation::Tail(tail) => DataLocation::Plain { device: 0, start: None, tail },
            CompactLocation::Fragment(offset) => {
                DataLocation::Compressed { parts: Box::new([]), tail: Some(FileTail::Fragment(offset)) }
            }
            CompactLocation::Clusters(part) => DataLocation::Compressed { parts: Box::new([part]), tail: None },
            CompactLocation::Other(body) => *body,
        }
    }
}

impl StoredFile {
    /// Makes a file of `size` bytes.
    pub(crate) fn new(size: u64, body: DataLocation) -> StoredFile {
        StoredFile { size, form: CompactLocation::of(body) }
    }

    /// Makes a file of clusters.
    pub(crate) fn of_clusters(size: u64, parts: Vec<ClusterRange>) -> StoredFile {
        StoredFile::new(size, DataLocation::Compressed { parts: parts.into(), tail: None })
    }

    /// Returns where its data is.
    pub(crate) fn view(&self) -> DataView<'_> {
        match &self.form {
            CompactLocation::Row(start) => DataView::Plain { device: 0, start: Some(*start), tail: KeptTail::NONE },
            CompactLocation::Tail(tail) => DataView::Plain { device: 0, start: None, tail: *tail },
            CompactLocation::Fragment(offset) => {
                DataView::Compressed { parts: &[], tail: Some(FileTail::Fragment(*offset)) }
            }
            CompactLocation::Clusters(part) => DataView::Compressed { parts: std::slice::from_ref(part), tail: None },
            CompactLocation::Other(body) => match &**body {
                DataLocation::Plain { device, start, tail } => {
                    DataView::Plain { device: *device, start: *start, tail: *tail }
                }
                DataLocation::Chunks { device, bits, blocks } => {
                    DataView::Chunks { device: *device, bits: *bits, blocks }
                }
                DataLocation::Compressed { parts, tail } => DataView::Compressed { parts, tail: *tail },
            },
        }
    }

    /// Changes where its data is; returns what `change` returns.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut DataLocation) -> R) -> R {
        // The body has to be owned while it changes; what stands in its place meanwhile is never seen.
        let mut body = std::mem::replace(&mut self.form, CompactLocation::Tail(KeptTail::NONE)).into_body();
        let changed = change(&mut body);
        self.form = CompactLocation::of(body);
        changed
    }

    /// Appends the data of another file. Both consist of clusters, and this one ends with a whole block.
    pub(crate) fn append(&mut self, next: StoredFile) -> Result<()> {
        let size = next.size;
        self.change(|body| match (body, next.form.into_body()) {
            (DataLocation::Compressed { parts, tail: None }, DataLocation::Compressed { parts: more, tail: None }) => {
                *parts = parts.iter().chain(&more).copied().collect();
                Ok(())
            }
            _ => Err(Error::Misuse("the packed inode consists of clusters only".into())),
        })?;
        self.size += size;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_is_the_one_that_was_put_in() {
        let tail = KeptTail::new(7, 100).unwrap();
        let part = ClusterRange { first: 3, count: 2 };
        let parts = |count: usize| -> Box<[ClusterRange]> { vec![part; count].into() };
        let inline = FileTail::Inline { kept: tail, raw: false, algorithm: 1 };
        let mut bodies = vec![
            DataLocation::Chunks { device: 1, bits: 3, blocks: Box::new([Some(5), None]) },
            DataLocation::Chunks { device: 0, bits: 0, blocks: Box::new([]) },
            DataLocation::Plain { device: 2, start: Some(7), tail: KeptTail::NONE },
        ];
        for start in [None, Some(0), Some(1 << 47)] {
            bodies.extend([KeptTail::NONE, tail].map(|tail| DataLocation::Plain { device: 0, start, tail }));
        }
        for tail in [None, Some(FileTail::Fragment(0)), Some(FileTail::Fragment(u64::MAX)), Some(inline)] {
            bodies.extend([0, 1, 2].map(|count| DataLocation::Compressed { parts: parts(count), tail }));
        }
        for body in bodies {
            let mut stored = StoredFile::new(9, body.clone());
            let seen = match stored.view() {
                DataView::Plain { device, start, tail } => DataLocation::Plain { device, start, tail },
                DataView::Chunks { device, bits, blocks } => {
                    DataLocation::Chunks { device, bits, blocks: blocks.into() }
                }
                DataView::Compressed { parts, tail } => DataLocation::Compressed { parts: parts.into(), tail },
            };
            assert_eq!(seen, body);
            stored.change(|changed| assert_eq!(*changed, body));
            assert_eq!(stored.form.into_body(), body);
        }
    }

    #[test]
    fn clusters_are_appended_to_clusters_only() {
        let part = |first| ClusterRange { first, count: 2 };
        let mut stored = StoredFile::of_clusters(10, vec![part(0)]);
        stored.append(StoredFile::of_clusters(5, vec![part(4), part(9)])).unwrap();
        assert!(
            matches!(stored.view(), DataView::Compressed { parts, tail: None } if parts == [part(0), part(4), part(9)])
        );
        assert_eq!(stored.size, 15);
        let hole = StoredFile::new(7, DataLocation::Plain { device: 0, start: None, tail: KeptTail::NONE });
        assert!(stored.append(hole).is_err());
        assert_eq!(stored.size, 15);
    }
}
