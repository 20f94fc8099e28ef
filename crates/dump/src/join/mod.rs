//! Joins a set of parts into the dump: a file with holes, a block device in place, or a stream.
//!
//! The dump is cut where its segments end. Workers read, decode and verify the pieces. They write a
//! file's pieces themselves, each at its offset, one worker at a time (`gather`); the pieces of a stream go
//! back to the conductor, which writes them in order.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use packfs_blocks::pipeline::{self, Window};
use packfs_blocks::progress::Phase;
use packfs_blocks::{Buffer, Buffers, Output, Progress, ReadAt};

use crate::part::fill;
use crate::set::{DumpBytes, LostRange, ReadScratch, Set};
use crate::{Error, Result};

mod gather;
#[cfg(test)]
mod tests;

use gather::{JoinSink, PieceGatherer};

/// Maximum length of a stream's piece.
const MAX_STREAM_PIECE_LEN: u64 = 4 << 20;
/// Number of bytes of a fill that are generated at once.
const FILL_LEN: usize = 256 << 10;
/// Memory of a worker's reader, besides two chunks.
const WORKER_MEMORY: u64 = 1 << 20;

/// Options of a join.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JoinOptions {
    /// Number of worker threads; 0 works on the calling thread. Default: one for each core.
    pub threads: usize,
    /// Approximate maximum of data in memory, in bytes. Default: 64 MiB.
    pub memory: u64,
    /// True to write the dump even if some of it is lost, with zeros in its place. Default: no.
    pub partial: bool,
    /// Name of a stream in errors. Default: `output`.
    pub name: PathBuf,
}

impl Default for JoinOptions {
    fn default() -> Self {
        JoinOptions { threads: pipeline::cores(), memory: 64 << 20, partial: false, name: "output".into() }
    }
}

/// Result of a join.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct JoinReport {
    /// Length of the dump in bytes.
    pub size: u64,
    /// Bytes of zeros that were left as holes, or that the device was told to zero.
    pub hole_bytes: u64,
    /// Lost ranges, in order; they are zeros in the output.
    pub lost: Vec<LostRange>,
}

/// Writes the dump into a new file, with holes for its zeros, or in place on a block device. Does
/// not commit the output.
///
/// Fails with [`Error::Incomplete`] if anything is lost, unless [`JoinOptions::partial`] is set:
/// missing data is noticed before the first byte is written, damage only when it is read.
/// [`Progress::cancel`] ends it with [`Error::Cancelled`] at the next piece: an output that is not
/// committed leaves its target unchanged, except for a block device, which keeps the bytes written.
pub fn to_output(set: &Set, out: &Output, options: &JoinOptions, progress: &Progress) -> Result<JoinReport> {
    let mut report = begin(set, &(0..set.len()), options, progress)?;
    let writing = || Error::io("cannot write", out.target());
    if let Some(len) = out.device_len().map_err(writing())?
        && len < set.len()
    {
        return Err(Error::TooSmall { path: out.target().to_owned(), len, needed: set.len() });
    }
    // Before anything is written: zeros at the end of the dump are then there without being written.
    out.set_len(set.len()).map_err(writing())?;
    let sink = JoinSink::new(out, progress);
    pipeline::scope(threads(set, options, gather::PIECE_LEN as u64), ReadScratch::default, |pool| {
        // Two pieces keep a worker busy while the oldest is waited for.
        let mut window = Window::new(2 * options.threads + 2);
        for range in DumpPieces::new(set, u64::MAX) {
            Error::unless_cancelled(progress)?;
            // The window bounds how many pieces wait, and with them memory.
            if window.is_full() {
                report.add(window.pop())?;
            }
            let sink = &sink;
            let job = move |scratch: &mut ReadScratch| {
                Error::unless_cancelled(progress)?;
                let mut gather = PieceGatherer::new(sink);
                let lost = set.walk(range.clone(), scratch, &mut |at, bytes| gather.put(at, bytes))?;
                // Zeros also on a device, where old bytes would pass for the dump.
                for lost in &lost {
                    gather.put(lost.start, DumpBytes::Fill { pattern: [0; 8], skip: 0, len: lost.end - lost.start })?;
                }
                gather.finish()?;
                Progress::add(&progress.done, range.end - range.start);
                Ok(lost)
            };
            window.push(pool.submit(job), 1);
        }
        while let Some(lost) = window.pop() {
            report.add(Some(lost))?;
        }
        Ok::<_, Error>(())
    })?;
    let lost: u64 = report.lost.iter().map(|lost| lost.end - lost.start).sum();
    // Lost ranges were left as zeros too, and are no holes of the dump.
    report.hole_bytes = progress.saved.load(Relaxed).saturating_sub(lost);
    match report.lost.is_empty() || options.partial {
        true => Ok(report),
        false => Err(Error::Incomplete { lost: report.lost, open_end: None }),
    }
}

/// Writes the dump from its start to its end. As [`to_output`], but if damage is found on the way,
/// or the join is cancelled, the bytes before have been written.
pub fn to_stream(set: &Set, out: &mut dyn Write, options: &JoinOptions, progress: &Progress) -> Result<JoinReport> {
    range_to_stream(set, 0..set.len(), out, options, progress)
}

/// Writes a range of the dump; only its bytes must be readable.
pub fn range_to_stream(
    set: &Set,
    range: Range<u64>,
    out: &mut dyn Write,
    options: &JoinOptions,
    progress: &Progress,
) -> Result<JoinReport> {
    let mut report = begin(set, &range, options, progress)?;
    let chunk = set.chunk_len() as u64;
    // So that all that the workers hold and what waits fit the budget, and a chunk is never decoded twice.
    let piece = (options.memory / (4 * options.threads as u64 + 4))
        .clamp(chunk.min(MAX_STREAM_PIECE_LEN), MAX_STREAM_PIECE_LEN.max(chunk));
    let piece = piece / chunk.min(piece) * chunk.min(piece);
    let buffers = Buffers::new(usize::try_from(piece).unwrap_or(usize::MAX));
    pipeline::scope(threads(set, options, piece), ReadScratch::default, |pool| {
        let mut window = Window::new(usize::try_from(options.memory / 2).unwrap_or(usize::MAX).max(1));
        let mut write = |report: &mut JoinReport, taken: Option<Result<TakenPiece>>| -> Result<()> {
            let Some(taken) = taken else { return Ok(()) };
            let (buffer, lost) = taken?;
            // After the wait: cancelling should not first write what was done meanwhile.
            Error::unless_cancelled(progress)?;
            // Before anything of the piece is written.
            if !lost.is_empty() && !options.partial {
                return Err(Error::Incomplete { lost, open_end: None });
            }
            lost.into_iter().for_each(|lost| LostRange::push(&mut report.lost, lost));
            out.write_all(&buffer).map_err(Error::io("cannot write", &options.name))?;
            Progress::add(&progress.done, buffer.len() as u64);
            Progress::add(&progress.written, buffer.len() as u64);
            Ok(())
        };
        for range in DumpPieces::of(set, range, piece) {
            if window.is_full() {
                write(&mut report, window.pop())?;
            }
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let mut buffer = buffers.take(len);
            let job =
                move |scratch: &mut ReadScratch| take(set, range, &mut buffer, scratch).map(|lost| (buffer, lost));
            window.push(pool.submit(job), len);
        }
        while let Some(taken) = window.pop() {
            write(&mut report, Some(taken))?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(report)
}

/// A piece of a stream, and its lost ranges.
type TakenPiece = (Buffer, Vec<LostRange>);

fn take(set: &Set, range: Range<u64>, buffer: &mut [u8], scratch: &mut ReadScratch) -> Result<Vec<LostRange>> {
    let within = |from: u64, to: u64| usize::try_from(to - from).unwrap_or(usize::MAX);
    let lost = set.walk(range.clone(), scratch, &mut |at, bytes| {
        let place = &mut buffer[within(range.start, at)..][..within(0, bytes.len())];
        match bytes {
            DumpBytes::Data(bytes) => place.copy_from_slice(bytes),
            DumpBytes::Fill { pattern, skip, .. } => fill(pattern, skip, place),
        }
        Ok(())
    })?;
    for lost in &lost {
        buffer[within(range.start, lost.start)..within(range.start, lost.end)].fill(0);
    }
    Ok(lost)
}

/// Checks the preconditions of a join before anything is written.
fn begin(set: &Set, range: &Range<u64>, options: &JoinOptions, progress: &Progress) -> Result<JoinReport> {
    progress.enter(Phase::Read);
    progress.total.store(range.end - range.start, Relaxed);
    progress.files.set(set.count_reads());
    // The end of the dump concerns only those who want it.
    let mut lost = set.lost();
    lost.retain(|lost| lost.start < range.end && lost.end > range.start);
    let open_end = set.open_end().filter(|_| range.end == set.len());
    if !options.partial && (!lost.is_empty() || open_end.is_some()) {
        return Err(Error::Incomplete { lost, open_end });
    }
    Ok(JoinReport { size: range.end - range.start, ..JoinReport::default() })
}

/// Returns as many workers as the budget allows.
fn threads(set: &Set, options: &JoinOptions, piece: u64) -> usize {
    let each = WORKER_MEMORY + 2 * set.chunk_len() as u64 + piece;
    let room = usize::try_from(options.memory / each).unwrap_or(usize::MAX).max(1);
    // At least one, however small the budget.
    options.threads.min(room)
}

impl JoinReport {
    fn add(&mut self, lost: Option<Result<Vec<LostRange>>>) -> Result<()> {
        for lost in lost.transpose()?.unwrap_or_default() {
            LostRange::push(&mut self.lost, lost);
        }
        Ok(())
    }
}

/// Calls `put` with the bytes of a fill, piece by piece, each with its offset in the fill.
fn repeat(
    pattern: [u8; 8],
    skip: u64,
    len: u64,
    mut put: impl FnMut(u64, &[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(FILL_LEN)];
    // A multiple of the pattern, so that each piece begins with the same byte of it.
    fill(pattern, skip, &mut bytes);
    let mut done = 0;
    while done < len {
        let piece = usize::try_from(len - done).unwrap_or(usize::MAX).min(bytes.len());
        put(done, &bytes[..piece])?;
        done += piece as u64;
    }
    Ok(())
}

/// A range of the dump, cut where segments end, and where a piece would be too long.
struct DumpPieces<'s> {
    set: &'s Set,
    rest: Range<u64>,
    /// Pieces end at multiples of this.
    grid: u64,
}

impl<'s> DumpPieces<'s> {
    fn new(set: &'s Set, grid: u64) -> Self {
        DumpPieces::of(set, 0..set.len(), grid)
    }

    fn of(set: &'s Set, rest: Range<u64>, grid: u64) -> Self {
        DumpPieces { set, rest, grid }
    }
}

impl Iterator for DumpPieces<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let start = self.rest.start;
        if start >= self.rest.end {
            return None;
        }
        let next = (start / self.grid).saturating_add(1).saturating_mul(self.grid);
        self.rest.start = self.set.segment_end(start).min(next).min(self.rest.end);
        Some(start..self.rest.start)
    }
}
