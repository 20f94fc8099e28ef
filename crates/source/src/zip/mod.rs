//! Zip archives as a source. The central directory at the end says what is in one, so they cannot come from a pipe.
//!
//! Data is decompressed once, on a thread of its own, in the order of the directory, and its length and checksum are
//! verified. Entries whose data overlaps are refused: small archives with huge contents are made of them.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::DeflateDecoder;
use packfs_blocks::ReadAt;
use packfs_blocks::calendar::{CivilDate, DAY};
use rawzip::extra_fields::ExtraFieldId;
use rawzip::time::DosDateTime;
use rawzip::{CompressionMethod, Crc32, CreatorSystem, RECOMMENDED_BUFFER_SIZE, RangeReader, ReaderAt, ZipArchive};
use rawzip::{ZipFileHeaderRecord, ZipLocator};

use super::archive::input::StoredMember;
use super::archive::place::{clean, place};
use super::archive::{ArchiveMember, MAX_PATH, MAX_SIZE, MemberKind, Options};
use super::decompress;
use super::readahead::ReadAhead;
use super::{Source, Store, unchanged};
use crate::name::display;
use crate::tree::{FileData, Time, Tree, XattrSet, path_of};
use crate::{Error, Result, Warning, WarningKind};

/// Name of members in messages.
const STRUCTURE: &str = "zip member";
const TYPE: u32 = 0o170_000;
const PERMISSIONS: u32 = 0o7777;
/// Attribute of DOS for files that may not be written.
const READ_ONLY: u32 = 1;
/// Tag of the times among the attributes of NTFS.
const NTFS_TIMES: u16 = 1;
const TICKS_PER_SECOND: u64 = 10_000_000;
/// Seconds from 1601, when the time of Windows begins, to 1970.
const SECONDS_FROM_1601: i64 = 11_644_473_600;

/// An archive.
pub(super) struct ZipSource {
    bytes: Option<ZipBytes>,
    path: PathBuf,
    options: Options,
}

/// The bytes of an archive.
#[derive(Clone)]
struct ZipBytes(Arc<dyn ReadAt>);

impl ReaderAt for ZipBytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
}

/// Stored data of a member.
#[derive(Debug, Clone)]
struct MemberBody {
    range: Range<u64>,
    method: CompressionMethod,
    size: u64,
    crc: u32,
    /// Path of the member, for messages.
    path: PathBuf,
}

/// A member to add to a tree under a clean path.
struct PlannedMember {
    path: Vec<u8>,
    member: ArchiveMember,
    body: Option<MemberBody>,
}

impl ZipSource {
    pub(super) fn new(bytes: Arc<dyn ReadAt>, path: &Path, options: Options) -> Self {
        ZipSource { bytes: Some(ZipBytes(bytes)), path: path.to_owned(), options }
    }

    fn damaged(&self, why: impl std::fmt::Display) -> Error {
        Error::Damaged { path: self.path.clone(), why: why.to_string() }
    }

    /// Makes the error of a failed read, or of a damaged archive.
    fn failed(&self, error: rawzip::Error) -> Error {
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
        match source.and_then(io::Error::raw_os_error) {
            Some(code) => Error::io("cannot read", &self.path)(io::Error::from_raw_os_error(code)),
            None => self.damaged(format!("zip archive: {error}")),
        }
    }

    /// Reads the directory: what to add to a tree, each with its data.
    fn plan(&self, bytes: &ZipBytes, tree: &mut Tree) -> Result<Vec<PlannedMember>> {
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let archive = ZipLocator::new().locate_in_reader(bytes.clone(), &mut buffer, bytes.0.len());
        let archive = archive.map_err(|(_, error)| self.failed(error))?;
        let mut plan = Vec::new();
        let mut taken = BTreeMap::new();
        let mut entries = archive.entries(&mut buffer);
        while let Some(record) = entries.next_entry().map_err(|error| self.failed(error))? {
            let at = record.local_header_offset();
            let name = name(&record);
            if name.is_empty() {
                let warning = Warning::new(WarningKind::MemberWithoutName, self.path.clone());
                tree.warnings.add(warning.with_detail(format!("at byte {at}")))?;
                continue;
            }
            let path = clean(&name, STRUCTURE, at)?;
            let member = member(&record, name.ends_with(b"/"), at)?;
            if self.options.exclude.covers(&path, matches!(member.kind, MemberKind::Dir)) {
                continue;
            }
            let range = self.range(&archive, &record)?;
            self.take(&mut taken, at..range.end)?;
            let has_data = matches!(member.kind, MemberKind::File(_) | MemberKind::Symlink(_));
            let body = has_data.then(|| self.body(&record, range, &path));
            plan.push(PlannedMember { path, member, body: body.transpose()? });
        }
        Ok(plan)
    }

    /// Returns the place of an entry's data.
    fn range(&self, archive: &ZipArchive<ZipBytes>, record: &ZipFileHeaderRecord<'_>) -> Result<Range<u64>> {
        let entry = archive.get_entry(record.wayfinder()).map_err(|error| self.failed(error))?;
        let (start, end) = entry.compressed_data_range();
        match end <= archive.directory_offset() {
            true => Ok(start..end),
            false => Err(Error::corrupt(STRUCTURE, start, "its data goes beyond the beginning of the directory")),
        }
    }

    /// Marks a part of the archive as used, which must not have been used by another entry.
    fn take(&self, taken: &mut BTreeMap<u64, u64>, part: Range<u64>) -> Result<()> {
        let before = taken.range(..=part.start).next_back().is_some_and(|(_, end)| *end > part.start);
        let after = taken.range(part.start..).next().is_some_and(|(start, _)| *start < part.end);
        if before || after {
            let why = "it overlaps with another, which no program writes by itself";
            return Err(Error::corrupt(STRUCTURE, part.start, why));
        }
        taken.insert(part.start, part.end);
        Ok(())
    }

    /// Returns the data of a member, if it can be read.
    fn body(&self, record: &ZipFileHeaderRecord<'_>, range: Range<u64>, path: &[u8]) -> Result<MemberBody> {
        let method = record.compression_method();
        let flags = record.flags();
        let path = path_of(path);
        let unsupported =
            |why: String| Err(Error::Unsupported(format!("{}: `{}` {why}", display(&self.path), display(&path))));
        if flags.is_encrypted() || flags.has_strong_encryption() || method == CompressionMethod::AES {
            return unsupported("is encrypted, and packfs takes no passwords".into());
        }
        if !matches!(
            method,
            CompressionMethod::STORE
                | CompressionMethod::DEFLATE
                | CompressionMethod::BZIP2
                | CompressionMethod::ZSTD
                | CompressionMethod::XZ
        ) {
            return unsupported(format!("is compressed with method {method}, which packfs does not read"));
        }
        let size = record.uncompressed_size_hint();
        if size > MAX_SIZE {
            return Err(Error::corrupt(STRUCTURE, range.start, format!("the size of {size} bytes is too large")));
        }
        Ok(MemberBody { range, method, size, crc: record.crc32(), path })
    }
}

impl Source for ZipSource {
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        let bytes = self.bytes.take().ok_or_else(|| Error::Misuse("an archive can be listed only once".into()))?;
        let plan = self.plan(&bytes, tree)?;
        let queue = plan.iter().filter_map(|planned| planned.body.clone()).collect();
        let bodies = BodyStream { bytes: bytes.clone(), queue, current: None };
        let mut data = MembersData { from: ReadAhead::new(Box::new(bodies)), left: 0, failed: None };
        for PlannedMember { path, mut member, body } in plan {
            data.left = body.map_or(0, |body| body.size);
            let kept = match &mut member.kind {
                MemberKind::Symlink(target) => {
                    let read = data.read_to_end(target);
                    read.map(|_| FileData::Empty).map_err(Error::io("cannot read", &self.path))
                }
                MemberKind::File(file) if file.size > 0 => {
                    store.put(&mut data, file.size, &[(0, file.size)]).map(FileData::Stored)
                }
                _ => Ok(FileData::Empty),
            };
            // The store's error about a failed read says less than is known here.
            let kept = data.failed.take().map_or(kept, |error| Err(self.unreadable(error)))?;
            place(tree, &path, member, kept, &self.options)?;
        }
        // Checks the members without data at the end, too.
        data.from.read(&mut [0]).map_err(|error| self.unreadable(error))?;
        unchanged(&*bytes.0, &self.path)
    }
}

impl ZipSource {
    fn unreadable(&self, error: io::Error) -> Error {
        match error.raw_os_error() {
            Some(_) => Error::io("cannot read", &self.path)(error),
            None => self.damaged(error),
        }
    }
}

/// Returns the path of a member, in UTF-8 if the archive has it so.
fn name<'r>(record: &'r ZipFileHeaderRecord<'_>) -> Cow<'r, [u8]> {
    let raw = record.file_path();
    let name = match record.flags().is_utf8() {
        true => raw.as_bytes(),
        false => unicode_path(record).unwrap_or(raw.as_bytes()),
    };
    // Old .NET programs and others write the separators of DOS, against the specification.
    let system = record.version_made_by().creator_system();
    let is_dos = [CreatorSystem::FAT, CreatorSystem::NTFS, CreatorSystem::MVS, CreatorSystem::VFAT].contains(&system);
    if is_dos && name.contains(&b'\\') && !name.contains(&b'/') {
        return name.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect::<Vec<u8>>().into();
    }
    name.into()
}

/// Returns the name in Info-ZIP's extra field beside one in a code page: a version, the checksum of the other name, and
/// UTF-8. If that name was changed later, the checksum differs and the field is ignored.
fn unicode_path<'r>(record: &'r ZipFileHeaderRecord<'_>) -> Option<&'r [u8]> {
    let field = extra(record, ExtraFieldId::INFO_ZIP_UNICODE_PATH)?;
    let (crc, name) = field.strip_prefix(&[1])?.split_first_chunk()?;
    let mut checksum = Crc32::new();
    checksum.update(record.file_path().as_bytes());
    let is_valid = u32::from_le_bytes(*crc) == checksum.checksum() && std::str::from_utf8(name).is_ok();
    (is_valid && !name.is_empty()).then_some(name)
}

/// Describes a member; a link has no target yet.
fn member(record: &ZipFileHeaderRecord<'_>, is_dir: bool, at: u64) -> Result<ArchiveMember> {
    let mode = mode(record, is_dir);
    let size = record.uncompressed_size_hint();
    let kind = match mode & TYPE {
        _ if is_dir => MemberKind::Dir,
        0o040_000 => MemberKind::Dir,
        // Info-ZIP marks a member that it read from a pipe as a pipe.
        0 | 0o100_000 | 0o010_000 => {
            MemberKind::File(StoredMember { size, len: size, map: None, header: at, sum: None })
        }
        0o120_000 if size > MAX_PATH as u64 => {
            let why = format!("a symbolic link of {size} bytes: more than {MAX_PATH}");
            return Err(Error::corrupt(STRUCTURE, at, why));
        }
        0o120_000 => MemberKind::Symlink(Vec::new()),
        0o140_000 => MemberKind::Socket,
        _ => {
            return Err(Error::Unsupported(format!(
                "zip member at byte {at}: a device, whose numbers zip cannot hold"
            )));
        }
    };
    let (uid, gid) = owner(record).unwrap_or((0, 0));
    Ok(ArchiveMember {
        path: Vec::new(),
        kind,
        mode: u16::try_from(mode & PERMISSIONS).unwrap_or_default(),
        uid,
        gid,
        mtime: time(record),
        xattrs: XattrSet::new(),
        lost: Vec::new(),
        of: STRUCTURE,
        at,
    })
}

/// Returns type and permissions. Archives from systems without them get those that most files have.
fn mode(record: &ZipFileHeaderRecord<'_>, is_dir: bool) -> u32 {
    let system = record.version_made_by().creator_system();
    let unix = record.external_attributes() >> 16;
    let dos = record.external_attributes();
    let has_modes = matches!(system, CreatorSystem::UNIX | CreatorSystem::MACOS) && unix != 0;
    match has_modes {
        true => unix,
        false if is_dir || record.mode().value() & TYPE == 0o040_000 => 0o040_755,
        false if dos & READ_ONLY != 0 && system != CreatorSystem::UNIX => 0o100_444,
        false => 0o100_644,
    }
}

/// Returns owner and group of Info-ZIP's extra field: a version, and two numbers, each after its length.
fn owner(record: &ZipFileHeaderRecord<'_>) -> Option<(u32, u32)> {
    let field = extra(record, ExtraFieldId::INFO_ZIP_UNIX_UID_GID)?;
    let mut rest = field.strip_prefix(&[1])?;
    let mut number = || {
        let (len, after) = rest.split_first()?;
        let (digits, after) = after.split_at_checked(usize::from(*len))?;
        rest = after;
        let value =
            digits.iter().rev().try_fold(0u64, |value, byte| Some(value.checked_mul(256)? + u64::from(*byte)))?;
        u32::try_from(value).ok()
    };
    Some((number()?, number()?))
}

fn extra<'r>(record: &'r ZipFileHeaderRecord<'_>, wanted: ExtraFieldId) -> Option<&'r [u8]> {
    record.extra_fields().find(|(id, _)| *id == wanted).map(|(_, field)| field)
}

/// Returns the time of modification: seconds since 1970 or the time of NTFS if the archive has them. Otherwise, the
/// local time of its writer counts as UTC, because the archive does not store its time zone.
fn time(record: &ZipFileHeaderRecord<'_>) -> Time {
    let local = seconds_of(record.last_modified_dos());
    let extended = extra(record, ExtraFieldId::EXTENDED_TIMESTAMP).and_then(|field| match field {
        [flags, seconds @ ..] if flags & 1 != 0 => seconds.first_chunk(),
        _ => None,
    });
    // The older field of Info-ZIP, which macOS still writes, begins with the time of the last access.
    let original =
        || extra(record, ExtraFieldId::INFO_ZIP_UNIX_ORIGINAL).and_then(|field| field.get(4..)?.first_chunk());
    if let Some(seconds) = extended.or_else(original) {
        return Time { secs: nearer_to(local, *seconds), nanos: 0 };
    }
    ntfs_time(record).unwrap_or(Time { secs: local, nanos: 0 })
}

/// Reads seconds since 1970 that some programs store signed, for times before 1970, and some unsigned, for those after
/// 2038: the one that is nearer to the local time counts.
fn nearer_to(local: i64, seconds: [u8; 4]) -> i64 {
    let signed = i64::from(i32::from_le_bytes(seconds));
    let unsigned = i64::from(u32::from_le_bytes(seconds));
    let distance = |seconds: i64| seconds.abs_diff(local);
    if distance(unsigned) < distance(signed) { unsigned } else { signed }
}

/// Returns the time in the field of NTFS, which counts tenths of microseconds since 1601: after four reserved bytes,
/// attributes follow each other, of which the first has the times.
fn ntfs_time(record: &ZipFileHeaderRecord<'_>) -> Option<Time> {
    let mut rest = extra(record, ExtraFieldId::NTFS)?.get(4..)?;
    loop {
        let ([tag_low, tag_high, len_low, len_high], after) = rest.split_first_chunk()?;
        let len = u16::from_le_bytes([*len_low, *len_high]);
        let (value, after) = after.split_at_checked(len.into())?;
        if u16::from_le_bytes([*tag_low, *tag_high]) == NTFS_TIMES {
            let ticks = u64::from_le_bytes(*value.first_chunk()?);
            let nanos = u32::try_from(ticks % TICKS_PER_SECOND * 100).ok()?;
            return Some(Time { secs: i64::try_from(ticks / TICKS_PER_SECOND).ok()? - SECONDS_FROM_1601, nanos });
        }
        rest = after;
    }
}

/// Converts a date since 1980; one that does not exist is taken for the nearest that does.
fn seconds_of(time: DosDateTime) -> i64 {
    let year = i64::from(time.year());
    let month = i64::from(time.month().max(1));
    let day = i64::from(time.day().max(1));
    let days = CivilDate { year, month, day }.days_since_1970();
    days * DAY + i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second())
}

/// The data of all members, one after the other, decompressed and verified.
struct BodyStream {
    bytes: ZipBytes,
    queue: VecDeque<MemberBody>,
    current: Option<CheckedBody>,
}

impl Read for BodyStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(current) = &mut self.current {
                match current.read(buf)? {
                    0 => self.current = None,
                    n => return Ok(n),
                }
            }
            match self.queue.pop_front() {
                Some(body) => self.current = Some(CheckedBody::new(&self.bytes, body)?),
                None => return Ok(0),
            }
        }
    }
}

/// Data of one member, which must have the length and the checksum that the directory says.
struct CheckedBody {
    from: Box<dyn Read + Send>,
    left: u64,
    crc: Crc32,
    body: MemberBody,
}

impl CheckedBody {
    fn new(bytes: &ZipBytes, body: MemberBody) -> io::Result<Self> {
        let range = Box::new(RangeReader::new(bytes.clone(), body.range.clone()));
        let from: Box<dyn Read + Send> = match body.method {
            CompressionMethod::STORE => range,
            CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(range)),
            _ => decompress::reader(range, &body.path).map_err(io::Error::other)?,
        };
        Ok(CheckedBody { from, left: body.size, crc: Crc32::new(), body })
    }

    fn wrong(&self, why: impl std::fmt::Display) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, format!("`{}`: {why}", display(&self.body.path)))
    }
}

impl Read for CheckedBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // At the end one more byte is asked for, as only that shows data which is longer than the directory says.
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).clamp(1, buf.len().max(1));
        let mut probe = [0];
        let piece = if self.left == 0 { &mut probe[..] } else { &mut buf[..most] };
        let got = self.from.read(piece).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ if error.raw_os_error().is_some() => error,
            _ => self.wrong(format!("its data is damaged: {error}")),
        })?;
        match (got, self.left) {
            (0, 0) if self.crc.checksum() == self.body.crc => Ok(0),
            (0, 0) => Err(self.wrong("its data has another checksum than the directory says: it is damaged")),
            (0, left) => Err(self.wrong(format!("its data ends {left} bytes before its length"))),
            (_, 0) => Err(self.wrong(format!("its data is longer than the {} bytes of the directory", self.body.size))),
            (got, _) => {
                self.crc.update(&buf[..got]);
                self.left -= got as u64;
                Ok(got)
            }
        }
    }
}

/// Data of the members, as far as the current one goes.
struct MembersData {
    from: ReadAhead,
    left: u64,
    failed: Option<io::Error>,
}

impl Read for MembersData {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buf.len());
        if want == 0 {
            return Ok(0);
        }
        match self.from.read(&mut buf[..want]) {
            Ok(got) => {
                self.left -= got as u64;
                Ok(got)
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
    }
}

#[cfg(test)]
mod tests;
