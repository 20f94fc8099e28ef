//! Many reads at once: sorted by the stored units that hold their data, so that each unit is decoded once.

use std::cmp::Reverse;
use std::ops::Range;

use packfs_blocks::pipeline;

use crate::image::{FileType, Image, Nid, StoredPiece, StoredUnit};
use crate::{Error, Result};

/// Number of bytes that a worker reads at a time, unless a single unit has more. Small enough that 256 files of a few KiB
/// occupy all workers, large enough that queueing a job costs nothing beside it.
const JOB_LEN: usize = 256 << 10;
/// Longest read of adjacent pieces, and the length in which uncompressed bytes are cut for several workers.
const READ_MAX: u64 = 1 << 20;

/// A range of a regular file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    /// The file, as [`Fs::walk`](crate::Fs::walk), [`Fs::read_dir`](crate::Fs::read_dir) and
    /// [`Fs::inode`](crate::Fs::inode) return it.
    pub nid: Nid,
    /// Range of its bytes. What lies past the end of the file is left out.
    pub range: Range<u64>,
}

impl ReadRequest {
    /// Requests all bytes of a file.
    pub fn whole(nid: Nid) -> Self {
        ReadRequest { nid, range: 0..u64::MAX }
    }
}

/// The bytes of many requests, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManyBytes {
    /// The bytes of all requests, in their order.
    pub bytes: Vec<u8>,
    /// Offset in `bytes` of each request, and the end of the last one: one number more than there are requests.
    pub offsets: Vec<usize>,
}

impl ManyBytes {
    /// Returns the bytes of one request, by its number.
    pub fn get(&self, request: usize) -> Option<&[u8]> {
        self.bytes.get(*self.offsets.get(request)?..*self.offsets.get(request + 1)?)
    }
}

/// The first of many requests that failed.
#[derive(Debug, thiserror::Error)]
#[error("request {request}: {source}")]
pub struct RequestError {
    /// Number of the request, counted from 0. Of several that fail, it is always the lowest.
    pub request: usize,
    /// The error.
    #[source]
    pub source: Error,
}

/// One read: a part of the buffer, and the bytes of the image that fill it.
#[derive(Debug, Clone, Copy)]
struct PlannedRead {
    request: usize,
    nid: Nid,
    piece: StoredPiece,
    /// Offset in the buffer.
    start: usize,
    len: usize,
}

/// A read with its part of the buffer.
struct PendingRead<'b> {
    plan: PlannedRead,
    out: &'b mut [u8],
}

/// The reads of one stored unit; without a unit, a single read.
type UnitReads<'b> = Vec<PendingRead<'b>>;

/// Returns where the bytes of each request begin, and the end of the last, which is at most `limit`.
pub(super) fn offsets(
    image: &dyn Image,
    requests: &[ReadRequest],
    limit: u64,
) -> std::result::Result<Vec<usize>, RequestError> {
    let mut offsets = Vec::with_capacity(requests.len() + 1);
    let mut end = 0usize;
    offsets.push(end);
    for (request, wanted) in requests.iter().enumerate() {
        let next = request_len(image, wanted).and_then(|len| {
            let needed = (end as u64).saturating_add(len);
            if needed > limit {
                return Err(Error::ReadLimit { path: super::inode_name(wanted.nid), needed, limit });
            }
            usize::try_from(needed).map_err(|_| super::too_large(&super::inode_name(wanted.nid)))
        });
        end = next.map_err(|source| RequestError { request, source })?;
        offsets.push(end);
    }
    Ok(offsets)
}

fn request_len(image: &dyn Image, wanted: &ReadRequest) -> Result<u64> {
    let FileType::File { size } = image.stat(wanted.nid)?.kind else {
        return Err(Error::WrongType { path: super::inode_name(wanted.nid), expected: "regular file" });
    };
    Ok(wanted.range.end.min(size).saturating_sub(wanted.range.start))
}

/// Fills `buffer`, of which `offsets` says where the bytes of each request belong, on `threads` threads.
pub(super) fn fill(
    image: &dyn Image,
    requests: &[ReadRequest],
    offsets: &[usize],
    buffer: &mut [u8],
    threads: usize,
) -> std::result::Result<(), RequestError> {
    if buffer.is_empty() {
        return Ok(());
    }
    if let [ReadRequest { nid, range }] = requests
        && (threads <= 1 || buffer.len() <= JOB_LEN)
    {
        // One worker reads all of it, and needs no plan.
        let read = super::read_exactly(image, *nid, buffer, range.start, || super::inode_name(*nid));
        return read.map_err(|source| RequestError { request: 0, source });
    }
    // Before the plan, which waits for metadata: meanwhile an image behind a network sends data.
    let is_wanted = |(_, bounds): &(&ReadRequest, &[usize])| bounds[0] < bounds[1];
    let wanted = requests.iter().zip(offsets.windows(2)).filter(is_wanted);
    image.will_read_many(&mut wanted.map(|(request, _)| (request.nid, request.range.clone())));
    let mut reads = plan(image, requests, offsets);
    // Furthest end first: decoding a unit may stop early, and what the first read needs then serves all others.
    reads.sort_unstable_by_key(|read| {
        let end = Reverse(read.piece.within.saturating_add(read.piece.len));
        (read.piece.unit, end, Reverse(read.piece.len), read.start)
    });
    let jobs = cut_jobs(merge_adjacent(reads), buffer);
    // With one job there is nothing to share out, and a thread costs more than reading a few small files.
    let workers = if threads <= 1 || jobs.len() <= 1 { 0 } else { threads.min(jobs.len()) };
    pipeline::scope(
        workers,
        || (),
        |pool| {
            let tickets: Vec<_> =
                jobs.into_iter().map(|job| pool.submit(move |_: &mut ()| read_units(image, job))).collect();
            // All are waited for, so that the same request is named for any number of threads.
            let failed = tickets.into_iter().filter_map(pipeline::JobTicket::wait).min_by_key(|error| error.request);
            failed.map_or(Ok(()), Err)
        },
    )
}

/// Cuts requests into pieces that one unit holds. Together they cover the buffer.
fn plan(image: &dyn Image, requests: &[ReadRequest], offsets: &[usize]) -> Vec<PlannedRead> {
    let mut reads = Vec::with_capacity(requests.len());
    for (request, (wanted, bounds)) in requests.iter().zip(offsets.windows(2)).enumerate() {
        let begin = wanted.range.start;
        let range = begin..begin.saturating_add((bounds[1] - bounds[0]) as u64);
        if range.is_empty() {
            continue;
        }
        let first = reads.len();
        let mut at = begin;
        let visited = image.stored_pieces(wanted.nid, range.clone(), &mut |piece| {
            // Pieces out of order are no plan: what is missing below shows in `at`.
            if piece.offset != at || piece.len > range.end - at {
                return;
            }
            at += piece.len;
            let cut = if piece.unit.is_none() { READ_MAX } else { u64::MAX };
            let mut done = 0;
            while done < piece.len {
                let len = (piece.len - done).min(cut);
                let offset = piece.offset + done;
                let piece = StoredPiece { offset, len, within: piece.within + done, ..piece };
                reads.extend(planned(request, wanted.nid, piece, bounds[0], begin));
                done += len;
            }
        });
        // Reading the file as a whole meets the same defect again, and says what it is.
        if visited.is_err() || at != range.end {
            reads.truncate(first);
            let piece = StoredPiece { offset: begin, len: range.end - begin, unit: None, within: 0 };
            reads.extend(planned(request, wanted.nid, piece, bounds[0], begin));
        }
    }
    reads
}

fn planned(request: usize, nid: Nid, piece: StoredPiece, base: usize, begin: u64) -> Option<PlannedRead> {
    let start = base + usize::try_from(piece.offset - begin).ok()?;
    Some(PlannedRead { request, nid, piece, start, len: usize::try_from(piece.len).ok()? })
}

/// Joins reads of adjacent units that serve one request, and no other: a file of many blocks is read in few calls.
fn merge_adjacent(reads: Vec<PlannedRead>) -> Vec<PlannedRead> {
    let mut merged: Vec<PlannedRead> = Vec::with_capacity(reads.len());
    // True if the last merged read is of units that nothing else needs.
    let mut last_is_alone = false;
    let mut last_unit: Option<StoredUnit> = None;
    for (n, read) in reads.iter().enumerate() {
        let unit = read.piece.unit;
        let next_unit = reads.get(n + 1).and_then(|next| next.piece.unit);
        let is_alone = unit.is_none() || (unit != next_unit && unit != last_unit);
        last_unit = unit;
        if let Some(last) = merged.last_mut().filter(|_| is_alone && last_is_alone)
            && (last.nid, last.start + last.len) == (read.nid, read.start)
            && last.request == read.request
            && last.piece.unit.is_some() == unit.is_some()
            && last.piece.len + read.piece.len <= READ_MAX
        {
            last.len += read.len;
            last.piece.len += read.piece.len;
            continue;
        }
        merged.push(*read);
        last_is_alone = is_alone;
    }
    merged
}

/// Gives each read its part of the buffer, and puts whole units together into jobs.
fn cut_jobs(reads: Vec<PlannedRead>, buffer: &mut [u8]) -> Vec<Vec<UnitReads<'_>>> {
    let mut by_start: Vec<usize> = (0..reads.len()).collect();
    by_start.sort_unstable_by_key(|n| reads[*n].start);
    let mut parts: Vec<&mut [u8]> = Vec::new();
    parts.resize_with(reads.len(), Default::default);
    let mut rest = buffer;
    for n in by_start {
        let (part, later) = rest.split_at_mut(reads[n].len);
        parts[n] = part;
        rest = later;
    }
    let mut jobs: Vec<Vec<UnitReads<'_>>> = Vec::new();
    let mut job_len = JOB_LEN;
    let mut last_unit = None;
    for (plan, out) in reads.into_iter().zip(parts) {
        let unit = plan.piece.unit;
        let read = PendingRead { plan, out };
        if let (Some(reads), true) =
            (jobs.last_mut().and_then(|job| job.last_mut()), unit.is_some() && unit == last_unit)
        {
            job_len += read.plan.len;
            reads.push(read);
            continue;
        }
        last_unit = unit;
        if job_len >= JOB_LEN {
            jobs.push(Vec::new());
            job_len = 0;
        }
        job_len += read.plan.len;
        if let Some(job) = jobs.last_mut() {
            job.push(vec![read]);
        }
    }
    jobs
}

/// Fills the reads of a job. Returns the error of the lowest request that failed.
fn read_units(image: &dyn Image, job: Vec<UnitReads<'_>>) -> Option<RequestError> {
    job.into_iter().filter_map(|unit| read_unit(image, unit)).min_by_key(|error| error.request)
}

/// Fills the reads of one unit, given by descending end. Returns the error of the lowest request that failed.
fn read_unit(image: &dyn Image, mut reads: UnitReads<'_>) -> Option<RequestError> {
    let mut failed: Option<RequestError> = None;
    // The read so far that begins first in the unit: as no later one ends after it, it holds all that begin no earlier.
    let mut widest: Option<usize> = None;
    for n in 0..reads.len() {
        let (done, rest) = reads.split_at_mut(n);
        let PendingRead { plan, out } = &mut rest[0];
        let source = widest.map(|widest| &done[widest]);
        if let Some(source) = source.filter(|source| source.plan.piece.within <= plan.piece.within) {
            let skip = usize::try_from(plan.piece.within - source.plan.piece.within).unwrap_or(usize::MAX);
            if let Some(bytes) = source.out.get(skip..).and_then(|bytes| bytes.get(..out.len())) {
                out.copy_from_slice(bytes);
                continue;
            }
        }
        match super::read_exactly(image, plan.nid, out, plan.piece.offset, || super::inode_name(plan.nid)) {
            Ok(()) => widest = Some(n),
            Err(source) if failed.as_ref().is_none_or(|first| plan.request < first.request) => {
                failed = Some(RequestError { request: plan.request, source });
            }
            Err(_) => (),
        }
    }
    failed
}

#[cfg(test)]
mod tests;
