//! Checks every byte of data: it is read or decoded once, however many files share it, and
//! exclusive areas do not overlap.

use std::ops::Range;

use packfs_blocks::Progress;

use super::inodes::{VisitedInode, VisitedInodes};
use crate::check::in_order;
use crate::erofs::format::{Incompat, SUPERBLOCK_OFFSET};
use crate::erofs::reader::ErofsReader;
use crate::erofs::reader::data::InodeData;
use crate::erofs::reader::inode::{Inode, InodeType};
use crate::erofs::reader::map::{MappedExtent, PieceStorage, StoredBytes, StoredPosition};
use crate::erofs::reader::metadata::OffsetSpace;
use crate::{Error, Part, Result};
use packfs_tree::{CheckRemark, FindingCollector, Severity};

/// Number of bytes per job.
const JOB_LEN: u64 = 1 << 20;
/// Maximum number of pieces that plain data of one extent is cut into.
const PIECES: u64 = 1024;
/// Number of pieces collected before they are read: about 20 MiB of memory.
const BATCH: usize = 1 << 18;
/// Maximum number of areas checked for overlaps: up to 192 MiB of memory, and more than half a terabyte of data.
const AREAS_MAX: usize = 1 << 23;
/// Upper bound of extents per byte of image: an index takes a few bytes per extent, fewer in a
/// metabox. If there are more, indexes overlap.
const EXTENTS_PER_BYTE: u64 = 16;

/// A part of an extent: `len` bytes from its byte `skip` on.
#[derive(Debug, Clone, Copy)]
struct ExtentPart {
    /// Index of the inode.
    inode: usize,
    extent: MappedExtent,
    skip: u64,
    len: u64,
}

/// Bytes of a device in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UsedArea {
    device: u16,
    start: u64,
    end: u64,
    /// True if others may share parts of it.
    plain: bool,
    structure: AreaStructure,
}

/// Structure that an area is used by: one byte, because there may be millions of areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AreaStructure {
    Superblock,
    Inode,
    Cluster,
}

impl AreaStructure {
    fn name(self) -> &'static str {
        match self {
            AreaStructure::Superblock => "superblock",
            AreaStructure::Inode => "inode",
            AreaStructure::Cluster => "cluster",
        }
    }
}

/// The work to do, and the areas in use.
#[derive(Debug, Default)]
struct CheckPlan {
    pieces: Vec<ExtentPart>,
    areas: Vec<UsedArea>,
    /// Number of extents that the image may still have.
    left: u64,
}

/// Checks how everything is placed, and reads a part of it on `threads` threads.
pub(super) fn check(
    reader: &ErofsReader,
    inodes: &VisitedInodes,
    part: Part,
    threads: usize,
    progress: &Progress,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    // The bound comes from the image's length, so that a small image cannot keep a check busy.
    let mut plan = CheckPlan { left: reader.disk.len().saturating_mul(EXTENTS_PER_BYTE), ..CheckPlan::default() };
    plan.areas.push(UsedArea::of_superblock(reader));
    for (n, VisitedInode { inode, .. }) in inodes.found.iter().enumerate() {
        // More findings would not be reported.
        if report.is_full() {
            return Ok(());
        }
        let planned = plan.add_inode(reader, n, inode, report);
        // Damage is reported, and the next inode is checked.
        report.take(planned)?;
        // Pieces of all files together could take more memory than the image.
        if plan.pieces.len() >= BATCH {
            read_batch(reader, inodes, std::mem::take(&mut plan.pieces), part, threads, progress, report)?;
        }
    }
    plan.areas.sort_unstable();
    plan.areas.dedup();
    // A file may share its data with others, but not its inode with anything.
    check_overlap(&plan.areas, report);
    read_batch(reader, inodes, plan.pieces, part, threads, progress, report)
}

/// Reads the pieces of a part in the order of the image, each once.
fn read_batch(
    reader: &ErofsReader,
    inodes: &VisitedInodes,
    mut pieces: Vec<ExtentPart>,
    part: Part,
    threads: usize,
    progress: &Progress,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    pieces.sort_by_key(ExtentPart::key);
    // Data after an inode is its own, wherever the same offset counts.
    pieces.dedup_by(|a, b| a.key() == b.key() && a.extent.data == b.extent.data && a.key().0 != AFTER_INODES);
    let len = u128::from(reader.disk.len());
    // A piece belongs to the part in which it begins, so parts share no work.
    pieces.retain(|piece| part.contains(piece.key().1.into(), len));
    Progress::add(&progress.total, pieces.iter().map(|piece| piece.len).sum());
    in_order(threads, jobs(&pieces), report, |job, buf| run(reader, inodes, job, buf, progress))
}

/// Groups pieces into jobs.
fn jobs(mut rest: &[ExtentPart]) -> impl Iterator<Item = &[ExtentPart]> {
    std::iter::from_fn(move || {
        let (job, more) = (!rest.is_empty()).then(|| rest.split_at(job_len(rest)))?;
        rest = more;
        Some(job)
    })
}

/// Returns how many pieces make up one job.
fn job_len(pieces: &[ExtentPart]) -> usize {
    let mut len = 0;
    let more = pieces.iter().take_while(|piece| {
        len += piece.len;
        len <= JOB_LEN
    });
    // At least one, however long it is.
    more.count().max(1)
}

/// Reads pieces; returns the damage found.
fn run(
    reader: &ErofsReader,
    inodes: &VisitedInodes,
    pieces: &[ExtentPart],
    buf: &mut Vec<u8>,
    progress: &Progress,
) -> Vec<CheckRemark> {
    let mut errors = Vec::new();
    for piece in pieces {
        if progress.is_cancelled() {
            errors.push(CheckRemark::Error(Error::Cancelled));
            break;
        }
        // Opened again for each piece: an inode is kept, but not its map, of which there would be millions.
        let result = InodeData::open(reader, &inodes.found[piece.inode].inode).and_then(|file| read(&file, piece, buf));
        errors.extend(result.err().map(CheckRemark::Error));
        Progress::add(&progress.done, piece.len);
    }
    errors
}

fn read(file: &InodeData<'_>, piece: &ExtentPart, buf: &mut Vec<u8>) -> Result<()> {
    let ExtentPart { extent, mut skip, len, .. } = *piece;
    let end = skip.saturating_add(len);
    while skip < end {
        // A compressed extent is one stream, so it is checked as a whole. The format limits its length.
        let step = if matches!(extent.data, PieceStorage::Packed { .. }) { len } else { JOB_LEN.min(end - skip) };
        let n = usize::try_from(step).unwrap_or(usize::MAX);
        if buf.len() < n {
            buf.resize(n, 0);
        }
        file.verify_extent(&extent, skip, &mut buf[..n])?;
        skip += step;
    }
    Ok(())
}

/// Stands for the device of data after inodes, which is never shared.
const AFTER_INODES: u16 = u16::MAX;

impl ExtentPart {
    /// Returns position and length: pieces are read in the order of the image.
    fn key(&self) -> (u16, u64, u64, u64) {
        let (device, byte) = match self.extent.data {
            PieceStorage::Plain { stored, .. } | PieceStorage::Packed { stored, .. } => place(stored.place),
            PieceStorage::Hole | PieceStorage::Fragment(_) => (AFTER_INODES, 0),
        };
        (device, byte.saturating_add(self.skip), self.extent.len, self.len)
    }
}

fn place(place: StoredPosition) -> (u16, u64) {
    // Number 0 is the device of the common address space.
    match place {
        StoredPosition::Image(byte) => (0, byte),
        StoredPosition::Device(device, byte) => (device, byte),
        StoredPosition::Meta(byte) => (AFTER_INODES, byte),
    }
}

impl CheckPlan {
    /// Adds the data of one inode.
    fn add_inode(
        &mut self,
        reader: &ErofsReader,
        n: usize,
        inode: &Inode,
        report: &mut FindingCollector<'_>,
    ) -> Result<()> {
        self.areas.extend(UsedArea::of_inode(inode));
        if inode.size == 0 || !matches!(inode.kind, InodeType::File | InodeType::Dir | InodeType::Symlink) {
            return Ok(());
        }
        let file = InodeData::open(reader, inode)?;
        // The map first, because its extents mean little if it is wrong.
        check_map(reader, inode, &file, report)?;
        file.each(&mut |extent| {
            let Some(left) = self.left.checked_sub(1) else {
                return Err(inode.error("with it, the files have more extents than the image has room for"));
            };
            self.left = left;
            match extent.data {
                PieceStorage::Hole => {}
                // Its bytes are read with the packed inode.
                PieceStorage::Fragment(offset) => {
                    // It costs an image nothing to name the same bytes of the packed inode again and again.
                    check_fragment(reader, inode, &file, offset..offset.saturating_add(extent.len), report)?
                }
                PieceStorage::Plain { stored, .. } => {
                    // Before it becomes pieces.
                    file.check_stored(stored, extent.len)?;
                    self.add_area(stored, true);
                    // More pieces for a long extent, but never more than a bound: its length comes from the
                    // image.
                    let most = JOB_LEN.max((extent.len / PIECES).next_multiple_of(JOB_LEN));
                    let mut skip = 0;
                    while skip < extent.len {
                        let len = most.min(extent.len - skip);
                        self.pieces.push(ExtentPart { inode: n, extent: *extent, skip, len });
                        skip += len;
                    }
                }
                PieceStorage::Packed { stored, .. } => {
                    self.add_area(stored, false);
                    self.pieces.push(ExtentPart { inode: n, extent: *extent, skip: 0, len: extent.len });
                }
            }
            Ok(())
        })
    }

    fn add_area(&mut self, stored: StoredBytes, plain: bool) {
        if let Some(area) = UsedArea::of_data(stored, plain) {
            area.add_to(&mut self.areas, AREAS_MAX);
        }
    }
}

impl UsedArea {
    /// Returns the area of the superblock.
    pub(super) fn of_superblock(reader: &ErofsReader) -> UsedArea {
        let end = SUPERBLOCK_OFFSET + reader.superblock.len;
        UsedArea { device: 0, start: SUPERBLOCK_OFFSET, end, plain: false, structure: AreaStructure::Superblock }
    }

    /// Returns the area of an inode and its xattrs; `None` if the inode is in a metabox.
    pub(super) fn of_inode(inode: &Inode) -> Option<UsedArea> {
        let start = inode.place.byte;
        let end = inode.payload.byte;
        let area = UsedArea { device: 0, start, end, plain: false, structure: AreaStructure::Inode };
        (inode.place.space == OffsetSpace::Image).then_some(area)
    }

    /// Returns the area of stored data; `None` for data after an inode.
    pub(super) fn of_data(stored: StoredBytes, plain: bool) -> Option<UsedArea> {
        let (device, start) = place(stored.place);
        let end = start.saturating_add(stored.len);
        let area = UsedArea { device, start, end, plain, structure: AreaStructure::Cluster };
        (device != AFTER_INODES).then_some(area)
    }

    /// Adds the area to a list of at most `max`. Plain data that continues the last area extends it: an index has an
    /// entry for each block of plain data.
    pub(super) fn add_to(self, areas: &mut Vec<UsedArea>, max: usize) {
        let continues =
            |last: &&mut UsedArea| last.plain && self.plain && (last.device, last.end) == (self.device, self.start);
        if let Some(last) = areas.last_mut().filter(continues) {
            last.end = self.end;
        } else if areas.len() < max {
            // Areas beyond the limit are not compared; the rest of the check goes on.
            areas.push(self);
        }
    }

    /// Returns the offset after its last byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }
}

/// Checks the map of an inode by itself, and that the superblock announces what it uses.
pub(super) fn check_map(
    reader: &ErofsReader,
    inode: &Inode,
    file: &InodeData<'_>,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    // The callback cannot fail, so its first error waits here.
    let mut passed = Ok(());
    let has_long_raw = file.check_map(&mut |wrong| {
        if passed.is_ok() {
            passed = report.error(wrong);
        }
    })?;
    passed?;
    if has_long_raw && !reader.superblock.incompat.contains(Incompat::BITS_48) {
        let text = "uncompressed extents of several blocks, as packfs 0.2 wrote them: Linux before 6.15 refuses to read \
                    them (EUCLEAN); build the image again";
        // Once for the image, however many files have them.
        report.shared(Severity::Note, "superblock", SUPERBLOCK_OFFSET, text, || format!("inode {}", inode.nid.0));
    }
    check_announced(reader, inode, file, report);
    Ok(())
}

/// Checks that the packed inode has a range of bytes that a file uses.
pub(super) fn check_fragment(
    reader: &ErofsReader,
    inode: &Inode,
    file: &InodeData<'_>,
    range: Range<u64>,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    if reader.packed.is_some() {
        // The range itself is checked there.
        return file.packed_inode(range.start, range.end - range.start).map(drop);
    }
    let text = "parts of files are in the packed inode, which the image does not have";
    let who = || format!("inode {}", inode.nid.0);
    report.shared(Severity::Damage, "superblock", SUPERBLOCK_OFFSET, text, who);
    Ok(())
}

/// Checks that the superblock announces every feature that a file uses. The kernel checks only the
/// bit of large clusters; the others make kernels that do not know a feature refuse the image.
fn check_announced(reader: &ErofsReader, inode: &Inode, file: &InodeData<'_>, report: &mut FindingCollector<'_>) {
    for (bit, what) in file.needs() {
        if reader.superblock.incompat.contains(bit) {
            continue;
        }
        // Only that bit changes how Linux reads the file.
        let severity = if bit == Incompat::BIG_CLUSTERS { Severity::Damage } else { Severity::Note };
        let text = match bit {
            Incompat::ZERO_PADDING => "LZ4 streams are at the start of their clusters, as before Linux 5.4".into(),
            _ => format!("its features do not announce {what}"),
        };
        report.shared(severity, "superblock", SUPERBLOCK_OFFSET, text, || format!("inode {}", inode.nid.0));
    }
}

/// Checks overlaps: clusters may be shared as a whole and plain data in any way, but other areas
/// are exclusive. `areas` are sorted and distinct.
pub(super) fn check_overlap(areas: &[UsedArea], report: &mut FindingCollector<'_>) {
    let mut device = 0;
    let mut packed_end = 0;
    let mut any_end = 0;
    for area in areas {
        if area.device != device {
            device = area.device;
            packed_end = 0;
            any_end = 0;
        }
        // Plain data may overlap other plain data, but nothing else may overlap.
        let end = if area.plain { packed_end } else { any_end };
        if area.start < end {
            report.add(area.structure.name(), area.start, format!("it overlaps the data that ends at byte {end}"));
        }
        // Areas are sorted by start, so the largest end so far is all that has to be known.
        any_end = any_end.max(area.end);
        if !area.plain {
            packed_end = packed_end.max(area.end);
        }
    }
}
