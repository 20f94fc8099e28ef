//! A part being written: appended to, flushed now and then, cut back when it fails, and finished.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use packfs_blocks::{Buffer, Buffers, Storage};
use rustix::fs::OFlags;
use zerocopy::IntoBytes;

use super::behind::WriteBehind;
use super::queue::{PartExtent, PartLoss};
use super::report::PartReport;
use super::segment::SealedSegment;
use crate::format::{ALIGN, IndexEntry, SegmentKind};
use crate::part::{PartFooter, PartSuperblock, SegmentEntry, SegmentHead, seal_payload, sealed_len};

/// File with the number of bytes to which a process without privileges can enlarge a pipe.
const PIPE_MAX_SIZE: &str = "/proc/sys/fs/pipe-max-size";
/// The default of that number.
const USUAL_PIPE_MAX: u64 = 1 << 20;
/// Number of entries in an index segment: a little more than a megabyte of payload.
const INDEX_ENTRIES: usize = 1 << 15;

/// Type of a part's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartTarget {
    File,
    Device,
    /// A FIFO or character device: cannot seek.
    Pipe,
}

/// A part.
#[derive(Debug)]
pub(super) struct PartWriter {
    pub(super) path: PathBuf,
    pub(super) superblock: PartSuperblock,
    storage: Box<dyn Storage>,
    sink: PartTarget,
    direct: bool,
    behind: WriteBehind,
    /// Offset of the next byte.
    position: u64,
    /// Number of bytes that existed when this run began.
    resumed: u64,
    index: Vec<SegmentEntry>,
    /// State on disk: number of bytes and entries.
    safe: (u64, usize),
    checkpoint_every: u64,
    /// True if the input can be read again, so that data that may not have reached the disk is cut off.
    can_redo: bool,
    pages: Buffers,
    busy: Duration,
    synced: Duration,
    finished: bool,
    /// True once the system reported that accepted data did not reach the disk, which it reports only once.
    tainted: bool,
    error: Option<String>,
}

/// How a part is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartWriteSettings {
    pub(super) sink: PartTarget,
    pub(super) direct: bool,
    pub(super) checkpoint_every: u64,
    pub(super) can_redo: bool,
}

impl PartWriter {
    /// Makes a part that is empty, or has the contents of `index` up to `position`.
    pub(super) fn new(
        path: &Path,
        storage: Box<dyn Storage>,
        superblock: PartSuperblock,
        settings: PartWriteSettings,
        position: u64,
        index: Vec<SegmentEntry>,
    ) -> Self {
        // What an earlier run wrote may still be in memory only, except for what its last checkpoint vouches for.
        let checkpoint = index.iter().rposition(|entry| entry.head.kind == SegmentKind::Checkpoint);
        let safe = checkpoint.map_or((position.min(ALIGN as u64), 0), |n| (index[n].position, n));
        PartWriter {
            path: path.to_owned(),
            superblock,
            behind: WriteBehind::new(settings.sink != PartTarget::Pipe && !settings.direct, position),
            storage,
            sink: settings.sink,
            direct: settings.direct,
            position,
            resumed: position,
            index,
            safe,
            checkpoint_every: settings.checkpoint_every,
            can_redo: settings.can_redo,
            pages: Buffers::new(ALIGN),
            busy: Duration::ZERO,
            synced: Duration::ZERO,
            finished: false,
            tainted: false,
            error: None,
        }
    }

    /// Writes the superblock. A part that has one is flushed, so that its contents count as safe.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if self.position > 0 {
            return self.sync();
        }
        let page = self.superblock_page();
        self.write(&page, 0)?;
        self.position = ALIGN as u64;
        self.safe = (self.position, 0);
        Ok(())
    }

    fn superblock_page(&self) -> Buffer {
        let mut page = self.pages.take(ALIGN);
        // The length of the codec's text was checked when the set was begun.
        match self.superblock.to_raw() {
            Some(raw) => page.copy_from_slice(raw.as_bytes()),
            None => page.fill(0),
        }
        page
    }

    /// Appends a segment, and a checkpoint if one is due.
    pub(super) fn append(&mut self, sealed: &SealedSegment) -> io::Result<Duration> {
        let begun = Instant::now();
        self.put(&sealed.bytes, sealed.head)?;
        let took = begun.elapsed();
        self.busy += took;
        // A pipe has nothing to flush, and nobody can scan it for checkpoints later.
        if self.sink != PartTarget::Pipe && self.position - self.safe.0 >= self.checkpoint_every {
            self.sync()?;
            self.checkpoint()?;
        }
        Ok(took)
    }

    fn put(&mut self, bytes: &[u8], head: SegmentHead) -> io::Result<()> {
        self.write(bytes, self.position)?;
        let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.index.push(SegmentEntry { position: self.position, len, head });
        self.position += bytes.len() as u64;
        let advanced = self.behind.advance(&*self.storage, self.position);
        self.tainted |= advanced.is_err();
        advanced
    }

    /// Writes a checkpoint, which says that everything before it is durable; the caller must have flushed it.
    fn checkpoint(&mut self) -> io::Result<()> {
        let head =
            SegmentHead { kind: SegmentKind::Checkpoint, stripe: 0, shard: 0, data: 0, parity: 0, start: 0, end: 0 };
        let mut page = self.pages.take(ALIGN);
        seal_payload(&self.superblock.set, &head, &[], &mut page);
        self.put(&page, head)
    }

    /// Flushes everything written to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.sink == PartTarget::Pipe {
            return Ok(());
        }
        let begun = Instant::now();
        let synced = self.storage.sync_data();
        self.tainted |= synced.is_err();
        synced?;
        self.synced += begun.elapsed();
        self.safe = (self.position, self.index.len());
        Ok(())
    }

    /// Retires the part after an error: cuts it back to its last good segment and returns what may be lost with it.
    pub(super) fn retire(&mut self, error: &io::Error) -> PartLoss {
        self.error = Some(error.to_string());
        // A full disk keeps its data. After any other error only data flushed before is relied on.
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let safe = self.sink != PartTarget::Pipe && full && !self.tainted && self.cut(self.position).is_ok();
        if safe && self.sync().is_ok() {
            return PartLoss::default();
        }
        let (mut at, mut entries) = self.safe;
        if self.sink == PartTarget::Pipe {
            // The reader may have received everything except the contents of the pipe.
            let received = self.position.saturating_sub(self.storage.file().map_or(USUAL_PIPE_MAX, pipe_len));
            entries = self.index.partition_point(|entry| entry.position + u64::from(entry.len) <= received);
            at = self.index.get(entries).map_or(self.position, |entry| entry.position);
        }
        let loss = loss(&self.index[entries..]);
        if self.can_redo && self.sink != PartTarget::Pipe {
            self.index.truncate(entries);
            self.position = at;
            // If even this fails, the checksums tell good data from bad.
            let _ = self.cut(at);
        }
        loss
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.storage.set_len(len)
    }

    /// Writes index, footer and manifest. A part that failed earlier gets them if there is room.
    pub(super) fn finish(&mut self, foot: &PartFooter) {
        let end = self.position;
        let failed = self.error.is_some();
        // Without a reader there is nothing to finish.
        if failed && self.sink == PartTarget::Pipe {
            return;
        }
        match self.trailer(foot) {
            Ok(()) => self.finished = true,
            Err(error) => {
                self.position = end;
                if self.superblock.footer.take().is_some() {
                    // The failed write may have torn it.
                    let page = self.superblock_page();
                    let _ = self.write(&page, 0);
                }
                let _ = self.cut(end).and_then(|()| self.storage.sync_data());
                self.error.get_or_insert_with(|| format!("no index at its end, so it has to be scanned: {error}"));
            }
        }
    }

    fn trailer(&mut self, foot: &PartFooter) -> io::Result<()> {
        let begun = Instant::now();
        let mut foot = PartFooter { index: self.position, indexes: 0, ..foot.clone() };
        let entries = std::mem::take(&mut self.index);
        let written = self.put_index(&entries, &mut foot);
        self.index = entries;
        written?;
        let mut page = self.pages.take(ALIGN);
        page.copy_from_slice(foot.to_raw(&self.superblock).as_bytes());
        self.write(&page, self.position)?;
        if self.sink != PartTarget::Pipe {
            // The footer has to be on the disk before the superblock says where it is.
            self.storage.sync_data()?;
            self.superblock.footer = Some(self.position);
            let page = self.superblock_page();
            self.write(&page, 0)?;
            self.storage.sync_all()?;
        }
        self.position += ALIGN as u64;
        self.synced += begun.elapsed();
        Ok(())
    }

    fn put_index(&mut self, entries: &[SegmentEntry], foot: &mut PartFooter) -> io::Result<()> {
        let head = SegmentHead { kind: SegmentKind::Index, stripe: 0, shard: 0, data: 0, parity: 0, start: 0, end: 0 };
        let most = sealed_len(0, INDEX_ENTRIES.min(entries.len()) * size_of::<IndexEntry>());
        let buffers = Buffers::new(most);
        for entries in entries.chunks(INDEX_ENTRIES) {
            let raw: Vec<_> = entries.iter().map(SegmentEntry::to_raw).collect();
            let mut bytes = buffers.take(sealed_len(0, raw.as_bytes().len()));
            seal_payload(&self.superblock.set, &head, raw.as_bytes(), &mut bytes);
            self.write(&bytes, self.position)?;
            self.position += bytes.len() as u64;
            foot.indexes += 1;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        match (self.storage.write_all_at(bytes, at), self.storage.file()) {
            (Err(error), Some(file)) if self.direct && error.kind() == io::ErrorKind::InvalidInput => {
                // Opened for direct I/O, but not capable of it: some file systems report that late.
                self.direct = false;
                rustix::fs::fcntl_setfl(file, rustix::fs::fcntl_getfl(file)? & !OFlags::DIRECT)?;
                self.behind = WriteBehind::new(true, at);
                self.storage.write_all_at(bytes, at)
            }
            (written, _) => written,
        }
    }

    /// Returns the facts for the manifest: number of data and parity segments, and number of bytes
    /// before the index.
    pub(super) fn extent(&self) -> PartExtent {
        let counts = |entry: &&SegmentEntry| matches!(entry.head.kind, SegmentKind::Data | SegmentKind::Parity);
        let segments = self.index.iter().filter(counts).count() as u64;
        PartExtent { failed: self.error.is_some(), segments, len: self.position }
    }

    /// Returns the number of bytes so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn is_file(&self) -> bool {
        self.sink == PartTarget::File
    }

    /// Returns true if it bypasses the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    pub(super) fn report(&self) -> PartReport {
        PartReport {
            path: self.path.clone(),
            bytes: self.position,
            resumed_bytes: self.resumed.min(self.position),
            segments: self.extent().segments,
            busy_seconds: self.busy.as_secs_f64(),
            sync_seconds: self.synced.as_secs_f64(),
            finished: self.finished,
            error: self.error.clone(),
        }
    }
}

/// Returns the number of bytes that a pipe may still hold when its reader goes away. For a device without such a
/// number, the maximum that users can configure is assumed.
fn pipe_len(pipe: &File) -> u64 {
    let configured = || std::fs::read_to_string(PIPE_MAX_SIZE).ok()?.trim().parse().ok();
    match rustix::pipe::fcntl_getpipe_size(pipe) {
        Ok(len) => len as u64,
        Err(_) => configured().unwrap_or(USUAL_PIPE_MAX),
    }
}

fn loss(entries: &[SegmentEntry]) -> PartLoss {
    let mut loss = PartLoss::default();
    for SegmentEntry { head, .. } in entries {
        if !matches!(head.kind, SegmentKind::Data | SegmentKind::Parity) {
            continue;
        }
        // Data is written again in another stripe. That does not help the segments left of its old one, which rely on
        // the lost segment as much as on lost parity.
        loss.weakened += u64::from(head.parity > 0);
        if head.kind == SegmentKind::Data && head.start < head.end {
            loss.ranges.push(head.start..head.end);
        }
    }
    loss
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use packfs_blocks::io::FileSystem;
    use packfs_blocks::io::faults::{FaultKind, FaultyFiles};

    use super::*;

    /// Segments that were resumed, whether the first flush fails, what is lost then, and the number of pages kept.
    type ResumedCase = (&'static [SegmentKind], bool, Vec<Range<u64>>, u64);

    #[test]
    fn resumed_data_counts_as_safe_once_it_is_flushed() {
        use SegmentKind::{Checkpoint, Data};
        let page = ALIGN as u64;
        let cases: [ResumedCase; 4] = [
            (&[Data, Data], true, vec![0..1, 1..2], 1),
            (&[Data, Checkpoint, Data, Data], true, vec![2..3, 3..4], 2),
            (&[Data, Checkpoint, Data, Data], false, Vec::new(), 5),
            (&[Data, Data], false, Vec::new(), 3),
        ];
        let superblock = PartSuperblock {
            part: 0,
            parts: 1,
            parity: 0,
            set: [7; 16],
            size: Some(4),
            footer: None,
            input: 1,
            chunk: 4096,
            segment: 1 << 20,
            codec: "none".parse().unwrap(),
        };
        let settings =
            PartWriteSettings { sink: PartTarget::File, direct: false, checkpoint_every: 1 << 20, can_redo: true };
        for (kinds, fails, lost, pages) in cases {
            let entry = |(kind, n): (&SegmentKind, u64)| {
                let head = SegmentHead { kind: *kind, stripe: n, shard: 0, data: 1, parity: 0, start: n, end: n + 1 };
                SegmentEntry { position: (n + 1) * page, len: 4096, head }
            };
            let index: Vec<_> = kinds.iter().zip(0..).map(entry).collect();
            let position = (index.len() as u64 + 1) * page;
            let files = if fails { FaultyFiles::failing(0, FaultKind::Io) } else { FaultyFiles::new() };
            let storage = files.adopt(Box::new(tempfile::tempfile().unwrap()));
            let mut part = PartWriter::new(Path::new("part"), storage, superblock.clone(), settings, position, index);
            assert_eq!(part.begin().is_err(), fails, "{kinds:?}");
            let loss = part.retire(&io::Error::from_raw_os_error(libc::EIO));
            assert_eq!((loss.ranges, part.position()), (lost, pages * page), "{kinds:?}");
        }
    }

    #[test]
    fn a_pipe_holds_what_it_was_enlarged_to() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let writer = File::from(std::os::fd::OwnedFd::from(writer));
        let usual = pipe_len(&writer);
        // Twice the usual size is within the limit for users, unless someone lowered that.
        if rustix::pipe::fcntl_setpipe_size(&writer, usize::try_from(2 * usual).unwrap()).is_ok() {
            assert_eq!(pipe_len(&writer), 2 * usual);
        }
        let configured: u64 = std::fs::read_to_string(PIPE_MAX_SIZE).unwrap().trim().parse().unwrap();
        assert_eq!(pipe_len(&File::open("/dev/null").unwrap()), configured);
    }
}
