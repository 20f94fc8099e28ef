//! Puts merged files in the order of their data: that of [`FileOrderer`], by external sorts, as the list of files may
//! be larger than memory.
//!
//! A record to be sorted begins with its key: first files in order of their paths (or names), then those by type and
//! name. Bytes 0 end names and stand between the names of a path, so paths sort as a walk through the tree visits them.

use std::io;

use super::names::{EntryWalk, NameInode, ScannedEntries, ScannedEntry};
use super::sort::ExternalSorter;
use super::spool::{RecordSpool, SpoolCursor};
use super::{MergeContext, attributes::EntryChecks};
use crate::Result;
use crate::build::order::class::{self, FileClass};
use crate::build::order::{FileOrderer, Order, ReadableFile, WINDOW};
use crate::build::shard::cuts;
use crate::build::{FieldDecoder, FieldEncoder};
use crate::source::{FileFingerprint, dir};
use crate::tree::{Ino, Kind, child_path};

/// Number of files that are opened below one directory at a time: their paths and states are in memory, some hundred
/// KiB. Other numbers were not measured.
pub(super) const OPEN_BATCH: usize = 4096;
/// Number of bytes of a sorted record after its key and path: inode, state, length of the path, and 1 if the path is the
/// end of the key.
const SORTED_TAIL_LEN: usize = 4 + 20 + 4 + 1;

/// A file whose data is to be packed.
#[derive(Debug, Clone)]
pub(super) struct MergedFile {
    pub(super) ino: Ino,
    pub(super) seen: FileFingerprint,
    /// Path by which the file is opened.
    pub(super) path: Vec<u8>,
}

impl MergedFile {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.clear();
        to.u32(self.ino.0);
        to.put(&self.seen.0);
        to.put(&self.path);
    }

    pub(super) fn decode(record: &[u8]) -> Result<MergedFile> {
        let from = &mut FieldDecoder::new("file in a temporary file", record);
        let ino = Ino(from.u32()?);
        let seen = FileFingerprint(from.array()?);
        Ok(MergedFile { ino, seen, path: from.take(record.len() - from.at())?.to_vec() })
    }
}

/// All files in the order of their data.
#[derive(Debug)]
pub(super) struct OrderedFiles {
    pub(super) spool: RecordSpool,
    pub(super) count: u64,
    /// Sum of the [weights](cuts::weight) of all files, by which shards are cut.
    pub(super) weight: u128,
}

impl OrderedFiles {
    fn push(&mut self, context: &MergeContext<'_>, file: &MergedFile, record: &mut Vec<u8>) -> Result<()> {
        file.encode(record);
        context.io(self.spool.push(record))?;
        self.count += 1;
        self.weight += cuts::weight(file.seen.size());
        Ok(())
    }

    /// Reads the next file.
    pub(super) fn next(
        &self,
        context: &MergeContext<'_>,
        cursor: &mut SpoolCursor,
        record: &mut Vec<u8>,
    ) -> Result<Option<MergedFile>> {
        let found = context.io(self.spool.next(cursor, record))?;
        found.then(|| MergedFile::decode(record)).transpose()
    }
}

/// Files that are being put in order.
struct FileArranger<'a, 'p, 'env, S> {
    context: &'p MergeContext<'p>,
    orderer: &'a FileOrderer<'a, 'env, S>,
    /// True if large files of one name lie together, whatever their directories.
    gathers_names: bool,
    sorter: ExternalSorter,
    /// Names of files that have several.
    linked: ExternalSorter,
    /// Files whose names do not tell their types, with the paths at which they are sorted.
    unclassified: Vec<(Vec<u8>, MergedFile)>,
    record: Vec<u8>,
}

/// Checks all entries of a walk, and returns their files in order.
pub(super) fn arrange_files<S>(
    context: &MergeContext<'_>,
    orderer: &FileOrderer<'_, '_, S>,
    scanned: &ScannedEntries,
    mut walk: EntryWalk<'_>,
    checks: &mut EntryChecks<'_>,
) -> Result<OrderedFiles> {
    // Most orders do not depend on the weight, for which all entries are read.
    let mut weight = Ok(0);
    let gathers_names = orderer.gathers(|| {
        weight = weigh_files(context, scanned);
        *weight.as_ref().unwrap_or(&0)
    });
    weight?;
    let mut arranger = FileArranger {
        context,
        orderer,
        gathers_names,
        sorter: context.new_sorter(),
        linked: context.new_sorter(),
        unclassified: Vec::new(),
        record: Vec::new(),
    };
    while let Some((entry, number)) = walk.next()? {
        checks.check_entry(&entry, number, || child_path(&walk.dir, &entry.name))?;
        if matches!(entry.kind, Kind::File { size, .. } if size > 0) {
            arranger.add_name(child_path(&walk.dir, &entry.name), &entry, number)?;
        }
    }
    arranger.finish()
}

/// Returns the weight of all files.
fn weigh_files(context: &MergeContext<'_>, scanned: &ScannedEntries) -> Result<u128> {
    let mut entries = scanned.read(context)?;
    let mut weight = 0;
    while let Some((entry, number)) = entries.next()? {
        if let Kind::File { size: size @ 1.., .. } = entry.kind
            && number.is_first
        {
            weight += cuts::weight(size);
        }
    }
    Ok(weight)
}

impl<S> FileArranger<'_, '_, '_, S> {
    /// Adds a name of a file. The file is added once all its names are known.
    fn add_name(&mut self, path: Vec<u8>, entry: &ScannedEntry, number: NameInode) -> Result<()> {
        if number.links == 1 {
            let file = MergedFile { ino: number.ino, seen: entry.seen, path };
            return self.add_file(file.path.clone(), file);
        }
        self.record.clear();
        self.record.put(&number.ino.0.to_be_bytes());
        self.record.put(&path_key(&path));
        self.record.put(&[0, number.is_first.into()]);
        self.record.put(&entry.seen.0);
        self.context.io(self.linked.push(&self.record))
    }

    /// Adds a file that a walk through the tree visits at `path`.
    fn add_file(&mut self, path: Vec<u8>, file: MergedFile) -> Result<()> {
        let FileOrderer { order, small_max, .. } = *self.orderer;
        if order == Order::Path || file.seen.size() > small_max {
            return self.context.io(self.push_record(None, &path, &file));
        }
        match FileClass::of_name(name_of(&path)) {
            FileClass::UNKNOWN => {
                self.unclassified.push((path, file));
                if self.unclassified.len() < OPEN_BATCH { Ok(()) } else { self.classify_by_contents() }
            }
            class => self.context.io(self.push_record(Some(class), &path, &file)),
        }
    }

    /// Finds the types of files whose names do not tell them.
    fn classify_by_contents(&mut self) -> Result<()> {
        let unclassified = std::mem::take(&mut self.unclassified);
        let sources = self.context.open_files(unclassified.iter().map(|(_, file)| file))?;
        let mut classes = vec![FileClass::UNKNOWN; unclassified.len()];
        self.orderer.read_all(sources.into_iter(), class::of_contents, |n, class| classes[n] = class)?;
        for ((path, file), class) in unclassified.iter().zip(classes) {
            self.context.io(self.push_record(Some(class), path, file))?;
        }
        Ok(())
    }

    /// Adds a record with the key of a file: its class if it is sorted by that, its name, and its path.
    fn push_record(&mut self, class: Option<FileClass>, path: &[u8], file: &MergedFile) -> io::Result<()> {
        let record = &mut self.record;
        record.clear();
        record.u8(class.is_some().into());
        if let Some(class) = class {
            record.put(&class.to_bytes());
            record.put(name_of(path));
            record.u8(0);
            record.put(&file.seen.size().to_be_bytes());
        } else if self.gathers_names {
            record.put(name_of(path));
            record.u8(0);
        }
        record.put(&path_key(path));
        record.u8(0);
        // Files with several names are opened by another path than the one they are sorted by.
        let is_in_key = path == file.path;
        if !is_in_key {
            record.put(&file.path);
        }
        record.u32(file.ino.0);
        record.put(&file.seen.0);
        record.u32(u32::try_from(file.path.len()).map_err(|_| io::ErrorKind::FileTooLarge)?);
        record.u8(is_in_key.into());
        self.sorter.push(record)
    }

    /// Adds the files that have several names. A walk visits them at the least of their paths, so they are sorted by that
    /// one; they are opened by the first in the scan, as in a build.
    fn add_linked(&mut self) -> Result<()> {
        let context = self.context;
        let empty = context.new_sorter();
        let linked = context.io(std::mem::replace(&mut self.linked, empty).finish())?;
        let mut names = context.io(linked.read())?;
        let mut record = Vec::new();
        let mut least = None;
        let mut first = None;
        loop {
            let found = context.io(names.next(&mut record))?;
            let is_next = least.as_ref().is_some_and(|(ino, _)| !found || record[..4] != *ino);
            if is_next && let (Some((_, path)), Some(file)) = (least.take(), first.take()) {
                self.add_file(path, file)?;
            }
            if !found {
                return Ok(());
            }
            let ino: [u8; 4] = *record.first_chunk().expect("four bytes");
            // After the path: the byte 0 that ends it, the mark of the first name, and the state of 20 bytes.
            let (name, tail) = record[4..].split_at(record.len() - 4 - 22);
            let path = path_of_key(name);
            if tail[1] != 0 {
                let seen = FileFingerprint(*tail[2..].first_chunk().expect("twenty bytes"));
                first = Some(MergedFile { ino: Ino(u32::from_be_bytes(ino)), seen, path: path.clone() });
            }
            // Names of a file are sorted by path, so the first is the least.
            least.get_or_insert((ino, path));
        }
    }

    fn finish(mut self) -> Result<OrderedFiles> {
        self.add_linked()?;
        self.classify_by_contents()?;
        let FileArranger { context, orderer, sorter, mut record, .. } = self;
        let sorted = context.io(sorter.finish())?;
        let mut ordered = OrderedFiles { spool: RecordSpool::new(&context.scratch), count: 0, weight: 0 };
        let mut window = Vec::new();
        let mut reader = context.io(sorted.read())?;
        let mut found = Vec::new();
        while context.io(reader.next(&mut found))? {
            let file = decode_sorted(&found)?;
            let has_class = found[0] != 0;
            if !has_class || orderer.order != Order::Similar {
                ordered.push(context, &file, &mut record)?;
                continue;
            }
            window.push(file);
            if window.len() == WINDOW {
                push_similar(context, orderer, &mut window, &mut ordered)?;
            }
        }
        push_similar(context, orderer, &mut window, &mut ordered)?;
        Ok(ordered)
    }
}

/// Appends the files of a window, so that each follows a similar one, and empties it.
fn push_similar<S>(
    context: &MergeContext<'_>,
    orderer: &FileOrderer<'_, '_, S>,
    window: &mut Vec<MergedFile>,
    ordered: &mut OrderedFiles,
) -> Result<()> {
    if window.is_empty() {
        return Ok(());
    }
    let sources = context.open_files(window.iter())?;
    let indices: Vec<(Ino, usize)> = window.iter().map(|file| file.ino).zip(0..).collect();
    let order = orderer.similar(&indices, |(_, n)| sources[*n].clone())?;
    let mut record = Vec::new();
    for n in order {
        ordered.push(context, &window[n], &mut record)?;
    }
    window.clear();
    Ok(())
}

/// Returns a path as bytes that sort as a walk through the tree visits entries.
fn path_key(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

/// Returns the path of which [`path_key`] made these bytes: no name contains a byte 0.
fn path_of_key(key: &[u8]) -> Vec<u8> {
    key.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect()
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Returns the file of a sorted record.
fn decode_sorted(record: &[u8]) -> Result<MergedFile> {
    let (front, tail) = record.split_at(record.len().saturating_sub(SORTED_TAIL_LEN));
    let from = &mut FieldDecoder::new("sorted file", tail);
    let ino = Ino(from.u32()?);
    let seen = FileFingerprint(from.array()?);
    let path_len = from.u32()? as usize;
    let is_in_key = from.bool()?;
    // A path in the key ends with a byte 0.
    let end = front.len() - usize::from(is_in_key);
    let path = path_of_key(&front[end.saturating_sub(path_len)..end]);
    Ok(MergedFile { ino, seen, path })
}

impl MergeContext<'_> {
    /// Opens files below the source.
    pub(super) fn open_files<'f>(&self, files: impl Iterator<Item = &'f MergedFile>) -> Result<Vec<ReadableFile>> {
        let listed: Vec<(Vec<u8>, FileFingerprint)> = files.map(|file| (file.path.clone(), file.seen)).collect();
        let contents = dir::reopen(self.source, &listed)?;
        let mut readable = Vec::with_capacity(listed.len());
        for (n, (_, seen)) in (0..).zip(&listed) {
            readable.push((contents.clone(), n, seen.size()));
        }
        Ok(readable)
    }
}
