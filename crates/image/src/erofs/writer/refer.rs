//! Files whose bytes stay on an additional device: the archives and images that an image refers to.

use packfs_codec::Codec;

use super::data::DataDone;
use super::{Features, Options};
use crate::source::Run;
use crate::{Error, Result, Tree};

/// Largest chunk, as log2 of its bytes, which is read on any machine.
const CHUNK_BITS: u32 = 30;
/// Maximum number of chunks of a file, which take 16 bytes each in memory. Only files with very many holes have more.
const CHUNKS_MAX: u64 = 1 << 24;

/// Maximum number of additional devices: half of what fields of 16 bits hold, some bits of which may get other uses.
pub(super) const DEVICES_MAX: u16 = 1 << 15;

/// An additional device in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) tag: String,
    /// Number of its blocks.
    pub(super) blocks: u64,
    /// Its first block in the address space of the image and all devices.
    pub(super) start: u64,
}

impl Options {
    /// Returns the maximum number of additional devices.
    pub(crate) fn devices(&self) -> u16 {
        if self.blob.is_some() { 1 } else { self.refer }
    }
}

/// Refuses options that do not go with additional devices.
pub(super) fn check(options: &Options) -> Result<()> {
    let count = options.devices();
    let refuse = |why: &str| Err(Error::option("additional devices", count, why));
    if count == 0 {
        return Ok(());
    }
    if count > DEVICES_MAX {
        return Err(Error::TooMany { what: "additional devices", max: DEVICES_MAX.into() });
    }
    if options.build.codec.codec() != Codec::None {
        return refuse("files on other devices are not compressed: the codec has to be none");
    }
    if options.build.shards.is_some() {
        return refuse("an image in shards holds all of its data");
    }
    if options.blob.is_none() {
        return Ok(());
    }
    if options.refer > 0 {
        return refuse("data either goes to a device of its own or stays in the sources");
    }
    if !options.features.contains(Features::CHUNKS) {
        return refuse("only files in chunks can be on another device: it needs the feature chunks");
    }
    Ok(())
}

/// Returns the devices of an image, each with its name and its length in bytes.
pub(super) fn devices(options: &Options, tree: &Tree, data: &DataDone) -> Vec<(String, u64)> {
    match options.blob {
        Some(_) => vec![(String::new(), data.blob_bytes)],
        None => tree.devices.iter().map(|device| (device.tag.clone(), device.len)).collect(),
    }
}

/// Places devices one after the other behind an image of `blocks` blocks.
pub(super) fn slots(options: &Options, devices: &[(String, u64)], blocks: u64) -> Result<Vec<Slot>> {
    let room = options.devices();
    if devices.len() > room.into() {
        let why = format!("the sources are {} devices, for which there is no room", devices.len());
        return Err(Error::option("additional devices", room, why));
    }
    let mut start = blocks;
    let place = |(tag, len): &(String, u64)| {
        let slot = Slot { tag: tag.clone(), blocks: len.div_ceil(options.block_size.into()), start };
        start += slot.blocks;
        slot
    };
    let slots = devices.iter().map(place).collect();
    let bits = if options.features.contains(Features::BITS_48) { 48 } else { 32 };
    if start < (1 << bits) - 1 {
        return Ok(slots);
    }
    let why = format!("the image with its devices has {start} blocks, and addresses have {bits} bits");
    Err(Error::Unsupported(format!("{why}: larger blocks or the feature 48bit (Linux 6.15) go further")))
}

/// Chunks of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunks {
    /// log2 of the number of blocks in a chunk.
    pub(super) bits: u8,
    /// Block of each chunk; `None` for holes.
    pub(super) blocks: Box<[Option<u64>]>,
}

/// Cuts a file of `size` bytes into chunks, as few as possible; `None` if not all of its bytes lie at multiples of a
/// block, which has `1 << block_bits` bytes.
pub(super) fn chunks(size: u64, runs: &[Run], block_bits: u8) -> Option<Chunks> {
    let whole = u64::BITS - (size - 1).leading_zeros();
    let ends = |run: &Run| Some(run.offset + run.len).filter(|end| *end != size).unwrap_or(0);
    let within = runs.iter().fold(0, |all, run| all | run.offset | ends(run));
    let bits = whole.max(block_bits.into()).min(CHUNK_BITS).min(within.trailing_zeros());
    let at = runs.iter().fold(0, |all, run| all | run.at);
    let count = size.div_ceil(1 << bits);
    if bits.min(at.trailing_zeros()) < block_bits.into() || count > CHUNKS_MAX {
        return None;
    }
    let mut runs = runs.iter().peekable();
    let blocks = (0..count).map(|n| {
        let offset = n << bits;
        while runs.next_if(|run| run.offset + run.len <= offset).is_some() {}
        let run = runs.peek().filter(|run| run.offset <= offset)?;
        Some((run.at + (offset - run.offset)) >> block_bits)
    });
    let blocks = blocks.collect();
    Some(Chunks { bits: u8::try_from(bits).ok()? - block_bits, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn run(offset: u64, len: u64, at: u64) -> Run {
        Run { offset, len, at }
    }

    #[test]
    fn files_get_as_few_chunks_as_their_runs_allow() {
        type Found = Option<(u8, &'static [Option<u64>])>;
        let cases: [(u64, &[Run], Found); 10] = [
            (1, &[run(0, 1, 512)], Some((0, &[Some(1)]))),
            (100_000, &[run(0, 100_000, 1024)], Some((8, &[Some(2)]))),
            // Chunks of 1 GiB are the longest.
            (3 << 30, &[run(0, 3 << 30, 0)], Some((21, &[Some(0), Some(1 << 21), Some(2 << 21)]))),
            (4096, &[], Some((3, &[None]))),
            (8192, &[run(4096, 4096, 512)], Some((3, &[None, Some(1)]))),
            (8192, &[run(0, 4096, 512)], Some((3, &[Some(1), None]))),
            (2048, &[run(512, 512, 0), run(1024, 100, 512)], None),
            (1124, &[run(512, 512, 5120), run(1024, 100, 512)], Some((0, &[None, Some(10), Some(1)]))),
            (1024, &[run(0, 1024, 100)], None),
            (1 << 40, &[run(512, 512, 0)], None),
        ];
        for (size, runs, want) in cases {
            let found = chunks(size, runs, 9);
            let found = found.as_ref().map(|chunks| (chunks.bits, &chunks.blocks[..]));
            assert_eq!(found, want, "{size}, {runs:?}");
        }
    }
}
