//! The order of merged files: that of [`Orderer`], by external sorts.
//!
//! A record to be sorted begins with its key: first files in order of their paths (or names), then those by type and
//! name. Bytes 0 end names and stand between the names of a path, so paths sort as a walk through the tree visits them.

use std::io;

use super::names::{Entry, Names, Number, Walk, join};
use super::sort::Sorter;
use super::spool::{Cursor, Spool};
use super::{Place, attributes::Checks};
use crate::Result;
use crate::build::order::class::{self, Class};
use crate::build::order::{Order, Orderer, Readable, WINDOW};
use crate::build::shard::cuts;
use crate::build::{Get, Put};
use crate::source::{Seen, dir};
use crate::tree::{Ino, Kind};

/// Number of files that are opened below one directory at a time.
pub(super) const BATCH: usize = 4096;
/// Number of bytes of a record behind its key and path: inode, state, length of the path, and whether it is in the key.
const TAIL: usize = 4 + 20 + 4 + 1;

/// A file whose data is to be packed.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) ino: Ino,
    pub(super) seen: Seen,
    /// Path by which the file is opened.
    pub(super) path: Vec<u8>,
}

impl File {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        to.clear();
        to.u32(self.ino.0);
        to.put(&self.seen.0);
        to.put(&self.path);
    }

    pub(super) fn decode(record: &[u8]) -> Result<File> {
        let from = &mut Get::new("file in a temporary file", record);
        let (ino, seen) = (Ino(from.u32()?), Seen(from.array()?));
        Ok(File { ino, seen, path: from.take(record.len() - from.at())?.to_vec() })
    }
}

/// All files in the order of their data.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) spool: Spool,
    pub(super) count: u64,
    /// Sum of the weights of all files.
    pub(super) weight: u128,
}

impl Files {
    fn push(&mut self, place: &Place<'_>, file: &File, record: &mut Vec<u8>) -> Result<()> {
        file.encode(record);
        place.io(self.spool.push(record))?;
        (self.count, self.weight) = (self.count + 1, self.weight + cuts::weight(file.seen.size()));
        Ok(())
    }

    /// Reads the next file.
    pub(super) fn next(&self, place: &Place<'_>, at: &mut Cursor, record: &mut Vec<u8>) -> Result<Option<File>> {
        let found = place.io(self.spool.next(at, record))?;
        found.then(|| File::decode(record)).transpose()
    }
}

/// Files that are being put in order.
struct Arranging<'a, 'p, 'env, S> {
    place: &'p Place<'p>,
    orderer: &'a Orderer<'a, 'env, S>,
    /// True if large files of one name lie together.
    gathers: bool,
    sorter: Sorter,
    /// Names of files that have several.
    linked: Sorter,
    /// Files whose names do not tell their types.
    unknown: Vec<(Vec<u8>, File)>,
    record: Vec<u8>,
}

/// Checks all entries of a walk, and returns their files in order.
pub(super) fn arrange<S>(
    place: &Place<'_>,
    orderer: &Orderer<'_, '_, S>,
    names: &Names,
    mut walk: Walk<'_>,
    checks: &mut Checks<'_>,
) -> Result<Files> {
    let (sorter, linked) = (place.sorter(), place.sorter());
    let mut weighed = Ok(0);
    let gathers = orderer.gathers(|| {
        weighed = weigh(place, names);
        *weighed.as_ref().unwrap_or(&0)
    });
    weighed?;
    let mut all = Arranging { place, orderer, gathers, sorter, linked, unknown: Vec::new(), record: Vec::new() };
    while let Some((entry, number)) = walk.next()? {
        checks.entry(&entry, number, || join(&walk.dir, &entry.name))?;
        if matches!(entry.kind, Kind::File { size, .. } if size > 0) {
            all.name(join(&walk.dir, &entry.name), &entry, number)?;
        }
    }
    all.finish()
}

/// Returns the weight of all files.
fn weigh(place: &Place<'_>, names: &Names) -> Result<u128> {
    let (mut all, mut weight) = (names.read(place)?, 0);
    while let Some((entry, number)) = all.next()? {
        if let Kind::File { size: size @ 1.., .. } = entry.kind
            && number.is_first
        {
            weight += cuts::weight(size);
        }
    }
    Ok(weight)
}

impl<S> Arranging<'_, '_, '_, S> {
    /// Takes a name of a file.
    fn name(&mut self, path: Vec<u8>, entry: &Entry, number: Number) -> Result<()> {
        if number.links == 1 {
            let file = File { ino: number.ino, seen: entry.seen, path };
            return self.add(file.path.clone(), file);
        }
        self.record.clear();
        self.record.put(&number.ino.0.to_be_bytes());
        self.record.put(&key_of(&path));
        self.record.put(&[0, number.is_first.into()]);
        self.record.put(&entry.seen.0);
        self.place.io(self.linked.push(&self.record))
    }

    /// Takes a file that a walk through the tree visits at `path`.
    fn add(&mut self, path: Vec<u8>, file: File) -> Result<()> {
        let Orderer { order, small_max, .. } = *self.orderer;
        if order == Order::Path || file.seen.size() > small_max {
            return self.place.io(self.push(None, &path, &file));
        }
        match Class::of_name(name_of(&path)) {
            Class::UNKNOWN => {
                self.unknown.push((path, file));
                if self.unknown.len() < BATCH { Ok(()) } else { self.look() }
            }
            class => self.place.io(self.push(Some(class), &path, &file)),
        }
    }

    /// Finds the types of files whose names do not tell them.
    fn look(&mut self) -> Result<()> {
        let unknown = std::mem::take(&mut self.unknown);
        let sources = self.place.open(unknown.iter().map(|(_, file)| file))?;
        let mut classes = vec![Class::UNKNOWN; unknown.len()];
        self.orderer.read_all(sources.into_iter(), class::of_contents, |n, class| classes[n] = class)?;
        for ((path, file), class) in unknown.iter().zip(classes) {
            self.place.io(self.push(Some(class), path, file))?;
        }
        Ok(())
    }

    fn push(&mut self, class: Option<Class>, path: &[u8], file: &File) -> io::Result<()> {
        let record = &mut self.record;
        record.clear();
        record.u8(class.is_some().into());
        if let Some(class) = class {
            record.put(&class.to_bytes());
            record.put(name_of(path));
            record.u8(0);
            record.put(&file.seen.size().to_be_bytes());
        } else if self.gathers {
            record.put(name_of(path));
            record.u8(0);
        }
        record.put(&key_of(path));
        record.u8(0);
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

    /// Takes the files that have several names: their place is that of the least, and they are opened by the first.
    fn take_linked(&mut self) -> Result<()> {
        let place = self.place;
        let empty = place.sorter();
        let linked = place.io(std::mem::replace(&mut self.linked, empty).finish())?;
        let (mut names, mut record) = (place.io(linked.read())?, Vec::new());
        let (mut least, mut first) = (None, None);
        loop {
            let found = place.io(names.next(&mut record))?;
            let is_next = least.as_ref().is_some_and(|(ino, _)| !found || record[..4] != *ino);
            if is_next && let (Some((_, path)), Some(file)) = (least.take(), first.take()) {
                self.add(path, file)?;
            }
            if !found {
                return Ok(());
            }
            let ino: [u8; 4] = *record.first_chunk().expect("four bytes");
            let (name, tail) = record[4..].split_at(record.len() - 4 - 22);
            let path: Vec<u8> = name.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect();
            if tail[1] != 0 {
                let seen = Seen(*tail[2..].first_chunk().expect("twenty bytes"));
                first = Some(File { ino: Ino(u32::from_be_bytes(ino)), seen, path: path.clone() });
            }
            least.get_or_insert((ino, path));
        }
    }

    fn finish(mut self) -> Result<Files> {
        self.take_linked()?;
        self.look()?;
        let Arranging { place, orderer, sorter, mut record, .. } = self;
        let sorted = place.io(sorter.finish())?;
        let mut all = Files { spool: Spool::new(&place.scratch), count: 0, weight: 0 };
        let (mut read, mut window, mut found) = (place.io(sorted.read())?, Vec::new(), Vec::new());
        while place.io(read.next(&mut found))? {
            let file = parse(&found)?;
            if found[0] == 0 || orderer.order != Order::Similar {
                all.push(place, &file, &mut record)?;
                continue;
            }
            window.push(file);
            if window.len() == WINDOW {
                similar(place, orderer, &mut window, &mut all)?;
            }
        }
        similar(place, orderer, &mut window, &mut all)?;
        Ok(all)
    }
}

/// Appends files so that each follows a similar one.
fn similar<S>(place: &Place<'_>, orderer: &Orderer<'_, '_, S>, window: &mut Vec<File>, all: &mut Files) -> Result<()> {
    if window.is_empty() {
        return Ok(());
    }
    let sources = place.open(window.iter())?;
    let places: Vec<(Ino, usize)> = window.iter().map(|file| file.ino).zip(0..).collect();
    let order = orderer.similar(&places, |(_, n)| sources[*n].clone())?;
    let mut record = Vec::new();
    order.into_iter().try_for_each(|n| all.push(place, &window[n], &mut record))?;
    window.clear();
    Ok(())
}

/// Returns a path as bytes that sort as a walk through the tree visits entries.
fn key_of(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Returns the file of a sorted record.
fn parse(record: &[u8]) -> Result<File> {
    let (front, tail) = record.split_at(record.len().saturating_sub(TAIL));
    let from = &mut Get::new("sorted file", tail);
    let (ino, seen) = (Ino(from.u32()?), Seen(from.array()?));
    let (len, is_in_key) = (from.u32()? as usize, from.bool()?);
    let end = front.len() - usize::from(is_in_key);
    let path = front[end.saturating_sub(len)..end].iter();
    let path = path.map(|byte| if *byte == 0 { b'/' } else { *byte }).collect();
    Ok(File { ino, seen, path })
}

impl Place<'_> {
    /// Opens files below the source.
    pub(super) fn open<'f>(&self, files: impl Iterator<Item = &'f File>) -> Result<Vec<Readable>> {
        let listed: Vec<(Vec<u8>, Seen)> = files.map(|file| (file.path.clone(), file.seen)).collect();
        let contents = dir::reopen(self.source, &listed)?;
        let readable = |(n, (_, seen)): (u64, &(_, Seen))| (contents.clone(), n, seen.size());
        Ok((0..).zip(&listed).map(readable).collect())
    }
}
