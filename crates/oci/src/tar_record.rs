//! Records of tar archives: what an image lacks of the archive that it was made of.
//!
//! A record is a list of operations that writes the archive again, byte for byte: literal bytes (headers, padding, what
//! follows the end), and ranges of files of the image. It has no name of a format of archives in it: whatever is not
//! found in the image is literal. That is also true of contents that a later entry of the same archive replaces, and of
//! marks for deleted files with contents: such bytes are not in the image, and the record holds them.
//!
//! Each operation is a byte that tells its type, and its fields, with little-endian numbers:
//!
//! | byte | operation | fields |
//! |---|---|---|
//! | 0 | end: nothing follows | |
//! | 1 | write bytes | length (4), the bytes, at most [`LITERAL_MAX`] |
//! | 2 | choose a file | length of the path (2), the path in the image, length of the file (8) |
//! | 3 | write a range of the file | offset (8), length (8) |
//!
//! Nothing is allocated by a length of a record.

use std::io::{Read, Write};

use packfs_blocks::Progress;
use packfs_blocks::io::read_full;
use packfs_image::image::{FileType, Nid};
use packfs_image::name::display;
use packfs_image::sink::lookup;
use packfs_image::source::{archive, decompress};
use packfs_image::tree::{FileData, Kind};
use packfs_image::{Error as ImageError, Image, Tree};
use packfs_tree::StayingData;
use packfs_tree::tree::path_of;

use crate::error::{Error, Result};
use crate::files::DiscardingStore;
use crate::layer::HashedReader;
use crate::source::SourceLayer;

/// Beginning of a record, with its version in the last byte.
const MAGIC: &[u8; 8] = b"PFSTAR\x00\x01";
/// Length in bytes of the literal bytes of an operation at most: the memory that a reader has for them.
const LITERAL_MAX: usize = 64 << 10;
/// Bytes that are compared or copied at a time: as many as most blocks of images have, or more, so that few blocks are
/// decoded twice.
const CHUNK: usize = 1 << 20;

#[cfg(test)]
mod tests;

const END: u8 = 0;
const LITERAL: u8 = 1;
const FILE: u8 = 2;
const RANGE: u8 = 3;

/// Writes the record of the archive of a layer, of which `image` was made. Ranges of files are compared with the image
/// while they are recorded: what differs becomes literal, so that every record leads back to its archive.
///
/// The archive is read twice: only after its end it is known which of its files are in the image.
pub(crate) fn write_record(
    layer: &SourceLayer,
    image: &dyn Image,
    out: &mut dyn Write,
    progress: &Progress,
) -> Result<()> {
    let files = ArchivedFiles::list(layer)?;
    let contents = decompress::reader(layer.bytes.open()?, &layer.name)?;
    let archive = HashedReader::new(contents, Some(&layer.diff_id));
    let mut recorder = TarRecorder {
        layer,
        archive,
        image,
        record: RecordWriter::begin(out)?,
        archived: vec![0; CHUNK],
        stored: vec![0; CHUNK],
    };
    let mut at = 0;
    for run in &files.runs {
        // No two members share bytes; if they did, the later one would be literal.
        if run.at < at {
            continue;
        }
        ImageError::unless_cancelled(progress)?;
        recorder.add_literally(run.at - at)?;
        recorder.add_run(&files.paths[run.path], run)?;
        at = run.at + run.len;
    }
    recorder.add_literally(u64::MAX)?;
    let TarRecorder { archive, record, .. } = recorder;
    // The archive is read again here, and may be another one by now.
    let found = archive.into_digest();
    if found != layer.diff_id {
        return Err(Error::damaged(display(&layer.name), "it changed while it was read"));
    }
    record.finish()
}

/// Files of an archive that an image has, in the order of their bytes.
struct ArchivedFiles {
    paths: Vec<Box<[u8]>>,
    runs: Vec<ArchivedRun>,
}

/// Bytes of a file that lie in a row in the archive.
struct ArchivedRun {
    /// Offset in the archive.
    at: u64,
    len: u64,
    /// Offset in the file.
    offset: u64,
    /// Length of the file.
    file_len: u64,
    /// Number of its path.
    path: usize,
}

impl ArchivedFiles {
    fn list(layer: &SourceLayer) -> Result<Self> {
        let contents = decompress::reader(layer.bytes.open()?, &layer.name)?;
        let mut options = archive::Options::default();
        // Asks the reader where the data lies, instead of for the data.
        options.refer = true;
        let mut tree = Tree::default();
        let mut source = archive::from_stream(contents, &layer.name, options)?;
        source.scan(&mut tree, &mut DiscardingStore)?;
        let mut files = ArchivedFiles { paths: Vec::new(), runs: Vec::new() };
        tree.walk(|ino, path| {
            let Kind::File { size, data: FileData::Source { from, key } } = tree.inode(ino).kind else { return Ok(()) };
            let Some(StayingData::Runs(runs)) = from.staying_data(key)? else { return Ok(()) };
            files.runs.extend(runs.iter().map(|run| ArchivedRun {
                at: run.at,
                len: run.len,
                offset: run.offset,
                file_len: size,
                path: files.paths.len(),
            }));
            files.paths.push(path.into());
            Ok(())
        })?;
        // Paths have the order of the tree, records that of the archive, which is read only forwards.
        files.runs.sort_unstable_by_key(|run| run.at);
        Ok(files)
    }
}

/// An archive whose record is being written.
struct TarRecorder<'r> {
    layer: &'r SourceLayer,
    archive: HashedReader,
    image: &'r dyn Image,
    record: RecordWriter<'r>,
    archived: Vec<u8>,
    stored: Vec<u8>,
}

impl TarRecorder<'_> {
    /// Records the next bytes as they are, up to the end of the archive.
    fn add_literally(&mut self, len: u64) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let got = self.read_archive(left)?;
            if got == 0 {
                return Ok(());
            }
            self.record.add_literal(&self.archived[..got])?;
            left -= got as u64;
        }
        Ok(())
    }

    /// Records the next bytes, those of a run, as a range of the file at `path` as far as the image has them.
    fn add_run(&mut self, path: &[u8], run: &ArchivedRun) -> Result<()> {
        // Another length means another entry of the archive: only the last one of a name is in the image.
        let Some(nid) = find_file(self.image, path)?.filter(|(_, len)| *len == run.file_len).map(|(nid, _)| nid) else {
            return self.add_literally(run.len);
        };
        let mut done = 0;
        while done < run.len {
            let got = self.read_archive(run.len - done)?;
            if got == 0 {
                // The digest, compared at the end, tells an archive that was cut short.
                return Ok(());
            }
            let offset = run.offset + done;
            let stored = self.image.read_at(nid, &mut self.stored[..got], offset)?;
            if self.stored[..stored] == self.archived[..got] {
                self.record.add_range(path, run.file_len, offset, got as u64)?;
            } else {
                self.record.add_literal(&self.archived[..got])?;
            }
            done += got as u64;
        }
        Ok(())
    }

    /// Reads at most `most` bytes of the archive into its buffer; fewer than that and the buffer only at its end.
    fn read_archive(&mut self, most: u64) -> Result<usize> {
        let want = usize::try_from(most).unwrap_or(CHUNK).min(CHUNK);
        read_full(&mut self.archive, &mut self.archived[..want]).map_err(Error::io("cannot read", &self.layer.name))
    }
}

/// Finds a regular file of an image; returns its length, too.
fn find_file(image: &dyn Image, path: &[u8]) -> Result<Option<(Nid, u64)>> {
    let Some(nid) = lookup(image, path)? else { return Ok(None) };
    match image.stat(nid)?.kind {
        FileType::File { size } => Ok(Some((nid, size))),
        _ => Ok(None),
    }
}

/// Writes operations; joins those that follow each other.
struct RecordWriter<'o> {
    out: &'o mut dyn Write,
    literal: Vec<u8>,
    /// Path and length of the file that was chosen last.
    file: Option<(Box<[u8]>, u64)>,
    /// Offset and length of a range that is not written yet.
    range: Option<(u64, u64)>,
}

impl<'o> RecordWriter<'o> {
    fn begin(out: &'o mut dyn Write) -> Result<Self> {
        let mut record = RecordWriter { out, literal: Vec::new(), file: None, range: None };
        record.write(MAGIC)?;
        Ok(record)
    }

    fn add_literal(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.flush_range()?;
        while !bytes.is_empty() {
            // The buffer never holds as much as an operation may, so at least one byte fits.
            let len = bytes.len().min(LITERAL_MAX - self.literal.len());
            self.literal.extend_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            if self.literal.len() == LITERAL_MAX {
                self.flush_literal()?;
            }
        }
        Ok(())
    }

    fn add_range(&mut self, path: &[u8], file_len: u64, offset: u64, len: u64) -> Result<()> {
        // Operations have the order of the archive, so one kind is written before the other begins.
        self.flush_literal()?;
        let is_same =
            self.file.as_ref().is_some_and(|(chosen, chosen_len)| **chosen == *path && *chosen_len == file_len);
        if let Some((start, range_len)) = &mut self.range
            && is_same
            && *start + *range_len == offset
        {
            *range_len += len;
            return Ok(());
        }
        self.flush_range()?;
        if !is_same {
            let path_len = u16::try_from(path.len());
            let path_len =
                path_len.map_err(|_| ImageError::Misuse("a path in an image has at most 65,535 bytes".into()))?;
            self.write(&[FILE])?;
            self.write(&path_len.to_le_bytes())?;
            self.write(path)?;
            self.write(&file_len.to_le_bytes())?;
            self.file = Some((path.into(), file_len));
        }
        self.range = Some((offset, len));
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.flush_range()?;
        self.flush_literal()?;
        self.write(&[END])
    }

    fn flush_range(&mut self) -> Result<()> {
        let Some((offset, len)) = self.range.take() else { return Ok(()) };
        self.write(&[RANGE])?;
        self.write(&offset.to_le_bytes())?;
        self.write(&len.to_le_bytes())
    }

    fn flush_literal(&mut self) -> Result<()> {
        if self.literal.is_empty() {
            return Ok(());
        }
        let literal = std::mem::take(&mut self.literal);
        // At most LITERAL_MAX, which fits.
        let len = u32::try_from(literal.len()).unwrap_or(u32::MAX);
        self.write(&[LITERAL])?;
        self.write(&len.to_le_bytes())?;
        self.write(&literal)?;
        // Kept for its capacity: there are as many literals as files.
        self.literal = literal;
        self.literal.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(Error::io("cannot write", "tar record"))
    }
}

/// Writes an archive again, from its record and the image that was made of it. `name` is that of the record, for messages.
///
/// # Errors
/// [`Error::Damaged`] if the record is no record, or if the image lacks what it refers to.
pub(crate) fn rebuild_archive(
    record: &mut dyn Read,
    name: &str,
    image: &dyn Image,
    out: &mut dyn Write,
    progress: &Progress,
) -> Result<()> {
    let mut reader = RecordReader { record, name };
    let damaged = |why: String| Error::damaged(name, why);
    if reader.read_array()? != *MAGIC {
        return Err(damaged("it is not a tar record of this version".into()));
    }
    let mut buf = vec![0; CHUNK];
    let mut chosen: Option<ChosenFile> = None;
    loop {
        ImageError::unless_cancelled(progress)?;
        let [operation] = reader.read_array()?;
        match operation {
            END => break,
            LITERAL => {
                let len = usize::try_from(u32::from_le_bytes(reader.read_array()?)).unwrap_or(usize::MAX);
                // The buffer has room for this many; a longer literal would panic.
                if len > LITERAL_MAX {
                    return Err(damaged(format!("{len} literal bytes in a row are more than {LITERAL_MAX}")));
                }
                reader.read_exact(&mut buf[..len])?;
                write_archive(out, &buf[..len])?;
            }
            FILE => chosen = Some(reader.choose_file(image)?),
            RANGE => {
                let file = chosen.as_ref().ok_or_else(|| damaged("a range without a file".into()))?;
                let offset = u64::from_le_bytes(reader.read_array()?);
                let len = u64::from_le_bytes(reader.read_array()?);
                // Before the image is read, and without an overflow.
                if offset.checked_add(len).is_none_or(|end| end > file.len) {
                    let why = format!("{len} bytes at {offset} go beyond the {} bytes of {}", file.len, file.path);
                    return Err(damaged(why));
                }
                file.copy_range(image, offset, len, &mut buf, &mut |bytes| {
                    ImageError::unless_cancelled(progress)?;
                    write_archive(out, bytes)
                })?;
            }
            other => return Err(damaged(format!("{other} is not an operation of a tar record"))),
        }
    }
    // Whatever followed would count for nothing: packfs has not written such a record.
    match read_full(reader.record, &mut buf[..1]).map_err(Error::io("cannot read", name))? {
        0 => Ok(()),
        _ => Err(damaged("there are bytes after its end".into())),
    }
}

fn write_archive(out: &mut dyn Write, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).map_err(Error::io("cannot write", "tar archive"))
}

/// A file of the image that ranges are taken from.
struct ChosenFile {
    /// For messages.
    path: String,
    nid: Nid,
    len: u64,
}

impl ChosenFile {
    fn copy_range(
        &self,
        image: &dyn Image,
        offset: u64,
        len: u64,
        buf: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let want = usize::try_from(len - done).unwrap_or(buf.len()).min(buf.len());
            let got = image.read_at(self.nid, &mut buf[..want], offset + done)?;
            if got < want {
                return Err(Error::damaged(&self.path, "the image has fewer bytes of it than it says"));
            }
            take(&buf[..got])?;
            done += got as u64;
        }
        Ok(())
    }
}

/// Reads the fields of a record.
struct RecordReader<'r> {
    record: &'r mut dyn Read,
    name: &'r str,
}

impl RecordReader<'_> {
    fn read_exact(&mut self, buf: &mut [u8]) -> Result<()> {
        let got = read_full(self.record, buf).map_err(Error::io("cannot read", self.name))?;
        if got < buf.len() {
            return Err(Error::damaged(self.name, "it ends in the middle"));
        }
        Ok(())
    }

    fn read_array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let mut bytes = [0; LEN];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the fields of a file; finds it in the image.
    fn choose_file(&mut self, image: &dyn Image) -> Result<ChosenFile> {
        let path_len = u16::from_le_bytes(self.read_array()?);
        let mut path = vec![0; usize::from(path_len)];
        self.read_exact(&mut path)?;
        let recorded = u64::from_le_bytes(self.read_array()?);
        let shown = display(&path_of(&path)).to_string();
        match find_file(image, &path)? {
            None => Err(Error::damaged(self.name, format!("the image does not have its file {shown}"))),
            Some((_, len)) if len != recorded => {
                let why = format!("its file {shown} has {recorded} bytes, and in the image {len}");
                Err(Error::damaged(self.name, why))
            }
            Some((nid, len)) => Ok(ChosenFile { path: shown, nid, len }),
        }
    }
}
