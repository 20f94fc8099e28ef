//! Processing of a block on workers: take it from an older image, or else probe, compress, verify.

use packfs_blocks::encode::{BlockEncoder, is_worth_a_try};
use packfs_blocks::{Buffer, Buffers, Digest};
use packfs_codec::{Choice, Codec, Encoder};

use crate::Result;
use crate::build::{NotedUnit, OlderUnit, ReusableUnits, UnitKey, UnitOrigin};
use crate::squashfs::format::{DATA_RAW, METADATA_RAW};

/// Options for compressing blocks; shared by all workers.
#[derive(Debug, Clone)]
pub(crate) struct PackOptions {
    pub(crate) choice: Choice,
    pub(crate) block_len: usize,
    pub(crate) verify: bool,
    /// True to store fragment blocks as they are.
    pub(crate) plain_fragments: bool,
    pub(crate) buffers: Buffers,
    pub(crate) units: ReusableUnits,
}

/// A compressed or stored block with its size word.
#[derive(Debug)]
pub(crate) struct PackedBlock {
    pub(crate) bytes: Buffer,
    pub(crate) word: u32,
    /// For the index, if there is one or an older image.
    pub(crate) noted: Option<NotedUnit>,
    /// Position of these bytes in the older image, if they are from there.
    pub(crate) older: Option<u64>,
}

impl PackedBlock {
    /// Makes a block that is stored as it is, and that later builds do not reuse.
    pub(crate) fn raw(bytes: Buffer) -> Self {
        PackedBlock::new(bytes, DATA_RAW)
    }

    fn new(bytes: Buffer, flag: u32) -> Self {
        let word = flag | u32::try_from(bytes.len()).expect("at most a block");
        PackedBlock { bytes, word, noted: None, older: None }
    }
}

/// Encoders of one worker, made when first needed.
pub(crate) struct BlockPacker {
    packing: PackOptions,
    data: BlockEncoder,
    metadata: Option<Box<dyn Encoder>>,
}

impl BlockPacker {
    pub(crate) fn new(packing: &PackOptions) -> Self {
        let data = BlockEncoder::new(&packing.choice, packing.block_len, packing.verify);
        BlockPacker { packing: packing.clone(), data, metadata: None }
    }

    /// Packs a data or fragment block, of which the digest may be known, or takes it from an older image.
    pub(crate) fn pack(&mut self, raw: Buffer, digest: Option<Digest>) -> Result<PackedBlock> {
        if !self.packing.units.is_on() {
            return self.encode(raw);
        }
        let key = UnitKey::new(&digest.unwrap_or_else(|| Digest::of(&raw)), 0);
        let units = self.packing.units.clone();
        let (raw, fate) = match units.find(&key) {
            None => (raw, UnitOrigin::Fresh),
            Some(unit) => match self.take(raw, unit, key) {
                Ok(packed) => return Ok(packed),
                Err(raw) => (raw, UnitOrigin::Damaged),
            },
        };
        let packed = self.encode(raw)?;
        let check = Digest::of(&packed.bytes).half();
        Ok(PackedBlock { noted: Some(NotedUnit { key, check, fate }), ..packed })
    }

    /// Takes a block from an older image; gives `raw` back if that image, or its index, is damaged.
    fn take(&mut self, raw: Buffer, unit: OlderUnit<'_>, key: UnitKey) -> std::result::Result<PackedBlock, Buffer> {
        let mut stretches = unit.stretches();
        // A block of SquashFS is one stretch; an index that says otherwise is damaged.
        let (Some(stretch), None) = (stretches.next(), stretches.next()) else { return Err(raw) };
        let noted = Some(NotedUnit { key, check: unit.check(), fate: UnitOrigin::Taken });
        let older = Some(stretch.start);
        if stretch.raw {
            return Ok(PackedBlock { noted, older, ..PackedBlock::new(raw, DATA_RAW) });
        }
        if stretch.stored as usize >= raw.len() {
            return Err(raw);
        }
        let mut bytes = self.packing.buffers.take(stretch.stored as usize);
        let is_intact = self.packing.units.read(&stretch, &mut bytes) && unit.has(&bytes);
        if !is_intact || self.data.prover().prove_stored(&raw, &bytes).is_err() {
            return Err(raw);
        }
        Ok(PackedBlock { noted, older, ..PackedBlock::new(bytes, 0) })
    }

    /// Compresses a block if that makes it shorter.
    fn encode(&mut self, raw: Buffer) -> Result<PackedBlock> {
        if is_worth_a_try(&self.packing.choice, &raw) {
            // One byte less than the block: a result as long as the block is stored raw, because readers take
            // it for that.
            let mut bytes = self.packing.buffers.take(raw.len() - 1);
            if let Some(len) = self.data.encode(&raw, &mut bytes)? {
                bytes.truncate(len);
                return Ok(PackedBlock::new(bytes, 0));
            }
        }
        Ok(PackedBlock::new(raw, DATA_RAW))
    }

    /// Compresses a metadata block and adds its header; stores it as it is if `plain`.
    pub(crate) fn pack_metadata(&mut self, raw: &[u8], plain: bool) -> Result<Vec<u8>> {
        let mut block = vec![0; 2 + raw.len()];
        if !plain && self.packing.choice.codec() != Codec::None && raw.len() > 1 {
            let encoder = match &mut self.metadata {
                Some(encoder) => encoder,
                none => none.insert(self.packing.choice.metadata_encoder()?),
            };
            // Again one byte less than the block.
            if let Some(len) = self.data.prover().encode(&mut **encoder, raw, &mut block[2..raw.len() + 1])? {
                block.truncate(2 + len);
                let header = u16::try_from(len).expect("at most 8192");
                block[..2].copy_from_slice(&header.to_le_bytes());
                return Ok(block);
            }
        }
        let header = METADATA_RAW | u16::try_from(raw.len()).expect("at most 8192");
        block[..2].copy_from_slice(&header.to_le_bytes());
        block[2..].copy_from_slice(raw);
        Ok(block)
    }
}
