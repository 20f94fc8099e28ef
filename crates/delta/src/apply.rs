//! Applies patches: a group at a time, workers decode and encode blocks, and the results are written in order.

use std::io::Write;
use std::sync::Arc;

use packfs_blocks::pipeline::{self, JobTicket, Pool, Window};
use packfs_blocks::progress::Phase;
use packfs_blocks::{Progress, ReadAt};

use crate::PatchEffort;
use crate::coding::{EncodeCall, EncoderSettings};
use crate::error::{Error, Result};
use crate::format::{Patch, PatchGroup, PatchSegment};
use crate::group::decompress;
use crate::identity::FileIdentity;
use crate::make::PatchWorker;
use crate::reference;

/// Bytes copied at a time, so that workers share a long copy and cancelling does not wait for it. Not measured.
const COPY_LEN: u64 = 1 << 20;

/// Figures of a patch that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppliedPatch {
    /// The file that was made.
    pub new_file: FileIdentity,
    /// Bytes of it that were copied from the old file as they are.
    pub copied_bytes: u64,
    /// Bytes of it that were encoded.
    pub encoded_bytes: u64,
    /// All other bytes of it.
    pub plain_bytes: u64,
}

/// Makes the new file from the old one and a patch, and writes it to `out`, from its first byte to its last.
///
/// Nothing is written before the old file is known to be the right one. Memory is bounded by the largest group, at most 128
/// MiB, and a few MiB for each worker.
///
/// # Errors
/// [`Error::WrongOld`]; [`Error::OtherEncoder`]; [`Error::WrongResult`] if what was written must be thrown away;
/// [`Error::Image`] for a damaged patch; [`Error::Io`]; [`Error::Write`]; [`Error::Interrupted`].
pub fn apply_patch(old: &dyn ReadAt, patch: &Patch, out: &mut dyn Write, effort: &PatchEffort) -> Result<AppliedPatch> {
    // Two passes: reading the old file for its digest, without what follows it in a partition, then writing the new one,
    // which includes what is copied.
    Progress::add(&effort.progress.total, patch.old().len + patch.new_file().len);
    effort.progress.enter(Phase::Read);
    check_old(old, patch, effort)?;
    // Before the first byte is written: an encoder that differs would show only at the end, as a wrong digest.
    for encoder in patch.encoders() {
        if encoder.settings.trial()? != encoder.trial {
            return Err(Error::OtherEncoder { choice: encoder.settings.choice.to_string() });
        }
    }
    effort.progress.enter(Phase::Data);
    let settings: Arc<Vec<EncoderSettings>> =
        Arc::new(patch.encoders().iter().map(|encoder| encoder.settings.clone()).collect());
    pipeline::scope(effort.threads, PatchWorker::default, |pool| {
        let result = ResultWriter { out, hasher: blake3::Hasher::new(), len: 0 };
        ApplyConductor { old, patch, settings, pool, effort, result }.apply()
    })
}

/// Fails unless the old file begins with the bytes that the patch was made from. More may follow, as in a partition
/// that is longer than its image.
fn check_old(old: &dyn ReadAt, patch: &Patch, effort: &PatchEffort) -> Result<()> {
    let expected = patch.old();
    // A longer file may be right, a shorter one cannot be.
    if old.len() < expected.len {
        return Err(Error::WrongOld { why: format!("it has {} bytes, this one {}", expected.len, old.len()) });
    }
    if FileIdentity::of_beginning(old, expected.len, "cannot read the old file", effort)? != expected {
        return Err(Error::WrongOld { why: format!("its first {} bytes differ", expected.len) });
    }
    Ok(())
}

/// The application of one patch.
struct ApplyConductor<'c, 'env> {
    old: &'env dyn ReadAt,
    patch: &'c Patch,
    settings: Arc<Vec<EncoderSettings>>,
    pool: &'c Pool<'env, PatchWorker>,
    effort: &'c PatchEffort,
    result: ResultWriter<'c>,
}

/// The new file, as far as it is written.
struct ResultWriter<'o> {
    out: &'o mut dyn Write,
    hasher: blake3::Hasher,
    len: u64,
}

impl ApplyConductor<'_, '_> {
    fn apply(mut self) -> Result<AppliedPatch> {
        let new_file = self.patch.new_file();
        let mut applied = AppliedPatch { new_file, copied_bytes: 0, encoded_bytes: 0, plain_bytes: 0 };
        let mut at = self.patch.first_group();
        while self.result.len < new_file.len {
            let group = self.patch.group(at)?;
            at = group.end;
            // Before the group is applied: a wrong patch must not fill the disk.
            if self.result.len.saturating_add(group.sums.new_len) > new_file.len {
                return Err(Error::damaged("group of the patch", at, "the new file would be too long"));
            }
            for segment in &group.program.segments {
                match segment {
                    PatchSegment::Copy { len, .. } => applied.copied_bytes += len,
                    PatchSegment::Plain { len } => applied.plain_bytes += len,
                    PatchSegment::Encoded { stored_len, .. } => applied.encoded_bytes += stored_len,
                }
            }
            self.apply_group(group)?;
        }
        self.patch.check_end(at)?;
        // The length is right by now; whether the bytes are, only the digest tells.
        if *self.result.hasher.finalize().as_bytes() != new_file.digest {
            return Err(Error::WrongResult("the result is not the file that the patch was made for; it is discarded"));
        }
        Ok(applied)
    }

    fn apply_group(&mut self, group: PatchGroup) -> Result<()> {
        let PatchGroup { program, sums, packed_plain, end } = group;
        let reference = reference::load(&program.reference, self.pool, self.effort, self.old)?;
        let plain_len = usize::try_from(sums.plain_len).unwrap_or_default();
        let plain = match plain_len {
            // A group of nothing but copies has no frame.
            0 => Vec::new(),
            _ => decompress(&packed_plain, &reference, plain_len)?
                .ok_or_else(|| Error::damaged("group of the patch", end, "its plain bytes do not decompress"))?,
        };
        // Up to 64 MiB each: they must not stay while blocks are encoded.
        drop((reference, packed_plain));
        let plain = Arc::new(plain);
        // 4 MiB for each worker and for the thread that writes: a few of the longest parts. Not measured.
        let mut window = Window::new((self.effort.threads + 1) * (4 << 20));
        let mut from = 0;
        for segment in program.segments {
            match segment {
                PatchSegment::Copy { offset, len } => {
                    // No overflow: the program was checked against the length of the old file.
                    let end = offset + len;
                    let mut at = offset;
                    while at < end {
                        let part_len = COPY_LEN.min(end - at);
                        let old = self.old;
                        self.push(&mut window, self.pool.submit(move |_| copy_part(old, at, part_len)), part_len)?;
                        at += part_len;
                    }
                }
                PatchSegment::Plain { len } => {
                    let to = from + usize::try_from(len).unwrap_or_default();
                    // In pieces, so that the window counts what they hold.
                    for part in plain[from..to].chunks(1 << 20) {
                        self.push(&mut window, JobTicket::ready(Ok(part.to_vec())), part.len() as u64)?;
                    }
                    from = to;
                }
                PatchSegment::Encoded { call, stored_len, plain_len } => {
                    let plain_len = usize::try_from(plain_len).unwrap_or_default();
                    // `plain_len` of the sums counts lookaheads, too, so the range lies within the plain bytes.
                    let input = from..from + plain_len + call.lookahead as usize;
                    from = input.end;
                    let settings = Arc::clone(&self.settings);
                    let plain = Arc::clone(&plain);
                    let block = BlockToEncode { call, plain_len, stored_len };
                    let job = self.pool.submit(move |worker| encode(&settings, &plain[input], block, worker));
                    self.push(&mut window, job, stored_len)?;
                }
            }
        }
        while let Some(part) = window.pop() {
            self.result.write(&part?, self.effort)?;
        }
        Ok(())
    }

    /// Adds a part to those in flight, and writes the oldest if there are enough.
    fn push(
        &mut self,
        window: &mut Window<Result<Vec<u8>>>,
        ticket: JobTicket<Result<Vec<u8>>>,
        len: u64,
    ) -> Result<()> {
        // Small parts are objects in memory as well, so each counts 16 KiB at least.
        window.push(ticket, usize::try_from(len).unwrap_or_default().max(16 << 10));
        if window.is_full() {
            self.effort.check()?;
            window.pop().map_or(Ok(()), |part| self.result.write(&part?, self.effort))?;
        }
        Ok(())
    }
}

impl ResultWriter<'_> {
    fn write(&mut self, bytes: &[u8], effort: &PatchEffort) -> Result<()> {
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Progress::add(&effort.progress.done, bytes.len() as u64);
        self.out.write_all(bytes).map_err(Error::write("the new file"))
    }
}

fn copy_part(old: &dyn ReadAt, offset: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    old.read_exact_at(&mut bytes, offset).map_err(Error::io("cannot read the old file"))?;
    Ok(bytes)
}

/// Call of an encoder, and the lengths that it must take and make.
#[derive(Clone, Copy)]
struct BlockToEncode {
    call: EncodeCall,
    plain_len: usize,
    stored_len: u64,
}

fn encode(
    settings: &[EncoderSettings],
    input: &[u8],
    block: BlockToEncode,
    worker: &mut PatchWorker,
) -> Result<Vec<u8>> {
    let mut stored = vec![0; usize::try_from(block.stored_len).unwrap_or_default()];
    match worker.encode(&settings[block.call.settings], block.call, input, block.plain_len, &mut stored)? {
        true => Ok(stored),
        false => Err(Error::WrongResult("a block of the patch does not compress to its length: the patch is damaged")),
    }
}
