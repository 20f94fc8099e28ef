//! Parts of a scan on disk: records in frames, each frame with its length and digest.
//!
//! | record | content | count |
//! |---|---|---|
//! | head | magic, version, part, number of parts, digest of the options, directories of the sources | 1 |
//! | source | attributes of the root directory | one a source |
//! | directory | path; number and digest of all names, if several parts have entries of it | before its entries |
//! | entry | name, attributes, link target, extended attributes | any |
//! | end | nothing | 1 |
//!
//! Directories are in the order of [`ListAhead`](super::ahead::ListAhead), entries in byte order, so parts are merged
//! by reading each once, from its beginning to its end. No record lies in two frames.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use packfs_blocks::{Digest, Output};

use super::attrs::EntryAttrs;
use super::changed;
use super::listing::FoundEntry;
use crate::tree::{XattrSet, path_of};
use crate::{Error, Part, Result};
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

const MAGIC: [u8; 8] = *b"packfsPS";
const VERSION: u32 = 2;
/// Length at which a frame is complete. A merge opens the file once a frame, and holds one frame of each part in
/// memory.
const FRAME: usize = 1 << 18;
/// Maximum length of a frame: one record may be as long as the largest set of attributes.
const FRAME_MAX: usize = 64 << 20;

/// Types of records.
const SOURCE: u8 = 1;
const DIR: u8 = 2;
const ENTRY: u8 = 3;
const END: u8 = 4;

/// Number of a part, and facts that all parts of a scan share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartHead {
    pub(super) part: Part,
    /// Digest of the options of the scan.
    pub(super) how: Digest,
    pub(super) sources: Vec<PathBuf>,
}

/// A part being written.
pub(super) struct PartWriter<'o> {
    output: &'o Output,
    frame: Vec<u8>,
    /// Bytes written.
    pub(super) written: u64,
    /// Number of entries.
    pub(super) entries: u64,
}

impl<'o> PartWriter<'o> {
    pub(super) fn new(output: &'o Output, head: &PartHead) -> Result<Self> {
        let mut writer = PartWriter { output, frame: MAGIC.to_vec(), written: 0, entries: 0 };
        let frame = &mut writer.frame;
        [VERSION, head.part.index(), head.part.count()].into_iter().for_each(|number| frame.u32(number));
        frame.put(head.how.as_bytes());
        frame.count(head.sources.len());
        head.sources.iter().for_each(|source| frame.bytes(source.as_os_str().as_bytes()));
        writer.flush().map(|()| writer)
    }

    pub(super) fn source(&mut self, attrs: &EntryAttrs, xattrs: &XattrSet) -> Result<()> {
        self.frame.u8(SOURCE);
        attrs.encode(&mut self.frame);
        put_xattrs(&mut self.frame, xattrs);
        self.end_of_record()
    }

    pub(super) fn dir(&mut self, path: &[u8], names: Option<(u64, Digest)>) -> Result<()> {
        self.frame.u8(DIR);
        self.frame.bytes(path);
        self.frame.u8(names.is_some().into());
        if let Some((count, digest)) = names {
            self.frame.u64(count);
            self.frame.put(digest.as_bytes());
        }
        self.end_of_record()
    }

    pub(super) fn entry(&mut self, FoundEntry { name, attrs, target, xattrs }: &FoundEntry) -> Result<()> {
        self.frame.u8(ENTRY);
        self.frame.bytes(name);
        attrs.encode(&mut self.frame);
        self.frame.bytes(target);
        put_xattrs(&mut self.frame, xattrs);
        self.entries += 1;
        self.end_of_record()
    }

    pub(super) fn finish(mut self) -> Result<(u64, u64)> {
        self.frame.u8(END);
        self.flush()?;
        Ok((self.entries, self.written))
    }

    fn end_of_record(&mut self) -> Result<()> {
        if self.frame.len() < FRAME { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        // The length of the frame, and its digest.
        let mut head = Vec::with_capacity(36);
        head.u32(u32::try_from(self.frame.len()).expect("a record is shorter than 4 GiB"));
        head.put(Digest::of(&self.frame).as_bytes());
        for bytes in [&head, &self.frame] {
            let written = self.output.write_all_at(bytes, self.written);
            written.map_err(Error::io("cannot write", self.output.target()))?;
            self.written += bytes.len() as u64;
        }
        self.frame.clear();
        Ok(())
    }
}

fn put_xattrs(to: &mut Vec<u8>, xattrs: &XattrSet) {
    to.count(xattrs.len());
    for (name, value) in xattrs {
        to.bytes(name);
        to.bytes(value);
    }
}

/// A record of a part.
#[derive(Debug)]
pub(super) enum PartRecord {
    Source(EntryAttrs, XattrSet),
    Dir { path: Box<[u8]>, names: Option<(u64, Digest)> },
    Entry(FoundEntry),
    End,
}

/// A part being read.
#[derive(Debug)]
pub(super) struct PartReader {
    pub(super) path: PathBuf,
    /// Device, inode and length of the file, which is opened for each frame: there may be more parts than a process may
    /// have open files.
    file: (u64, u64, u64),
    /// Position of the next frame.
    at: u64,
    frame: Vec<u8>,
    used: usize,
    /// The next record.
    pub(super) next: PartRecord,
}

impl PartReader {
    pub(super) fn open(path: &Path) -> Result<(PartReader, PartHead)> {
        // Before it is opened, as that waits for whoever writes to a pipe.
        let about = std::fs::metadata(path).map_err(Error::io("cannot read the attributes", path))?;
        if !about.is_file() {
            let why = "not a regular file: a part is read several times, so write it to a file first";
            return Err(Error::Misuse(format!("{}: {why}", crate::name::display(path))));
        }
        let path = path.to_owned();
        let frame = Vec::new();
        let mut reader = PartReader { path, file: (0, 0, 0), at: 0, frame, used: 0, next: PartRecord::End };
        reader.file = reader.open_file()?.1;
        reader.fill()?;
        let path = &reader.path;
        let mut from = FieldDecoder::new("part of a scan", &reader.frame);
        if from.array()? != MAGIC {
            return Err(reader.damaged("not a part of a scan of packfs"));
        }
        let version = from.u32()?;
        if version != VERSION {
            let name = crate::name::display(path);
            return Err(Error::Unsupported(format!("{name}: part of version {version}; this packfs knows {VERSION}")));
        }
        let part = Part::new(from.u32()?, from.u32()?).ok_or_else(|| from.wrong("there is no such part"))?;
        let how = Digest::from(from.array()?);
        let sources = from.list(8, |from| Ok(path_of(from.bytes()?)))?;
        from.end()?;
        reader.used = reader.frame.len();
        reader.advance()?;
        Ok((reader, PartHead { part, how, sources }))
    }

    /// Returns the next record and reads the one after it.
    pub(super) fn advance(&mut self) -> Result<PartRecord> {
        if self.used > 0 && self.is_at_end() && matches!(self.next, PartRecord::End) {
            return Ok(PartRecord::End);
        }
        if self.used == self.frame.len() {
            self.fill()?;
        }
        let mut from = FieldDecoder::new("part of a scan", &self.frame[self.used..]);
        let next = record(&mut from)?;
        self.used += from.at();
        if matches!(next, PartRecord::End) && !self.is_at_end() {
            return Err(self.damaged("something follows its end"));
        }
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn is_at_end(&self) -> bool {
        self.used == self.frame.len() && self.at == self.file.2
    }

    /// Opens the file; also returns its device, inode and length.
    fn open_file(&self) -> Result<(File, (u64, u64, u64))> {
        let file = File::open(&self.path).map_err(Error::io("cannot open", &self.path))?;
        let about = file.metadata().map_err(Error::io("cannot read the attributes", &self.path))?;
        Ok((file, (about.dev(), about.ino(), about.len())))
    }

    fn fill(&mut self) -> Result<()> {
        let (file, id) = self.open_file()?;
        if id != self.file {
            return Err(changed(&self.path, "another file has taken its place while it was read"));
        }
        let mut head = [0; 36];
        self.read(&file, &mut head, self.at)?;
        let mut from = FieldDecoder::new("part of a scan", &head);
        let len = from.u32()? as usize;
        let digest = Digest::from(from.array()?);
        if len > FRAME_MAX {
            return Err(self.damaged("not a part of a scan of packfs, or damaged"));
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.resize(len, 0);
        self.read(&file, &mut frame, self.at + head.len() as u64)?;
        self.at += (head.len() + len) as u64;
        (self.frame, self.used) = (frame, 0);
        if Digest::of(&self.frame) == digest { Ok(()) } else { Err(self.damaged("it is damaged")) }
    }

    fn read(&self, file: &File, bytes: &mut [u8], at: u64) -> Result<()> {
        file.read_exact_at(bytes, at).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged("it ends too early"),
            _ => Error::io("cannot read", &self.path)(error),
        })
    }

    pub(super) fn damaged(&self, why: &str) -> Error {
        Error::Damaged { path: self.path.clone(), why: why.into() }
    }
}

fn record(from: &mut FieldDecoder<'_>) -> Result<PartRecord> {
    Ok(match from.u8()? {
        SOURCE => PartRecord::Source(EntryAttrs::decode(from)?, get_xattrs(from)?),
        DIR => {
            let path = from.bytes()?.into();
            let names = match from.bool()? {
                true => Some((from.u64()?, Digest::from(from.array()?))),
                false => None,
            };
            PartRecord::Dir { path, names }
        }
        ENTRY => {
            let name = from.bytes()?.into();
            let attrs = EntryAttrs::decode(from)?;
            PartRecord::Entry(FoundEntry { name, attrs, target: from.bytes()?.into(), xattrs: get_xattrs(from)? })
        }
        END => PartRecord::End,
        _ => return Err(from.wrong("a record of no known type")),
    })
}

fn get_xattrs(from: &mut FieldDecoder<'_>) -> Result<XattrSet> {
    from.list(16, |from| Ok((from.bytes()?.into(), from.bytes()?.into())))
}
