//! The work to do: the whole input for a new set, the rest of it for a resumed one.

use std::ops::Range;

use packfs_blocks::hex::to_hex;

use super::open::OpenedPart;
use super::options::SplitOptions;
use super::part::{PartTarget, PartWriteSettings, PartWriter};
use super::plan::MemoryPlan;
use super::report::{ChunkBytes, PartReport, SplitReport};
use super::resume::{self, PartStart, ResumedSet};
use crate::input::Input;
use crate::part::PartSuperblock;
use crate::{Error, Result};

/// The work to do.
#[derive(Debug)]
pub(super) struct SplitWork {
    pub(super) superblock: PartSuperblock,
    pub(super) plan: MemoryPlan,
    /// State of each part, in the order of the paths.
    pub(super) left: Vec<PartStart>,
    /// Ranges of the dump to write; meaningless for a stream.
    pub(super) todo: Vec<Range<u64>>,
    pub(super) resumed_bytes: u64,
    /// Statistics of the chunks in the ranges found by `resume`.
    resumed_chunks: ChunkBytes,
    /// Chunks may refer to others only from this offset on: those of earlier runs may already be referred to.
    pub(super) fresh_from: u64,
    pub(super) next_stripe: u64,
    pub(super) finished: bool,
    pub(super) settings: PartWriteSettings,
}

impl SplitWork {
    pub(super) fn new(
        opened: &[OpenedPart],
        superblock: PartSuperblock,
        resumed: Option<ResumedSet>,
        input: &Input,
        options: &SplitOptions,
        plan: MemoryPlan,
    ) -> Result<Self> {
        let size = input.size().unwrap_or(0);
        let settings = PartWriteSettings {
            sink: PartTarget::File,
            direct: false,
            // At least 1 MiB, as each checkpoint waits for the disk.
            checkpoint_every: options.checkpoint.max(1 << 20),
            // A stream is gone once it was read.
            can_redo: input.size().is_some(),
        };
        let Some(resumed) = resumed else {
            let number = |n| PartStart { number: n, position: 0, index: Vec::new() };
            let left = (0..superblock.parts).map(number).collect();
            // Only here: a resumed run needs no permission for devices that it has begun.
            if let Some(part) = opened.iter().find(|part| part.sink == PartTarget::Device && !options.force) {
                return Err(Error::Exists { path: part.path.clone(), device: true });
            }
            let todo = resume::missing(&[], size);
            return Ok(SplitWork {
                superblock,
                plan,
                left,
                todo,
                resumed_bytes: 0,
                resumed_chunks: ChunkBytes::default(),
                fresh_from: 0,
                next_stripe: 0,
                settings,
                finished: false,
            });
        };
        let todo = resume::missing(&resumed.covered, size);
        let undone: u64 = todo.iter().map(|range| range.end - range.start).sum();
        let superblock = PartSuperblock { part: 0, footer: None, ..resumed.superblock };
        // Segments keep the length given by the set.
        let plan = plan.with_segment(superblock.segment as usize)?;
        Ok(SplitWork {
            superblock,
            plan,
            left: resumed.parts,
            finished: resumed.finished && todo.is_empty(),
            todo,
            resumed_bytes: size - undone,
            resumed_chunks: resumed.chunks,
            fresh_from: resumed.covered.last().map_or(0, |range| range.end),
            next_stripe: resumed.next_stripe,
            settings,
        })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(super) fn report(&self) -> SplitReport {
        let set = to_hex(&self.superblock.set);
        let resumed_bytes = self.resumed_bytes;
        let chunks = self.resumed_chunks;
        SplitReport { set, resumed_bytes, chunks, ..SplitReport::default() }
    }

    pub(super) fn report_of_finished(&self, opened: &[OpenedPart]) -> SplitReport {
        let parts = opened.iter().zip(&self.left).map(|(part, left)| PartReport {
            path: part.path.clone(),
            bytes: left.position,
            resumed_bytes: left.position,
            segments: left.index.len() as u64,
            busy_seconds: 0.0,
            sync_seconds: 0.0,
            finished: true,
            error: None,
        });
        let notes = vec!["the set was complete already: nothing was done".to_owned()];
        SplitReport { bytes: self.resumed_bytes, complete: true, parts: parts.collect(), notes, ..self.report() }
    }

    /// Prepares the parts for appending. Those that cannot even be begun fail in their threads.
    pub(super) fn begin(&self, opened: Vec<OpenedPart>) -> Result<Vec<PartWriter>> {
        let mut parts = Vec::new();
        for (mut open, left) in opened.into_iter().zip(&self.left) {
            // Whatever follows the last good segment is cut off before anything is appended.
            open.cut(left.position)?;
            let storage = open.keep().map_err(Error::io("cannot open", &open.path))?;
            let superblock = PartSuperblock { part: left.number, ..self.superblock.clone() };
            let settings = PartWriteSettings { sink: open.sink, direct: open.direct, ..self.settings };
            parts.push(PartWriter::new(&open.path, storage, superblock, settings, left.position, left.index.clone()));
        }
        Ok(parts)
    }
}
