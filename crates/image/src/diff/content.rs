//! Compares the bytes of two files, on workers.

use std::sync::Arc;

use packfs_blocks::Progress;

use super::{Aspect, Difference};
use crate::image::{Image, Nid};
use crate::tree::path_of;
use crate::{Error, Result};

/// Larger files are compared in pieces, cut at multiples of this size. No format has longer blocks, so each block is
/// decoded once.
pub(super) const PIECE: u64 = 1 << 20;

/// Number of bytes of each file that a worker holds at a time. Not measured.
const CHUNK: usize = 256 << 10;

/// A step of a worker, in the order in which differences are reported.
pub(super) enum CompareStep {
    Found(Difference),
    Compare(CompareTask),
    Again(OtherName),
}

/// Another name of a file whose contents are compared under its first name.
pub(super) struct OtherName {
    pub(super) path: Box<[u8]>,
    /// The first name that both images have.
    pub(super) first_path: Arc<[u8]>,
}

/// The result of a step.
pub(super) enum StepOutcome {
    Differs(Difference),
    /// The contents of a file with several names differ; the others follow.
    DiffersUnderAllNames(Difference),
    /// The contents differ if they do under the first name.
    AsFirst(OtherName),
}

/// A range of a file to compare.
pub(super) struct CompareTask {
    pub(super) path: Box<[u8]>,
    pub(super) first: Nid,
    pub(super) second: Nid,
    pub(super) from: u64,
    pub(super) to: u64,
    /// True if the file has other names, which are reported as well if it differs.
    pub(super) has_other_names: bool,
}

/// Buffers of a worker, one per image.
#[derive(Debug, Default)]
pub(super) struct CompareBuffers(Vec<u8>, Vec<u8>);

/// Runs all `steps`.
pub(super) fn run(
    steps: Vec<CompareStep>,
    first: &dyn Image,
    second: &dyn Image,
    buffers: &mut CompareBuffers,
    progress: &Progress,
) -> Result<Vec<StepOutcome>> {
    let mut out = Vec::new();
    for step in steps {
        match step {
            CompareStep::Found(difference) => out.push(StepOutcome::Differs(difference)),
            CompareStep::Again(other) => out.push(StepOutcome::AsFirst(other)),
            CompareStep::Compare(task) => {
                let outcome =
                    if task.has_other_names { StepOutcome::DiffersUnderAllNames } else { StepOutcome::Differs };
                out.extend(compare(&task, first, second, buffers)?.map(outcome));
                Progress::add(&progress.done, task.to - task.from);
            }
        }
    }
    Ok(out)
}

fn compare(
    task: &CompareTask,
    first: &dyn Image,
    second: &dyn Image,
    buffers: &mut CompareBuffers,
) -> Result<Option<Difference>> {
    let mut at = task.from;
    while at < task.to {
        let len = usize::try_from(task.to - at).unwrap_or(CHUNK).min(CHUNK);
        let one = read(first, task.first, &mut buffers.0, at, len, &task.path)?;
        let two = read(second, task.second, &mut buffers.1, at, len, &task.path)?;
        // Whole slices first: that is a `memcmp`, and most of them are equal.
        if one != two
            && let Some((n, (x, y))) = one.iter().zip(two).enumerate().find(|(_, (x, y))| x != y)
        {
            let text = |byte: &u8| Some(format!("0x{byte:02x} at byte {}", at + n as u64));
            let first = text(x);
            let second = text(y);
            return Ok(Some(Difference { path: task.path.clone(), aspect: Aspect::Content, first, second }));
        }
        at += len as u64;
    }
    Ok(None)
}

fn read<'b>(
    image: &dyn Image,
    nid: Nid,
    buf: &'b mut Vec<u8>,
    offset: u64,
    len: usize,
    path: &[u8],
) -> Result<&'b [u8]> {
    if buf.len() < len {
        buf.resize(len, 0);
    }
    let buf = buf.get_mut(..len).unwrap_or_default();
    let got = image.read_at(nid, buf, offset)?;
    if got < len {
        let why = format!("its data ends at byte {}, before its size", offset.saturating_add(got as u64));
        return Err(Error::Damaged { path: path_of(path), why });
    }
    Ok(buf)
}

/// Returns the ranges of a large file in which at least one image has data, cut at multiples of [`PIECE`]. What is a
/// hole in both images reads as zeros in both.
pub(super) fn pieces(
    first: &dyn Image,
    first_nid: Nid,
    second: &dyn Image,
    second_nid: Nid,
    size: u64,
) -> Result<Vec<(u64, u64)>> {
    let mut data: Vec<(u64, u64)> = Vec::new();
    for (image, nid) in [(first, first_nid), (second, second_nid)] {
        let extents = image.extents(nid)?.into_iter().filter(|extent| !extent.hole);
        data.extend(extents.map(|extent| (extent.offset, extent.offset.saturating_add(extent.len).min(size))));
    }
    data.sort_unstable();
    let mut out = Vec::new();
    let mut done = 0;
    for (start, end) in data {
        let mut at = start.max(done);
        while at < end {
            // Even beyond the data: a cut within a block would have it decoded twice.
            let to = ((at / PIECE + 1) * PIECE).min(size);
            out.push((at, to));
            at = to;
        }
        done = done.max(at);
    }
    Ok(out)
}
