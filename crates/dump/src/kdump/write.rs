//! Writes a kdump-compressed file from an ELF core. The workers of the pipeline read, compress and
//! verify pages; one thread writes them in order, so that the file is the same for any number of
//! threads.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use packfs_blocks::encode::BlockEncoder;
use packfs_blocks::pipeline::{self, Pool, Window};
use packfs_blocks::progress::Phase;
use packfs_blocks::{Progress, ReadAt};
use packfs_codec::{Choice, Codec};
use serde::Serialize;
use zerocopy::IntoBytes;

use super::flat::WriteAt;
use super::format::{LZO, PageDesc, SNAPPY, ZLIB, ZSTD};
use super::plan::FileLayout;
use crate::{Error, Result};

/// Number of bytes of memory that one job reads.
const JOB_LEN: u64 = 256 << 10;
/// Number of bytes written at once.
const WRITE_LEN: usize = 1 << 20;

/// Options for writing a kdump-compressed file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KdumpOptions {
    /// Codec of pages: `gzip`, `lzo`, `snappy`, `zstd` or `none`. Default: lzo, which every `crash` reads.
    pub codec: Choice,
    /// Number of compression threads; 0 works on the calling thread. Default: one for each core.
    pub threads: usize,
    /// Number of bytes of memory that may be in flight. Default: 64 MiB.
    pub memory: usize,
    /// True to decode and compare each compressed page. Default: yes.
    pub verify: bool,
}

impl Default for KdumpOptions {
    fn default() -> Self {
        KdumpOptions { codec: Choice::new(Codec::Lzo), threads: pipeline::cores(), memory: 64 << 20, verify: true }
    }
}

/// Result of writing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct KdumpReport {
    /// Number of pages in the file.
    pub pages: u64,
    /// Number of pages of zeros, which share one.
    pub zero_pages: u64,
    /// Length of the file in bytes before it is flattened.
    pub len: u64,
}

/// Fails if `codec` cannot compress pages.
pub fn accepts(codec: Codec) -> Result<()> {
    flag(codec).map(|_| ())
}

/// Returns the flag of a page or a file compressed with `codec`.
fn flag(codec: Codec) -> Result<u32> {
    match codec {
        Codec::None => Ok(0),
        Codec::Gzip => Ok(ZLIB),
        Codec::Lzo => Ok(LZO),
        Codec::Snappy => Ok(SNAPPY),
        Codec::Zstd => Ok(ZSTD),
        codec => {
            let why = "kdump-compressed files do not support it; accepted: gzip, lzo, snappy, zstd, none";
            Err(Error::option("codec", codec.name(), why))
        }
    }
}

/// Writes the memory of an ELF core to `output`; [`Flattener`](super::Flattener) makes a flattened
/// file of it. The core must be a dump of Linux with its `VMCOREINFO`. The paths name both in
/// errors. [`Progress::cancel`] ends it with [`Error::Cancelled`]; `output` is then not a valid
/// dump.
pub fn write(
    (path, core): (&Path, &dyn ReadAt),
    (output_path, output): (&Path, &mut dyn WriteAt),
    options: &KdumpOptions,
    progress: &Progress,
) -> Result<KdumpReport> {
    let flag = flag(options.codec.codec())?;
    let plan = FileLayout::new(path, core, flag)?;
    let page = usize::try_from(plan.page).unwrap_or(usize::MAX);
    // A codec that is not available is an error before anything is written.
    options.codec.encoder(page)?;
    options.codec.codec().decoder()?;

    progress.enter(Phase::Data);
    progress.total.store(plan.count() * plan.page, Relaxed);
    let mut sink = CountedSink { output, path: output_path, progress };
    let mut report = KdumpReport { pages: plan.count(), ..KdumpReport::default() };
    sink.write(&plan.head(), 0)?;
    let mut at = plan.bitmaps_at();
    plan.bitmaps(WRITE_LEN, |bytes| {
        sink.write(bytes, at)?;
        at += bytes.len() as u64;
        Ok(())
    })?;

    let mut writer = PageWriter {
        zero: PageDesc {
            offset: plan.pages_at().into(),
            size: page_size(page).into(),
            flags: 0.into(),
            page_flags: 0.into(),
        },
        descs: PendingBytes { at: plan.descs_at(), bytes: Vec::new() },
        // The shared page of zeros comes first, where `zero` refers to.
        data: PendingBytes { at: plan.pages_at(), bytes: vec![0; page] },
        page,
        sink,
        report: &mut report,
    };
    let state = || PageEncoder { encoder: BlockEncoder::new(&options.codec, page, options.verify), page, flag };
    pipeline::scope(options.threads, state, |pool: &Pool<'_, PageEncoder>| {
        let mut window = Window::new(options.memory.max(1));
        for job in jobs(&plan) {
            Error::unless_cancelled(progress)?;
            while window.is_full() {
                window.pop().map_or(Ok(()), |packed| writer.put(packed?))?;
            }
            let bytes = job.iter().map(|range| range.end - range.start).sum::<u64>() * plan.page;
            let plan = &plan;
            let ticket = pool.submit(move |worker: &mut PageEncoder| worker.pack((path, core), plan, &job));
            // The page data and its compressed form.
            window.push(ticket, 2 * usize::try_from(bytes).unwrap_or(usize::MAX / 2));
            while let Some(packed) = window.pop_ready() {
                writer.put(packed?)?;
            }
        }
        while let Some(packed) = window.pop() {
            writer.put(packed?)?;
        }
        writer.finish()
    })?;
    Ok(report)
}

/// Returns the size of a page, as stored in a descriptor.
fn page_size(page: usize) -> u32 {
    u32::try_from(page).unwrap_or(u32::MAX)
}

/// Groups the pages into jobs. If memory is in small pieces a job has several of them.
fn jobs(plan: &FileLayout) -> impl Iterator<Item = Vec<Range<u64>>> + '_ {
    let most = (JOB_LEN / plan.page).max(1);
    let mut ranges = plan.dumped.iter().cloned();
    let mut rest = 0..0;
    std::iter::from_fn(move || {
        let mut job = Vec::new();
        let mut left = most;
        while left > 0 {
            if rest.is_empty() {
                let Some(next) = ranges.next() else { break };
                rest = next;
            }
            let end = rest.end.min(rest.start + left);
            left -= end - rest.start;
            job.push(rest.start..end);
            rest.start = end;
        }
        (!job.is_empty()).then_some(job)
    })
}

/// Compressed pages of a job, ready to be written.
struct PackedPages {
    /// Size and flags of each; size 0 is a page of zeros.
    pages: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

/// Encoder and buffers of one thread.
struct PageEncoder {
    encoder: BlockEncoder,
    page: usize,
    flag: u32,
}

impl PageEncoder {
    fn pack(
        &mut self,
        (path, core): (&Path, &dyn ReadAt),
        plan: &FileLayout,
        job: &[Range<u64>],
    ) -> Result<PackedPages> {
        let mut packed = PackedPages { pages: Vec::new(), bytes: Vec::new() };
        let mut buf = Vec::new();
        for range in job {
            let pages = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            buf.resize(pages * self.page, 0);
            let read = plan.core.read_memory(core, &mut buf, range.start * plan.page);
            read.map_err(Error::io("cannot read", path))?;
            for page in buf.chunks_exact(self.page) {
                self.pack_page(page, &mut packed)?;
            }
        }
        Ok(packed)
    }

    fn pack_page(&mut self, page: &[u8], packed: &mut PackedPages) -> Result<()> {
        if page.iter().all(|byte| *byte == 0) {
            packed.pages.push((0, 0));
            return Ok(());
        }
        if let Some(len) = self.encode(page, &mut packed.bytes)? {
            packed.pages.push((page_size(len), self.flag));
        } else {
            packed.bytes.extend_from_slice(page);
            packed.pages.push((page_size(self.page), 0));
        }
        Ok(())
    }

    /// Compresses the page and appends it to `bytes`, if it gets shorter.
    fn encode(&mut self, page: &[u8], bytes: &mut Vec<u8>) -> Result<Option<usize>> {
        if self.flag == 0 {
            return Ok(None);
        }
        let from = bytes.len();
        // One byte less than a page: what gets no shorter is stored as it is.
        bytes.resize(from + self.page - 1, 0);
        let len = self.encoder.encode(page, &mut bytes[from..])?;
        bytes.truncate(from + len.unwrap_or(0));
        Ok(len)
    }
}

/// Consecutive bytes of the file that are not written yet.
struct PendingBytes {
    at: u64,
    bytes: Vec<u8>,
}

impl PendingBytes {
    fn flush(&mut self, sink: &mut CountedSink<'_>) -> Result<()> {
        sink.write(&self.bytes, self.at)?;
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}

/// Writes pages and their descriptors.
struct PageWriter<'a> {
    zero: PageDesc,
    descs: PendingBytes,
    data: PendingBytes,
    page: usize,
    sink: CountedSink<'a>,
    report: &'a mut KdumpReport,
}

impl PageWriter<'_> {
    fn put(&mut self, packed: PackedPages) -> Result<()> {
        let mut offset = self.data.at + self.data.bytes.len() as u64;
        for (size, flags) in &packed.pages {
            let desc = match size {
                0 => self.zero,
                _ => PageDesc {
                    offset: offset.into(),
                    size: (*size).into(),
                    flags: (*flags).into(),
                    page_flags: 0.into(),
                },
            };
            offset += u64::from(*size);
            self.descs.bytes.extend_from_slice(desc.as_bytes());
        }
        let zeros = packed.pages.iter().filter(|(size, _)| *size == 0).count() as u64;
        self.report.zero_pages += zeros;
        let progress = self.sink.progress;
        Progress::add(&progress.done, packed.pages.len() as u64 * self.page as u64);
        Progress::add(&progress.saved, zeros * self.page as u64);
        Progress::add(&progress.packed, (packed.pages.len() as u64 - zeros) * self.page as u64);
        self.data.bytes.extend_from_slice(&packed.bytes);
        for stretch in [&mut self.descs, &mut self.data] {
            if stretch.bytes.len() >= WRITE_LEN {
                stretch.flush(&mut self.sink)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.descs.flush(&mut self.sink)?;
        self.data.flush(&mut self.sink)?;
        self.report.len = self.data.at;
        Ok(())
    }
}

/// The output, its name, and the counters of written bytes.
struct CountedSink<'a> {
    output: &'a mut dyn WriteAt,
    path: &'a Path,
    progress: &'a Progress,
}

impl CountedSink<'_> {
    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        self.output.write_all_at(bytes, offset).map_err(Error::io("cannot write", self.path))?;
        Progress::add(&self.progress.written, bytes.len() as u64);
        Ok(())
    }
}
