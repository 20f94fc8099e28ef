//! Finds out how the blocks of an image were encoded, by encoding a few of them with the settings that may have been used.

use std::sync::Arc;

use packfs_blocks::pipeline::Pool;
use packfs_image::stored_blocks::{BlockCoding, StoredBlock};

use crate::PatchEffort;
use crate::candidates;
use crate::coding::{
    BlockDecoders, ENCODER_MEMORY_MAX, EncodeCall, EncoderForm, EncoderSettings, StreamForm, encode_exactly,
};
use crate::error::Result;
use crate::format::is_sensible;
use crate::make::PatchWorker;
use crate::units::DeltaFile;

/// Blocks of a coding that are tried. One block may be an exception, such as the last of a file; a dozen from all over the
/// image have seen all settings of the images that were tried.
const SAMPLES: usize = 12;
/// Encoders that are tried at a time, before it is decided whether more are needed. Larger batches use more cores, and
/// try more in vain.
const BATCH: usize = 4;
/// Numbers of bytes after a block that its encoder is shown. Most encoders that fill a cluster look a few bytes ahead;
/// long matches reach farther.
const LOOKAHEADS: [u32; 5] = [0, 64, 1 << 10, 16 << 10, 256 << 10];
/// The longest of them.
const LOOKAHEAD_MAX: u32 = LOOKAHEADS[LOOKAHEADS.len() - 1];

/// Encoders of an image, and how they are called for each coding.
#[derive(Debug, Default)]
pub(crate) struct EncodeRecipes {
    pub(crate) encoders: Vec<EncoderSettings>,
    by_coding: Vec<(BlockCoding, Vec<EncodeRecipe>)>,
}

/// One way to encode a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EncodeRecipe {
    /// Number of the encoder.
    settings: usize,
    lookahead: u32,
    room: EncoderRoom,
}

/// Number of bytes that an encoder may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EncoderRoom {
    /// It takes all that it is given.
    Unlimited,
    /// That of the largest cluster.
    Largest(u32),
    /// That of the block itself.
    Own,
}

/// A block with what is known about it.
#[derive(Debug)]
pub(crate) struct DecodedBlock {
    pub(crate) stored: Vec<u8>,
    /// Decoded bytes, and those that follow them in the file.
    pub(crate) input: Vec<u8>,
    pub(crate) plain_len: usize,
}

impl DecodedBlock {
    /// Reads and decodes a block; `Err` has its stored bytes if it cannot be decoded.
    pub(crate) fn read(
        file: &DeltaFile,
        block: &StoredBlock,
        decoders: &mut BlockDecoders,
    ) -> Result<std::result::Result<Self, Vec<u8>>> {
        let stored = file.read(block.position..block.position + block.len)?;
        let Some(form) = StreamForm::of(block.coding) else { return Ok(Err(stored)) };
        let decoded = decoders.decode(form, &stored, block.decoded_len)?;
        // `apply` would refuse other lengths.
        let Some(plain) = decoded.filter(|plain| is_sensible(block.len, plain.len() as u64)) else {
            return Ok(Err(stored));
        };
        let plain_len = plain.len();
        Ok(Ok(DecodedBlock { stored, input: plain, plain_len }))
    }

    /// Appends the bytes that follow in the file, for encoders that look at them.
    fn read_following(&mut self, file: &DeltaFile, block: &StoredBlock) {
        let (Some(place), Some(image)) = (block.continuation, &file.image) else { return };
        self.input.resize(self.plain_len + LOOKAHEAD_MAX as usize, 0);
        // Without them the encoder is likely to give other bytes, which is noticed.
        let got = image.image().read_at(place.nid, &mut self.input[self.plain_len..], place.offset);
        self.input.truncate(self.plain_len + got.unwrap_or_default());
    }
}

/// A block that can be encoded from plain bytes.
#[derive(Debug)]
pub(crate) struct EncodableBlock {
    pub(crate) call: EncodeCall,
    /// Plain bytes, and those of the lookahead.
    pub(crate) input: Vec<u8>,
    pub(crate) plain_len: u64,
}

impl EncodeRecipes {
    /// Tries encoders on some of the blocks of `units`.
    pub(crate) fn find<'env>(
        file: &'env DeltaFile,
        units: &[usize],
        pool: &Pool<'env, PatchWorker>,
        effort: &PatchEffort,
    ) -> Result<Self> {
        let mut recipes = EncodeRecipes::default();
        let Some(image) = &file.image else { return Ok(recipes) };
        let blocks: Vec<&StoredBlock> = units.iter().filter_map(|unit| file.block(&file.units[*unit])).collect();
        let mut codings: Vec<BlockCoding> = Vec::new();
        for block in &blocks {
            // A list and no set: its order is that of the encoders in the patch, which must not depend on hashes.
            if block.coding != BlockCoding::Plain && !codings.contains(&block.coding) {
                codings.push(block.coding);
            }
        }
        for coding in codings {
            let of_coding: Vec<&StoredBlock> = blocks.iter().copied().filter(|block| block.coding == coding).collect();
            let samples = Arc::new(sample(file, &of_coding)?);
            // All blocks count here, not only changed ones: the largest may be unchanged.
            let stored_max = file.blocks.iter().filter(|block| block.coding == coding).map(|block| block.len).max();
            let stored_max = u32::try_from(stored_max.unwrap_or_default()).unwrap_or_default();
            // The superblock names the largest cluster that is allowed; a writer may have stopped at a smaller one.
            let mut rooms = vec![candidates::cluster_room(image, coding).unwrap_or(stored_max)];
            if !rooms.contains(&stored_max) {
                rooms.push(stored_max);
            }
            let settings = fitting_encoders(candidates::encoders(image, coding), &rooms, &samples, pool, effort)?;
            recipes.add(coding, settings, &rooms, &samples)?;
        }
        Ok(recipes)
    }

    /// Adds the ways to call these encoders, those first that give most samples.
    fn add(
        &mut self,
        coding: BlockCoding,
        settings: Vec<EncoderSettings>,
        rooms: &[u32],
        samples: &[DecodedBlock],
    ) -> Result<()> {
        let mut counted = Vec::new();
        for settings in settings {
            let number = self.encoders.len();
            for (lookahead, room) in calls(&settings, rooms) {
                let recipe = EncodeRecipe { settings: number, lookahead, room };
                counted.push((count_fitting(&settings, recipe, samples)?, recipe));
            }
            self.encoders.push(settings);
        }
        // Stable, so that equal counts keep the order of likelihood.
        counted.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        self.by_coding.push((coding, counted.into_iter().map(|(_, recipe)| recipe).collect()));
        Ok(())
    }

    /// Finds the call that gives a block; `Err` has the stored bytes if there is none.
    pub(crate) fn encodable(
        &self,
        file: &DeltaFile,
        block: &StoredBlock,
        worker: &mut PatchWorker,
    ) -> Result<std::result::Result<EncodableBlock, Vec<u8>>> {
        let mut decoded = match DecodedBlock::read(file, block, &mut worker.decoders)? {
            Ok(decoded) => decoded,
            Err(stored) => return Ok(Err(stored)),
        };
        let ways = self.by_coding.iter().find(|(coding, _)| *coding == block.coding);
        let ways = ways.map_or(&[][..], |(_, ways)| ways);
        // Reading on decodes more of the image, so it is done only for encoders that look.
        if ways.iter().any(|way| way.lookahead > 0) {
            decoded.read_following(file, block);
        }
        for way in ways {
            // The order of recipes puts the likeliest first, and the first that fits ends the search.
            let Some(call) = way.call(&decoded) else { continue };
            let settings = &self.encoders[call.settings];
            if worker.gives(settings, call, &decoded)? {
                let plain_len = decoded.plain_len;
                decoded.input.truncate(plain_len + call.lookahead as usize);
                return Ok(Ok(EncodableBlock { call, input: decoded.input, plain_len: plain_len as u64 }));
            }
        }
        Ok(Err(decoded.stored))
    }
}

impl EncodeRecipe {
    /// Returns the call for a block; `None` if it would be the same as that of another recipe.
    fn call(self, block: &DecodedBlock) -> Option<EncodeCall> {
        let following = u32::try_from(block.input.len() - block.plain_len).unwrap_or_default();
        // At the end of a file there may be fewer bytes than the lookahead: then a shorter one makes the same call.
        let shorter = LOOKAHEADS.iter().rev().find(|shorter| **shorter < self.lookahead);
        if shorter.is_some_and(|shorter| following <= *shorter) {
            return None;
        }
        let room = match self.room {
            EncoderRoom::Unlimited => 0,
            EncoderRoom::Largest(room) => room,
            EncoderRoom::Own => u32::try_from(block.stored.len()).ok()?,
        };
        Some(EncodeCall { settings: self.settings, lookahead: self.lookahead.min(following), room })
    }
}

/// Returns the ways to call an encoder.
fn calls(settings: &EncoderSettings, rooms: &[u32]) -> Vec<(u32, EncoderRoom)> {
    let mut calls = Vec::new();
    if matches!(settings.form, EncoderForm::Cluster(_)) && settings.choice.fills() {
        for room in rooms {
            calls.extend(LOOKAHEADS.map(|lookahead| (lookahead, EncoderRoom::Largest(*room))));
        }
        // Clusters may be filled to another length than the largest, as at the end of a file.
        calls.push((0, EncoderRoom::Own));
    }
    calls.push((0, EncoderRoom::Unlimited));
    calls
}

/// Decodes some of the blocks, from all parts of the image.
fn sample(file: &DeltaFile, blocks: &[&StoredBlock]) -> Result<Vec<DecodedBlock>> {
    let mut decoders = BlockDecoders::default();
    let mut samples = Vec::new();
    let count = blocks.len().min(SAMPLES);
    for n in 0..count {
        let block = blocks[n * blocks.len() / count];
        if let Ok(mut decoded) = DecodedBlock::read(file, block, &mut decoders)? {
            decoded.read_following(file, block);
            samples.push(decoded);
        }
    }
    Ok(samples)
}

/// Returns the encoders that give some of the samples. Ends as soon as all samples are given.
fn fitting_encoders<'env>(
    candidates: Vec<EncoderSettings>,
    rooms: &[u32],
    samples: &Arc<Vec<DecodedBlock>>,
    pool: &Pool<'env, PatchWorker>,
    effort: &PatchEffort,
) -> Result<Vec<EncoderSettings>> {
    let mut fitting = Vec::new();
    let mut is_given = vec![false; samples.len()];
    for batch in candidates.chunks(BATCH) {
        effort.check()?;
        let tickets: Vec<_> = batch
            .iter()
            .map(|settings| {
                let settings = settings.clone();
                let rooms = rooms.to_vec();
                let samples = Arc::clone(samples);
                pool.submit(move |_| given_samples(&settings, &rooms, &samples))
            })
            .collect();
        for (settings, ticket) in batch.iter().zip(tickets) {
            let given = ticket.wait()?;
            // Whatever the number of threads, encoders after the one that completes the samples do not count.
            if is_given.iter().all(|given| *given) {
                continue;
            }
            // An encoder that makes no further sample would only lengthen the header.
            let gives_more = given.iter().zip(&is_given).any(|(gives, known)| *gives && !known);
            if gives_more {
                fitting.push(settings.clone());
                is_given.iter_mut().zip(&given).for_each(|(known, gives)| *known |= gives);
            }
        }
        if is_given.iter().all(|given| *given) {
            break;
        }
    }
    Ok(fitting)
}

/// Returns which samples an encoder gives, in any of a few ways.
fn given_samples(settings: &EncoderSettings, rooms: &[u32], samples: &[DecodedBlock]) -> Result<Vec<bool>> {
    let mut given = vec![false; samples.len()];
    // The shortest and the longest lookahead tell whether an encoder fits; `add` finds the one to use.
    let few = calls(settings, rooms).into_iter().filter(|(lookahead, _)| [0, LOOKAHEAD_MAX].contains(lookahead));
    for (lookahead, room) in few {
        let recipe = EncodeRecipe { settings: 0, lookahead, room };
        let mut worker = PatchWorker::default();
        for (sample, given) in samples.iter().zip(&mut given).filter(|(_, given)| !**given) {
            if let Some(call) = recipe.call_at_least(sample) {
                *given = worker.gives(settings, call, sample)?;
            }
        }
    }
    Ok(given)
}

impl EncodeRecipe {
    /// As [`EncodeRecipe::call`], with as much lookahead as there is.
    fn call_at_least(self, block: &DecodedBlock) -> Option<EncodeCall> {
        let following = u32::try_from(block.input.len() - block.plain_len).unwrap_or_default();
        let call = EncodeRecipe { lookahead: 0, ..self }.call(block)?;
        Some(EncodeCall { lookahead: self.lookahead.min(following), ..call })
    }
}

fn count_fitting(settings: &EncoderSettings, recipe: EncodeRecipe, samples: &[DecodedBlock]) -> Result<usize> {
    let mut worker = PatchWorker::default();
    // The worker has one encoder, whatever number it gets in the patch.
    let recipe = EncodeRecipe { settings: 0, ..recipe };
    let mut count = 0;
    for sample in samples {
        if let Some(call) = recipe.call(sample) {
            count += usize::from(worker.gives(settings, call, sample)?);
        }
    }
    Ok(count)
}

impl PatchWorker {
    /// Returns true if a call gives the stored bytes of a block.
    fn gives(&mut self, settings: &EncoderSettings, call: EncodeCall, block: &DecodedBlock) -> Result<bool> {
        let shown = block.plain_len + call.lookahead as usize;
        self.made.clear();
        self.made.resize(block.stored.len(), 0);
        // Taken out, as `encode` borrows all of the worker.
        let mut made = std::mem::take(&mut self.made);
        let input = &block.input[..shown.min(block.input.len())];
        let result = self.encode(settings, call, input, block.plain_len, &mut made);
        let is_equal = made == block.stored;
        self.made = made;
        Ok(result? && is_equal)
    }

    /// Encodes a block with the encoder of a number, which is made when first needed.
    pub(crate) fn encode(
        &mut self,
        settings: &EncoderSettings,
        call: EncodeCall,
        input: &[u8],
        plain_len: usize,
        stored: &mut [u8],
    ) -> Result<bool> {
        // Numbers come from the patch, but were checked against the header, which has at most 250.
        if self.encoders.len() <= call.settings {
            self.encoders.resize_with(call.settings + 1, || None);
        }
        if self.encoders[call.settings].is_none() {
            let needed = settings.memory();
            // Each is bounded, but a patch may name hundreds: then those of before are made again when they are needed.
            if self.encoder_memory.saturating_add(needed) > ENCODER_MEMORY_MAX {
                self.encoders.iter_mut().for_each(|kept| *kept = None);
                self.encoder_memory = 0;
            }
            self.encoder_memory += needed;
        }
        let encoder = match &mut self.encoders[call.settings] {
            Some(encoder) => encoder,
            none => none.insert(settings.encoder()?),
        };
        encode_exactly(&mut **encoder, settings.form, call, input, plain_len, &mut self.scratch, stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_keeps_few_encoders_however_many_a_patch_names() {
        let settings = EncoderSettings { choice: "lzma:9".parse().unwrap(), form: EncoderForm::Cluster(8 << 20) };
        let mut worker = PatchWorker::default();
        for number in 0..20 {
            let call = EncodeCall { settings: number, lookahead: 0, room: 0 };
            // It need not give these bytes: only the encoder counts.
            worker.encode(&settings, call, &[7; 4096], 4096, &mut [0; 64]).unwrap();
            let kept = worker.encoders.iter().flatten().count();
            assert_eq!(kept * settings.memory(), worker.encoder_memory);
            assert!(worker.encoder_memory <= ENCODER_MEMORY_MAX && kept > 0, "{kept} encoders");
        }
    }
}
