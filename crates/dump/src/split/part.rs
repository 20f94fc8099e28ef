//! One part being written: appended to, made to reach the disk now and then, cut back when it fails, and finished.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use packfs_blocks::{Buffer, Buffers, Storage};
use rustix::fs::OFlags;
use zerocopy::IntoBytes;

use super::behind::Behind;
use super::queue::{Extent, Loss};
use super::report::PartReport;
use super::segment::Sealed;
use crate::format::{ALIGN, IndexEntry, SegmentKind};
use crate::part::{Entry, Foot, Head, Super, seal_payload, sealed_len};

/// What a pipe may still hold when its reader goes away; more than the largest that users may have.
const PIPE: u64 = 1 << 20;
/// Entries of an index segment: a little more than a megabyte of payload.
const INDEX_ENTRIES: usize = 1 << 15;

/// What bytes go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sink {
    File,
    Device,
    /// A FIFO, a character device: no going back.
    Pipe,
}

/// A part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) superblock: Super,
    storage: Box<dyn Storage>,
    sink: Sink,
    direct: bool,
    behind: Behind,
    /// Where the next byte goes.
    position: u64,
    /// Bytes that were there when this run began.
    resumed: u64,
    index: Vec<Entry>,
    /// What had reached the disk: bytes and entries.
    safe: (u64, usize),
    checkpoint_every: u64,
    /// The input can be read again, so that what may not have reached the disk is better cut off.
    can_redo: bool,
    pages: Buffers,
    busy: Duration,
    synced: Duration,
    finished: bool,
    /// The system told that something it had taken did not reach the disk, which it tells only once.
    tainted: bool,
    error: Option<String>,
}

/// How to write a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    pub(super) sink: Sink,
    pub(super) direct: bool,
    pub(super) checkpoint_every: u64,
    pub(super) can_redo: bool,
}

impl Part {
    /// A part that has nothing yet, or what `index` says up to `position`.
    pub(super) fn new(
        path: &Path,
        storage: Box<dyn Storage>,
        superblock: Super,
        manner: Manner,
        position: u64,
        index: Vec<Entry>,
    ) -> Self {
        let safe = (position, index.len());
        Part {
            path: path.to_owned(),
            superblock,
            behind: Behind::new(manner.sink != Sink::Pipe && !manner.direct, position),
            storage,
            sink: manner.sink,
            direct: manner.direct,
            position,
            resumed: position,
            index,
            safe,
            checkpoint_every: manner.checkpoint_every,
            can_redo: manner.can_redo,
            pages: Buffers::new(ALIGN),
            busy: Duration::ZERO,
            synced: Duration::ZERO,
            finished: false,
            tainted: false,
            error: None,
        }
    }

    /// Puts down the superblock, unless the part has one.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if self.position > 0 {
            return Ok(());
        }
        let page = self.superblock_page();
        self.write(&page, 0)?;
        self.position = ALIGN as u64;
        self.safe = (self.position, 0);
        Ok(())
    }

    fn superblock_page(&self) -> Buffer {
        let mut page = self.pages.take(ALIGN);
        // Whether the codec's text fits was seen when the set was begun.
        match self.superblock.to_raw() {
            Some(raw) => page.copy_from_slice(raw.as_bytes()),
            None => page.fill(0),
        }
        page
    }

    /// Writes a segment behind the others, and a checkpoint where it is time for one.
    pub(super) fn append(&mut self, sealed: &Sealed) -> io::Result<Duration> {
        let begun = Instant::now();
        self.put(&sealed.bytes, sealed.head)?;
        let took = begun.elapsed();
        self.busy += took;
        if self.sink != Sink::Pipe && self.position - self.safe.0 >= self.checkpoint_every {
            self.sync()?;
            self.checkpoint()?;
        }
        Ok(took)
    }

    fn put(&mut self, bytes: &[u8], head: Head) -> io::Result<()> {
        self.write(bytes, self.position)?;
        let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.index.push(Entry { position: self.position, len, head });
        self.position += bytes.len() as u64;
        let advanced = self.behind.advance(&*self.storage, self.position);
        self.tainted |= advanced.is_err();
        advanced
    }

    /// Says that all before it is safe, which it has to be.
    fn checkpoint(&mut self) -> io::Result<()> {
        let head = Head { kind: SegmentKind::Checkpoint, stripe: 0, shard: 0, data: 0, parity: 0, start: 0, end: 0 };
        let mut page = self.pages.take(ALIGN);
        seal_payload(&self.superblock.set, &head, &[], &mut page);
        self.put(&page, head)
    }

    /// Makes all that was written reach the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.sink == Sink::Pipe {
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

    /// Ends the part after an error: cuts it back to its last good segment and says what may be lost with it.
    pub(super) fn retire(&mut self, error: &io::Error) -> Loss {
        self.error = Some(error.to_string());
        // A full disk keeps what it has. After any other error nothing is taken for granted that was not safe before.
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let safe = self.sink != Sink::Pipe && full && !self.tainted && self.cut(self.position).is_ok();
        if safe && self.sync().is_ok() {
            return Loss::default();
        }
        let (mut at, mut entries) = self.safe;
        if self.sink == Sink::Pipe {
            // The reader may have taken all but what the pipe held.
            entries = self.index.partition_point(|entry| entry.position + u64::from(entry.len) + PIPE <= self.position);
            at = self.index.get(entries).map_or(self.position, |entry| entry.position);
        }
        let loss = loss(&self.index[entries..]);
        if self.can_redo && self.sink != Sink::Pipe {
            self.index.truncate(entries);
            self.position = at;
            // If not even this works, what is there has its sums to tell good from bad.
            let _ = self.cut(at);
        }
        loss
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.storage.set_len(len)
    }

    /// Puts down index, footer and manifest. A part that failed before has them if they find room.
    pub(super) fn finish(&mut self, foot: &Foot) {
        let end = self.position;
        let failed = self.error.is_some();
        // Behind a reader that has gone there is nobody to finish for.
        if failed && self.sink == Sink::Pipe {
            return;
        }
        match self.trailer(foot) {
            Ok(()) => self.finished = true,
            Err(error) => {
                self.position = end;
                if self.superblock.footer.take().is_some() {
                    // The write that failed may have torn it.
                    let page = self.superblock_page();
                    let _ = self.write(&page, 0);
                }
                let _ = self.cut(end).and_then(|()| self.storage.sync_data());
                self.error.get_or_insert_with(|| format!("no index at its end, so it has to be scanned: {error}"));
            }
        }
    }

    fn trailer(&mut self, foot: &Foot) -> io::Result<()> {
        let begun = Instant::now();
        let mut foot = Foot { index: self.position, indexes: 0, ..foot.clone() };
        let entries = std::mem::take(&mut self.index);
        let written = self.put_index(&entries, &mut foot);
        self.index = entries;
        written?;
        let mut page = self.pages.take(ALIGN);
        page.copy_from_slice(foot.to_raw(&self.superblock).as_bytes());
        self.write(&page, self.position)?;
        if self.sink != Sink::Pipe {
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

    fn put_index(&mut self, entries: &[Entry], foot: &mut Foot) -> io::Result<()> {
        let head = Head { kind: SegmentKind::Index, stripe: 0, shard: 0, data: 0, parity: 0, start: 0, end: 0 };
        let most = sealed_len(0, INDEX_ENTRIES.min(entries.len()) * size_of::<IndexEntry>());
        let buffers = Buffers::new(most);
        for entries in entries.chunks(INDEX_ENTRIES) {
            let raw: Vec<_> = entries.iter().map(Entry::to_raw).collect();
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
                // Opened for it, but not able to: some file systems tell so late.
                self.direct = false;
                rustix::fs::fcntl_setfl(file, rustix::fs::fcntl_getfl(file)? & !OFlags::DIRECT)?;
                self.behind = Behind::new(true, at);
                self.storage.write_all_at(bytes, at)
            }
            (written, _) => written,
        }
    }

    /// Data and parity segments, and bytes before the index: what the manifest has of it.
    pub(super) fn extent(&self) -> Extent {
        let counts = |entry: &&Entry| matches!(entry.head.kind, SegmentKind::Data | SegmentKind::Parity);
        let segments = self.index.iter().filter(counts).count() as u64;
        Extent { failed: self.error.is_some(), segments, len: self.position }
    }

    /// Bytes so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn is_file(&self) -> bool {
        self.sink == Sink::File
    }

    /// Whether it is written past the page cache.
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

fn loss(entries: &[Entry]) -> Loss {
    let mut loss = Loss::default();
    for Entry { head, .. } in entries {
        match head.kind {
            SegmentKind::Data if head.start < head.end => loss.ranges.push(head.start..head.end),
            SegmentKind::Parity => loss.parity += 1,
            _ => {}
        }
    }
    loss
}
