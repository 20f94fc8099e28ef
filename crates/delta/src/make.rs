//! Makes patches.
//!
//! Units of the new file that the old one has, too, are copied. Of the others, encoded blocks are encoded again, to see
//! whether plain bytes give them; if so, the patch has plain bytes. All happens in the order of the new file, so that the
//! patch does not depend on the number of threads.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use packfs_blocks::pipeline::{self, JobTicket, Pool, Window};
use packfs_blocks::progress::Phase;
use packfs_blocks::{Progress, ReadAt};
use packfs_codec::Encoder;

use crate::PatchEffort;
use crate::apply::apply_patch;
use crate::coding::BlockDecoders;
use crate::error::{Error, Result};
use crate::format::{
    GroupHead, GroupProgram, PLAIN_MAX, Patch, PatchEncoder, PatchHeader, PatchSegment, REFERENCE_MAX,
};
use crate::group::compress;
use crate::recipes::{EncodableBlock, EncodeRecipes};
use crate::reference::{self, ReferenceCandidates};
use crate::units::{DeltaFile, HashedUnits};

/// Units shorter than this are copied only where they continue a copy: the segment would cost as much as the bytes.
const COPY_MIN: u64 = 32;
/// Greatest number of segments of a group, to bound the length of its program.
const SEGMENTS_MAX: usize = 150_000;
/// Bytes of adjacent plain pieces that one job reads: a job for each piece of 4 KiB would cost more than the reading.
const PLAIN_BATCH: u64 = 1 << 20;

/// How a patch is made. The bytes of the patch depend on it, those of the result do not.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeltaOptions {
    /// Most plain bytes of a group, at most [`PLAIN_MAX`]: memory where the patch is applied.
    pub plain_max: u32,
    /// Most bytes of the reference of a group, at most [`REFERENCE_MAX`]: memory, too.
    pub reference_max: u32,
}

impl Default for DeltaOptions {
    fn default() -> Self {
        DeltaOptions { plain_max: PLAIN_MAX, reference_max: REFERENCE_MAX }
    }
}

packfs_blocks::options!(DeltaOptions);

/// Figures of a patch that was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PatchSummary {
    /// Length of the old file in bytes.
    pub old_len: u64,
    /// Length of the new file in bytes.
    pub new_len: u64,
    /// Length of the patch in bytes.
    pub patch_len: u64,
    /// Bytes of the new file that are copied from the old one as they are.
    pub copied_bytes: u64,
    /// Bytes of the new file that are encoded again.
    pub encoded_bytes: u64,
    /// Bytes of encoded blocks of the new file that no known encoder gives, so that the patch has them as they are.
    pub unknown_bytes: u64,
    /// Bytes of the new file that are not encoded, such as metadata.
    pub plain_bytes: u64,
    /// Most bytes of a reference and of plain bytes of a group together: memory where the patch is applied.
    pub group_memory: u64,
    /// Codecs with their settings that are needed to apply it.
    pub codecs: Vec<String>,
}

/// State of a worker.
#[derive(Default)]
pub(crate) struct PatchWorker {
    pub(crate) decoders: BlockDecoders,
    pub(crate) encoders: Vec<Option<Box<dyn Encoder>>>,
    /// Number of bytes of memory that these encoders take.
    pub(crate) encoder_memory: usize,
    pub(crate) scratch: Vec<u8>,
    pub(crate) made: Vec<u8>,
}

/// Makes a patch that turns `old` into `new`, and writes it to `out`.
///
/// Files that are no images, or whose metadata is damaged, are compared as plain bytes.
///
/// # Errors
/// [`Error::Io`]; [`Error::Write`]; [`Error::Interrupted`]; [`Error::Image`] if a codec is missing in this build.
pub fn make_patch(
    old: &Arc<dyn ReadAt>,
    new: &Arc<dyn ReadAt>,
    out: &mut dyn Write,
    options: &DeltaOptions,
    effort: &PatchEffort,
) -> Result<PatchSummary> {
    effort.progress.enter(Phase::Scan);
    let old = DeltaFile::open(old)?;
    let new = DeltaFile::open(new)?;
    // The old file is hashed once; the new one is hashed, and then passed to the writer.
    Progress::add(&effort.progress.total, old.bytes.len() + new.bytes.len() * 2);
    effort.progress.enter(Phase::Data);
    pipeline::scope(effort.threads, PatchWorker::default, |pool| {
        PatchConductor { old: &old, new: &new, pool, options, effort }.make(out)
    })
}

/// Applies a patch and compares the result with its digest, without writing it.
///
/// # Errors
/// As [`apply_patch`].
pub fn verify_patch(old: &dyn ReadAt, patch: &Patch, effort: &PatchEffort) -> Result<()> {
    apply_patch(old, patch, &mut std::io::sink(), effort).map(drop)
}

/// The making of one patch.
struct PatchConductor<'c, 'env> {
    old: &'env DeltaFile,
    new: &'env DeltaFile,
    pool: &'c Pool<'env, PatchWorker>,
    options: &'c DeltaOptions,
    effort: &'c PatchEffort,
}

/// Where a unit of the new file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitOrigin {
    /// The unit of this number of the old file.
    Copied(usize),
    Changed,
}

impl<'env> PatchConductor<'_, 'env> {
    fn make(&self, out: &mut dyn Write) -> Result<PatchSummary> {
        let old_hashes = self.old.hash(self.pool, self.effort)?;
        let new_hashes = self.new.hash(self.pool, self.effort)?;
        // Only changed blocks need a recipe: copies stay as they are, however they were made.
        let origins = origins(self.old, &old_hashes, self.new, &new_hashes);
        let changed: Vec<usize> = (0..origins.len()).filter(|unit| origins[*unit] == UnitOrigin::Changed).collect();
        let recipes = Arc::new(EncodeRecipes::find(self.new, &changed, self.pool, self.effort)?);
        let candidates = self.candidates(&origins, &old_hashes)?;
        // The header comes before all groups, so encoders are known before the first one is written.
        let encoders = recipes
            .encoders
            .iter()
            .map(|settings| Ok(PatchEncoder { settings: settings.clone(), trial: settings.trial()? }));
        let header = PatchHeader {
            old: old_hashes.identity,
            new: new_hashes.identity,
            encoders: encoders.collect::<Result<_>>()?,
        };
        let summary = PatchSummary {
            old_len: header.old.len,
            new_len: header.new.len,
            codecs: recipes.encoders.iter().map(|settings| settings.choice.to_string()).collect(),
            ..PatchSummary::default()
        };
        let out = PatchOutput { out, hasher: blake3::Hasher::new(), len: 0 };
        let group = OpenGroup::default();
        let mut writer = PatchWriter { conductor: self, candidates, out, group, summary };
        writer.out.write(&header.encode())?;
        self.feed(&origins, &recipes, &mut writer)?;
        writer.finish()
    }

    /// Returns the candidates of references: what the new file does not copy.
    fn candidates(&self, origins: &[UnitOrigin], old_hashes: &HashedUnits) -> Result<ReferenceCandidates> {
        let mut is_candidate = vec![true; self.old.units.len()];
        let mut copied = std::collections::HashSet::new();
        // By digest and not by number: of several equal units of the old file, only one is named as a copy.
        for origin in origins {
            if let UnitOrigin::Copied(unit) = origin {
                copied.insert(old_hashes.digests[*unit]);
            }
        }
        for (is_candidate, digest) in is_candidate.iter_mut().zip(&old_hashes.digests) {
            *is_candidate = !copied.contains(digest);
        }
        ReferenceCandidates::find(self.old, &is_candidate, self.pool, self.effort)
    }

    /// Passes the units of the new file to the writer, in order; workers decode and encode blocks ahead of it.
    fn feed(
        &self,
        origins: &[UnitOrigin],
        recipes: &Arc<EncodeRecipes>,
        writer: &mut PatchWriter<'_, '_, 'env>,
    ) -> Result<()> {
        let new = self.new;
        // 4 MiB for each thread, counted at 1 MiB a part.
        let mut window = Window::new((self.effort.threads + 1) * (4 << 20));
        let mut at = 0;
        while at < new.units.len() {
            self.effort.check()?;
            let unit = new.units[at];
            let ticket = match origins[at] {
                UnitOrigin::Copied(of) => {
                    let offset = self.old.units[of].offset;
                    at += 1;
                    JobTicket::ready(Ok(NewPart::Copied { offset, len: unit.len }))
                }
                UnitOrigin::Changed if new.is_encoded(&unit) => {
                    let recipes = Arc::clone(recipes);
                    at += 1;
                    self.pool.submit(move |worker| {
                        // Cannot happen, as `is_encoded` found the block.
                        let Some(block) = new.block(&unit) else { return Ok(NewPart::Plain(Vec::new())) };
                        Ok(match recipes.encodable(new, block, worker)? {
                            Ok(block) => NewPart::Encodable { block, stored_len: unit.len },
                            Err(stored) => NewPart::Unknown(stored),
                        })
                    })
                }
                UnitOrigin::Changed => {
                    let mut end = unit.end();
                    at += 1;
                    while at < new.units.len()
                        && origins[at] == UnitOrigin::Changed
                        && !new.is_encoded(&new.units[at])
                        && new.units[at].end() - unit.offset <= PLAIN_BATCH
                    {
                        end = new.units[at].end();
                        at += 1;
                    }
                    self.pool.submit(move |_| new.read(unit.offset..end).map(NewPart::Plain))
                }
            };
            // Decoded lengths are not known yet, so each part counts as the longest plain one.
            window.push(ticket, 1 << 20);
            if window.is_full() {
                window.pop().map_or(Ok(()), |part| writer.add(part?))?;
            }
        }
        while let Some(part) = window.pop() {
            writer.add(part?)?;
        }
        Ok(())
    }
}

/// Finds the units of the new file that the old one has.
fn origins(old: &DeltaFile, old_hashes: &HashedUnits, new: &DeltaFile, new_hashes: &HashedUnits) -> Vec<UnitOrigin> {
    let mut first = HashMap::new();
    for (number, digest) in old_hashes.digests.iter().enumerate() {
        // The first of equal units, so that the patch is the same on each run.
        first.entry(digest).or_insert(number);
    }
    let mut previous = None;
    let mut origins = Vec::with_capacity(new.units.len());
    for (unit, digest) in new.units.iter().zip(&new_hashes.digests) {
        // What continues a copy costs nothing, even if there is an equal unit elsewhere.
        let following = previous.map(|previous: usize| previous + 1);
        let following = following.filter(|next| old_hashes.digests.get(*next) == Some(digest));
        let anywhere = || first.get(digest).copied().filter(|_| unit.len >= COPY_MIN);
        previous = following.or_else(anywhere);
        origins.push(previous.map_or(UnitOrigin::Changed, UnitOrigin::Copied));
        debug_assert!(previous.is_none_or(|of| old.units[of].len == unit.len));
    }
    origins
}

/// A part of the new file.
enum NewPart {
    Copied {
        offset: u64,
        len: u64,
    },
    Encodable {
        block: EncodableBlock,
        stored_len: u64,
    },
    /// An encoded block that no encoder gives.
    Unknown(Vec<u8>),
    Plain(Vec<u8>),
}

/// The bytes of a patch, with their digest.
struct PatchOutput<'o> {
    out: &'o mut dyn Write,
    hasher: blake3::Hasher,
    len: u64,
}

impl PatchOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        self.out.write_all(bytes).map_err(Error::write("the patch"))
    }
}

/// The group that is being filled.
#[derive(Default)]
struct OpenGroup {
    segments: Vec<PatchSegment>,
    plain: Vec<u8>,
}

/// Receives the parts of the new file, and writes groups.
struct PatchWriter<'w, 'c, 'env> {
    conductor: &'w PatchConductor<'c, 'env>,
    candidates: ReferenceCandidates,
    out: PatchOutput<'w>,
    group: OpenGroup,
    summary: PatchSummary,
}

impl PatchWriter<'_, '_, '_> {
    fn add(&mut self, part: NewPart) -> Result<()> {
        match part {
            NewPart::Copied { offset, len } => {
                self.begin_segment(0)?;
                self.summary.copied_bytes += len;
                self.count(len);
                match self.group.segments.last_mut() {
                    Some(PatchSegment::Copy { offset: last, len: last_len }) if *last + *last_len == offset => {
                        *last_len += len;
                    }
                    _ => self.group.segments.push(PatchSegment::Copy { offset, len }),
                }
            }
            NewPart::Encodable { block: EncodableBlock { call, input, plain_len }, stored_len } => {
                // A block is never divided between groups: its encoder needs all of its input.
                self.begin_segment(input.len())?;
                self.summary.encoded_bytes += stored_len;
                self.count(stored_len);
                self.group.plain.extend_from_slice(&input);
                self.group.segments.push(PatchSegment::Encoded { call, stored_len, plain_len });
            }
            NewPart::Unknown(stored) => {
                self.summary.unknown_bytes += stored.len() as u64;
                self.add_plain(&stored)?;
            }
            NewPart::Plain(stored) => {
                self.summary.plain_bytes += stored.len() as u64;
                self.add_plain(&stored)?;
            }
        }
        Ok(())
    }

    fn add_plain(&mut self, stored: &[u8]) -> Result<()> {
        // At least one, or chunks() would panic for an option of 0.
        let most = self.conductor.options.plain_max.clamp(1, PLAIN_MAX) as usize;
        for stored in stored.chunks(most) {
            self.begin_segment(stored.len())?;
            self.count(stored.len() as u64);
            self.group.plain.extend_from_slice(stored);
            let added = stored.len() as u64;
            match self.group.segments.last_mut() {
                Some(PatchSegment::Plain { len }) => *len += added,
                _ => self.group.segments.push(PatchSegment::Plain { len: added }),
            }
        }
        Ok(())
    }

    fn count(&self, bytes: u64) {
        Progress::add(&self.conductor.effort.progress.done, bytes);
    }

    /// Ends the group if it has no room for so many plain bytes, or for a segment.
    fn begin_segment(&mut self, plain_len: usize) -> Result<()> {
        let most = self.conductor.options.plain_max.min(PLAIN_MAX) as usize;
        let is_full = self.group.plain.len() + plain_len > most || self.group.segments.len() >= SEGMENTS_MAX;
        // A single block may exceed a low option; it then has a group of its own.
        if is_full && !self.group.segments.is_empty() { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> Result<()> {
        let OpenGroup { segments, plain } = std::mem::take(&mut self.group);
        let PatchConductor { old, pool, effort, options, .. } = self.conductor;
        effort.check()?;
        let room = options.reference_max.min(REFERENCE_MAX);
        // Only now, as the reference is chosen by the plain bytes of the whole group.
        let blocks = self.candidates.select(&plain, room.into());
        let reference = reference::load(&blocks, pool, effort, &*old.bytes)?;
        let packed_plain = if plain.is_empty() { Vec::new() } else { compress(&plain, &reference)? };
        let program = GroupProgram { reference: blocks, segments }.encode();
        let packed_program = compress(&program, &[])?;
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("groups are bounded");
        let head = GroupHead {
            packed_program_len: len(&packed_program),
            program_len: len(&program),
            reference_len: len(&reference),
            plain_len: len(&plain),
            packed_plain_len: len(&packed_plain),
        };
        self.summary.group_memory = self.summary.group_memory.max((reference.len() + plain.len()) as u64);
        for bytes in [&head.encode()[..], &packed_program, &packed_plain] {
            self.out.write(bytes)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<PatchSummary> {
        if !self.group.segments.is_empty() {
            self.end_group()?;
        }
        let digest = *self.out.hasher.finalize().as_bytes();
        // Not through `out.write`: the digest does not cover itself.
        self.out.out.write_all(&digest).map_err(Error::write("the patch"))?;
        self.summary.patch_len = self.out.len + digest.len() as u64;
        Ok(self.summary)
    }
}
